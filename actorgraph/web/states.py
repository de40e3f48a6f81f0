"""Threads and their states as responses, and the configs that address them."""

from typing import Any

from actorgraph.values.snapshot import PregelTask, StateSnapshot
from actorgraph.web import answers
from actorgraph.web.jsonable import interrupt_json


def state_response(snapshot: StateSnapshot) -> answers.State:
    """Convert a snapshot to the shape of LangGraph's server."""
    here, parent = checkpoint_address(snapshot.config), checkpoint_address(snapshot.parent_config)
    return answers.State(
        values=snapshot.values,
        next=list(snapshot.next),
        tasks=[_task(task) for task in snapshot.tasks],
        metadata=dict(snapshot.metadata or {}),
        created_at=snapshot.created_at,
        checkpoint=here,
        parent_checkpoint=parent,
        interrupts=[interrupt_json(asked) for asked in snapshot.interrupts],
        checkpoint_id=here.checkpoint_id if here else None,
        parent_checkpoint_id=parent.checkpoint_id if parent else None,
    )


def checkpoint_address(config: Any) -> answers.CheckpointAddress | None:
    """Return the checkpoint that a config addresses; None without a config."""
    place = (config or {}).get("configurable") or {}
    if "thread_id" not in place:
        return None
    return answers.CheckpointAddress(
        thread_id=str(place["thread_id"]),
        checkpoint_ns=place.get("checkpoint_ns", ""),
        checkpoint_id=place.get("checkpoint_id"),
        checkpoint_map=place.get("checkpoint_map"),
    )


def thread_status(snapshot: StateSnapshot, *, busy: bool) -> str:
    """Return a thread's status: with tasks left it is interrupted, or its last run has failed."""
    if busy:
        return "busy"
    if any(task.error is not None for task in snapshot.tasks):
        return "error"
    return "interrupted" if snapshot.next else "idle"


def pending_interrupts(snapshot: StateSnapshot) -> dict[str, list[dict[str, Any]]]:
    """Return task id -> its pending interrupts."""
    return {
        task.id: [interrupt_json(asked) for asked in task.interrupts]
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
        interrupts=[interrupt_json(asked) for asked in task.interrupts],
        checkpoint=None if below else checkpoint_address(inner),
        state=state_response(inner) if below else None,
        result=task.result,
    )
