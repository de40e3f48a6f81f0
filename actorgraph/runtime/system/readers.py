"""EventReader: reads the events of a run that is in this process, at its own pace."""

from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Self

from actorgraph.errors import SlowReaderError
from actorgraph.runtime.closing import Closing
from actorgraph.runtime.system.journal import Hold, Journal
from actorgraph.values.streams import WhenFull
from actorgraph.values.systems import RunEvent


class EventReader(Closing, AsyncIterator[RunEvent]):
    """The events of one run after an offset, in order. Iterate it once; `async with` closes it.

    Ends after the event "end", or "drain" if the system closes before the run has ended.

    Args:
        after: offset of the last event that the reader has.
        buffer: number of events that it may be behind.
        when_full: what happens then. "block" makes the run wait, as long as the reader exists;
            "drop_oldest" continues with the events in the ring and the store, after a "gap"
            event if some are missing; "close" ends the reader with `SlowReaderError`.
    """

    def __init__(
        self, journal: Journal, after: int, *, buffer: int, when_full: WhenFull = "drop_oldest"
    ) -> None:
        self._place = Hold(after, buffer)
        self._journal = journal
        self._buffer = buffer
        self._when_full: WhenFull = when_full
        self._pages: deque[RunEvent] = deque()
        self._left = False
        # The offset is of an earlier attempt of a run whose events aren't stored.
        if after > journal.last:
            self.offset = journal.first - 1
            self._pages.extend(gap(self.offset, self.offset + 1, journal.values))
        self._hold()

    @property
    def offset(self) -> int:
        """Offset of the last event that the reader has."""
        return self._place.offset

    @offset.setter
    def offset(self, offset: int) -> None:
        self._place.offset = offset

    @property
    def _behind(self) -> int:
        return self._journal.visible - self.offset

    def _hold(self) -> None:
        if self._when_full == "block":
            self._journal.hold(self._place)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        """Wait for the next event.

        Raises:
            StopAsyncIteration: there are no more.
            SlowReaderError: it is too far behind, and `when_full` is "close".
        """
        if self._left:
            raise StopAsyncIteration
        self._hold()
        try:
            event = await self._next()
        except BaseException:
            # The reader may never be used again, and is not collected either while the traceback
            # of the cancelled task refers to it: it must not block the run until then.
            self._journal.release(self._place)
            raise
        if event is None:
            self.close()
            raise StopAsyncIteration
        self.offset = event.offset
        self._journal.wake_run()
        return self._journal.with_stored_offset(event)

    async def _next(self) -> RunEvent | None:
        journal = self._journal
        while True:
            if self._pages:
                return self._pages.popleft()
            if self._when_full == "close" and self._behind > self._buffer:
                self.close()
                raise SlowReaderError(
                    f"the reader of a run was more than {self._buffer} events behind",
                    do="continue with events(after=) the last offset that it has, read faster, "
                    'or use when_full="block" or "drop_oldest"',
                )
            if self.offset >= journal.visible:
                if journal.closed and self.offset >= journal.last:
                    return None
                await journal.wait_after(self.offset)
                continue
            event = journal.at(self.offset + 1)
            if event is not None:
                return event
            await self._read_missing()

    async def _read_missing(self) -> None:
        """Read events that the ring has dropped from the store; without them, add a gap."""
        keeper = self._journal.keeper
        page = [] if keeper is None else await keeper.page(self.offset)
        following = page[0].offset if page else self._journal.first
        if following > self.offset + 1:
            self._pages.extend(gap(self.offset, following, self._journal.values))
        self._pages.extend(page)

    def close(self) -> None:
        """Stop reading; the run waits no longer for this reader."""
        self._left = True
        self._journal.release(self._place)

    async def aclose(self) -> None:
        """See `close`."""
        self.close()

    def __del__(self) -> None:
        self._journal.release(self._place)


def gap(after: int, following: int, values: Any) -> list[RunEvent]:
    """Events for a reader that misses some: "gap", with the range, and "values", with the state.

    Args:
        after: offset of the last event that the reader has.
        following: offset of the next event that it gets.
        values: the run's state; None if there is none.
    """
    missing = {"from": after + 1, "to": following - 1}
    # The gap has the offset of the event before it: a reader that returns there gets it again.
    state = RunEvent(following - 1, "values", {} if values is None else values)
    return [RunEvent(after, "gap", missing), state]
