"""What a caller sees of a thread: StateSnapshot and its tasks."""

from typing import Any, NamedTuple

from actorgraph.values.commands import Interrupt
from actorgraph.values.run import Path


class PregelTask(NamedTuple):
    """One task of the superstep that comes next, with what is known of it.

    Attributes:
        error: the text of what it raised. result: key -> what it wrote, once it has finished.
        interrupts: the questions that it asked; in a live view only those that wait.
        state: the config of its subgraph's state, or None.
    """

    id: str
    name: str
    path: Path
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    result: Any = None


class StateSnapshot(NamedTuple):
    """The state of a thread at one checkpoint.

    Attributes:
        values: the state: a dict, or the bare value of a graph over one.
        next: the nodes that run next; () at the end.
        config: addresses this checkpoint. parent_config: its parent, or None.
        metadata: source, step, parents, run_id, writes, and what the caller declared.
        created_at: ISO 8601 UTC.
        interrupts: the questions of all tasks.
    """

    values: Any
    next: tuple[str, ...]
    config: dict[str, Any]
    metadata: dict[str, Any] | None
    created_at: str | None
    parent_config: dict[str, Any] | None
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...]

    @property
    def next_nodes(self) -> tuple[str, ...]:
        """Another name of `next`."""
        return self.next

    @property
    def pending_interrupts(self) -> tuple[Interrupt, ...]:
        """Another name of `interrupts`."""
        return self.interrupts

    @property
    def failed_node(self) -> str | None:
        """The node that the thread failed at: `retry()` runs it again. None if none did."""
        failed = self._failed
        return failed.name if failed else None

    @property
    def error(self) -> str | None:
        """What the failed node raised, as text; None if none failed."""
        failed = self._failed
        return failed.error if failed else None

    @property
    def _failed(self) -> PregelTask | None:
        failed = [task for task in self.tasks if task.error is not None and task.result is None]
        return next(iter(failed), self.tasks[0] if self.is_stuck else None)

    @property
    def is_stuck(self) -> bool:
        """Whether all tasks have finished and what they wrote can't be folded together.

        Going on fails in the same way; `retry()` runs the tasks again, `update_state()` as one
        of them goes on with that one's update alone.
        """
        done = any(task.result is not None for task in self.tasks)
        waits = len(self.next) == len(self.tasks)  # else those that have finished are left out
        return done and waits and all(task.error is not None for task in self.tasks)

    def to_dict(self) -> dict[str, Any]:
        """The snapshot as plain data, in the shape of LangGraph's server."""
        return {
            "values": self.values,
            "next": list(self.next),
            "config": self.config,
            "metadata": self.metadata,
            "created_at": self.created_at,
            "parent_config": self.parent_config,
            "tasks": [_task_dict(task) for task in self.tasks],
        }


def _task_dict(task: PregelTask) -> dict[str, Any]:
    asked = [_question_dict(question) for question in task.interrupts]
    return {"id": task.id, "name": task.name, "error": task.error, "interrupts": asked}


def _question_dict(question: Interrupt) -> dict[str, Any]:
    shown = {"value": question.value, "id": question.id}
    schema = question.response_schema
    return shown if schema is None else {**shown, "response_schema": schema}
