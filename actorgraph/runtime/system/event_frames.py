"""Rows of stored events: one event, or a frame of several; no I/O.

A row of one event is the codec's payload of `[kind, namespace, data]`. A frame is that of
`[form, packed]`: its events as pairs of time and encoded event, packed together, in order; the
row's place is the offset of the last one, and the offsets before it follow without a gap. Inside
of a frame nothing is encrypted: the row is, as any other one. A version of the library that knows
no frames finds two parts where it expects three, and refuses the row.
"""

import zlib
from collections.abc import Iterator, Sequence

import msgspec

from actorgraph.codec import Codec
from actorgraph.codec.decode_errors import raise_located
from actorgraph.codec.encryption import event_of
from actorgraph.errors import FormatVersionError, SerializationError
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.sizes import MB
from actorgraph.values.ids import as_text
from actorgraph.values.systems import EventRow, RunEvent

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


class EncodedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that waits to be stored.

    Attributes:
        offset: counts from 1.
        created: microseconds since 1970-01-01 UTC.
        payload: the encoded event; see `encode_event`.
        closes: whether a frame ends with it: it is large, or the last one of its attempt.
    """

    offset: int
    created: int
    payload: bytes
    closes: bool


def encode_event(codec: Codec, run: bytes, event: RunEvent) -> EncodedEvent:
    """Encode an event; data that the codec refuses is stored as its `repr`.

    Args:
        codec: the `unsealed` one, if the event may become part of a frame.
    """
    parts, place = [event.kind, list(event.namespace)], event_of(run, event.offset)
    try:
        payload = codec.encode([*parts, event.data], f"event {event.kind!r}", place)
    except SerializationError as error:
        ids = {"run_id": as_text(run), "kind": event.kind}
        log_event("warning", "event.unserializable", **ids, error=error.what)
        payload = codec.encode([*parts, {"$repr": repr(event.data)}], "event", place)
    closes = event.ends or event.kind == "drain" or len(payload) >= LARGE_BYTES
    return EncodedEvent(event.offset, event.created, payload, closes)


def row_of(
    codec: Codec, run: bytes, events: Sequence[EncodedEvent], *, compress: bool
) -> EventRow:
    """Make the row of events that follow one another, encoded by `codec.unsealed`.

    Args:
        compress: for a row that stays. One that a frame is to replace is not worth the time.
    """
    last = events[-1]
    place = event_of(run, last.offset)
    if len(events) == 1:
        return EventRow(last.offset, last.created, codec.seal(last.payload, place))
    packed = msgspec.msgpack.encode([(event.created, event.payload) for event in events])
    form = _ZLIB if compress and len(packed) <= INFLATED_MAX else _PLAIN
    if form == _ZLIB:
        packed = zlib.compress(packed, _ZLIB_LEVEL)
    return EventRow(last.offset, last.created, codec.encode([form, packed], "events", place))


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


def _event(parts: object, offset: int, created: int) -> RunEvent:
    kind, namespace, data = parts  # pyright: ignore
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
