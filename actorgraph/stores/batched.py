"""AsyncBatchedBaseStore: a store whose single operations travel together."""

from typing import Any

import anyio.lowlevel

from actorgraph.errors import RunningLoopError
from actorgraph.stores.base import BaseStore
from actorgraph.stores.lanes import Batcher
from actorgraph.stores.ops import GetOp, Op, PutOp, Result


class AsyncBatchedBaseStore(BaseStore):
    """A store of one's own for which one `abatch` of many operations is cheaper than many.

    `aget`, `aput`, `asearch` and the others, called by tasks at the same moment, or while an
    `abatch` is on its way, go to `abatch` together. A read that several ask for is done once; of
    several puts of a key the last is. Override `batch` and `abatch`.

    Its blocking methods can't be called in the event loop that it was made in.
    """

    __slots__ = ("_lanes", "_loop")

    def __init__(self) -> None:
        self._loop = _loop()
        self._lanes: Batcher[Op, Result] = Batcher(self._together, gathers=True)

    def _one(self, op: Op) -> Result:
        if self._loop is not None and self._loop == _loop():
            raise RunningLoopError(
                f"Synchronous calls to {type(self).__name__} in the event loop it was made in",
                do="use the async methods: `await store.aget(...)`, not `store.get(...)`",
            )
        return super()._one(op)

    async def _aone(self, op: Op) -> Result:
        return await self._lanes.run(op)

    async def _together(self, ops: list[Op]) -> list[Result]:
        """The results of these operations, each carried out once."""
        once: dict[Any, Op] = {_identity(op, number): op for number, op in enumerate(ops)}
        results = dict(zip(once, await self.abatch(list(once.values())), strict=True))
        return [results[_identity(op, number)] for number, op in enumerate(ops)]


def _identity(op: Op, number: int) -> Any:
    """What makes two operations one."""
    if isinstance(op, GetOp):
        return GetOp, op
    if isinstance(op, PutOp):
        return PutOp, op.namespace, op.key
    return number


def _loop() -> object:
    try:
        return anyio.lowlevel.current_token()
    except RuntimeError:
        return None
