"""Journal: the events of one run, in order, with offsets, for any number of readers.

Receives   chunks from the run's supervisor and its nodes, from any thread; what the system says
Sends      events to readers, each at its own pace, from the ring or from the store
Bounds     the ring keeps the newest `ring` events. A reader holds nothing but its place; one
           that is further behind than the ring reaches reads the store, or is told of a gap.
           Of a reader that the run waits for it has the `Hold`, never the reader
Durable    with a keeper an event is shown once it is stored, so that an offset that a reader
           has seen means the same event after a restart
Ends       when closed; readers get what is there, then the end
"""

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.mailbox import Gate, wait_in
from actorgraph.values.streams import StreamItem
from actorgraph.values.systems import RunEvent

if TYPE_CHECKING:
    from actorgraph.runtime.system.keeper import Keeper

RING_EVENTS = 1024
HELD_S_MAX = 60.0
"""So long a reader may hold its run and take no event; then the run goes on without it."""


class Hold:
    """Where a reader is that the run waits for.

    All that a journal has of a reader: the reader itself may be left, and collected, at any time.

    Attributes:
        offset: of the last event that the reader has.
        buffer: events that it may be behind.
    """

    __slots__ = ("buffer", "offset")

    def __init__(self, offset: int, buffer: int) -> None:
        self.offset = offset
        self.buffer = buffer


class Journal(Broadcast):
    """The events of a run. See the module's text.

    Args:
        shown: the stream modes that readers get; "values" is taken besides, for gaps.
        ring: events to keep in memory.
        first: the offset of its first event.
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
        self._ring: deque[RunEvent] = deque(maxlen=ring)
        self._holds: dict[Hold, None] = {}
        self._gates: list[Gate] = []
        self._held = True
        self._turn = threading.RLock()

    # --- the run's side ---

    @property
    def is_stored(self) -> bool:
        """Whether events are stored."""
        return self.keeper is not None

    @property
    def is_full(self) -> bool:
        """Whether the run has to wait: for a reader that holds it, or for the store."""
        if not self._held:
            return False
        if self.keeper is not None and self.keeper.is_full:
            return True
        return bool(self._holds) and bool(self._holding())

    def _holding(self) -> list[Hold]:
        """The readers that the run waits for now."""
        visible = self.visible
        # Copied at once: a reader that is collected, maybe in another thread, changes it.
        return [hold for hold in list(self._holds) if visible - hold.offset >= hold.buffer]

    async def wait_room(self) -> None:
        """Wait until nothing holds the run: at most `HELD_S_MAX` for readers that take no event."""
        while self.is_full:
            before = [(hold, hold.offset) for hold in self._holding()]
            with anyio.move_on_after(HELD_S_MAX) as patience:
                await wait_in(self._room, lambda: not self.is_full)
            if patience.cancelled_caught:
                for hold, offset in before:
                    if hold.offset == offset:
                        self.release(hold)

    def try_publish(self, chunks: tuple[StreamItem, ...]) -> bool:
        """See `Broadcast.try_publish`."""
        if self.is_full:
            return False
        for chunk in chunks:
            self._put(chunk)
        return True

    def end(self) -> None:
        """The run has left; the system says how, and then closes the journal."""

    def leave(self) -> None:
        """Nobody holds up a run that is leaving; its readers stay."""
        self._held = False
        self._make_room()

    def _put(self, chunk: StreamItem) -> None:
        namespace, mode, content = chunk
        if mode == "values" and namespace == self.root:
            self.values = content
        if mode in self.shown:
            self.add(mode, content, namespace)

    def add(self, kind: str, data: Any, namespace: tuple[str, ...] = ()) -> None:
        """Append an event; from any thread."""
        created = time.time_ns() // 1000
        with self._turn:
            if self.closed:
                return
            self.last += 1
            event = RunEvent(self.last, kind, data, namespace, created)
            self._ring.append(event)
            if self.keeper is not None:
                self.keeper.add(event)
        self.tell()

    def close(self) -> None:
        """No more events."""
        self.closed = True
        self.leave()
        self.tell()

    # --- the readers' side ---

    @property
    def visible(self) -> int:
        """The newest offset that readers may see."""
        return self.last if self.keeper is None else min(self.last, self.keeper.shown)

    def numbered(self, event: RunEvent) -> RunEvent:
        """An event as readers get it: one that could not be stored has no offset of its own.

        Whoever comes back with its offset is told again what the store has not.
        """
        keeper = self.keeper
        if keeper is None or not keeper.broken or event.offset <= keeper.stored:
            return event
        return msgspec.structs.replace(event, offset=keeper.stored)

    @property
    def first(self) -> int:
        """The oldest offset in the ring; that of the next event if it is empty."""
        with self._turn:
            return self._ring[0].offset if self._ring else self.last + 1

    def at(self, offset: int) -> RunEvent | None:
        """An event of the ring."""
        with self._turn:
            index = offset - (self._ring[0].offset if self._ring else 0)
            return self._ring[index] if 0 <= index < len(self._ring) else None

    def hold(self, hold: Hold) -> None:
        """Let the run wait for a reader."""
        self._holds[hold] = None

    def release(self, hold: Hold) -> None:
        """Let the run wait no longer for a reader; from any thread."""
        self._holds.pop(hold, None)
        self.moved()

    def moved(self) -> None:
        """A reader, or the keeper, has taken something: who waited for it may go on."""
        if self._room and not self.is_full:
            self._make_room()

    async def wait_after(self, offset: int) -> None:
        """Wait until an event behind the offset can be seen, or the journal is closed."""
        await wait_in(self._gates, lambda: self.visible > offset or self._is_over)

    @property
    def _is_over(self) -> bool:
        return self.closed and (self.keeper is None or self.keeper.is_idle)

    def kept(self) -> None:
        """The keeper has stored events: they can be seen, and it has room for more."""
        self.tell()
        self.moved()

    def tell(self) -> None:
        """Wake the readers that wait."""
        gates, self._gates = self._gates, []
        for gate in gates:
            gate.open()
