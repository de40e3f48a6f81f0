"""Steps of threads: ids, previews, states of tasks, and the bars of a waterfall. Pure.

Lists of steps are made without the values of their states: a page of fifty would read a long
conversation fifty times.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actorgraph.graph import START
from actorgraph.internals import PUSH, TaskPath
from actorgraph.studio.shown import Moment, moment, preview
from actorgraph.studio.waterfall import TaskBar
from actorgraph.types import PregelTask, StateSnapshot, TimelineStep, TimelineTask


class ListedStep(msgspec.Struct, frozen=True):
    """A step in a list, without its values.

    Attributes:
        parent: the id of the checkpoint before it; "" for the first.
        step: its number.
        run: the id of the run that made it; "" if unknown.
        tasks: (node, state) of those of the next superstep that have ended at least once.
    """

    checkpoint_id: str
    parent: str
    step: Any
    source: str
    run: str
    created: Moment | None
    next: tuple[str, ...]
    tasks: tuple[tuple[str, str], ...]

    @property
    def status(self) -> str:
        """Whether a task "failed", is "waiting" for an answer or "sleeping"; "" for none."""
        states = {state for _, state in self.tasks}
        return next((one for one in ("failed", "waiting", "sleeping") if one in states), "")


def listed_row(step: TimelineStep) -> ListedStep:
    """Make the step of a list from its rows."""
    tasks = tuple((task.name, task.status) for task in step.tasks if not task.is_call)
    return ListedStep(
        step.checkpoint_id,
        step.parent_id or "",
        step.step - 1,
        step.source,
        step.run_id or "",
        moment(step.created),
        step.next,
        tasks,
    )


def recorded_of(step: StateSnapshot) -> dict[str, Any]:
    """Return a step's metadata; its "writes" may be missing, which are read when asked for."""
    return tuple.__getitem__(step, StateSnapshot._fields.index("metadata")) or {}


def listed(step: StateSnapshot) -> ListedStep:
    """Make the step of a list from its state: the newest one as it is now."""
    metadata = recorded_of(step)
    return ListedStep(
        checkpoint_of(step),
        parent_of(step),
        metadata.get("step", ""),
        str(metadata.get("source", "")),
        str(metadata.get("run_id", "")),
        moment(step.created_at),
        step.next,
        tuple((task.name, state) for task in step.tasks if (state := task_state(task))),
    )


def checkpoint_of(step: StateSnapshot) -> str:
    """Return the id of a step's checkpoint; "" for the state of a thread without any."""
    return str(step.config.get("configurable", {}).get("checkpoint_id") or "")


def parent_of(step: StateSnapshot) -> str:
    """Return the id of the checkpoint before a step; "" for the first."""
    return str((step.parent_config or {}).get("configurable", {}).get("checkpoint_id") or "")


def task_state(task: PregelTask) -> str:
    """Return the state of a task: failed, waiting, sleeping, done; "" if it has no result yet."""
    if task.error is not None:
        return "failed"
    if task.interrupts:
        return "sleeping" if all(asked.sleeps for asked in task.interrupts) else "waiting"
    return "done" if task.result is not None else ""


def preview_of(step: StateSnapshot) -> str:
    """Return what a thread says in one line: its error or question, else its last message.

    A state without messages is shown by the last value that is a text, or a list that ends so.
    """
    for task in step.tasks:
        if task.error is not None:
            return preview(task.error)
    asked = next((one for one in step.interrupts if not one.sleeps), None)
    if asked is not None:
        return preview(asked.value)
    values = step.values
    if not isinstance(values, Mapping):
        return preview(values) if values else ""
    messages = values.get("messages")
    candidates = [messages] if messages else list(reversed(list(values.values())))
    for value in candidates:
        last = value[-1] if isinstance(value, list) and value else value
        said = getattr(last, "content", last)
        if isinstance(said, list):  # the parts of a message
            said = " ".join(one["text"] for one in said if isinstance(one, dict) and "text" in one)
        if said:
            return preview(said)
    return ""


def says_what_follows(steps: Sequence[ListedStep]) -> bool:
    """Whether the rows of steps name the nodes that follow them; those of LangGraph don't."""
    made = {step.parent for step in steps if step.source == "loop"}
    return all(step.next for step in steps if step.checkpoint_id in made)


def timed_bars(steps: Sequence[TimelineStep], *, busy: bool) -> list[TaskBar]:
    """Make the bars of a page of a timeline, oldest first: one for each attempt.

    Args:
        busy: whether the thread has a run, so that what has not ended is running.
    """
    bars: list[TaskBar] = []
    for step in reversed(steps):
        run = step.run_id or ""
        for task, name in zip(step.tasks, _task_names(step.tasks), strict=True):
            if task.name == START:  # the input, which calls nothing
                continue
            bars += [
                TaskBar(
                    name, step.step, one.status, one.start, one.end, number, one.error or "", run
                )
                for number, one in enumerate(task.attempts, 1)
            ]
        if step is steps[0]:  # the newest: what it calls and has not ended is running or waits
            left = Counter(step.next) - Counter(task.name for task in step.tasks)
            state: Any = "running" if busy else "waiting"
            open_ones = [name for name in left.elements() if name != START]
            bars += [TaskBar(name, step.step, state, step.created, run=run) for name in open_ones]
            if not busy:
                bars += _open_questions(step, run)
    return bars


def _open_questions(step: TimelineStep, run: str) -> list[TaskBar]:
    """Make the bars of tasks whose last attempt has asked, from then on."""
    named = zip(step.tasks, _task_names(step.tasks), strict=True)
    return [
        TaskBar(name, step.step, "waiting", task.end, None, len(task.attempts), run=run, asks=True)
        for task, name in named
        if task.status == "waiting"
    ]


def _task_names(tasks: Sequence[TimelineTask | PregelTask]) -> list[str]:
    """Return the names of a step's tasks: those of Sends with their place among the Sends."""
    return [f"{task.name} [{task.path[1]}]" if is_send(task.path) else task.name for task in tasks]


def is_send(path: TaskPath) -> bool:
    """Whether a task was called by a `Send`, and not by an edge or another task."""
    return len(path) > 1 and path[0] == PUSH and isinstance(path[1], int)


def bars_of(steps: Sequence[StateSnapshot]) -> list[TaskBar]:
    """Make the bars of the tasks of a page of steps, oldest first, without their times."""
    bars: list[TaskBar] = []
    for step in reversed(steps):
        number = (step.metadata or {}).get("step", 0)
        for task, name in zip(step.tasks, _task_names(step.tasks), strict=True):
            if task.name != START:
                state: Any = task_state(task) or ("waiting" if step is steps[0] else "done")
                if state == "sleeping":
                    state = "waiting"
                bars.append(TaskBar(name, int(number) + 1, state, error=task.error or ""))
    return bars
