"""BuiltinStore and DatabaseStore: base classes of this library's stores.

Batches     are prepared and carried out as `batch` describes; those of async callers of a database
            together, in one transaction
Sweeper     removes expired items in a thread. Not in a task, because a store belongs to no event
            loop: it is used from several ones and from plain threads
"""

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import anyio.to_thread

from actorgraph.errors.excerpts import address_text
from actorgraph.loops import beside, in_thread
from actorgraph.storage.batching import Batcher
from actorgraph.storage.logged_problems import warn
from actorgraph.stores.base import BaseStore
from actorgraph.stores.batch import Batch, ItemTable, aembed, carry_out, changes, embed, prepare
from actorgraph.stores.embedding import Embedder
from actorgraph.stores.operations import (
    IndexConfig,
    Op,
    PutOp,
    Result,
    TTLConfig,
    check_interval,
    check_ttl_config,
)
from actorgraph.values.durations import checked_limit
from actorgraph.values.largeness import is_large


class Sweeper:
    """Calls a function at intervals, in at most one thread, until it is stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def running(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, sweep: Callable[[], object], *, interval_s: float) -> None:
        """Call `sweep` now and every `interval_s` seconds; does nothing if it is running."""
        with self._lock:
            if self.running:
                return
            self._stopped = stopped = threading.Event()

            def loop() -> None:
                while True:
                    try:
                        sweep()
                    except Exception as error:  # noqa: BLE001 - the next one may succeed
                        warn("store.sweep_failed", error=repr(error))
                    if stopped.wait(interval_s):
                        return

            self._thread = threading.Thread(target=loop, name="actorgraph-sweeper", daemon=True)
            self._thread.start()

    def stop(self, timeout_s: float | None) -> bool:
        """Stop the thread; return whether it has ended.

        Args:
            timeout_s: seconds to wait for its end; None without limit.
        """
        with self._lock:
            self._stopped.set()
            thread, self._thread = self._thread, None
        if thread is None:
            return True
        thread.join(timeout_s)
        return not thread.is_alive()


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
        check_ttl_config(ttl)
        self.ttl_config = ttl
        self._clock = clock
        self._sweeper = Sweeper()

    def __repr__(self) -> str:
        """Return the class and the place, without passwords."""
        place, source = getattr(self, "path", None), getattr(self, "_source", None)
        if isinstance(source, str):
            place = address_text(source)
        return f"<{type(self).__name__}{f' {place!r}' if place else ''}>"

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
        ops = list(ops)
        large = any(isinstance(op, PutOp) and is_large(op.value) for op in ops)
        # A large value is checked and encoded for longer than other tasks should have to wait.
        made = partial(prepare, ops, self.embedder)
        batch = await beside(made) if large else made()
        if self.embedder is not None:
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
        Raises:
            InvalidStoreOperationError: the interval is negative or not finite.
        """
        check_interval(sweep_interval_minutes)
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
        return Count(self._sweeper.stop(checked_limit("timeout", timeout)))

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


T = TypeVar("T")
ItemTableT = TypeVar("ItemTableT", bound="SweptItemTable")


class SweptItemTable(ItemTable, Protocol):
    """ItemTable that can be swept."""

    @abstractmethod
    def sweep(self, now: int) -> int:
        """Remove items that have expired by now; return how many."""


class DatabaseStore(BuiltinStore, Generic[ItemTableT]):
    """A store in a database. Waiting batches of async callers share one transaction."""

    __slots__ = ("_batcher",)

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(index=index, ttl=ttl, clock=clock)
        self._batcher = Batcher(partial(anyio.to_thread.run_sync, self._carry_out_all))

    @abstractmethod
    def _transact(self, work: Callable[[ItemTableT], T], *, writes: bool) -> T:
        """Call a function with the items of one transaction; return its result."""

    def _carry_out(self, batch: Batch) -> list[Result]:
        return self._carry_out_all([batch])[0]

    async def _acarry_out(self, batch: Batch) -> list[Result]:
        return await self._batcher.run(batch)

    def _carry_out_all(self, batches: list[Batch]) -> list[list[Result]]:
        """Carry out batches in one transaction, one after the other."""

        def work(items: ItemTableT) -> list[list[Result]]:
            now = self._now()
            return [carry_out(items, batch, now, self.ttl_config) for batch in batches]

        return self._transact(work, writes=any(map(changes, batches)))

    def _sweep(self, now: int) -> int:
        return self._transact(lambda items: items.sweep(now), writes=True)
