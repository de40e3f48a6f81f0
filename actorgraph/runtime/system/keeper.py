"""Keeper: stores the events of one resumable run, and reads them back.

Receives   events from the run's journal, from any thread
Sends      rows to the persistence actor: one request at a time; what comes meanwhile is the next
Bounds     `WAITING_MAX` events that are not stored hold the run; the store keeps `keep` events
           of the run, and none older than `keep_s`
Failures   once events could not be stored, it stores no more of the run: offsets without a row
           are nobody's to come back to, and the next life of the run gives them to other events
Ends       by itself: it owns no task
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from actorgraph.codec import Codec
from actorgraph.codec.located import with_location
from actorgraph.codec.places import event_of
from actorgraph.errors import SerializationError
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate, wait_in
from actorgraph.runtime.persistence import Receipts
from actorgraph.values.ids import as_text
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import EventRow, ReadEvents, RunEvent, StoreEvents

WAITING_MAX = 1024
PAGE = 256


class Kept(msgspec.Struct, frozen=True):
    """How long events are kept: the newest `count` of a run, for `seconds`."""

    count: int = 10_000
    seconds: float = 7 * 86_400.0


class Keeper:
    """See the module's text.

    Args:
        stored: the newest offset that the store has.
        changed: called when more may be shown, and more can be stored; from any thread.

    Attributes:
        shown: the newest offset that readers may see. It is above `stored` when it is broken.
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
        kept: Kept,
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
        self._lock = threading.RLock()
        self._idle: list[Gate] = []
        self.stored = self.shown = stored
        self.broken = False

    @property
    def is_full(self) -> bool:
        """Whether too much waits to be stored."""
        return len(self._rows) + self._flight >= WAITING_MAX

    @property
    def is_idle(self) -> bool:
        """Whether all is stored."""
        return not self._rows and not self._flight

    def add(self, event: RunEvent) -> None:
        """Store an event, soon. It is encoded now: what changes later is not in it."""
        row = EventRow(event.offset, event.created, encoded(self._codec, self._run, event))
        with self._lock:
            if self.broken:
                self.shown = event.offset
                return
            self._rows.append(row)
            self._post()

    async def wait_idle(self) -> None:
        """Wait until all is stored, or can't be."""
        await wait_in(self._idle, lambda: self.is_idle)

    async def page(self, after: int) -> list[RunEvent]:
        """The stored events that follow an offset; some of them."""
        return await read_page(self._host, self._codec, self._run, self._thread_id, after)

    def _post(self) -> None:
        if self._flight or not self._rows:
            return
        rows, self._rows = tuple(self._rows), []
        self._flight = len(rows)
        older = int((time.time() - self._kept.seconds) * 1e6)
        size = sum(len(row.payload) for row in rows)
        request = StoreEvents(
            self._run, self._thread_id, self._owner, rows, self._kept.count, older, size
        )
        last = rows[-1].place
        self._host.writer.post(request, Receipts(lambda answer: self._hear(answer, last)))

    def _hear(self, answer: Saved | SaveFailed, last: int) -> None:
        with self._lock:
            self._flight = 0
            if isinstance(answer, SaveFailed):
                self._break(answer.error, last)
            else:
                self.stored = self.shown = last
            self._post()
            idle = self._idle if self.is_idle else []
            if idle:
                self._idle = []
        for gate in idle:
            gate.open()
        self._changed()

    def _break(self, error: BaseException, last: int) -> None:
        """Show what could not be stored all the same: the run has other troubles."""
        self.shown = self._rows[-1].place if self._rows else last
        self._rows = []
        self.broken = True
        log_event("error", "events.lost", run_id=as_text(self._run), error=repr(error))


def encoded(codec: Codec, run: bytes, event: RunEvent) -> bytes:
    """An event as bytes; what the codec refuses is stored as its text."""
    parts, place = [event.kind, list(event.namespace)], event_of(run, event.offset)
    try:
        return codec.encode([*parts, event.data], f"event {event.kind!r}", place)
    except SerializationError as error:
        ids = {"run_id": as_text(run), "kind": event.kind}
        log_event("warning", "event.unserializable", **ids, error=error.what)
        return codec.encode([*parts, {"$repr": repr(event.data)}], "event", place)


async def read_page(
    host: Host, codec: Codec, run: bytes, thread_id: str, after: int
) -> list[RunEvent]:
    """Some of the events of a run that follow an offset, in order."""
    rows: list[EventRow] = await host.reader.ask(ReadEvents(run, thread_id, after, PAGE))
    return [decoded(codec, run, row) for row in rows]


def decoded(codec: Codec, run: bytes, row: EventRow) -> RunEvent:
    """An event out of its row.

    Raises:
        CheckpointError: it can't be read; the text names it.
    """
    try:
        kind, namespace, data = _parts(codec.decode(row.payload, event_of(run, row.place)))
        return RunEvent(row.place, kind, data, tuple(namespace), row.created)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - bytes that no codec wrote may raise anything
        where = f"event {row.place} of run {as_text(run)}"
        raise with_location(error, where) from error.__cause__


def _parts(value: Any) -> tuple[str, list[str], Any]:
    kind, namespace, data = value
    return kind, namespace, data
