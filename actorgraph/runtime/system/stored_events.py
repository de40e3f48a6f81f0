"""Stored events of runs: the Keeper that stores them, reading, encoding, re-encryption.

Keeper     stores the events of one resumable run; it owns no task
Receives   events from the run's journal, from any thread
Sends      rows to the persistence actor: one request at a time; the events that come meanwhile
           are the next one
Bounds     `WAITING_MAX` events that are not stored, or `WAITING_BYTES`, make the run wait; the
           store keeps the newest `count` events of the run, and none older than `seconds`
           (`EventRetention`)
Failures   once events could not be stored, it stores no more of the run: no reader may return
           to an offset without a row, which the run's next attempt gives to another event
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from actorgraph.codec import Codec
from actorgraph.codec.decode_errors import raise_located
from actorgraph.codec.encryption import event_of
from actorgraph.errors import SerializationError
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Waiting, wait_for_wake_up, wake_all
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.persistence import Receipts
from actorgraph.runtime.saver.resealing import PAGE_BYTES
from actorgraph.runtime.sizes import MB
from actorgraph.values.ids import as_text
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import (
    EventPage,
    EventRow,
    ReadEvents,
    RunEvent,
    StoreEvents,
)

WAITING_MAX = 1024
WAITING_BYTES = 16 * MB
EVENTS_PAGE = 256


class EventRetention(msgspec.Struct, frozen=True):
    """Limits of the number and age of kept events.

    Attributes:
        count: the newest events of each run that are kept.
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
        self._run = run
        self._thread_id = thread_id
        self._owner = owner
        self._kept = kept
        self._changed = changed
        self._rows: list[EventRow] = []
        self._flight = 0
        self._bytes = self._bytes_in_flight = 0
        self._lock = threading.RLock()
        self._idle: Waiting = []
        self.stored = self.shown = stored
        self.broken = False

    @property
    def is_full(self) -> bool:
        """Whether too many events wait to be stored."""
        many = len(self._rows) + self._flight >= WAITING_MAX
        return many or self._bytes + self._bytes_in_flight >= WAITING_BYTES

    @property
    def is_idle(self) -> bool:
        """Whether no events wait to be stored."""
        return not self._rows and not self._flight

    def add(self, event: RunEvent) -> None:
        """Post an event to be stored; it is encoded now, before its data can change."""
        row = EventRow(event.offset, event.created, encode_event(self._codec, self._run, event))
        with self._lock:
            if self.broken:
                self.shown = event.offset
                return
            self._rows.append(row)
            self._bytes += len(row.payload)
            self._post()

    async def wait_idle(self) -> None:
        """Wait until all events are stored, or can't be."""
        await wait_for_wake_up(self._idle, lambda: self.is_idle)

    async def page(self, after: int) -> EventPage[RunEvent]:
        """Read a page of the stored events after an offset."""
        return await read_page(self._host, self._codec, self._run, self._thread_id, after)

    def _post(self) -> None:
        if self._flight or not self._rows:
            return
        rows, self._rows = tuple(self._rows), []
        self._flight = len(rows)
        older = int((time.time() - self._kept.seconds) * 1e6)
        size, self._bytes = self._bytes, 0
        self._bytes_in_flight = size
        request = StoreEvents(
            self._run, self._thread_id, self._owner, rows, self._kept.count, older, size
        )
        last = rows[-1].place
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
        self.shown = self._rows[-1].place if self._rows else last
        self._rows, self._bytes = [], 0
        self.broken = True
        log_event("error", "events.lost", run_id=as_text(self._run), error=repr(error))


def encode_event(codec: Codec, run: bytes, event: RunEvent) -> bytes:
    """Encode an event; data that the codec refuses is stored as its `repr`."""
    parts, place = [event.kind, list(event.namespace)], event_of(run, event.offset)
    try:
        return codec.encode([*parts, event.data], f"event {event.kind!r}", place)
    except SerializationError as error:
        ids = {"run_id": as_text(run), "kind": event.kind}
        log_event("warning", "event.unserializable", **ids, error=error.what)
        return codec.encode([*parts, {"$repr": repr(event.data)}], "event", place)


async def read_page(
    host: Host, codec: Codec, run: bytes, thread_id: str, after: int
) -> EventPage[RunEvent]:
    """Read a page of a run's stored events after an offset, in order."""
    query = ReadEvents(run, thread_id, after, EVENTS_PAGE, bytes_max=PAGE_BYTES)
    # Cut again: a saver of the program's own may not know the bound.
    rows = query.cut(await host.reader.ask(query))
    page = EventPage(decode_event(codec, run, row) for row in rows)
    page.is_full = rows.is_full
    return page


def decode_event(codec: Codec, run: bytes, row: EventRow) -> RunEvent:
    """Decode an event from its row.

    Raises:
        CheckpointError: it can't be decoded; the error's text names the event.
    """
    try:
        kind, namespace, data = _parts(codec.decode(row.payload, event_of(run, row.place)))
        return RunEvent(row.place, kind, data, tuple(namespace), row.created)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes may raise anything
        where = f"event {row.place} of run {as_text(run)}"
        raise_located(error, where)


def _parts(value: Any) -> tuple[str, list[str], Any]:
    kind, namespace, data = value
    return kind, namespace, data
