"""BuiltinStore: what the stores of this package share: batches, time to live, the sweeper."""

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
    """A number that may be awaited: a program written for LangGraph's async twin does so."""

    def __await__(self) -> Generator[Any, None, int]:
        return int(self)
        yield


class BuiltinStore(BaseStore):
    """A store whose batches the engine carries out.

    Args:
        index: how texts are embedded; None (default): `query=` of a search changes nothing.
        ttl: how long items live; default for ever.
        clock: seconds since 1970.
    Raises:
        InvalidStoreOperationError: the index can't be used.
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
        """What embeds texts, or None."""
        return None if self.embedder is None else self.embedder.embeddings

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations, all or none; one result for each, in order.

        In a running event loop this blocks it for as long as the storage takes.

        Raises:
            StoreError: an operation can't be carried out. StorageError: the storage failed.
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
        """Remove what has expired.

        Returns: how many items; the number may be awaited.
        """
        return Count(self._sweep(self._now()))

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Count:
        """Remove what has expired from time to time, in a thread; for one that isn't started yet.

        Args:
            sweep_interval_minutes: default the setting of `ttl`, and 5 minutes without one.
        """
        configured = (self.ttl_config or {}).get("sweep_interval_minutes")
        minutes = sweep_interval_minutes or configured or 5
        self._sweeper.start(self.sweep_ttl, interval_s=minutes * 60)
        return Count(0)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> Count:
        """End the thread of `start_ttl_sweeper`.

        Args:
            timeout: seconds to wait for it; default until it has ended.
        Returns: whether it has ended, 1 or 0.
        """
        return Count(self._sweeper.stop(timeout))

    def setup(self) -> Count:
        """Nothing to do: a store makes its tables when it is first used. It may be awaited."""
        return Count(0)

    def close(self) -> None:
        """Stop the sweeper and release everything; the store opens again when it is used."""
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
        """See `close`; what runs is waited for, even when cancelled."""
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
        """Remove what has expired; how many items."""

    def _release(self) -> None:
        """Release connections."""
