"""StreamedTurn: the pieces of a turn as an async iterator that may be left at any time.

A class and not an async generator: one that is left early ends when its event loop comes to it,
and until then the session would refuse its next turn.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, Self, TypeVar

from actorgraph.runtime.closing import Closing

T = TypeVar("T")
Turn = AbstractContextManager[dict[str, Any] | None]


class StreamedTurn(Closing, AsyncIterator[T], Generic[T]):
    """See `Session.astream`. Iterate it once; the turn begins with its first piece.

    Args:
        turn: gives the stored turn, if there is one, and frees the session when it is left.
        begin: makes the program's own iterator.
        keep: stores all pieces, when the last one is taken.
    """

    def __init__(
        self,
        turn: Turn,
        begin: Callable[[], AsyncIterator[T]],
        keep: Callable[[list[Any]], Awaitable[None]],
    ) -> None:
        self._turn = turn
        self._begin = begin
        self._keep = keep
        self._source: AsyncIterator[T] | None = None
        self._told: list[T] | None = None
        self._pieces: list[T] = []
        self._begun = self._ended = False

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> T:
        """The next piece.

        Raises:
            StopAsyncIteration: that was the last one; the turn is stored.
            ConflictError, SerializationError: see `Session.turn`.
        """
        if self._ended:
            raise StopAsyncIteration
        try:
            return await self._next()
        except BaseException as error:
            await self._leave(error)
            raise

    async def _next(self) -> T:
        if not self._begun:
            self._start()
        if self._told is not None:
            if self._told:
                return self._told.pop(0)
            raise StopAsyncIteration
        assert self._source is not None
        try:
            piece = await anext(self._source)
        except StopAsyncIteration:
            await self._close_source()
            await self._keep(self._pieces)
            raise
        self._pieces.append(piece)
        return piece

    def _start(self) -> None:
        told = self._turn.__enter__()
        self._begun = True
        if told is None:
            self._source = self._begin()
        else:
            self._told = list(told["result"])

    async def aclose(self) -> None:
        """Leave the turn, which is not stored, and close the program's generator."""
        await self._leave(None)

    async def _leave(self, error: BaseException | None) -> None:
        self._ended = True
        try:
            await self._close_source()
        finally:
            self._free(None if isinstance(error, StopAsyncIteration) else error)

    async def _close_source(self) -> None:
        # Here and now: left to the collector it would end in nobody's task.
        source, self._source = self._source, None
        if isinstance(source, AsyncGenerator):
            await source.aclose()

    def _free(self, error: BaseException | None) -> None:
        """Free the session for its next turn, once."""
        if self._begun:
            self._begun = False
            trace = None if error is None else error.__traceback__
            self._turn.__exit__(None if error is None else type(error), error, trace)

    def __del__(self) -> None:
        self._free(None)
