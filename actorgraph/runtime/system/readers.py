"""EventReader: one reader of a run's events, at its own pace.

It holds its place and nothing else. The policies, when it is `buffer` events behind:
"block" lets the run wait, as long as the reader is there; "drop_oldest" goes on reading what the
ring and the store have, and is told of what they have not; "close" ends the reader with
`SlowReaderError`.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Self

from actorgraph.errors import SlowReaderError
from actorgraph.runtime.closing import Closing
from actorgraph.runtime.system.journal import Hold, Journal
from actorgraph.values.streams import WhenFull
from actorgraph.values.systems import RunEvent


class EventReader(Closing, AsyncIterator[RunEvent]):
    """The events of one run behind an offset, in order. Iterate it once; `async with` closes it.

    Ends after the event "end", or "drain" when the system closes before the run has ended.
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
        if after > journal.last:  # it has read an earlier life of a run that keeps no events
            self.offset = journal.first - 1
            told = gap(self.offset, self.offset + 1, journal.values)
            self._pages.extend(told)
        self._hold()

    @property
    def offset(self) -> int:
        """That of the last event that the reader has."""
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
        """Itself."""
        return self

    async def __anext__(self) -> RunEvent:
        """The next event.

        Raises:
            StopAsyncIteration: there are no more.
            SlowReaderError: "close", and it was too far behind.
        """
        if self._left:
            raise StopAsyncIteration
        self._hold()
        try:
            event = await self._next()
        except BaseException:
            # It may never come back, and a task that was cancelled keeps its frames, and them this.
            self._journal.release(self._place)
            raise
        if event is None:
            self.close()
            raise StopAsyncIteration
        self.offset = event.offset
        self._journal.moved()
        return self._journal.numbered(event)

    async def _next(self) -> RunEvent | None:
        journal = self._journal
        while True:
            if self._pages:
                return self._pages.popleft()
            if self._when_full == "close" and self._behind > self._buffer:
                self.close()
                raise SlowReaderError(
                    f"the reader of a run was more than {self._buffer} events behind",
                    do="go on with events(after=) of the last offset that it has, read faster, "
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
        """What the ring has no more: from the store, else a gap that says so."""
        keeper = self._journal.keeper
        page = [] if keeper is None else await keeper.page(self.offset)
        following = page[0].offset if page else self._journal.first
        if following > self.offset + 1:
            self._pages.extend(gap(self.offset, following, self._journal.values))
        self._pages.extend(page)

    def close(self) -> None:
        """Stop reading; the run does not wait for it any more."""
        self._left = True
        self._journal.release(self._place)

    async def aclose(self) -> None:
        """See `close`."""
        self.close()

    def __del__(self) -> None:
        self._journal.release(self._place)


def gap(after: int, following: int, values: Any) -> list[RunEvent]:
    """What tells a reader that events are missing, and the state that makes up for them."""
    missing = {"from": after + 1, "to": following - 1}
    # Its offset is what the reader has: one that comes back after it is told again.
    state = RunEvent(following - 1, "values", {} if values is None else values)
    return [RunEvent(after, "gap", missing), state]
