"""Routes about threads: what is registered, their state, their history."""

from collections.abc import Mapping
from typing import Any, cast
from uuid import uuid4

from msgspec import Struct

from actorgraph.loops import shielded
from actorgraph.values.snapshot import StateSnapshot
from actorgraph.web import answers, bodies, states
from actorgraph.web.endpoint import Call, Endpoint
from actorgraph.web.graphs import historian, with_graph
from actorgraph.web.problems import NotFound, Unprocessable
from actorgraph.web.registry import Stored
from actorgraph.web.standing import Config, check, config_of, placed, remove, shown, take_back
from actorgraph.web.supersteps import told_by_the_graph, write_supersteps


class StateQuery(Struct):
    """Whether with the states of graphs inside."""

    subgraphs: bool = False


class HistoryQuery(Struct):
    """Which part of a history."""

    limit: bodies.Page = 10
    before: str | None = None


async def create(call: Call) -> answers.Thread:
    """Register a thread; with `supersteps` its state too."""
    body: bodies.ThreadBody = call.body
    serving, thread_id = call.serving, body.thread_id or str(uuid4())
    check(thread_id)
    if body.ttl is not None:
        raise Unprocessable("thread TTLs are not served; delete the thread when it is over")
    if body.thread_id is not None:
        call.wanted = await _may_make(call, thread_id)
    metadata = {**(body.metadata or {}), **call.wanted}
    made, thread = await serving.threads.make(thread_id, metadata, if_exists=body.if_exists)
    thread.must_hold(call.wanted)
    if made and body.supersteps:
        try:
            await write_supersteps(call, thread, body.supersteps)
        except BaseException:
            await shielded(lambda: take_back(serving, thread_id))
            raise
    return await shown(call, thread)


async def _may_make(call: Call, thread_id: str) -> dict[str, Any]:
    """What the thread's metadata must hold if a client chooses its id.

    Raises:
        NotFound: the id is another's, or not for this client.
    """
    known = await call.serving.threads.get(thread_id)
    metadata = known.metadata if known else getattr(call.body, "metadata", None) or {}
    wanted = await call.serving.access.ask(call.principal, "threads.create", thread_id, metadata)
    if known is not None:
        known.must_hold(wanted)
    return {**call.wanted, **wanted}


async def read(call: Call) -> answers.Thread:
    """One thread."""
    return await shown(call, _thread(call))


async def patch(call: Call) -> answers.Thread:
    """Merge metadata into a thread's."""
    body: bodies.ThreadPatch = call.body
    thread = _thread(call)
    said = {**(body.metadata or {}), **call.wanted}
    will_be = {**thread.metadata, **said}  # nobody gives a thread what it may not have
    wanted = await call.serving.access.ask(
        call.principal, "threads.update", thread.thread_id, will_be
    )
    merged = {**said, **wanted}
    return await shown(call, await call.serving.threads.merge(thread, merged))


async def delete(call: Call) -> None:
    """Stop what runs on a thread, and remove all of it."""
    await remove(call.serving, call.thread_id)


async def copy(call: Call) -> answers.Thread:
    """A thread with the same checkpoints and metadata, and another id."""
    thread = _thread(call)
    target, threads = str(uuid4()), call.serving.threads
    _, made = await threads.make(target, {**thread.metadata, **call.wanted})
    try:
        await call.serving.saver.acopy_thread(thread.thread_id, target)
    except BaseException:
        await shielded(lambda: take_back(call.serving, target))
        raise
    return await shown(call, made)


async def prune(call: Call) -> answers.Pruned:
    """Delete threads, or keep only the newest checkpoint of each."""
    body: bodies.ThreadPrune = call.body
    access = call.serving.access
    known = [await call.serving.threads.get(one) for one in dict.fromkeys(body.thread_ids)]
    threads = [  # another's counts as one that isn't there
        one for one in known if one and await access.allows(call.principal, "threads.delete", one)
    ]
    for thread in threads:
        if body.strategy == "delete":
            await remove(call.serving, thread.thread_id)
        else:
            await call.serving.saver.aprune([thread.thread_id], strategy="keep_latest")
    return answers.Pruned(len(threads))


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
    place = placed(body.checkpoint)
    if body.checkpoint_id is not None:
        place["checkpoint_id"] = body.checkpoint_id
    config = config_of(call.thread_id, place)
    with told_by_the_graph():
        made = await with_graph(
            call,
            _thread(call),
            lambda graph: graph.aupdate_state(config, body.values, as_node=body.as_node),
        )
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
    try:
        graph = await historian(call, _thread(call))
    except NotFound:
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
    config = config_of(call.thread_id, place)
    try:
        found = await with_graph(
            call,
            _thread(call),
            lambda graph: graph.aget_state(config, subgraphs=subgraphs),
        )
    except NotFound:  # no run has told its graph
        found = StateSnapshot({}, (), config, {}, None, None, (), ())
    if found.created_at is None and place.get("checkpoint_id"):
        raise NotFound(f"checkpoint {place['checkpoint_id']!r} not found")
    return states.state(found)


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
