"""BuiltinStore: base class of this library's stores: batches, time to live, the sweeper."""

import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Any, Self

from actorgraph.loops import in_thread
from actorgraph.stores.base import BaseStore
from actorgraph.stores.embedding import Embedder
from actorgraph.stores.engine import Batch, aembed, embed, prepare
from actorgraph.stores.ops import IndexConfig, Op, Result, TTLConfig
from actorgraph.stores.sweeper import Sweeper


class Count(int):
    """An integer that can be awaited, as programs for LangGraph's async stores do."""

    def __await__(self) -> Generator[Any, None, int]:
        return int(self)
        yield


class BuiltinStore(BaseStore):
    """Base class of this library's stores.

    Args:
        index: how texts are embedded; None (default): searches ignore `query`.
        ttl: how long items live; default for ever.
        clock: returns seconds since 1970.
    Raises:
        InvalidStoreOperationError: the index is invalid.
    """

    supports_ttl = True
    __slots__ = ("_clock", "_sweeper", "embedder", "index_config", "ttl_config")

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.index_config = index
        self.embedder = None if index is None else Embedder(index)
        self.ttl_config = ttl
        self._clock = clock
        self._sweeper = Sweeper()

    @property
    def embeddings(self) -> Any:
        """The object that embeds texts; None without an index."""
        return None if self.embedder is None else self.embedder.embeddings

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations, all or none; return one result for each, in order.

        Called in an event loop, it blocks the loop until the storage has answered.

        Raises:
            StoreError: an operation is invalid.
            StorageError: the storage failed.
        """
        batch = prepare(ops, self.embedder)
        embed(batch, self.embedder)
        return self._carry_out(batch)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` without blocking the event loop."""
        batch = prepare(ops, self.embedder)
        await aembed(batch, self.embedder)
        return await self._acarry_out(batch)

    def sweep_ttl(self) -> Count:
        """Remove expired items.

        Returns: how many; the number can be awaited.
        """
        return Count(self._sweep(self._now()))

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Count:
        """Start a thread that removes expired items; does nothing if it is running.

        Args:
            sweep_interval_minutes: default the setting of `ttl`, and 5 minutes without one.
        """
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        minutes = sweep_interval_minutes or configured or 5
        self._sweeper.start(self.sweep_ttl, interval_s=minutes * 60)
        return Count(0)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> Count:
        """Stop the thread of `start_ttl_sweeper`.

        Args:
            timeout: seconds to wait for its end; default without limit.
        Returns: 1 if it has ended, else 0.
        """
        return Count(self._sweeper.stop(timeout))

    def setup(self) -> Count:
        """Do nothing: a store creates its tables when it is first used. Can be awaited."""
        return Count(0)

    def close(self) -> None:
        """Stop the sweeper and close connections; the store opens again when it is used."""
        self._sweeper.stop(None)
        self._release()

    def __enter__(self) -> Self:
        """Start the sweeper, if `ttl` has an interval."""
        if (self.ttl_config or {}).get("sweep_interval_minutes"):
            self.start_ttl_sweeper()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """See `close`."""
        self.close()

    async def __aenter__(self) -> Self:
        """Start the sweeper, if `ttl` has an interval."""
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """See `close`; waits for operations in progress, even when cancelled."""
        await in_thread(self.close)

    def _now(self) -> int:
        return int(self._clock() * 1_000_000)

    @abstractmethod
    def _carry_out(self, batch: Batch) -> list[Result]:
        """Carry out a batch in one transaction; called from any thread."""

    @abstractmethod
    async def _acarry_out(self, batch: Batch) -> list[Result]:
        """`_carry_out` without blocking the event loop."""

    @abstractmethod
    def _sweep(self, now: int) -> int:
        """Remove expired items; return how many."""

    def _release(self) -> None:
        """Close connections."""
