"""AsyncBatchedBaseStore: a store whose single operations are carried out in batches."""

from typing import Any

import anyio.lowlevel

from actorgraph.errors import RunningLoopError
from actorgraph.stores.base import BaseStore
from actorgraph.stores.lanes import Batcher
from actorgraph.stores.ops import GetOp, Op, PutOp, Result


class AsyncBatchedBaseStore(BaseStore):
    """Base class of stores for which one `abatch` of many operations is cheaper than many calls.

    `aget`, `aput`, `asearch` and the others, called by tasks at the same moment or while an
    `abatch` is running, go to `abatch` together. Equal reads are done once; of several puts of a
    key only the last one. Override `batch` and `abatch`.

    The blocking methods can't be called in the event loop in which the store was created.
    """

    __slots__ = ("_batcher", "_loop")

    def __init__(self) -> None:
        self._loop = _current_loop()
        self._batcher: Batcher[Op, Result] = Batcher(self._carry_out_once, gathers=True)

    def _one(self, op: Op) -> Result:
        if self._loop is not None and self._loop == _current_loop():
            raise RunningLoopError(
                f"Synchronous calls to {type(self).__name__} in the event loop it was made in",
                do="use the async methods: `await store.aget(...)`, not `store.get(...)`",
            )
        return super()._one(op)

    async def _aone(self, op: Op) -> Result:
        return await self._batcher.run(op)

    async def _carry_out_once(self, ops: list[Op]) -> list[Result]:
        """Carry out operations, equal ones once; return the result of each, in order."""
        once: dict[Any, Op] = {_identity(op, number): op for number, op in enumerate(ops)}
        results = dict(zip(once, await self.abatch(list(once.values())), strict=True))
        return [results[_identity(op, number)] for number, op in enumerate(ops)]


def _identity(op: Op, number: int) -> Any:
    """Return a key that is equal for operations that need to be carried out only once."""
    if isinstance(op, GetOp):
        return GetOp, op
    if isinstance(op, PutOp):
        return PutOp, op.namespace, op.key
    return number


def _current_loop() -> object:
    try:
        return anyio.lowlevel.current_token()
    except RuntimeError:
        return None
