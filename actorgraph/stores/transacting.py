"""DatabaseStore: base class of stores in databases: batches in transactions, in threads."""

import time
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

import anyio.to_thread

from actorgraph.stores.engine import Batch, ItemTable, carry_out, changes
from actorgraph.stores.lanes import Batcher
from actorgraph.stores.ops import IndexConfig, Result, TTLConfig
from actorgraph.stores.store import BuiltinStore

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
