"""Threads and their states as responses, and the configs that address them."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

from actorgraph.errors import InvalidConfigError, RunNotFoundError
from actorgraph.internals import (
    DAMAGED,
    OPEN_STATUSES,
    UNREADABLE,
    ThreadPhase,
    host_of,
    phase_of,
    thread_status,
    without_later,
)
from actorgraph.systems import ActorSystem
from actorgraph.types import Interrupt, PregelTask, StateSnapshot
from actorgraph.web.endpoints.endpoint import ApiCall, Server, with_graph
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.jsonable import interrupt_json
from actorgraph.web.http.problems import NotFound, public_text
from actorgraph.web.registries.thread_registry import StoredThread


def state_response(snapshot: StateSnapshot) -> response_types.State:
    """Convert a snapshot to the shape of LangGraph's server."""
    here, parent = checkpoint_address(snapshot.config), checkpoint_address(snapshot.parent_config)
    return response_types.State(
        values=snapshot.values,
        next=list(snapshot.next),
        tasks=[_task(task) for task in snapshot.tasks],
        metadata=dict(snapshot.metadata or {}),
        created_at=snapshot.created_at,
        checkpoint=here,
        parent_checkpoint=parent,
        interrupts=_questions(snapshot.interrupts),
        checkpoint_id=here.checkpoint_id if here else None,
        parent_checkpoint_id=parent.checkpoint_id if parent else None,
    )


def checkpoint_address(config: Any) -> response_types.CheckpointAddress | None:
    """Return the checkpoint that a config addresses; None without a config."""
    place = (config or {}).get("configurable") or {}
    if "thread_id" not in place:
        return None
    return response_types.CheckpointAddress(
        thread_id=str(place["thread_id"]),
        checkpoint_ns=place.get("checkpoint_ns", ""),
        checkpoint_id=place.get("checkpoint_id"),
        checkpoint_map=place.get("checkpoint_map"),
    )


def pending_interrupts(snapshot: StateSnapshot) -> dict[str, list[response_types.Interrupt]]:
    """Return task id -> its pending interrupts."""
    return {task.id: _questions(task.interrupts) for task in snapshot.tasks if task.interrupts}


def _questions(asked: Iterable[Interrupt]) -> list[response_types.Interrupt]:
    return [response_types.Interrupt(**interrupt_json(question)) for question in asked]


def _task(task: PregelTask) -> response_types.StateTask:
    inner: Any = task.state
    below = isinstance(inner, StateSnapshot)
    return response_types.StateTask(
        id=task.id,
        name=task.name,
        path=list(task.path),
        error=task.error,
        interrupts=_questions(task.interrupts),
        checkpoint=None if below else checkpoint_address(inner),
        state=state_response(inner) if below else None,
        result=task.result,
    )


Config = dict[str, Any]


async def thread_response(
    call: ApiCall,
    thread: StoredThread,
    *,
    busy: bool | None = None,
    phase: str = "",
) -> response_types.Thread:
    """Return a thread with its status and newest values.

    Args:
        busy: whether it has an open run whose time has come; None if that is to be looked up.
        phase: its phase; "" if that is to be looked up.
    """
    if busy is None:
        busy = await is_busy(call.server.system, thread.thread_id)
    broken: str | None = None
    try:
        config = config_of(thread.thread_id, {})
        snapshot = await with_graph(call, thread, lambda graph: graph.aget_state(config))
    except NotFound:
        snapshot = StateSnapshot({}, (), {}, None, None, None, (), ())
    except (*UNREADABLE, *DAMAGED) as error:  # one unreadable thread must not fail a whole list
        broken = public_text(type(error).__name__, str(error))
        snapshot = StateSnapshot({}, (), {}, None, None, None, (), ())
    failed = [task.error for task in snapshot.tasks if task.error is not None]
    if broken:
        phase = "failed"
    elif not phase:
        phase = await phase_in(call.server.system, thread.thread_id, snapshot, busy=busy)
    return response_types.Thread(
        thread_id=thread.thread_id,
        created_at=thread.created_at,
        updated_at=max(thread.updated_at, snapshot.created_at or ""),
        state_updated_at=snapshot.created_at or thread.created_at,
        metadata=thread.metadata,
        status="error" if broken else thread_status(snapshot, busy=busy),
        values=snapshot.values,
        interrupts=pending_interrupts(snapshot),
        error=broken or (failed[0] if failed else None),
        phase=cast("ThreadPhase", phase),
    )


async def phase_in(
    system: ActorSystem, thread_id: str, snapshot: StateSnapshot, *, busy: bool
) -> ThreadPhase:
    """Return the phase of a thread of a system.

    Args:
        busy: whether it has an open run whose time has come.
    """
    runs = (await system.thread_finder.runs([thread_id])).get(thread_id, ())
    if busy and not runs:  # a saver that doesn't store runs
        return "running"
    return phase_of(snapshot.phase_facts(), without_later(runs, host_of(system.saver).clock.now()))


async def is_busy(system: ActorSystem, thread_id: str) -> bool:
    """Whether a thread has an open run; runs that wait for their times don't count."""
    runs = await system.runs(thread_id=thread_id, statuses=OPEN_STATUSES)
    return any(not run.waits_for_time for run in runs)


async def remove_thread(server: Server, thread_id: str) -> None:
    """Cancel a thread's runs, and remove its checkpoints and its registration.

    A run may be started meanwhile. Either the second `_stop` here finds it, or its start finds the
    thread missing afterwards (`check_kept`): each of them looks after it has written.
    """
    await _stop(server, thread_id)
    await server.saver.adelete_thread(thread_id)
    # Savers that don't store runs leave them in the system's memory.
    for run in await server.system.runs(thread_id=thread_id):
        with suppress(RunNotFoundError, InvalidConfigError):
            await server.system.forget(run.id)
    await server.threads.forget(thread_id)
    await server.ttls.remove(thread_id)
    await server.crons.remove_of(thread_id=thread_id)
    late = await _stop(server, thread_id, before=datetime.now(UTC))
    if late and await server.threads.registered(thread_id) is None:
        await server.saver.adelete_thread(thread_id)


async def undo_creation(server: Server, thread_id: str) -> None:
    """Remove a thread that was just created, because its creation failed."""
    await server.saver.adelete_thread(thread_id)
    await server.threads.forget(thread_id)


async def _stop(server: Server, thread_id: str, before: datetime | None = None) -> int:
    """Cancel a thread's runs, only those created before a moment; returns their number."""
    found = await server.system.runs(thread_id=thread_id, statuses=OPEN_STATUSES)
    found = [run for run in found if before is None or run.created_at <= before]
    for run in found:
        await run.cancel("its thread is removed")
    return len(found)


def check_thread_id(thread_id: str) -> None:
    """Check that text can be a thread's id.

    Raises:
        InvalidConfigError: it is empty, too long, or has control characters.
    """
    from actorgraph.internals import address_of

    address_of(config_of(thread_id, {}), needs_thread=True)


def config_of(thread_id: str, place: Mapping[str, Any]) -> Config:
    """Return the config that addresses a thread, or a checkpoint of it (`place`)."""
    return {"configurable": {**place, "thread_id": thread_id}}


def checkpoint_config(checkpoint: bodies.CheckpointBody | None) -> Config:
    """Return the part of `configurable` that addresses a checkpoint."""
    if checkpoint is None:
        return {}
    place = {
        "checkpoint_ns": checkpoint.checkpoint_ns,
        "checkpoint_id": checkpoint.checkpoint_id,
        "checkpoint_map": checkpoint.checkpoint_map,
    }
    return {key: value for key, value in place.items() if value is not None}
