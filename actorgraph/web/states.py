"""A thread's state as clients read it."""

from typing import Any

from actorgraph.values.snapshot import PregelTask, StateSnapshot
from actorgraph.web import answers
from actorgraph.web.jsonable import question


def state(snapshot: StateSnapshot) -> answers.State:
    """A snapshot in the shape of LangGraph's server."""
    here, parent = address(snapshot.config), address(snapshot.parent_config)
    return answers.State(
        values=snapshot.values,
        next=list(snapshot.next),
        tasks=[_task(task) for task in snapshot.tasks],
        metadata=dict(snapshot.metadata or {}),
        created_at=snapshot.created_at,
        checkpoint=here,
        parent_checkpoint=parent,
        interrupts=[question(asked) for asked in snapshot.interrupts],
        checkpoint_id=here.checkpoint_id if here else None,
        parent_checkpoint_id=parent.checkpoint_id if parent else None,
    )


def address(config: Any) -> answers.CheckpointAddress | None:
    """The checkpoint that a config addresses; None for no config."""
    place = (config or {}).get("configurable") or {}
    if "thread_id" not in place:
        return None
    return answers.CheckpointAddress(
        thread_id=str(place["thread_id"]),
        checkpoint_ns=place.get("checkpoint_ns", ""),
        checkpoint_id=place.get("checkpoint_id"),
        checkpoint_map=place.get("checkpoint_map"),
    )


def status(snapshot: StateSnapshot, *, busy: bool) -> str:
    """How a thread stands: a thread with work left waits, or its last run has failed."""
    if busy:
        return "busy"
    if any(task.error is not None for task in snapshot.tasks):
        return "error"
    return "interrupted" if snapshot.next else "idle"


def questions(snapshot: StateSnapshot) -> dict[str, list[dict[str, Any]]]:
    """Task id -> the questions that wait for an answer."""
    return {
        task.id: [question(asked) for asked in task.interrupts]
        for task in snapshot.tasks
        if task.interrupts
    }


def _task(task: PregelTask) -> answers.StateTask:
    inner: Any = task.state
    below = isinstance(inner, StateSnapshot)
    return answers.StateTask(
        id=task.id,
        name=task.name,
        path=list(task.path),
        error=task.error,
        interrupts=[question(asked) for asked in task.interrupts],
        checkpoint=None if below else address(inner),
        state=state(inner) if below else None,
        result=task.result,
    )
