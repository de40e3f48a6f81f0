"""Stored events of runs: the Keeper that stores them, and reading a page.

Keeper     stores the events of one resumable run; it owns no task
Receives   events from the run's journal, from any thread
Sends      rows to the persistence actor: one request at a time; the events that come meanwhile
           are the next one, and one row. Whenever `FRAME_EVENTS` events are stored, when a large
           one comes and when the attempt ends, one row, a frame, replaces those since the last
           frame: a crash leaves the rows, or the frame
Bounds     `WAITING_MAX` events that are not stored, or `WAITING_BYTES`, make the run wait; the
           store keeps the newest `count` events of the run, and none older than `seconds`
           (`EventRetention`)
Failures   once events could not be stored, it stores no more of the run: no reader may return
           to an offset without a row, which the run's next attempt gives to another event
"""

import threading
import time
from collections.abc import Callable

import msgspec

from actorgraph.codec import Codec
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Waiting, wait_for_wake_up, wake_all
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.persistence import Receipts
from actorgraph.runtime.saver.resealing import PAGE_BYTES
from actorgraph.runtime.sizes import MB
from actorgraph.runtime.system.event_frames import EncodedEvent, Framing, page_of
from actorgraph.values.ids import as_text
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import EventPage, ReadEvents, RunEvent, StoreEvents

WAITING_MAX = 1024
WAITING_BYTES = 16 * MB
ROWS_PAGE = 64
"""Rows that are read for a page: all single events since the last frame, or many frames."""


class EventRetention(msgspec.Struct, frozen=True):
    """Limits of the number and age of kept events.

    Attributes:
        count: the newest events of each run that are kept; above 64 up to 63 more.
        seconds: maximum age of an event.
    """

    count: int = 10_000
    seconds: float = 7 * 86_400.0


class Keeper:
    """Stores the events of one resumable run; see the module's docstring.

    Args:
        host: of the saver.
        codec: encodes and decodes the events.
        run: the run's id.
        thread_id: its thread.
        owner: the system's id.
        kept: how long events are kept.
        stored: the newest offset in the store.
        changed: called when more events are visible and there is more room; from any thread.

    Attributes:
        stored: the newest offset in the store.
        shown: the newest offset that readers may see; above `stored` only if `broken`.
        broken: whether events could not be stored.
    """

    def __init__(
        self,
        host: Host,
        codec: Codec,
        run: bytes,
        thread_id: str,
        owner: bytes,
        *,
        kept: EventRetention,
        stored: int,
        changed: Callable[[], None],
    ) -> None:
        self._host = host
        self._codec = codec
        self._framing = Framing(codec, run, kept.count)
        self._run = run
        self._thread_id = thread_id
        self._owner = owner
        self._kept = kept
        self._changed = changed
        self._waiting: list[EncodedEvent] = []
        self._flight = 0
        self._bytes = self._bytes_in_flight = 0
        self._lock = threading.RLock()
        self._idle: Waiting = []
        self.stored = self.shown = stored
        self.broken = False

    @property
    def is_full(self) -> bool:
        """Whether too many events wait to be stored."""
        many = len(self._waiting) + self._flight >= WAITING_MAX
        return many or self._bytes + self._bytes_in_flight >= WAITING_BYTES

    @property
    def is_idle(self) -> bool:
        """Whether no events wait to be stored."""
        return not self._waiting and not self._flight

    def add(self, event: RunEvent) -> None:
        """Post an event to be stored; it is encoded now, before its data can change."""
        encoded = self._framing.encode(event)
        with self._lock:
            if self.broken:
                self.shown = event.offset
                return
            self._waiting.append(encoded)
            self._bytes += len(encoded.payload)
            self._post()

    async def wait_idle(self) -> None:
        """Wait until all events are stored, or can't be."""
        await wait_for_wake_up(self._idle, lambda: self.is_idle)

    async def page(self, after: int) -> EventPage[RunEvent]:
        """Read a page of the stored events after an offset."""
        return await read_page(self._host, self._codec, self._run, self._thread_id, after)

    def _post(self) -> None:
        if self._flight or not self._waiting:
            return
        events, self._waiting = self._waiting, []
        older = int((time.time() - self._kept.seconds) * 1e6)
        size, self._bytes = self._bytes, 0
        last = events[-1].offset
        try:
            rows, replaces = self._framing.rows(events, older)
        except Exception as error:  # noqa: BLE001 - a program's own cipher may raise anything
            self._give_up(error, last)
            return
        self._flight, self._bytes_in_flight = len(events), size
        request = StoreEvents(
            *(self._run, self._thread_id, self._owner, rows, self._kept.count, older, size),
            replaces=replaces,
        )
        self._host.writer.post(request, Receipts(lambda answer: self._on_answer(answer, last)))

    def _on_answer(self, answer: Saved | SaveFailed, last: int) -> None:
        with self._lock:
            self._flight = self._bytes_in_flight = 0
            if isinstance(answer, SaveFailed):
                self._give_up(answer.error, last)
            else:
                self.stored = self.shown = last
            self._post()
            is_idle = self.is_idle
        if is_idle:
            wake_all(self._idle)
        self._changed()

    def _give_up(self, error: BaseException, last: int) -> None:
        """Make events visible that could not be stored: readers here still want them."""
        self.shown = self._waiting[-1].offset if self._waiting else last
        self._waiting, self._bytes = [], 0
        self.broken = True
        log_event("error", "events.lost", run_id=as_text(self._run), error=repr(error))


async def read_page(
    host: Host, codec: Codec, run: bytes, thread_id: str, after: int
) -> EventPage[RunEvent]:
    """Read a page of a run's stored events after an offset, in order."""
    query = ReadEvents(run, thread_id, after, ROWS_PAGE, bytes_max=PAGE_BYTES)
    # Cut again: a saver of the program's own may not know the bound.
    rows = query.cut(await host.reader.ask(query))
    return page_of(codec, run, rows, after)
