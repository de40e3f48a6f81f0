"""Routes about threads: what is registered, their state, their history."""

from collections.abc import Mapping
from typing import Any, cast
from uuid import uuid4

from msgspec import Struct

from actorgraph.api.graph import CompiledStateGraph
from actorgraph.values.snapshot import StateSnapshot
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web import answers, bodies, states
from actorgraph.web.access import holds
from actorgraph.web.endpoint import Call, Endpoint
from actorgraph.web.problems import NotFound
from actorgraph.web.registry import Stored
from actorgraph.web.serving import Serving

Config = dict[str, Any]


class StateQuery(Struct):
    """Whether with the states of graphs inside."""

    subgraphs: bool = False


class HistoryQuery(Struct):
    """Which part of a history."""

    limit: bodies.Page = 10
    before: str | None = None


async def create(call: Call) -> answers.Thread:
    """Register a thread."""
    body: bodies.ThreadBody = call.body
    thread_id = body.thread_id or str(uuid4())
    check(thread_id)
    metadata = {**(body.metadata or {}), **call.wanted}
    thread = await call.serving.threads.make(thread_id, metadata, if_exists=body.if_exists)
    thread.must_hold(call.wanted)
    return await shown(call.serving, thread)


async def read(call: Call) -> answers.Thread:
    """One thread."""
    return await shown(call.serving, _thread(call))


async def patch(call: Call) -> answers.Thread:
    """Merge metadata into a thread's."""
    body: bodies.ThreadPatch = call.body
    merged = {**(body.metadata or {}), **call.wanted}
    return await shown(call.serving, await call.serving.threads.merge(_thread(call), merged))


async def delete(call: Call) -> None:
    """Stop what runs on a thread, and remove all of it."""
    await remove(call.serving, call.thread_id)


async def copy(call: Call) -> answers.Thread:
    """A thread with the same checkpoints and metadata, and another id."""
    thread = _thread(call)
    target = str(uuid4())
    made = await call.serving.threads.make(target, {**thread.metadata, **call.wanted})
    await call.serving.saver.acopy_thread(thread.thread_id, target)
    return await shown(call.serving, made)


async def search(call: Call) -> list[answers.Thread]:
    """Threads, by what their metadata and values hold."""
    body: bodies.ThreadSearch = call.body
    found = await _found(call, body.metadata, body.values, body.status, body.ids)
    found.sort(key=lambda thread: str(getattr(thread, body.sort_by)))
    if body.sort_order == "desc":
        found.reverse()
    return found[body.offset : body.offset + body.limit]


async def count(call: Call) -> int:
    """How many threads a search would find."""
    body: bodies.ThreadCount = call.body
    return len(await _found(call, body.metadata, body.values, body.status, None))


async def prune(call: Call) -> answers.Pruned:
    """Delete threads, or keep only the newest checkpoint of each."""
    body: bodies.ThreadPrune = call.body
    pruned = 0
    for thread_id in dict.fromkeys(body.thread_ids):
        thread = await call.serving.threads.get(thread_id)
        if thread is None:
            continue
        wanted = await call.serving.access.ask(
            call.principal, "threads.delete", thread_id, thread.metadata
        )
        thread.must_hold(wanted)
        if body.strategy == "delete":
            await remove(call.serving, thread_id)
        else:
            await call.serving.saver.aprune([thread_id], strategy="keep_latest")
        pruned += 1
    return answers.Pruned(pruned)


async def state_now(call: Call) -> answers.State:
    """A thread's newest state."""
    return await _state(call, {}, subgraphs=call.query.subgraphs)


async def state_at(call: Call) -> answers.State:
    """A thread's state at one checkpoint."""
    place = {"checkpoint_id": call.path["checkpoint_id"]}
    return await _state(call, place, subgraphs=call.query.subgraphs)


async def state_of(call: Call) -> answers.State:
    """A thread's state at the checkpoint that the body addresses."""
    body: bodies.StateRead = call.body
    return await _state(call, placed(body.checkpoint), subgraphs=body.subgraphs)


async def update(call: Call) -> answers.Updated:
    """Update a thread's state, as if a node had returned the values."""
    body: bodies.StateUpdateBody = call.body
    _, graph = call.serving.graph_for(_thread(call))
    place = placed(body.checkpoint)
    if body.checkpoint_id is not None:
        place["checkpoint_id"] = body.checkpoint_id
    config = config_of(call.thread_id, place)
    made = await graph.aupdate_state(config, body.values, as_node=body.as_node)
    address = states.address(made)
    assert address is not None
    return answers.Updated(address, made["configurable"], address.checkpoint_id)


async def history(call: Call) -> list[answers.State]:
    """A thread's states, newest first."""
    body: bodies.HistoryBody = call.body
    place = placed(body.checkpoint)
    return await _history(call, place, body.limit, body.before, body.metadata)


async def history_now(call: Call) -> list[answers.State]:
    """A thread's states, newest first, with the arguments in the query."""
    return await _history(call, {}, call.query.limit, call.query.before, None)


async def _history(
    call: Call, place: Config, limit: int, before: Any, metadata: Mapping[str, Any] | None
) -> list[answers.State]:
    graph = _graph(call)
    if graph is None:
        return []
    config = config_of(call.thread_id, place)
    found = graph.aget_state_history(
        config,
        filter=dict(metadata) if metadata else None,
        before=_before(call, before),
        limit=limit,
    )
    return [states.state(snapshot) async for snapshot in found]


def _before(call: Call, before: Any) -> Config | None:
    if before is None:
        return None
    if isinstance(before, str):
        return config_of(call.thread_id, {"checkpoint_id": before})
    given = cast("dict[str, Any]", before)
    place = given.get("configurable", given)
    found = place.get("checkpoint_id") if isinstance(place, dict) else None
    return config_of(call.thread_id, {"checkpoint_id": found}) if found else None


async def _state(call: Call, place: Config, *, subgraphs: bool) -> answers.State:
    graph = _graph(call)
    config = config_of(call.thread_id, place)
    if graph is None and place.get("checkpoint_id"):
        raise NotFound(f"checkpoint {place['checkpoint_id']!r} not found")
    if graph is None:
        empty = StateSnapshot({}, (), config, {}, None, None, (), ())
        return states.state(empty)
    found = await graph.aget_state(config, subgraphs=subgraphs)
    if found.created_at is None and place.get("checkpoint_id"):
        raise NotFound(f"checkpoint {place['checkpoint_id']!r} not found")
    return states.state(found)


def _graph(call: Call) -> CompiledStateGraph | None:
    """The thread's graph; None where no run has told it."""
    try:
        return call.serving.graph_for(_thread(call))[1]
    except NotFound:
        return None


async def _found(
    call: Call,
    metadata: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None,
    status: str | None,
    ids: list[str] | None,
) -> list[answers.Thread]:
    wanted = {**(metadata or {}), **call.wanted}
    threads = await call.serving.threads.all(wanted)
    if ids is not None:
        threads = [thread for thread in threads if thread.thread_id in ids]
    found = [await shown(call.serving, thread) for thread in threads]
    if status is not None:
        found = [thread for thread in found if thread.status == status]
    if values:
        found = [t for t in found if isinstance(t.values, dict) and holds(t.values, values)]
    return found


async def shown(serving: Serving, thread: Stored) -> answers.Thread:
    """A thread with the state that it is in."""
    busy = bool(await serving.system.runs(thread_id=thread.thread_id, statuses=OPEN_STATUSES))
    try:
        _, graph = serving.graph_for(thread)
        snapshot = await graph.aget_state(config_of(thread.thread_id, {}))
    except NotFound:
        snapshot = StateSnapshot({}, (), {}, None, None, None, (), ())
    failed = [task.error for task in snapshot.tasks if task.error is not None]
    return answers.Thread(
        thread_id=thread.thread_id,
        created_at=thread.created_at,
        updated_at=max(thread.updated_at, snapshot.created_at or ""),
        state_updated_at=snapshot.created_at or thread.created_at,
        metadata=thread.metadata,
        status=cast("Any", states.status(snapshot, busy=busy)),
        values=snapshot.values,
        interrupts=states.questions(snapshot),
        error=failed[0] if failed else None,
    )


async def remove(serving: Serving, thread_id: str) -> None:
    """Stop what runs on a thread, and remove its checkpoints and its registration."""
    for run in await serving.system.runs(thread_id=thread_id, statuses=OPEN_STATUSES):
        await run.cancel()
    await serving.saver.adelete_thread(thread_id)
    await serving.threads.forget(thread_id)


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


def _thread(call: Call) -> Stored:
    assert call.thread is not None
    return call.thread


_T = "/threads/{thread_id}"
ENDPOINTS = (
    Endpoint(
        "POST",
        "/threads",
        "threads.create",
        create,
        answers.Thread,
        bodies.ThreadBody,
        summary="Create a thread",
    ),
    Endpoint(
        "POST",
        "/threads/search",
        "threads.search",
        search,
        list[answers.Thread],
        bodies.ThreadSearch,
        summary="Find threads",
    ),
    Endpoint(
        "POST",
        "/threads/count",
        "threads.search",
        count,
        int,
        bodies.ThreadCount,
        summary="Count threads",
    ),
    Endpoint(
        "POST",
        "/threads/prune",
        "threads.delete",
        prune,
        answers.Pruned,
        bodies.ThreadPrune,
        summary="Prune threads",
    ),
    Endpoint("GET", _T, "threads.read", read, answers.Thread, summary="Get a thread"),
    Endpoint(
        "PATCH",
        _T,
        "threads.update",
        patch,
        answers.Thread,
        bodies.ThreadPatch,
        summary="Change a thread's metadata",
    ),
    Endpoint("DELETE", _T, "threads.delete", delete, summary="Delete a thread"),
    Endpoint("POST", _T + "/copy", "threads.copy", copy, answers.Thread, summary="Copy a thread"),
    Endpoint(
        "GET",
        _T + "/state",
        "threads.read",
        state_now,
        answers.State,
        query=StateQuery,
        summary="Get the newest state",
    ),
    Endpoint(
        "POST",
        _T + "/state",
        "threads.update",
        update,
        answers.Updated,
        bodies.StateUpdateBody,
        summary="Update the state",
    ),
    Endpoint(
        "POST",
        _T + "/state/checkpoint",
        "threads.read",
        state_of,
        answers.State,
        bodies.StateRead,
        summary="Get the state at a checkpoint",
    ),
    Endpoint(
        "GET",
        _T + "/state/{checkpoint_id}",
        "threads.read",
        state_at,
        answers.State,
        query=StateQuery,
        summary="Get the state at a checkpoint's id",
    ),
    Endpoint(
        "GET",
        _T + "/history",
        "threads.read",
        history_now,
        list[answers.State],
        query=HistoryQuery,
        summary="List the states",
    ),
    Endpoint(
        "POST",
        _T + "/history",
        "threads.read",
        history,
        list[answers.State],
        bodies.HistoryBody,
        summary="List the states",
    ),
)
