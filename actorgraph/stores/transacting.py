"""DatabaseStore: what the stores of a database share: batches in transactions, in threads."""

import time
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

import anyio.to_thread

from actorgraph.stores.engine import Batch, Items, carry_out, changes
from actorgraph.stores.lanes import Batcher
from actorgraph.stores.ops import IndexConfig, Result, TTLConfig
from actorgraph.stores.store import BuiltinStore

T = TypeVar("T")
ItemsT = TypeVar("ItemsT", bound="SweptItems")


class SweptItems(Items, Protocol):
    """A home that finds what has expired."""

    @abstractmethod
    def sweep(self, now: int) -> int:
        """Remove what has expired by now; how many items."""


class DatabaseStore(BuiltinStore, Generic[ItemsT]):
    """A store whose home is there for one transaction. What async callers ask travels together."""

    __slots__ = ("_lanes",)

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(index=index, ttl=ttl, clock=clock)
        self._lanes = Batcher(partial(anyio.to_thread.run_sync, self._carry_out_all))

    @abstractmethod
    def _transact(self, work: Callable[[ItemsT], T], *, writes: bool) -> T:
        """The function's result, in one transaction."""

    def _carry_out(self, batch: Batch) -> list[Result]:
        return self._carry_out_all([batch])[0]

    async def _acarry_out(self, batch: Batch) -> list[Result]:
        return await self._lanes.run(batch)

    def _carry_out_all(self, batches: list[Batch]) -> list[list[Result]]:
        """Batches in one transaction, one after the other."""

        def work(home: ItemsT) -> list[list[Result]]:
            now = self._now()
            return [carry_out(home, batch, now, self.ttl_config) for batch in batches]

        return self._transact(work, writes=any(map(changes, batches)))

    def _sweep(self, now: int) -> int:
        return self._transact(lambda home: home.sweep(now), writes=True)
