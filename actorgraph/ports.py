"""Protocols of what the runtime uses: savers, stores, caches, a clock. No implementations.

A saver has four methods. Only the persistence actor calls `commit`, so a saver needs no lock;
queries also come one batch at a time, on a connection of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from actorgraph.errors import CheckpointError
from actorgraph.values.commits import Outcome, Query, Request

CacheKey = tuple[tuple[str, ...], str]
"""A namespace and a key in it."""


@runtime_checkable
class Saver(Protocol):
    """Stores checkpoints.

    A saver with the attribute `keeps_runs = True` also handles the requests and queries of
    `values/systems.py`, including leases: runs of an ActorSystem over it survive the process. A
    saver may have a method `renew_beside`, which stores `RenewOwner` as `commit` does, but
    blocking, from any thread and while a `commit` is active: then leases are renewed even if a
    save or the event loop is blocked.

    Attributes:
        durable: whether what is committed survives the process.
        immediate: whether `commit` and `query` never wait, so that they need no task.
    """

    durable: bool
    immediate: bool

    async def open(self) -> None:
        """Open the saver in the current event loop, which also calls `commit` and `query`.

        Raises:
            Exception: it can't be opened. It must have released everything: `close` is not called.
        """
        ...

    async def commit(self, batch: Sequence[Request]) -> list[Outcome]:
        """Store the batch in ONE transaction, in order; return once it is durable.

        Returns: one outcome per request; a refused request leaves the others stored.
        Raises:
            StorageBusyError, StorageFullError: nothing is stored, the saver stays usable.
            SaverBrokenError: the outcome is unknown; it must be reopened before the next commit.
        """
        ...

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """Answer queries.

        A saver with an attribute `reads_at_once` gets up to that many calls concurrently.

        Returns: `Loaded` for LoadCheckpoint, a list of StoredCheckpoint for ListCheckpoints,
            a list of thread ids for ListThreads, a number for CountCheckpoints.
        """
        ...

    async def close(self) -> None:
        """Release everything; `commit` and `query` are not called again before `open`."""
        ...


class Watch(Protocol):
    """Inspects a saver's requests and queries before the saver does, in the caller's context.

    A saver that has one in its attribute `watch` is used through it.
    """

    def handed_over(self, request: Request) -> CheckpointError | None:
        """Inspect a request; return an error to refuse it. Must not block."""
        ...

    def asked(self, query: Query) -> Query:
        """Return the query to run, usually the same; raise an error to refuse it."""
        ...

    def answered(self, query: Query, answer: Any) -> Any:
        """Return the answer that the caller gets for its query."""
        ...


class PlainSaver(Protocol):
    """A saver with LangGraph's methods, or with their async versions alone.

    These are `aget_tuple`, `alist`, `aput` and `aput_writes`; see `savers/foreign`.
    """

    def get_tuple(self, config: Any) -> Any:
        """Return the addressed checkpoint, or the newest one; None without one."""
        ...

    def list(self, config: Any, *, filter: Any, before: Any, limit: Any) -> Any:
        """List checkpoints, newest first."""
        ...

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint."""
        ...

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> Any:
        """Store pending writes of a task of a checkpoint."""
        ...


Checkpointer = Saver | PlainSaver | bool | None
"""The argument of `compile(checkpointer=...)`: a saver, or how to use the parent's; see there."""


@runtime_checkable
class Store(Protocol):
    """Long-term memory across threads: values by namespace and key.

    The runtime only passes it to nodes.
    """

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Execute operations; return one result for each, in order."""
        ...

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Async version of `batch`."""
        ...


@runtime_checkable
class Cache(Protocol):
    """Caches results of nodes. It may lose entries; an error counts as a miss."""

    async def aget(self, keys: Sequence[CacheKey]) -> Mapping[CacheKey, Any]:
        """Return the cached values of these keys; missing ones are left out."""
        ...

    async def aset(self, pairs: Mapping[CacheKey, tuple[Any, int | None]]) -> None:
        """Cache values, each with its seconds to live or None."""
        ...

    async def aclear(self, namespaces: Sequence[tuple[str, ...]] | None = None) -> None:
        """Remove the entries of these namespaces; by default all entries."""
        ...


class Clock(Protocol):
    """The source of time in ids and timestamps."""

    def ticks(self) -> int:
        """Return 100 ns intervals since 1582-10-15 UTC."""
        ...
