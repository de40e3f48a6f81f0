"""A thread as it stands, and what addresses it."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

from actorgraph.errors import InvalidConfigError, RunNotFoundError
from actorgraph.errors.storage import DAMAGED, UNREADABLE
from actorgraph.values.snapshot import StateSnapshot
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web import answers, bodies, states
from actorgraph.web.endpoint import Call
from actorgraph.web.graphs import with_graph
from actorgraph.web.problems import NotFound
from actorgraph.web.problems import shown as told_as
from actorgraph.web.registry import Stored
from actorgraph.web.serving import Serving

Config = dict[str, Any]


async def shown(call: Call, thread: Stored) -> answers.Thread:
    """A thread with the state that it is in."""
    busy = bool(await call.serving.system.runs(thread_id=thread.thread_id, statuses=OPEN_STATUSES))
    broken: str | None = None
    try:
        config = config_of(thread.thread_id, {})
        snapshot = await with_graph(call, thread, lambda graph: graph.aget_state(config))
    except NotFound:
        snapshot = StateSnapshot({}, (), {}, None, None, None, (), ())
    except (*UNREADABLE, *DAMAGED) as error:  # a list of threads is shown all the same
        broken = told_as(type(error).__name__, str(error))
        snapshot = StateSnapshot({}, (), {}, None, None, None, (), ())
    failed = [task.error for task in snapshot.tasks if task.error is not None]
    return answers.Thread(
        thread_id=thread.thread_id,
        created_at=thread.created_at,
        updated_at=max(thread.updated_at, snapshot.created_at or ""),
        state_updated_at=snapshot.created_at or thread.created_at,
        metadata=thread.metadata,
        status="error" if broken else cast("Any", states.status(snapshot, busy=busy)),
        values=snapshot.values,
        interrupts=states.questions(snapshot),
        error=broken or (failed[0] if failed else None),
    )


async def remove(serving: Serving, thread_id: str) -> None:
    """Stop what runs on a thread, and remove its checkpoints and its registration.

    A run that was let in meanwhile either is seen here at the second look, or sees itself that
    the thread is gone.
    """
    await _stop(serving, thread_id)
    await serving.saver.adelete_thread(thread_id)
    for run in await serving.system.runs(thread_id=thread_id):  # of a saver that keeps none
        with suppress(RunNotFoundError, InvalidConfigError):
            await serving.system.forget(run.id)
    await serving.threads.forget(thread_id)
    late = await _stop(serving, thread_id, before=datetime.now(UTC))
    if late and await serving.threads.registered(thread_id) is None:
        await serving.saver.adelete_thread(thread_id)


async def take_back(serving: Serving, thread_id: str) -> None:
    """Remove a thread that was just made and could not be finished, with what is stored of it."""
    await serving.saver.adelete_thread(thread_id)
    await serving.threads.forget(thread_id)


async def _stop(serving: Serving, thread_id: str, before: datetime | None = None) -> int:
    """Cancel what runs on a thread, and was started before a moment; how many runs that were."""
    found = await serving.system.runs(thread_id=thread_id, statuses=OPEN_STATUSES)
    found = [run for run in found if before is None or run.created_at <= before]
    for run in found:
        await run.cancel("its thread is removed")
    return len(found)


def check(thread_id: str) -> None:
    """Refuse what can't be a thread's id.

    Raises:
        InvalidConfigError: it is empty, too long, or has control characters.
    """
    from actorgraph.api.config import address_of

    address_of(config_of(thread_id, {}), needs_thread=True)


def config_of(thread_id: str, place: Mapping[str, Any]) -> Config:
    """The config that addresses a thread, or a checkpoint of it."""
    return {"configurable": {**place, "thread_id": thread_id}}


def placed(checkpoint: bodies.CheckpointBody | None) -> Config:
    """The part of a config that addresses a checkpoint."""
    if checkpoint is None:
        return {}
    place = {"checkpoint_ns": checkpoint.checkpoint_ns, "checkpoint_id": checkpoint.checkpoint_id}
    return {key: value for key, value in place.items() if value is not None}
