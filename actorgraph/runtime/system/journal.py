"""Journal: the events of one run, in order, with offsets, for any number of readers.

Receives   chunks from the run's supervisor and its nodes, and the system's events; any thread
Sends      events to readers, each at its own pace, from the ring or from the store
Bounds     the ring keeps the newest `ring` events, of about `RING_BYTES`, and at least one. A
           reader has only its offset; one that is further behind than the ring reaches reads the
           store, or gets a "gap" event. Of a blocking reader the journal has the `Hold`, never the
           reader itself
Durable    with a keeper an event is visible once it is stored, so that an offset that a reader
           has seen means the same event after a restart
Ends       when closed; readers get the remaining events, then the end
"""

import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from typing import Any, Self

import anyio
import msgspec

from actorgraph.errors import SlowReaderError
from actorgraph.rules.system.gaps import MADE_END, missing_events
from actorgraph.rules.system.scheduling import RunPlace
from actorgraph.runtime.broadcast import BUFFER_BYTES, Broadcast, Closing
from actorgraph.runtime.mailbox import Mailbox, Waiting, wait_for_wake_up, wake_all
from actorgraph.runtime.sizes import MB, approximate_bytes, parts_of
from actorgraph.runtime.system.lent_slots import in_run, slot_lent
from actorgraph.runtime.system.stored_events import Keeper
from actorgraph.values.stream_items import StreamItem, WhenFull
from actorgraph.values.systems import RunEvent

RING_EVENTS = 1024
RING_BYTES = 64 * MB
RING_LIGHT = RING_BYTES // RING_EVENTS
"""Bytes of an event below which it is not counted."""
BATCH_EVENTS = 64
"""Events that a reader takes at once, if they are there."""
HELD_S_MAX = 60.0
"""Seconds that a reader may block its run without taking an event; then it is ignored."""


class Hold:
    """The place of a reader that blocks the run when it is behind.

    The journal has no reference to the reader, so that an abandoned one is garbage collected.

    Attributes:
        offset: of the last event that the reader has.
        buffer: number of events that it may be behind.
        buffer_bytes: their approximate bytes.
    """

    __slots__ = ("buffer", "buffer_bytes", "offset")

    def __init__(self, offset: int, buffer: int, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.offset = offset
        self.buffer = buffer
        self.buffer_bytes = buffer_bytes


class Journal(Broadcast):
    """The events of a run; see the module's docstring.

    Args:
        shown: the stream modes that readers get; "values" is added, for gaps.
        subgraphs: whether they get the events of subgraphs.
        ring: number of events to keep in memory.
        first: offset of the first event.

    Attributes:
        keeper: stores the events; None if they aren't stored.
        closed: whether it takes no more events.
        values: the newest state of the run.
        last: offset of the newest event.
    """

    def __init__(
        self,
        shown: frozenset[str],
        *,
        subgraphs: bool = False,
        ring: int = RING_EVENTS,
        first: int = 1,
    ) -> None:
        super().__init__(shown | {"values"} if shown else frozenset(), subgraphs=subgraphs)
        self.shown = shown
        self.keeper: Keeper | None = None
        self.closed = False
        self.values: Any = None
        self.last = first - 1
        self._ring: deque[RunEvent] = deque()
        self._ring_max = ring
        # Of the parts of each event in the ring: identity and bytes; the bytes of all events so
        # far. `_load` counts a part that several events share once.
        self._parts: deque[tuple[tuple[tuple[int, int], ...], int]] = deque()
        self._bytes = self._bytes_before = 0
        self._holds: dict[Hold, None] = {}
        self._readers: Waiting = []
        self._held = True
        self._turn = threading.RLock()

    # --- the run's side ---

    @property
    def is_stored(self) -> bool:
        """Whether events are stored."""
        return self.keeper is not None

    @property
    def is_full(self) -> bool:
        """Whether the run has to wait: for a blocking reader, or for the store."""
        if not self._held:
            return False
        if self.keeper is not None and self.keeper.is_full:
            return True
        return bool(self._holds) and bool(self._holding())

    def _holding(self) -> list[Hold]:
        """The places of the readers that block the run now."""
        visible = self.visible
        # Copied at once: the garbage collection of a reader, in any thread, changes the dict.
        return [hold for hold in list(self._holds) if self._is_behind(hold, visible)]

    def _is_behind(self, hold: Hold, visible: int) -> bool:
        behind = visible - hold.offset
        if behind < 2 or behind >= hold.buffer:  # one event may be of any size
            return behind >= hold.buffer
        return self.bytes_after(hold.offset) >= hold.buffer_bytes

    def bytes_after(self, offset: int) -> int:
        """Approximate bytes of the events in the ring after an offset."""
        with self._turn:
            if not self._ring or offset >= self.last:
                return 0
            index = max(offset + 1 - self._ring[0].offset, 0)
            before = self._parts[index - 1][1] if index else self._bytes_before
            return self._bytes - before

    def held_bytes(self, beside: Iterable[Any] = ()) -> int:
        """Approximate bytes of the events in the ring, the newest state, and other values.

        A part that several of them share counts once, unless it is small.
        """
        parts: dict[int, int] = {}
        with self._turn:
            light = [
                event.data
                for event, (counted, _) in zip(self._ring, self._parts, strict=True)
                if not counted
            ]
            for counted, _ in self._parts:
                parts.update(counted)
        for value in (self.values, *beside):
            parts.update(parts_of(value, 0))
        return sum(parts.values()) + (approximate_bytes(light) if light else 0)

    async def wait_room(self) -> None:
        """Wait until the run may go on; at most `HELD_S_MAX` for readers that take no event."""
        while self.is_full:
            before = [(hold, hold.offset) for hold in self._holding()]
            with anyio.move_on_after(HELD_S_MAX) as patience:
                await wait_for_wake_up(self._room, lambda: not self.is_full)
            if patience.cancelled_caught:
                for hold, offset in before:
                    if hold.offset == offset:
                        self.release(hold)

    def try_publish(self, chunks: tuple[StreamItem, ...]) -> bool:
        """Add chunks as events. Returns False, and adds none, if the run has to wait."""
        if self.is_full:
            return False
        for chunk in chunks:
            self._put(chunk)
        return True

    def end(self) -> None:
        """Do nothing: the system adds the run's end, and then closes the journal."""

    def leave(self) -> None:
        """Let the run end without waiting for readers, which stay."""
        self._held = False
        self._wake_senders()

    def _put(self, chunk: StreamItem) -> None:
        namespace, mode, content = chunk
        if mode == "values" and namespace == self.root:
            self.values = content
        if mode in self.shown:
            self.add(mode, content, namespace)

    def begin_anew(self, about: Mapping[str, Any]) -> None:
        """Add that a task begins anew: what its attempt before has streamed is no more."""
        if "messages" in self.shown:
            self.add("retry", about)

    def add(self, kind: str, data: Any, namespace: tuple[str, ...] = ()) -> None:
        """Append an event; from any thread."""
        created = time.time_ns() // 1000
        # One lock for numbering and storing: rows must reach the keeper in order of offsets.
        with self._turn:
            if self.closed:
                return
            self.last += 1
            event = RunEvent(self.last, kind, data, namespace, created)
            self._keep(event)
            if self.keeper is not None:
                self.keeper.add(event)
        self.wake_readers()

    def _keep(self, event: RunEvent) -> None:
        """Add an event to the ring, and remove the oldest ones beyond its bounds."""
        parts = parts_of(event.data, RING_LIGHT)
        if parts:
            before = self._load.bytes
            self._load.add(parts)
            self._bytes += self._load.bytes - before
        self._ring.append(event)
        self._parts.append((parts, self._bytes))
        while len(self._ring) > self._ring_max or (
            self._load.bytes > RING_BYTES and len(self._ring) > 1
        ):
            self._ring.popleft()
            parts, self._bytes_before = self._parts.popleft()
            self._load.remove(parts)

    def close(self) -> None:
        """Take no more events; readers get the rest and end."""
        self.closed = True
        self.leave()
        self.wake_readers()

    # --- the readers' side ---

    @property
    def visible(self) -> int:
        """Offset of the newest event that readers may see."""
        return self.last if self.keeper is None else min(self.last, self.keeper.shown)

    def with_stored_offset(self, event: RunEvent) -> RunEvent:
        """An event as readers get it: one that could not be stored has the last stored offset.

        A reader that returns with that offset gets all that followed it in the next attempt.
        """
        keeper = self.keeper
        if keeper is None or not keeper.broken or event.offset <= keeper.stored:
            return event
        return msgspec.structs.replace(event, offset=keeper.stored)

    @property
    def first(self) -> int:
        """Offset of the oldest event in the ring; of the next event if it is empty."""
        with self._turn:
            return self._ring[0].offset if self._ring else self.last + 1

    @property
    def has_ended(self) -> bool:
        """Whether its newest event is the run's end."""
        with self._turn:
            return bool(self._ring) and self._ring[-1].ends

    def end_after(self, offset: int) -> list[RunEvent]:
        """The end, for a reader that got the state before it, or the end, from a `StoredReader`.

        It has all that came before, and gets what is left with the offsets that it would get there.
        """
        with self._turn:
            left = [event for event in list(self._ring)[-2:] if event.kind in ("error", "end")]
        return [
            msgspec.structs.replace(event, offset=MADE_END if event.ends else MADE_END - 1)
            for event in left
            if offset < MADE_END
        ]

    def ready(self, offset: int, most: int) -> list[RunEvent]:
        """The visible events after an offset, up to `most`; [] if the ring lacks the next one.

        The second and later ones are small: a large event comes alone, so that a reader's bound
        in bytes means what it says.
        """
        with self._turn:
            ring = self._ring
            begin = offset + 1 - (ring[0].offset if ring else 0)
            end = min(begin + most, begin + self.visible - offset, len(ring))
            if not 0 <= begin < end:
                return []
            events = [ring[begin]]
            if not self._parts[begin][0]:
                for index in range(begin + 1, end):
                    if self._parts[index][0]:
                        break
                    events.append(ring[index])
            return events

    def hold(self, hold: Hold) -> None:
        """Make the run wait for a reader when it is behind."""
        self._holds[hold] = None

    def release(self, hold: Hold) -> None:
        """Make the run wait no longer for a reader; from any thread."""
        self._holds.pop(hold, None)
        self.wake_run()

    def wake_run(self) -> None:
        """Wake the waiting run if it may go on: a reader or the keeper has taken events."""
        if self._room and not self.is_full:
            self._wake_senders()

    async def wait_after(self, offset: int) -> None:
        """Wait until an event after the offset is visible, or the journal is closed."""
        # One for each wait: a mailbox has one reader and one loop, and a program may read on in
        # another task, or in the loop of its next blocking call.
        box: Mailbox[None] = Mailbox()
        self._readers.append(box)
        try:
            # Checked when the list has it, so that an event that comes meanwhile wakes it.
            if not (self.visible > offset or self._is_over):
                await box.get()
        finally:
            if box in self._readers:
                with suppress(ValueError):  # another thread has woken it at this moment
                    self._readers.remove(box)

    @property
    def _is_over(self) -> bool:
        return self.closed and (self.keeper is None or self.keeper.is_idle)

    def events_stored(self) -> None:
        """Handle progress of the keeper: more events are visible, and it has room for more."""
        self.wake_readers()
        self.wake_run()

    def wake_readers(self) -> None:
        """Wake waiting readers."""
        wake_all(self._readers)


class EventReader(Closing, AsyncIterator[RunEvent]):
    """The events of one run after an offset, in order. Iterate it once; `async with` closes it.

    Ends after the event "end", or "drain" if the system closes before the run has ended.

    Args:
        after: offset of the last event that the reader has.
        buffer: number of events that it may be behind.
        buffer_bytes: their approximate bytes; one event may be larger.
        when_full: what happens then. "block" makes the run wait, as long as the reader exists;
            "drop_oldest" continues with the events in the ring and the store, after a "gap"
            event if some are missing; "close" ends the reader with `SlowReaderError`.
        of: the run, and its thread.
    """

    def __init__(
        self,
        journal: Journal,
        after: int,
        *,
        buffer: int,
        buffer_bytes: int = BUFFER_BYTES,
        when_full: WhenFull = "drop_oldest",
        of: RunPlace | None = None,
    ) -> None:
        self._of = of
        self._place = Hold(after, buffer, buffer_bytes)
        self._journal = journal
        self._when_full: WhenFull = when_full
        self._pages: deque[RunEvent] = deque()
        self._left = False
        if after >= MADE_END - 1 and journal.has_ended:
            self._pages.extend(journal.end_after(after))
        elif after > journal.last:
            # The offset is of an earlier attempt of a run whose events aren't stored.
            before = self._place.offset = journal.first - 1
            self._pages.extend(gap(before, None, journal.values))
        if when_full == "block":
            self._hold()

    @property
    def offset(self) -> int:
        """Offset of the last event that the reader has."""
        return self._place.offset

    def _hold(self) -> None:
        """Make the run wait for it; again after an error, or a pause in which it was let go."""
        self._journal.hold(self._place)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        """Wait for the next event.

        Raises:
            StopAsyncIteration: after the last event.
            SlowReaderError: it is too far behind, and `when_full` is "close".
        """
        events = await self.batch(1)
        if not events:
            raise StopAsyncIteration
        return events[0]

    async def batch(self, most: int = BATCH_EVENTS) -> list[RunEvent]:
        """Wait for the next event, and take those with it that are there already, in order.

        A large event comes alone.

        Args:
            most: events to take at most.
        Returns: at least one event; none after the last one.
        Raises:
            SlowReaderError: as `__anext__`.
        """
        if self._left:
            return []
        if self._when_full == "block":
            self._hold()
        try:
            events = await self._next(most)
        except BaseException:
            # The reader may never be used again, and is not collected either while the traceback
            # of the cancelled task refers to it: it must not block the run until then.
            self._journal.release(self._place)
            raise
        if not events:
            self.close()
            return events
        journal, self._place.offset = self._journal, events[-1].offset
        journal.wake_run()
        if journal.keeper is None:
            return events
        return [journal.with_stored_offset(event) for event in events]

    async def _next(self, most: int) -> list[RunEvent]:
        journal, place = self._journal, self._place
        while True:
            if self._pages:
                return [self._pages.popleft() for _ in range(min(most, len(self._pages)))]
            visible = journal.visible
            if self._when_full == "close":
                self._check_speed(visible)
            if place.offset >= visible:
                # Closed only after its last event: `visible`, read before, may lack that one.
                if journal.closed and place.offset >= journal.last:
                    return []
                await self._wait()
                continue
            events = journal.ready(place.offset, most)
            if events:
                return events
            await self._read_missing()

    async def _wait(self) -> None:
        if not in_run():  # as nearly every reader: nothing to lend
            await self._journal.wait_after(self._place.offset)
            return
        with slot_lent(self._of, for_events=True):
            await self._journal.wait_after(self._place.offset)

    def _check_speed(self, visible: int) -> None:
        place, journal = self._place, self._journal
        behind = visible - place.offset
        many = behind > place.buffer
        if many or (behind > 1 and journal.bytes_after(place.offset) > place.buffer_bytes):
            self.close()
            far = f"{place.buffer} events" if many else f"{place.buffer_bytes:,} bytes"
            raise SlowReaderError(
                f"the reader of a run was more than {far} behind",
                do="continue with events(after=) the last offset that it has, read faster, "
                'or use when_full="block" or "drop_oldest"',
            )

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
        if not self._left:
            self._left = True
            self._journal.release(self._place)

    async def aclose(self) -> None:
        """See `close`."""
        self.close()

    def __del__(self) -> None:
        self.close()


def gap(
    after: int, following: int | None, values: Any, *, state_at: int | None = None
) -> list[RunEvent]:
    """Events for a reader that misses some: "gap", with the range, and "values", with the state.

    Args:
        after: offset of the last event that the reader has.
        following: offset of the next event that it gets; None if it is unknown how many it misses.
        values: the run's state; None if it has none.
        state_at: offset of "values"; default: the one before the next event's.
    """
    before = after if following is None else following - 1
    # The gap has the offset of the event before it: a reader that returns there gets it again.
    state = RunEvent(
        before if state_at is None else state_at, "values", {} if values is None else values
    )
    return [RunEvent(after, "gap", missing_events(after, following)), state]
