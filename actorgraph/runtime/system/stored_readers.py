"""StoredReader: a reader of a run that goes on in another process, or has ended.

It reads what the store has, a page at a time. When its own system takes the run up, because the
other process has died, it goes on with what happens here; when its system drains, it says so.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, Self

import anyio
import msgspec

from actorgraph.runtime.closing import Closing
from actorgraph.runtime.system.readers import gap
from actorgraph.values.systems import RunEvent

POLL_S = 0.2
LAST_LOOKS = 10
"""So often it looks for the end of a run that has ended and stores events: they come behind it."""


class Live(Protocol):
    """A reader of a run that goes on here."""

    def __aiter__(self) -> AsyncIterator[RunEvent]:
        """Itself."""
        ...

    async def __anext__(self) -> RunEvent:
        """The next event."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class Elsewhere(msgspec.Struct, frozen=True):
    """What a reader asks about a run that is not here.

    Attributes:
        page: reads events behind an offset.
        is_over: whether the run writes no more.
        is_alive: whether the process that had it lives.
        left: how it has left, `{"status": ..., "reason": ...}`; asked when it is over.
        values: reads the thread's state, for gaps.
        live: a reader behind an offset, once the run is here; None until then.
        draining: why this system drains; None if it doesn't.
    """

    page: Callable[[int], Awaitable[list[RunEvent]]]
    is_over: Callable[[], Awaitable[bool]]
    is_alive: Callable[[], bool]
    left: Callable[[], dict[str, Any]]
    values: Callable[[], Awaitable[Any]]
    live: Callable[[int], Live | None]
    draining: Callable[[], str | None]


class StoredReader(Closing, AsyncIterator[RunEvent]):
    """The events of a run that is not here. See the module's text.

    Args:
        after: the offset of the last event that the reader has.
    """

    def __init__(self, elsewhere: Elsewhere, after: int) -> None:
        self.offset = after
        self._elsewhere = elsewhere
        self._events: deque[RunEvent] = deque()
        self._live: Live | None = None
        self._ended = False
        self._looks_left = LAST_LOOKS

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> RunEvent:
        """The next event.

        Raises:
            StopAsyncIteration: there are no more.
            SlowReaderError: as for a run that goes on here, once it does.
        """
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            if self._live is None:
                self._live = self._elsewhere.live(self.offset)
            if self._live is not None:
                event = await anext(self._live)
                self.offset = event.offset
                return event
            await self._look()
        event = self._events.popleft()
        self.offset = event.offset
        self._ended = self._ended or event.ends
        return event

    async def _look(self) -> None:
        """Take what the store has; where it has nothing, wait a moment or tell the end."""
        elsewhere = self._elsewhere
        over = await elsewhere.is_over()  # before the page: what comes after it is no more
        await self._turn_page()
        if self._events:
            return
        if over:
            await self._look_for_the_end()
        elif (reason := elsewhere.draining()) is not None:
            self._events.append(RunEvent(self.offset, "drain", {"reason": reason}))
            self._ended = True
        else:
            await anyio.sleep(POLL_S)

    async def _turn_page(self) -> None:
        page = await self._elsewhere.page(self.offset)
        if page and page[0].offset > self.offset + 1:
            self._events.extend(gap(self.offset, page[0].offset, await self._elsewhere.values()))
        self._events.extend(page)

    async def _look_for_the_end(self) -> None:
        """Nothing is stored behind what the reader has, of a run that has ended."""
        page = await self._elsewhere.page(self.offset - 1) if self.offset else []
        if page and page[0].offset == self.offset and page[0].ends:
            self._ended = True
        elif page and self._looks_left and self._elsewhere.is_alive():
            self._looks_left -= 1
            await anyio.sleep(POLL_S)
        else:
            self._events.extend(await self._unstored_end())

    async def _unstored_end(self) -> list[RunEvent]:
        """What becomes of a run that has ended and didn't store so: a gap, its state, its end."""
        left, following = self._elsewhere.left(), self.offset + 2
        events = gap(self.offset, following, await self._elsewhere.values())
        if left["status"] == "error":
            kind, _, message = left["reason"].partition(": ")
            events.append(RunEvent(following - 1, "error", {"error": kind, "message": message}))
        return [*events, RunEvent(following, "end", left)]

    def close(self) -> None:
        """Stop reading."""
        self._ended = True
        self._events.clear()
        if self._live is not None:
            self._live.close()

    async def aclose(self) -> None:
        """See `close`."""
        self.close()
