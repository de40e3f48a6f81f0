"""Protocols of what the runtime needs from the outside world. No implementations.

A saver has four methods. Only the persistence actor calls `commit`, so a saver needs no lock;
queries also come one batch at a time, on a connection of their own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from actorgraph.errors import CheckpointError
from actorgraph.values.commits import CommitOutcome, Query, Request
from actorgraph.values.dispatch import Hint, News

CacheKey = tuple[tuple[str, ...], str]
"""A namespace and a key in it."""


@runtime_checkable
class Saver(Protocol):
    """Stores checkpoints durably.

    Attributes:
        durable: whether committed data survives the process.
        immediate: whether `commit` and `query` never wait, so that they need no actor.

    Optional members:
        keeps_runs: True if it also carries out the requests and queries of `values/systems.py`,
            and leases: runs of an ActorSystem over it then outlive the process.
        indexes_threads: True if it also carries out the requests and queries of
            `values/thread_rows.py`: threads are then found by an index. Default False.
        routes_runs: True if it stores the build, the priority and the time of a run; only then
            can they be given. Default False.
        delays_runs: True if it stores the time of a run, but neither builds nor priorities.
        keeps_alarms: True if it stores the alarm of a commit in its transaction, and carries out
            the request and the query of `values/alarms.py`. An alarm goes with its thread when
            that is deleted, moved or backed up; a copy of a thread has none. Only then can
            questions have times. Default False.
        hint_in_commit(make): calls `make` with the rows of each batch's new runs, and executes
            the statements that it returns in the batch's transaction; returns a function that
            ends that. A dispatcher whose hints are rows of the same database uses it.
        renew_beside(renewals): stores `RenewOwner` requests as `commit` does, blocking, from any
            thread and during a `commit`. Leases are then renewed however long saves take.
        store_clock: a `StoreClock` by which runs are due, if all processes should agree on it; the
            machine's clock otherwise.
        reads_at_once: how many calls of `query` may run at the same time; default 1.
        local_reads: True if `query` takes little time and waits for nothing but this machine's
            memory and files. Such a saver is read by blocking methods inside event loops too.
        watch: a `Watch` that sees each request and query first.
        commit_now, query_now: blocking twins of `commit` and `query`; required if `immediate`.
        commit_here: a `CommitHere`, with which a blocking call stores its save itself while no
            other commit is in progress; None if it can't.
    """

    durable: bool
    immediate: bool

    async def open(self) -> None:
        """Open in the current event loop, from which `commit` and `query` are called too.

        Raises: anything, after releasing every resource: `close` is not called then.
        """
        ...

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Store the batch in ONE transaction, in order; return once it is durable.

        Returns: one outcome per request, in order; a refused request leaves the others stored.
        Raises:
            StorageBusyError, StorageFullError: nothing is stored; the saver stays usable.
            SaverBrokenError: the outcome is unknown; nothing may be committed until it is
                reopened.
        """
        ...

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """Answer queries.

        Returns: one answer per query, in order: `Loaded` for LoadCheckpoint, a list of
            StoredCheckpoint for ListCheckpoints, a list of thread ids for ListThreads, an int
            for CountCheckpoints.
        """
        ...

    async def close(self) -> None:
        """Release everything; `commit` and `query` are not called again before `open`."""
        ...


CommitHere = Callable[[Sequence[Request], list[list[CommitOutcome]]], list[CommitOutcome]]
"""A blocking twin of `Saver.commit` that a caller's thread uses, never beside `commit`.

It gets only batches of `Commit`, and a list, to which it adds the outcomes at the very moment at
which they are durable. It doesn't wait for locks of other processes, but raises StorageBusyError;
the batch then goes to `commit`.
"""


class Watch(Protocol):
    """Sees requests and queries of a saver in the caller's context, before the saver does."""

    def handed_over(self, request: Request) -> CheckpointError | None:
        """Check a request before it is handed over. Must not block.

        Returns: the error with which it is refused; None to let it through.
        """
        ...

    def asked(self, query: Query) -> Query:
        """Check a query, and return the query to ask in its place, usually the same.

        Raises: an error that refuses it.
        """
        ...

    def answered(self, query: Query, answer: Any) -> Any:
        """Convert an answer to the one that the caller of the original query gets."""
        ...


class PlainSaver(Protocol):
    """A saver with LangGraph's methods, or with only their async twins.

    These are `aget_tuple`, `alist`, `aput` and `aput_writes`; see `savers/foreign`.
    """

    def get_tuple(self, config: Any) -> Any:
        """Get the addressed checkpoint, or the newest one; None if absent."""
        ...

    def list(self, config: Any, *, filter: Any, before: Any, limit: Any) -> Any:
        """List checkpoints, newest first."""
        ...

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint."""
        ...

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> Any:
        """Store pending writes of a task with a checkpoint."""
        ...


Checkpointer = Saver | PlainSaver | bool | None
"""For `compile(checkpointer=...)`: a saver; None or True: the parent graph's; False: no saver."""


@runtime_checkable
class Store(Protocol):
    """Keeps values across threads, by namespace and key. The runtime only hands it to nodes."""

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Carry out operations. Returns one result for each, in order."""
        ...

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """Async version of `batch`."""
        ...


@runtime_checkable
class Cache(Protocol):
    """Keeps results of nodes. It may lose any entry; an error that it raises counts as a miss."""

    async def aget(self, keys: Sequence[CacheKey]) -> Mapping[CacheKey, Any]:
        """Get the values of those keys that it has."""
        ...

    async def aset(self, pairs: Mapping[CacheKey, tuple[Any, int | None]]) -> None:
        """Keep values, each with its time to live in seconds; None for no limit."""
        ...

    async def aclear(self, namespaces: Sequence[tuple[str, ...]] | None = None) -> None:
        """Delete the entries of these namespaces; without namespaces, all entries."""
        ...


class DispatchLink(Protocol):
    """The link of one ActorSystem to the others; see `Dispatcher`.

    All methods are called in the system's event loop, asyncio's or trio's. `take` may be
    cancelled; hints that are lost by that come again.

    Messages of the engine that can't be read are dropped, so that they hold nothing up. A link
    that counts them does so in an attribute `unreadable`, which the system's figures have then. A
    link that knows that no news reach it says so in `is_deaf`: readers then look more often.
    """

    async def close(self) -> None:
        """Disconnect. No method is called after it."""
        ...

    async def announce(self, hints: Sequence[Hint]) -> None:
        """Send hints. A hint of a run that has one already may be left out.

        Raises:
            StorageError: they can't be sent.
        """
        ...

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Wait for hints of these queues, at least one and at most `limit`, each with a receipt.

        Raises:
            StorageError: the engine can't be reached.
        """
        ...

    async def settle(self, hints: Sequence[Hint]) -> None:
        """End hints that were taken: their runs were adopted, or need no worker.

        Raises:
            StorageError: the engine can't be reached; they come again.
        """
        ...

    async def release(self, hints: Sequence[Hint]) -> None:
        """Give back hints that were taken: they are delivered again, at once.

        Raises:
            StorageError: the engine can't be reached; they come later.
        """
        ...

    async def publish(self, news: News) -> None:
        """Send news to all systems that are connected now.

        Systems also send empty news, to see whether the engine is there.

        Raises:
            StorageError: they can't be sent.
        """
        ...


@runtime_checkable
class Dispatcher(Protocol):
    """Carries hints and news between the ActorSystems of many processes, over an engine.

    It decides nothing and may lose, repeat, delay and reorder all that it carries: the saver's
    rows decide which system gets a run, and systems look for forgotten runs themselves. But a hint
    that its taker doesn't settle must come again.

    Attributes:
        in_commit: whether hints of new runs are stored in the saver's transaction, so that
            `announce` is not called for them.
    """

    in_commit: bool

    async def open(self, saver: Any, heard: Callable[[News], None]) -> DispatchLink:
        """Link a system to the others.

        Args:
            saver: of the system, open.
            heard: to be called with the news that systems publish; from any thread.
        Raises:
            InvalidConfigError: the dispatcher can't be used with this saver.
            StorageError: the engine can't be reached; the system calls it again later.
        """
        ...


class Clock(Protocol):
    """Source of the time in ids and timestamps."""

    def ticks(self) -> int:
        """The current time: 100 ns intervals since 1582-10-15 UTC."""
        ...
