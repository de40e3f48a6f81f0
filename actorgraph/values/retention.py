"""Requests about what a thread keeps: copies of threads, and removals.

They come from outside runs, and are judged and stored by every saver like commits: each is all or
nothing. What they remove takes along the rows that no other checkpoint names.
"""

import msgspec


class DeleteThread(msgspec.Struct, frozen=True, gc=False):
    """Remove everything of a thread and raise its epoch, so that no late commit brings it back."""

    thread_id: str
    size: int = 0


class CopyThread(msgspec.Struct, frozen=True, gc=False):
    """Copy every row of `source` to a thread that has none; a source without rows is a no-op."""

    thread_id: str
    source: str
    size: int = 0


class DeleteCheckpoints(msgspec.Struct, frozen=True):
    """Remove checkpoints of one namespace by their ids; those that it doesn't have are ignored."""

    thread_id: str
    namespace: str
    ids: frozenset[bytes]
    size: int = 0


class DeleteRuns(msgspec.Struct, frozen=True):
    """Remove what some runs stored, in every namespace, and stop those that are going on.

    Attributes:
        runs: run ids as text; a checkpoint names its run itself or as `run_id` in its metadata.
    """

    thread_id: str
    runs: frozenset[str]
    size: int = 0


class KeepLatest(msgspec.Struct, frozen=True, gc=False):
    """Keep each namespace's newest checkpoint, except of calls that belong to finished tasks."""

    thread_id: str
    size: int = 0


class KeepLast(msgspec.Struct, frozen=True, gc=False):
    """Keep the newest `count` checkpoints of each namespace and all their ancestors."""

    thread_id: str
    count: int
    size: int = 0


Removal = DeleteCheckpoints | DeleteRuns | KeepLatest | KeepLast


class ListThreads(msgspec.Struct, frozen=True):
    """Read the ids of the threads that have checkpoints, in order.

    Attributes:
        runs: only threads in which one of these runs stored something, or is going on.
    """

    runs: frozenset[str] | None = None
