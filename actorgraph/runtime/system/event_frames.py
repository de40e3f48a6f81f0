"""Rows of stored events: one event, or a frame of several; no I/O.

A row of one event is the codec's payload of `[kind, namespace, data]`. A frame is that of
`[form, packed]`: its events as pairs of time and encoded event, packed together, in order; the
row's place is the offset of the last one, and the offsets before it follow without a gap. Inside
of a frame nothing is encrypted: the row is, as any other one. A version of the library that knows
no frames finds two parts where it expects three, and refuses the row.
"""

import zlib
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from typing import Any

import msgspec

from actorgraph.codec import Codec
from actorgraph.codec.decode_errors import raise_located
from actorgraph.codec.encryption import event_of
from actorgraph.errors import FormatVersionError, SerializationError
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.saver.resealing import PAGE_BYTES
from actorgraph.runtime.sizes import MB
from actorgraph.values.ids import as_text
from actorgraph.values.systems import EventPage, EventRow, RunEvent

FRAME_EVENTS = 64
FRAME_BYTES = 256 * 1024
"""Bytes of encoded events with which a frame is whole."""
LARGE_BYTES = 16 * 1024
"""Bytes of an encoded event from which on it is written once: as the last one of a frame."""
INFLATED_MAX = 1 * MB
"""Bytes up to which the events of a frame are compressed; one that inflates to more is refused."""
_PLAIN, _ZLIB = 0, 1
_ZLIB_LEVEL = 1
_PARTS = 3
"""Parts of an event's payload: kind, namespace and data."""
_PAIRS = msgspec.msgpack.Decoder(list[tuple[int, bytes]])


EVENTS_PAGE = 256


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that waits to be stored.

    Attributes:
        offset: counts from 1.
        created: microseconds since 1970-01-01 UTC.
        payload: the encoded event, without compression and encryption if it may be in a frame.
        closes: whether a frame ends with it: it is large, or the last one of its attempt.
    """

    offset: int
    created: int
    payload: bytes
    closes: bool


class Framing:
    """Makes the rows of a run's events: each is stored at once, and then becomes part of a frame.

    A frame always ends with a new event: a row with its place was never stored before, so that who
    knows a row by its place (a re-encryption) never meets another one there.

    Args:
        codec: encodes events and rows.
        run: the run's id.
        kept: how many events of the run are kept. Few are counted exactly: each one is a row, as
            with a codec that encodes in its own way.
    """

    def __init__(self, codec: Codec, run: bytes, kept: int) -> None:
        self._codec = codec
        self._run = run
        self._unsealed = codec.unsealed if kept > FRAME_EVENTS else None
        self._open: list[EncodedEvent] = []  # since the last frame
        self._bytes = 0

    def encode(self, event: RunEvent) -> EncodedEvent:
        """Encode an event; data that the codec refuses is stored as its `repr`."""
        codec = self._unsealed or self._codec
        parts, place = [event.kind, list(event.namespace)], event_of(self._run, event.offset)
        try:
            payload = codec.encode([*parts, event.data], f"event {event.kind!r}", place)
        except SerializationError as error:
            ids = {"run_id": as_text(self._run), "kind": event.kind}
            log_event("warning", "event.unserializable", **ids, error=error.what)
            payload = codec.encode([*parts, {"$repr": repr(event.data)}], "event", place)
        closes = event.ends or event.kind == "drain" or len(payload) >= LARGE_BYTES
        return EncodedEvent(event.offset, event.created, payload, closes)

    def rows(self, events: Sequence[EncodedEvent], older: int) -> tuple[tuple[EventRow, ...], int]:
        """Make the rows of the next events, which are stored together.

        Args:
            events: at least one; they follow those of the call before.
            older: events made before this are not put into a frame again, in microseconds since
                1970-01-01 UTC.
        Returns: the rows, and the first offset whose rows the first one replaces; 0 for none.
        """
        if self._unsealed is None:
            return tuple(EventRow(e.offset, e.created, e.payload) for e in events), 0
        rows, replaces, new = list[EventRow](), 0, 0
        for event in events:
            self._open.append(event)
            self._bytes += len(event.payload)
            new += 1
            many = len(self._open) >= FRAME_EVENTS or self._bytes >= FRAME_BYTES
            if not (many or event.closes):
                continue
            if len(self._open) > new:
                replaces = self._open[0].offset
            young = [*dropwhile(lambda e: e.created < older, self._open)]
            rows.append(self._row(young or [event], _ZLIB))
            self._open, self._bytes, new = [], 0, 0
        if new:
            rows.append(self._row(self._open[-new:], _PLAIN))  # soon replaced
        return tuple(rows), replaces

    def _row(self, events: Sequence[EncodedEvent], form: int) -> EventRow:
        last = events[-1]
        place = event_of(self._run, last.offset)
        if len(events) == 1:
            return EventRow(last.offset, last.created, self._codec.seal(last.payload, place))
        packed = msgspec.msgpack.encode([(event.created, event.payload) for event in events])
        if len(packed) > INFLATED_MAX:
            form = _PLAIN
        if form == _ZLIB:
            packed = zlib.compress(packed, _ZLIB_LEVEL)
        payload = self._codec.encode([form, packed], "events", place)
        return EventRow(last.offset, last.created, payload)


def page_of(codec: Codec, run: bytes, rows: EventPage[EventRow], after: int) -> EventPage[RunEvent]:
    """The events of rows after an offset: at most `EVENTS_PAGE`, and about `PAGE_BYTES`.

    Args:
        rows: in order. A row beside the frame that was to replace it gives no event twice.
    Raises:
        CheckpointError: as `events_of`.
    """
    page, size = EventPage[RunEvent](), 0
    for row in rows:
        have = page[-1].offset if page else after
        for event, length in events_of(codec, run, row, have):
            page.append(event)
            size += length
            if len(page) >= EVENTS_PAGE or size >= PAGE_BYTES:
                page.is_full = True
                return page
    page.is_full = rows.is_full
    return page


def events_of(
    codec: Codec, run: bytes, row: EventRow, after: int = 0
) -> Iterator[tuple[RunEvent, int]]:
    """Decode the events of a row, each with its encoded bytes.

    Args:
        after: events up to this offset are left out, and not decoded.
    Raises:
        FormatVersionError: a newer version of the library has written the row.
        CheckpointError: it can't be decoded. The text of both names the event.
    """
    place = row.place
    try:
        parts = codec.decode(row.payload, event_of(run, place))
        if len(parts) == _PARTS:
            if place > after:
                yield _event(parts, place, row.created), len(row.payload)
            return
        pairs = _unpacked(*parts)
        first = row.place - len(pairs) + 1
        unsealed = codec.unsealed or codec
        skipped = max(0, after + 1 - first)
        for place, (created, payload) in enumerate(pairs[skipped:], first + skipped):
            event = _event(unsealed.decode(payload, event_of(run, place)), place, created)
            yield event, len(payload)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - damaged bytes may raise anything
        raise_located(error, f"event {place} of run {as_text(run)}")


def _event(parts: Any, offset: int, created: int) -> RunEvent:
    kind, namespace, data = parts
    return RunEvent(offset, kind, data, tuple(namespace), created)


def _unpacked(form: int, packed: bytes) -> list[tuple[int, bytes]]:
    if form not in (_PLAIN, _ZLIB):
        raise FormatVersionError(
            f"its events are stored in form {form!r}; this version reads {_PLAIN} and {_ZLIB}",
            do="read them with the version of actorgraph that wrote them, or a newer one",
        )
    if form == _ZLIB:
        inflater = zlib.decompressobj()
        packed = inflater.decompress(packed, INFLATED_MAX)
        if not inflater.eof:
            raise ValueError("the packed events are cut off, or too large")
    return _PAIRS.decode(packed)
