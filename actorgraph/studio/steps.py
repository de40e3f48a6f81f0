"""Steps of threads: their ids, the states of their tasks, and the bars of a waterfall. Pure."""

from collections.abc import Sequence
from typing import Any

from actorgraph.studio.waterfall import TaskBar
from actorgraph.types import PregelTask, StateSnapshot, TimelineStep


def checkpoint_of(step: StateSnapshot) -> str:
    """Return the id of a step's checkpoint; "" for the state of a thread without any."""
    return str(step.config.get("configurable", {}).get("checkpoint_id") or "")


def parent_of(step: StateSnapshot) -> str:
    """Return the id of the checkpoint before a step; "" for the first."""
    return str((step.parent_config or {}).get("configurable", {}).get("checkpoint_id") or "")


def task_state(task: PregelTask) -> str:
    """Return the state of a task: failed, waiting, done; "" if it has no result yet."""
    if task.error is not None:
        return "failed"
    if task.interrupts:
        return "waiting"
    return "done" if task.result is not None else ""


def timed_bars(steps: Sequence[TimelineStep], *, busy: bool) -> list[TaskBar]:
    """Make the bars of a page of a timeline, oldest first: one for each attempt.

    Args:
        busy: whether the thread has a run, so that what has not ended is running.
    """
    bars: list[TaskBar] = []
    for step in reversed(steps):
        ended = {task.name for task in step.tasks}
        for task in step.tasks:
            for number, one in enumerate(task.attempts, 1):
                bars.append(
                    TaskBar(
                        task.name,
                        step.step,
                        one.status,
                        one.start,
                        one.end,
                        number,
                        one.error or "",
                    )
                )
        if step is steps[0]:  # the newest: what it calls and has not ended is running or waits
            open_ones = [name for name in step.next if name not in ended]
            state: Any = "running" if busy else "waiting"
            bars += [TaskBar(name, step.step, state, step.created) for name in open_ones]
    timed = [bar for bar in bars if bar.start is not None]
    return timed or bars


def bars_of(steps: Sequence[StateSnapshot]) -> list[TaskBar]:
    """Make the bars of the tasks of a page of steps, oldest first."""
    bars: list[TaskBar] = []
    for step in reversed(steps):
        number = (step.metadata or {}).get("step", 0)
        for task in step.tasks:
            state: Any = task_state(task) or ("waiting" if step is steps[0] else "done")
            bars.append(TaskBar(task.name, int(number) + 1, state, error=task.error or ""))
    return bars
