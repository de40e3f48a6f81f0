"""Routes that find threads. Whoever asks sees what it may read, and nothing else."""

from collections.abc import Mapping
from typing import Any

from actorgraph.web import answers, bodies
from actorgraph.web.access import holds
from actorgraph.web.endpoint import Call, Endpoint
from actorgraph.web.registry import Stored
from actorgraph.web.standing import shown

_OWN = ("thread_id", "created_at")  # known without a look at the thread's state


async def search(call: Call) -> list[answers.Thread]:
    """Threads, by what their metadata and values hold."""
    body: bodies.ThreadSearch = call.body
    threads = await _registered(call, body.metadata, body.ids)
    down, end = body.sort_order == "desc", body.offset + body.limit
    if body.sort_by in _OWN and body.status is None and not body.values:
        threads.sort(key=lambda thread: str(getattr(thread, body.sort_by)), reverse=down)
        return [await shown(call, thread) for thread in threads[body.offset : end]]
    found = await _matching(call, threads, body.values, body.status)
    found.sort(key=lambda thread: str(getattr(thread, body.sort_by)), reverse=down)
    return found[body.offset : end]


async def count(call: Call) -> int:
    """How many threads a search would find."""
    body: bodies.ThreadCount = call.body
    threads = await _registered(call, body.metadata, None)
    if body.status is None and not body.values:
        return len(threads)
    return len(await _matching(call, threads, body.values, body.status))


async def _registered(
    call: Call, metadata: Mapping[str, Any] | None, ids: list[str] | None
) -> list[Stored]:
    threads = await call.serving.threads.all({**(metadata or {}), **call.wanted})
    if ids is not None:
        wanted = set(ids)
        threads = [thread for thread in threads if thread.thread_id in wanted]
    access = call.serving.access
    if call.wanted or access.authorize is None:
        return threads
    # That one may search says nothing of a thread: each is asked for.
    return [one for one in threads if await access.allows(call.principal, "threads.read", one)]


async def _matching(
    call: Call,
    threads: list[Stored],
    values: Mapping[str, Any] | None,
    status: str | None,
) -> list[answers.Thread]:
    found = [await shown(call, thread) for thread in threads]
    if status is not None:
        found = [thread for thread in found if thread.status == status]
    if values:
        found = [t for t in found if isinstance(t.values, dict) and holds(t.values, values)]
    return found


ENDPOINTS = (
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
)
