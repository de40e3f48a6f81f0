"""Routes that search threads: in the saver's index, or by reading every registered thread."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import anyio
from msgspec.structs import replace
from starlette.responses import Response

from actorgraph.internals import (
    FindThreads,
    ThreadFact,
    ThreadRow,
    beside,
    is_large,
    is_thread_id,
    iso,
    moment_before,
    thread_info,
    wanted_facts,
)
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.endpoints.thread_state import thread_response
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.selection import extract_paths, page_response
from actorgraph.web.registries.indexed_threads import IndexedRegistry, stored_thread
from actorgraph.web.registries.thread_registry import StoredThread

_OWN = ("thread_id", "created_at")  # known without reading the thread's state
_STATE = {"values", "interrupts", "error", "state_updated_at", "config", "context"}
"""Fields of a thread that its row in the index doesn't have."""
_AT_ONCE = 64
_PAGE = 500
"""Rows of the index that are read at once, where each thread is authorized."""


async def search(call: ApiCall) -> Response:
    """Find threads by their metadata, values and status."""
    body: bodies.ThreadSearch = call.body
    extract_paths(body.extract or {})  # refused before anything is read
    threads = call.server.threads
    if isinstance(threads, IndexedRegistry):
        await threads.ready()
        found = await _indexed(call, body)
    else:
        found = await _scanned(call, body)
    return await page_response(
        found, limit=body.limit, offset=body.offset, select=body.select, extract=body.extract
    )


async def count(call: ApiCall) -> int:
    """Count the threads that a search would find."""
    body: bodies.ThreadCount = call.body
    index, registry = call.server.system.thread_finder, call.server.threads
    if isinstance(registry, IndexedRegistry):
        await registry.ready()
        query = await _query(call, body)
        if not _authorizes_each(call):
            return await index.count(query)
        return len(await _allowed(call, query, None))
    threads = await _registered(call, body.metadata, None)
    if not _needs_states(body):
        return len(threads)
    return len(await _matching(call, threads, body))


_Filter = bodies.ThreadSearch | bodies.ThreadCount


def _needs_states(body: _Filter) -> bool:
    """Whether a filter depends on more than a thread's registration."""
    return bool(body.status or body.phase or body.values or body.older_than_s)


async def _query(call: ApiCall, body: _Filter) -> FindThreads:
    metadata, values = {**(body.metadata or {}), **call.wanted}, body.values or {}

    def made() -> tuple[ThreadFact, ...]:
        return wanted_facts("m", metadata) + wanted_facts("v", values)

    facts = await beside(made) if is_large([metadata, values]) else made()
    before = moment_before(timedelta(seconds=body.older_than_s)) if body.older_than_s else 0
    return FindThreads(facts=facts, status=body.status or "", phase=body.phase or "", before=before)


def _authorizes_each(call: ApiCall) -> bool:
    """Whether each thread is authorized: permission to search is not permission to read."""
    return not call.wanted and call.server.access.authorize is not None


async def _indexed(call: ApiCall, body: bodies.ThreadSearch) -> list[response_types.Thread]:
    """Return the page that the index finds, and one thread more if there is another page."""
    query = replace(
        await _query(call, body),
        ids=None if body.ids is None else tuple(filter(is_thread_id, body.ids)),
        order=body.sort_by,
        down=body.sort_order == "desc",
    )
    most = body.limit + 1
    if _authorizes_each(call):
        rows = (await _allowed(call, query, body.offset + most))[body.offset :]
    else:
        index = call.server.system.thread_finder
        rows = await index.find(replace(query, limit=most, offset=body.offset))
    named = body.select is not None and not _STATE.intersection(body.select)
    if named and not body.extract:
        return [_of_row(row) for row in rows]
    known = {row.thread_id: row for row in rows}
    page = await _responses(call, [stored_thread(row) for row in rows[: body.limit]], known)
    return page + [_of_row(row) for row in rows[body.limit :]]


async def _allowed(call: ApiCall, query: FindThreads, most: int | None) -> list[ThreadRow]:
    """Return the first threads of a search that the principal may read; all without `most`."""
    index, access = call.server.system.thread_finder, call.server.access
    found: list[ThreadRow] = []
    offset = 0
    while most is None or len(found) < most:
        rows = await index.find(replace(query, limit=_PAGE, offset=offset))
        found += [
            row
            for row in rows
            if await access.allows(call.principal, "threads.read", stored_thread(row))
        ]
        offset += len(rows)
        if len(rows) < _PAGE:
            break
    return found[:most]


def _of_row(row: ThreadRow) -> response_types.Thread:
    thread: Any = stored_thread(row)
    return response_types.Thread(
        thread_id=thread.thread_id,
        created_at=thread.created_at,
        updated_at=thread.updated_at,
        state_updated_at=thread.updated_at,
        metadata=thread.metadata,
        status=row.status,  # pyright: ignore[reportArgumentType] - the index has no others
        phase=thread_info(row).phase,
    )


async def _responses(
    call: ApiCall, threads: Sequence[StoredThread], rows: Mapping[str, ThreadRow] | None = None
) -> list[response_types.Thread]:
    """Read the states of threads together, which takes few transactions.

    Args:
        rows: thread id -> its row in the index; default: what it has is looked up.
    """
    known = rows or {}
    found: dict[str, response_types.Thread] = {}
    errors: list[Exception] = []

    async def read(thread: StoredThread) -> None:
        row = known.get(thread.thread_id)
        busy, phase = (None, "") if row is None else (row.status == "busy", row.phase)
        try:
            found[thread.thread_id] = await thread_response(call, thread, busy=busy, phase=phase)
        except Exception as error:  # noqa: BLE001 - raised below, alone
            errors.append(error)

    for start in range(0, len(threads), _AT_ONCE):
        async with anyio.create_task_group() as group:
            for thread in threads[start : start + _AT_ONCE]:
                group.start_soon(read, thread)
        if errors:
            raise errors[0]
    return [found[thread.thread_id] for thread in threads]


async def _scanned(call: ApiCall, body: bodies.ThreadSearch) -> list[response_types.Thread]:
    """Return registered threads from the page's first on, with at least one of the next page."""
    threads = await _registered(call, body.metadata, body.ids)
    down, end = body.sort_order == "desc", body.offset + body.limit
    # The state is read for the threads of the page only, unless it decides which ones those are.
    if body.sort_by in _OWN and not _needs_states(body):
        threads.sort(key=lambda thread: str(getattr(thread, body.sort_by)), reverse=down)
        return await _responses(call, threads[body.offset : end + 1])
    found = await _matching(call, threads, body)
    found.sort(key=lambda thread: str(getattr(thread, body.sort_by)), reverse=down)
    return found[body.offset :]


async def _registered(
    call: ApiCall, metadata: Mapping[str, Any] | None, ids: list[str] | None
) -> list[StoredThread]:
    threads = await call.server.threads.all({**(metadata or {}), **call.wanted})
    if ids is not None:
        wanted = set(ids)
        threads = [thread for thread in threads if thread.thread_id in wanted]
    if not _authorizes_each(call):
        return threads
    access = call.server.access
    return [one for one in threads if await access.allows(call.principal, "threads.read", one)]


async def _matching(
    call: ApiCall, threads: list[StoredThread], body: _Filter
) -> list[response_types.Thread]:
    status, phase, values = body.status, body.phase, body.values
    before = iso(moment_before(timedelta(seconds=body.older_than_s))) if body.older_than_s else ""
    return [
        found
        for found in await _responses(call, threads)
        if status in (None, found.status)
        and phase in (None, found.phase)
        and (not before or found.state_updated_at < before)
        and (not values or (isinstance(found.values, dict) and contains(found.values, values)))
    ]


ENDPOINTS = (
    Endpoint(
        "POST",
        "/threads/search",
        "threads.search",
        search,
        list[response_types.FoundThread],
        bodies.ThreadSearch,
        summary="Search threads",
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
)
