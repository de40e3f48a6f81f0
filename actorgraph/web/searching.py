"""Routes that search threads. Principals find only the threads that they may read."""

from collections.abc import Mapping
from typing import Any

from actorgraph.web import answers, bodies
from actorgraph.web.access import contains
from actorgraph.web.endpoint import ApiCall, Endpoint
from actorgraph.web.registry import StoredThread
from actorgraph.web.standing import thread_response

_OWN = ("thread_id", "created_at")  # known without reading the thread's state


async def search(call: ApiCall) -> list[answers.Thread]:
    """Find threads by their metadata, values and status."""
    body: bodies.ThreadSearch = call.body
    threads = await _registered(call, body.metadata, body.ids)
    down, end = body.sort_order == "desc", body.offset + body.limit
    # The state is read for the threads of the page only, unless it decides which ones those are.
    if body.sort_by in _OWN and body.status is None and not body.values:
        threads.sort(key=lambda thread: str(getattr(thread, body.sort_by)), reverse=down)
        return [await thread_response(call, thread) for thread in threads[body.offset : end]]
    found = await _matching(call, threads, body.values, body.status)
    found.sort(key=lambda thread: str(getattr(thread, body.sort_by)), reverse=down)
    return found[body.offset : end]


async def count(call: ApiCall) -> int:
    """Count the threads that a search would find."""
    body: bodies.ThreadCount = call.body
    threads = await _registered(call, body.metadata, None)
    if body.status is None and not body.values:
        return len(threads)
    return len(await _matching(call, threads, body.values, body.status))


async def _registered(
    call: ApiCall, metadata: Mapping[str, Any] | None, ids: list[str] | None
) -> list[StoredThread]:
    threads = await call.server.threads.all({**(metadata or {}), **call.wanted})
    if ids is not None:
        wanted = set(ids)
        threads = [thread for thread in threads if thread.thread_id in wanted]
    access = call.server.access
    if call.wanted or access.authorize is None:
        return threads
    # Permission to search is not permission to read: each thread is authorized.
    return [one for one in threads if await access.allows(call.principal, "threads.read", one)]


async def _matching(
    call: ApiCall,
    threads: list[StoredThread],
    values: Mapping[str, Any] | None,
    status: str | None,
) -> list[answers.Thread]:
    found = [await thread_response(call, thread) for thread in threads]
    if status is not None:
        found = [thread for thread in found if thread.status == status]
    if values:
        found = [t for t in found if isinstance(t.values, dict) and contains(t.values, values)]
    return found


SEARCH_ENDPOINTS = (
    Endpoint(
        "POST",
        "/threads/search",
        "threads.search",
        search,
        list[answers.Thread],
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
