"""What the runtime needs from the outside world, as protocols. No implementations.

A saver is four methods. The persistence actor is the only one that calls `commit`, so a saver
needs no lock; queries come one batch at a time too, on their own connection.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from actorgraph.errors import CheckpointError
from actorgraph.values.commits import CommitOutcome, Query, Request

CacheKey = tuple[tuple[str, ...], str]
"""A namespace and a key in it."""


@runtime_checkable
class Saver(Protocol):
    """A durable home of checkpoints.

    Attributes:
        durable: whether what is committed survives the process.
        immediate: whether `commit` and `query` never wait, so that they need no task.

    A saver with the attribute `keeps_runs = True` also carries out the requests and queries of
    `values/systems.py`, and leases: an ActorSystem over it has runs that outlive the process.
    One with a method `renew_beside`, which stores `RenewOwner` as `commit` does, blocking, from any
    thread and while `commit` goes on, renews leases whatever its saves and their event loop do.
    """

    durable: bool
    immediate: bool

    async def open(self) -> None:
        """Get ready in the current event loop; `commit` and `query` come from there too.

        Raises: anything, with all released that it had: `close` is not called then.
        """
        ...

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Store the batch in ONE transaction, in order; return once it is durable.

        Returns: one outcome per request; a refused request leaves the others stored.
        Raises:
            StorageBusyError, StorageFullError: nothing is stored, the saver stays usable.
            SaverBrokenError: the outcome is unknown; nothing may be committed until reopened.
        """
        ...

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """Answer reads.

        A saver with an attribute `reads_at_once` is called so many times before it has answered.

        Returns: `Loaded` for LoadCheckpoint, a list of StoredCheckpoint for ListCheckpoints,
            a list of thread ids for ListThreads, a number for CountCheckpoints.
        """
        ...

    async def close(self) -> None:
        """Release everything; commit and query are not called again before `open`."""
        ...


class Watch(Protocol):
    """Sees what is asked of a saver, in the caller's context, before the saver does.

    A saver that has one in its attribute `watch` is asked through it.
    """

    def handed_over(self, request: Request) -> CheckpointError | None:
        """A request is about to be handed over; an error refuses it. Must not block."""
        ...

    def asked(self, query: Query) -> Query:
        """The query to ask instead; most often the same. Raises what refuses it."""
        ...

    def answered(self, query: Query, answer: Any) -> Any:
        """The answer to show for the query that was first asked."""
        ...


class PlainSaver(Protocol):
    """A saver with LangGraph's methods, or with their async twins alone.

    The twins are `aget_tuple`, `alist`, `aput` and `aput_writes`; see `savers/foreign`.
    """

    def get_tuple(self, config: Any) -> Any:
        """The addressed checkpoint, or the newest one; None if there is none."""
        ...

    def list(self, config: Any, *, filter: Any, before: Any, limit: Any) -> Any:
        """Checkpoints, newest first."""
        ...

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint."""
        ...

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> Any:
        """Store writes of a task beside a checkpoint."""
        ...


Checkpointer = Saver | PlainSaver | bool | None
"""What `compile(checkpointer=...)` takes: a saver, or whose saver to use; see there."""


@runtime_checkable
class Store(Protocol):
    """A home of what outlives threads: what nodes keep and look up by namespace and key.

    The runtime only hands it to nodes.
    """

    def batch(self, ops: Iterable[Any]) -> list[Any]:
        """Carry out operations; one result for each, in order."""
        ...

    async def abatch(self, ops: Iterable[Any]) -> list[Any]:
        """`batch` without blocking the event loop."""
        ...


@runtime_checkable
class Cache(Protocol):
    """Where results of nodes are kept. It may lose anything; what it raises counts as a miss."""

    async def aget(self, keys: Sequence[CacheKey]) -> Mapping[CacheKey, Any]:
        """The values that it has."""
        ...

    async def aset(self, pairs: Mapping[CacheKey, tuple[Any, int | None]]) -> None:
        """Keep values, each with its seconds to live or None."""
        ...

    async def aclear(self, namespaces: Sequence[tuple[str, ...]] | None = None) -> None:
        """Forget what stands in these namespaces; without any, everything."""
        ...


class Clock(Protocol):
    """Where the time in ids and timestamps comes from."""

    def ticks(self) -> int:
        """100 ns intervals since 1582-10-15 UTC."""
        ...
