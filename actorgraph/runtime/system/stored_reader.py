"""StoredReader: reads the events of a run that is in another process, or has ended.

It reads the stored events, a page at a time. When this system takes the run up, because the other
process has died, it continues with the journal. When this system drains, it ends with "drain".
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, Self

import anyio
import msgspec

from actorgraph.rules.system.gaps import MADE_END
from actorgraph.rules.system.scheduling import RunPlace
from actorgraph.runtime.broadcast import Closing
from actorgraph.runtime.system.journal import BATCH_EVENTS, gap
from actorgraph.runtime.system.lent_slots import slot_lent
from actorgraph.values.systems import EventPage, RunEvent

POLL_S = 0.2
LAST_LOOKS = 10
"""Polls for the "end" event of a run whose row says that it has ended: the row is stored first."""


class LiveReader(Protocol):
    """A reader of a run that is in this process."""

    async def batch(self, most: int) -> list[RunEvent]:
        """Wait for events, and take those that are there; [] at the end."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class RemoteRun(msgspec.Struct, frozen=True):
    """Functions for a reader of a run that is not in this process.

    Attributes:
        page: reads stored events after an offset.
        is_over: whether the run writes no more.
        is_alive: whether the process that had it is alive.
        left: its outcome, `{"status": ..., "reason": ...}`; called when it is over.
        values: reads the thread's state, for gaps.
        live: makes a reader after an offset, if the run is in this process; else None.
        draining: why this system drains; None if it doesn't.
        pause: waits before the next look: for news of the run, or a while.
        place: the run, and its thread.
    """

    page: Callable[[int], Awaitable[EventPage[RunEvent]]]
    is_over: Callable[[], Awaitable[bool]]
    is_alive: Callable[[], bool]
    left: Callable[[], dict[str, Any]]
    values: Callable[[], Awaitable[Any]]
    live: Callable[[int], LiveReader | None]
    draining: Callable[[], str | None]
    pause: Callable[[], Awaitable[None]]
    place: RunPlace | None = None


class StoredReader(Closing, AsyncIterator[RunEvent]):
    """The events of a run that is not in this process; see the module's docstring.

    Args:
        elsewhere: functions to read of the run.
        after: offset of the last event that the reader has.
    """

    def __init__(self, elsewhere: RemoteRun, after: int) -> None:
        self.offset = after
        self._elsewhere = elsewhere
        self._events: deque[RunEvent] = deque()
        self._live: LiveReader | None = None
        self._ended = False
        self._is_behind = True
        self._looks_left = LAST_LOOKS

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        """Wait for the next event.

        Raises:
            StopAsyncIteration: after the last event.
            SlowReaderError: as `EventReader`, once the run is in this process.
        """
        events = await self.batch(1)
        if not events:
            raise StopAsyncIteration
        return events[0]

    async def batch(self, most: int = BATCH_EVENTS) -> list[RunEvent]:
        """Wait for the next event, and take those with it that are there already, in order.

        Args:
            most: events to take at most.
        Returns: at least one event; none after the last one.
        Raises:
            SlowReaderError: as `__anext__`.
        """
        while not self._events:
            if self._ended:
                return []
            if self._live is None:
                self._live = self._elsewhere.live(self.offset)
            if self._live is not None:
                return self._taken(await self._live.batch(most))
            await self._look()
        return self._taken([self._events.popleft() for _ in range(min(most, len(self._events)))])

    def _taken(self, events: list[RunEvent]) -> list[RunEvent]:
        if events:
            self.offset = events[-1].offset
            self._ended = self._ended or (self._live is None and events[-1].ends)
        return events

    async def _look(self) -> None:
        """Read a page; if it is empty, wait, or add the end of a run that is over.

        After a page that was not full it waits for news at once: a thousand readers that look a
        second time would be a thousand reads more.
        """
        elsewhere = self._elsewhere
        if not self._is_behind and elsewhere.draining() is None:
            self._is_behind = True
            with slot_lent(elsewhere.place, for_events=True):
                await elsewhere.pause()
        await self._turn_page()
        if self._events:
            return
        if await elsewhere.is_over():
            # Read again, because the last events may have been stored in between.
            await self._turn_page()
            if not self._events:
                await self._look_for_the_end()
        elif (reason := elsewhere.draining()) is not None:
            self._events.append(RunEvent(self.offset, "drain", {"reason": reason}))
            self._ended = True
        else:
            self._is_behind = False

    async def _turn_page(self) -> None:
        page = await self._elsewhere.page(self.offset)
        if page and page[0].offset > self.offset + 1:
            self._events.extend(gap(self.offset, page[0].offset, await self._elsewhere.values()))
        if page and page[-1].ends:
            await self._elsewhere.is_over()  # the handle's status is then the final one
        self._is_behind = page.is_full
        self._events.extend(page)

    async def _look_for_the_end(self) -> None:
        """Find or make the end of a run that is over and has no events after the reader's."""
        if self.offset >= MADE_END:
            self._ended = True
            return
        page = await self._elsewhere.page(self.offset - 1) if self.offset else []
        if page and page[0].offset == self.offset and page[0].ends:
            self._ended = True
        elif page and self._looks_left and self._elsewhere.is_alive():
            self._looks_left -= 1
            await anyio.sleep(POLL_S)
        else:
            self._events.extend(await self._unstored_end())

    async def _unstored_end(self) -> list[RunEvent]:
        """The end of a run that has ended without storing it: a gap, the state, the end.

        Its offset is above those of all events: a reader that comes back with it has the end.
        """
        left, following = self._elsewhere.left(), MADE_END
        # How many events it didn't store is unknown.
        events = gap(self.offset, None, await self._elsewhere.values(), state_at=following - 1)
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
