"""Session: the turns of a program, each stored when it ends, each executed once.

A program that is started again runs the same turns in the same order: stored ones return their
stored results and are not called; the first one that isn't stored continues from there. A turn
is the unit: what one did before it failed, it does again.

`StreamedTurn` is the stream of a turn's pieces. It is a class and not an async generator: a
generator that is left early is closed only when its event loop gets to it, and until then the
session would refuse its next turn.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, Self, TypeVar

from actorgraph.runtime.closing import Closing

T = TypeVar("T")
Turn = AbstractContextManager[dict[str, Any] | None]


class StreamedTurn(Closing, AsyncIterator[T], Generic[T]):
    """See `Session.astream`. Iterate it once; the turn starts with its first piece.

    Args:
        turn: enters the turn: yields its stored metadata, if any, and frees the session on exit.
        begin: makes the program's iterator.
        keep: stores all pieces, after the last one.
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
        self._replayed: list[T] | None = None
        self._pieces: list[T] = []
        self._begun = self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Return the next piece.

        Raises:
            StopAsyncIteration: there are no more; the turn is stored.
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
        if self._replayed is not None:
            if self._replayed:
                return self._replayed.pop(0)
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
        stored = self._turn.__enter__()
        self._begun = True
        if stored is None:
            self._source = self._begin()
        else:
            self._replayed = list(stored["result"])

    async def aclose(self) -> None:
        """Leave the turn, which is then not stored, and close the program's generator."""
        await self._leave(None)

    async def _leave(self, error: BaseException | None) -> None:
        self._ended = True
        try:
            await self._close_source()
        finally:
            self._free(None if isinstance(error, StopAsyncIteration) else error)

    async def _close_source(self) -> None:
        # Closed here, in the task that iterates: the garbage collector would close it in another
        # task, where its cancel scopes don't work.
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
