"""Routes for threads: their registration, state and history."""

from collections.abc import Mapping
from typing import Any, cast
from uuid import uuid4

from msgspec import Struct

from actorgraph.internals import Turns, shielded
from actorgraph.types import StateSnapshot
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint, history_graph, with_graph
from actorgraph.web.endpoints.run_start import graph_errors_as_problems, write_supersteps
from actorgraph.web.endpoints.thread_state import (
    Config,
    check_thread_id,
    checkpoint_address,
    checkpoint_config,
    config_of,
    remove_thread,
    state_response,
    thread_response,
    undo_creation,
)
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.identity import check_labels
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.problems import NotFound
from actorgraph.web.http.request_limits import check_merged
from actorgraph.web.registries.thread_registry import StoredThread


class StateQuery(Struct):
    """Whether to include the states of subgraphs."""

    subgraphs: bool = False


class HistoryQuery(Struct):
    """Page of a history."""

    limit: bodies.Page = 10
    before: str | None = None


async def create(call: ApiCall) -> response_types.Thread:
    """Create a thread; with `supersteps` its state too."""
    body: bodies.ThreadBody = call.body
    server, thread_id = call.server, body.thread_id or str(uuid4())
    check_thread_id(thread_id)
    check_labels(body.metadata, {})
    if body.thread_id is not None:
        call.wanted = await _may_make(call, thread_id)
    metadata = {**(body.metadata or {}), **call.wanted}
    made, thread = await server.threads.make(
        thread_id, metadata, if_exists=body.if_exists, new=body.thread_id is None
    )
    thread.must_hold(call.wanted)
    if made and body.supersteps:
        try:
            await write_supersteps(call, thread, body.supersteps)
        except BaseException:
            await shielded(lambda: undo_creation(server, thread_id))
            raise
    if made and body.ttl is not None:
        await server.ttls.put(thread_id, bodies.stored_ttl(body.ttl))
    return await thread_response(call, thread)


async def _may_make(call: ApiCall, thread_id: str) -> dict[str, Any]:
    """Authorize an id chosen by the client; returns what the thread's metadata must contain.

    Raises:
        NotFound: the thread exists and belongs to another principal, or the id is denied.
    """
    known = await call.server.threads.get(thread_id)
    metadata = known.metadata if known else getattr(call.body, "metadata", None) or {}
    wanted = await call.server.access.ask(call.principal, "threads.create", thread_id, metadata)
    if known is not None:
        known.must_hold(wanted)
    return {**call.wanted, **wanted}


async def read(call: ApiCall) -> response_types.Thread:
    """Return one thread."""
    return await thread_response(call, _thread(call))


async def patch(call: ApiCall) -> response_types.Thread:
    """Merge metadata into a thread's, and values into its state."""
    body: bodies.ThreadPatch = call.body
    thread = _thread(call)
    check_labels(body.metadata, thread.metadata)
    said = {**(body.metadata or {}), **call.wanted}
    will_be = {**thread.metadata, **said}  # authorized too: no client may move a thread to another
    wanted = await call.server.access.ask(
        call.principal, "threads.update", thread.thread_id, will_be
    )
    merged = {**said, **wanted}
    _check_metadata(call, thread, merged)
    await _merge_values(call, thread, body)
    if body.ttl is not None:
        await call.server.ttls.put(thread.thread_id, bodies.stored_ttl(body.ttl))
    return await thread_response(call, await _merge_metadata(call, thread, merged))


def _check_metadata(call: ApiCall, thread: StoredThread, more: Mapping[str, Any]) -> None:
    what, before = f"the metadata of thread {thread.thread_id!r}", thread.metadata
    check_merged({**before, **more}, before, call.server.limits, what)


async def _merge_metadata(
    call: ApiCall, thread: StoredThread, more: Mapping[str, Any]
) -> StoredThread:
    """Merge metadata into the stored one, one request at a time: no sum passes the limit."""
    threads = call.server.threads
    async with call.server.merging:
        now = await threads.get(thread.thread_id)
        if now is not None:
            _check_metadata(call, now, more)
        return await threads.merge(thread, more)


async def _merge_values(call: ApiCall, thread: StoredThread, body: bodies.ThreadPatch) -> None:
    values = dict(body.values or {})
    if body.messages is not None:
        values["messages"] = body.messages
    if body.values is None and body.messages is None:
        return
    config = config_of(call.thread_id, checkpoint_config(body.checkpoint))
    with graph_errors_as_problems():
        await with_graph(call, thread, lambda graph: graph.aupdate_state(config, values))
    await _tell_of_update(call)


async def _tell_of_update(call: ApiCall) -> None:
    """Send the newest state to the streams of the thread; they begin after it otherwise."""
    updates = call.server.state_updates
    if updates.is_read(call.thread_id):
        updates.publish(call.thread_id, to_plain(await _state(call, {}, subgraphs=False)))


async def delete(call: ApiCall) -> None:
    """Cancel a thread's runs and remove the thread."""
    await remove_thread(call.server, call.thread_id)


async def copy(call: ApiCall) -> response_types.Thread:
    """Copy a thread: the same checkpoints and metadata under a new id."""
    thread = _thread(call)
    target, threads = str(uuid4()), call.server.threads
    _, made = await threads.make(target, {**thread.metadata, **call.wanted}, new=True)
    try:
        await call.server.saver.acopy_thread(thread.thread_id, target)
    except BaseException:
        await shielded(lambda: undo_creation(call.server, target))
        raise
    return await thread_response(call, made)


async def prune(call: ApiCall) -> response_types.Pruned:
    """Delete threads, or keep only the newest checkpoint of each."""
    body: bodies.ThreadPrune = call.body
    access = call.server.access
    known = [await call.server.threads.get(one) for one in dict.fromkeys(body.thread_ids)]
    threads = [  # threads of other principals are skipped like missing ones
        one for one in known if one and await access.allows(call.principal, "threads.delete", one)
    ]
    for thread in threads:
        if body.strategy == "delete":
            await remove_thread(call.server, thread.thread_id)
        else:
            await call.server.saver.aprune([thread.thread_id], strategy="keep_latest")
    return response_types.Pruned(len(threads))


async def state_now(call: ApiCall) -> response_types.State:
    """Return a thread's newest state."""
    return await _state(call, {}, subgraphs=call.query.subgraphs)


async def state_at(call: ApiCall) -> response_types.State:
    """Return a thread's state at one checkpoint."""
    place = {"checkpoint_id": call.path["checkpoint_id"]}
    return await _state(call, place, subgraphs=call.query.subgraphs)


async def state_of(call: ApiCall) -> response_types.State:
    """Return a thread's state at the checkpoint that the body addresses."""
    body: bodies.StateRead = call.body
    return await _state(call, checkpoint_config(body.checkpoint), subgraphs=body.subgraphs)


async def update(call: ApiCall) -> response_types.Updated:
    """Update a thread's state, as if a node had returned the values."""
    body: bodies.StateUpdateBody = call.body
    place = checkpoint_config(body.checkpoint)
    if body.checkpoint_id is not None:
        place["checkpoint_id"] = body.checkpoint_id
    config = config_of(call.thread_id, place)
    with graph_errors_as_problems():
        made = await with_graph(
            call,
            _thread(call),
            lambda graph: graph.aupdate_state(config, body.values, as_node=body.as_node),
        )
    await _tell_of_update(call)
    address = checkpoint_address(made)
    assert address is not None
    return response_types.Updated(address, made["configurable"], address.checkpoint_id)


async def history(call: ApiCall) -> list[response_types.State]:
    """List a thread's states, newest first."""
    body: bodies.HistoryBody = call.body
    place = checkpoint_config(body.checkpoint)
    return await _history(call, place, body.limit, body.before, body.metadata)


async def history_now(call: ApiCall) -> list[response_types.State]:
    """List a thread's states, newest first, with the arguments in the query."""
    return await _history(call, {}, call.query.limit, call.query.before, None)


async def _history(
    call: ApiCall, place: Config, limit: int, before: Any, metadata: Mapping[str, Any] | None
) -> list[response_types.State]:
    try:
        graph = await history_graph(call, _thread(call))
    except NotFound:
        return []
    config = config_of(call.thread_id, place)
    found = graph.aget_state_history(
        config,
        filter=dict(metadata) if metadata else None,
        before=_before(call, before),
        limit=limit,
    )
    states: list[response_types.State] = []
    turns = Turns()
    async for snapshot in found:
        states.append(state_response(snapshot))
        await turns.give()
    return states


def _before(call: ApiCall, before: Any) -> Config | None:
    if before is None:
        return None
    if isinstance(before, str):
        return config_of(call.thread_id, {"checkpoint_id": before})
    given = cast("dict[str, Any]", before)
    place = given.get("configurable", given)
    found = place.get("checkpoint_id") if isinstance(place, dict) else None
    return config_of(call.thread_id, {"checkpoint_id": found}) if found else None


async def _state(call: ApiCall, place: Config, *, subgraphs: bool) -> response_types.State:
    config = config_of(call.thread_id, place)
    try:
        found = await with_graph(
            call,
            _thread(call),
            lambda graph: graph.aget_state(config, subgraphs=subgraphs),
        )
    except NotFound:  # it has had no run yet
        found = StateSnapshot({}, (), config, {}, None, None, (), ())
    if found.created_at is None and place.get("checkpoint_id"):
        raise NotFound(f"checkpoint {place['checkpoint_id']!r} not found")
    return state_response(found)


def _thread(call: ApiCall) -> StoredThread:
    assert call.thread is not None
    return call.thread


_T = "/threads/{thread_id}"
ENDPOINTS = (
    Endpoint(
        "POST",
        "/threads",
        "threads.create",
        create,
        response_types.Thread,
        bodies.ThreadBody,
        summary="Create a thread",
    ),
    Endpoint(
        "POST",
        "/threads/prune",
        "threads.delete",
        prune,
        response_types.Pruned,
        bodies.ThreadPrune,
        summary="Prune threads",
    ),
    Endpoint("GET", _T, "threads.read", read, response_types.Thread, summary="Get a thread"),
    Endpoint(
        "PATCH",
        _T,
        "threads.update",
        patch,
        response_types.Thread,
        bodies.ThreadPatch,
        summary="Change a thread's metadata",
    ),
    Endpoint("DELETE", _T, "threads.delete", delete, summary="Delete a thread"),
    Endpoint(
        "POST", _T + "/copy", "threads.copy", copy, response_types.Thread, summary="Copy a thread"
    ),
    Endpoint(
        "GET",
        _T + "/state",
        "threads.read",
        state_now,
        response_types.State,
        query=StateQuery,
        summary="Get the newest state",
    ),
    Endpoint(
        "POST",
        _T + "/state",
        "threads.update",
        update,
        response_types.Updated,
        bodies.StateUpdateBody,
        summary="Update the state",
    ),
    Endpoint(
        "POST",
        _T + "/state/checkpoint",
        "threads.read",
        state_of,
        response_types.State,
        bodies.StateRead,
        summary="Get the state at a checkpoint",
    ),
    Endpoint(
        "GET",
        _T + "/state/{checkpoint_id}",
        "threads.read",
        state_at,
        response_types.State,
        query=StateQuery,
        summary="Get the state at a checkpoint's id",
    ),
    Endpoint(
        "GET",
        _T + "/history",
        "threads.read",
        history_now,
        list[response_types.State],
        query=HistoryQuery,
        summary="List the states",
    ),
    Endpoint(
        "POST",
        _T + "/history",
        "threads.read",
        history,
        list[response_types.State],
        bodies.HistoryBody,
        summary="List the states",
    ),
)
