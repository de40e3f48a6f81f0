"""Copies and removals of threads, by the saver's own methods; other requests are refused."""

from typing import Any

from actorgraph.errors import NotSupportedError
from actorgraph.savers.foreign.methods import SaverMethods
from actorgraph.savers.foreign.reading import address_of
from actorgraph.savers.judge import refused_copy
from actorgraph.values.commits import Commit, CommitOutcome, Committed, Refused, Request
from actorgraph.values.ids import created_of
from actorgraph.values.retention import (
    CopyThread,
    DeleteRuns,
    DeleteThread,
    KeepLatest,
    ListThreads,
)


async def apply_retention(calls: SaverMethods, request: Request) -> CommitOutcome:
    """Carry out a request that copies or removes, by the saver's own method for it.

    Raises:
        NotSupportedError: LangGraph's interface has no method for it.
        StorageError: the saver's method failed.
    """
    assert not isinstance(request, Commit)
    if isinstance(request, DeleteThread):
        await calls.call("delete_thread", request.thread_id)
    elif isinstance(request, DeleteRuns):
        await calls.call("delete_for_runs", sorted(request.runs))
    elif isinstance(request, KeepLatest):
        await calls.call("prune", [request.thread_id], strategy="keep_latest")
    elif isinstance(request, CopyThread):
        place = {"configurable": {"thread_id": request.thread_id}}
        if await calls.listed(lambda _: True, 1, config=place):
            return Refused(refused_copy(request))
        await calls.call("copy_thread", request.source, request.thread_id)
    else:
        raise NotSupportedError(
            f"{type(calls.saver).__name__} doesn't support this: LangGraph's interface has no "
            f"method for {type(request).__name__}",
            do="move its threads to one of actorgraph's savers; see docs/migrating.md",
        )
    return Committed()


async def threads_with(calls: SaverMethods, query: ListThreads) -> list[str]:
    """Return the sorted ids of the threads that a query asks for; reads every checkpoint."""
    thread_ids: set[str] = set()

    def note(item: Any) -> bool:
        thread_id, _, checkpoint = address_of(item)
        run = (item.metadata or {}).get("run_id")
        wanted = query.runs is None or str(run) in query.runs
        old = query.older is None or created_of(checkpoint) < query.older
        if wanted and old:
            thread_ids.add(thread_id)
        return False

    await calls.listed(note, None, config=None)
    return sorted(thread_ids)
