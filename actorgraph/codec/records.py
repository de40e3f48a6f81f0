"""The formats of stored rows: the JSON record of a checkpoint, and frames of list items.

`Placement` is where a run's values are while it makes records.

A record has the checkpoint's coordination and where each value is stored. Its keys:

v                 format of the record
graph             id of the graph that wrote it
channel_versions, versions_seen, updated_channels
values            channel -> None, boolean or integer, stored inline
lists             channel -> [[lineage, end], ...], stored in rows of items
blobs             channels whose value is a row of its own ...
stands            ... and the row's version, where it is not the channel's
deltas            delta channels whose value must be folded, with their counters
folds             whether the parent's pending writes are folded in too
shared            channel -> names of the shared rows, listed in `blobs`, that its value is or
                  (of an input) refers to
highest           highest version of the namespace, where another branch has it
shape             `v` of a checkpoint that a program put, where it is another format
converted         channel -> name of a migration -> digest: the conversions that the values had
above             (of a subgraph) the same, of the conversions of the graph above
parts             number of entries of the keys above, so that a record that has lost some is
                  detected

A channel with a version and no value is empty.

The format is 4; with `shared` it is 5, and with `converted` or `above` 6, so that an older version
of the library refuses the record instead of taking a part of the values for all of them, or of
converting them again. Older formats are read: 1 has no `versions_seen`, 2 no `updated_channels`, 3
no waiting Sends; missing ones are empty. Renamed channels of formats 1 and 2 are handled where
records are restored. Only 4, 5 and 6 are written.

A frame is a length (4 bytes, big endian) and that many bytes, which decode to a list. Rows of items
are frames one behind the other, so that rows join without being decoded. Databases store checked
frames: the highest bit of the length is set, and the CRC-32 of the length and the bytes is between
them (4 bytes, big endian). One row may have frames of both kinds: those written before there were
checksums stay as they are.

Shared values: the input's checkpoint, the pending writes that its task makes of it and the next
checkpoint hold the same objects. A large one gets a blob row of its own, named `__start__:<key>`
(no channel has that name) at the version of the input. Each value that holds it is encoded with a
reference (`Shared`) in its place. The records of the checkpoints list the row among their blobs
(`Record.shared`), so that savers read, keep and remove it like any other value. Identity decides:
an object that a node or reducer made anew is another value. Decision 72.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, cast
from zlib import crc32

import msgspec

from actorgraph.codec.subclasses import plain_value
from actorgraph.errors import FormatVersionError, SerializationError
from actorgraph.superstep.list_rows import StoredList
from actorgraph.values.checkpoint import NOTHING_CONVERTED, Converted
from actorgraph.values.commits import Shared
from actorgraph.values.constants import CHECKPOINT_FORMAT, START
from actorgraph.values.ids import CheckpointId

FORMAT_SHARED = CHECKPOINT_FORMAT + 1
"""Format of records with `shared`."""
FORMAT_CONVERTED = CHECKPOINT_FORMAT + 2
"""Format of records with `converted` or `above`, with or without `shared`."""

_INLINE_INT_MAX = 2**53
_EDGES_SINCE = 3
"""The first format in which edge channels have today's names."""
SIZED_LEVELS = 100
"""Levels of a value that are looked at to estimate its size."""


class Record(msgspec.Struct, omit_defaults=True):
    """A decoded record; `v` as it was stored. The keys are described at the top of this file."""

    # With `omit_defaults` a plain default would be left out; a factory's value never is.
    v: int = msgspec.field(default_factory=lambda: CHECKPOINT_FORMAT)
    highest: int = 0
    parts: int = 0
    graph: str = ""
    channel_versions: dict[str, int] = {}
    versions_seen: dict[str, dict[str, int]] = {}
    updated_channels: list[str] | None = None
    values: dict[str, Any] = {}
    lists: dict[str, list[tuple[int, int]]] = {}
    blobs: list[str] = []
    stands: dict[str, int] = {}
    deltas: dict[str, tuple[int, int]] = {}
    folds: bool = False
    shape: int = CHECKPOINT_FORMAT
    shared: dict[str, list[str]] = {}
    converted: dict[str, dict[str, str]] = {}
    above: dict[str, dict[str, str]] = {}

    @property
    def floor(self) -> int:
        """The version that those of any later checkpoint of the namespace must exceed."""
        return max(self.highest, max(self.channel_versions.values(), default=0))

    def version_of(self, channel: str) -> int:
        """The version of the row of one of the `blobs`."""
        return self.stands.get(channel) or self.channel_versions.get(channel, 0)

    @property
    def counted(self) -> int:
        """The expected value of `parts`; older records, written without a count, have 0 there."""
        places = len(self.values) + len(self.lists) + len(self.blobs) + len(self.deltas)
        return (
            len(self.channel_versions)
            + len(self.versions_seen)
            + places
            + len(self.shared)
            + len(self.converted)
            + len(self.above)
        )

    @property
    def has_old_edges(self) -> bool:
        """Whether edge channels may have the names that they had in formats 1 and 2."""
        return self.v < _EDGES_SINCE or self.shape < _EDGES_SINCE

    @property
    def shared_rows(self) -> set[str]:
        """The `blobs` that are shared rows, not channels."""
        return {name for names in self.shared.values() for name in names}

    @property
    def depth(self) -> int:
        """Number of ancestors to read until each delta channel has a whole value."""
        return max((points for _, points in self.deltas.values()), default=0)

    def only(self, channels: AbstractSet[str]) -> "Record":
        """Return a record that locates the values of these channels only."""
        made = Record(
            channel_versions=self.channel_versions,
            values={c: v for c, v in self.values.items() if c in channels},
            lists={c: chain for c, chain in self.lists.items() if c in channels},
            # The pending writes beside an input refer to its rows.
            shared={c: names for c, names in self.shared.items() if c in {*channels, START}},
            stands=self.stands,
        )
        wanted = {*channels, *made.shared_rows}
        made.blobs = [c for c in self.blobs if c in wanted]
        return made


class _Versioned(msgspec.Struct):
    v: int = 0


def _plain(value: Any) -> Any:
    """Return the plain value of an object that JSON lacks, such as a `str` subclass.

    Raises:
        TypeError: it has none.
    """
    plain = plain_value(value)
    if plain is value:
        msg = f"Encoding objects of type {type(value).__name__} is unsupported"
        raise TypeError(msg)
    return plain


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
_DECODER = msgspec.json.Decoder(Record)
_VERSION = msgspec.json.Decoder(_Versioned)
_METADATA = msgspec.json.Decoder(dict[str, Any])
_NAMES = msgspec.json.Decoder(list[str])


MAY_BE_INLINE = frozenset({type(None), bool, int})
"""Types of values that `is_inline` may accept."""


def is_inline(value: Any) -> bool:
    """Whether a value is stored in the record itself, where it takes no more than a reference."""
    if value is None or value is True or value is False:
        return True
    return type(value) is int and -_INLINE_INT_MAX < value < _INLINE_INT_MAX


def encode_record(record: Record) -> str:
    """Encode a record as JSON text."""
    return _ENCODER.encode(record).decode()


def decode_record(text: str) -> Record:
    """Decode the record of a stored checkpoint.

    Raises:
        FormatVersionError: it is damaged, or a newer version of the library wrote it.
    """
    try:
        version = _VERSION.decode(text).v
        if 1 <= version <= FORMAT_CONVERTED:
            return _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise _damaged("record", error) from error
    raise FormatVersionError(
        f"a checkpoint's record has format {version}; this version reads 1 to {FORMAT_CONVERTED}",
        do="upgrade actorgraph",
    )


JSON_LEVELS_MAX: Final = 200
"""As of values (`Codec`). How deep an interpreter goes depends on its version: what one wrote could
be too deep for another one to read."""


def encode_json(value: Any) -> str:
    """Encode plain data as compact JSON.

    Raises:
        SerializationError: it has more than `JSON_LEVELS_MAX` levels.
    """
    try:
        text = _ENCODER.encode(value).decode()
        if text.count("[") + text.count("{") > JSON_LEVELS_MAX and _is_deep(value):
            raise RecursionError
    except RecursionError as error:
        raise SerializationError(
            f"a value is nested too deeply for JSON: more than {JSON_LEVELS_MAX} levels",
            do="use shallow lists and dicts",
        ) from error
    return text


def _is_deep(value: Any, levels: int = JSON_LEVELS_MAX) -> bool:
    """Whether lists and dicts are inside each other by more than some levels."""
    if isinstance(value, dict):
        parts: Iterable[Any] = cast("dict[Any, Any]", value).values()
    elif isinstance(value, list | tuple):
        parts = cast("list[Any]", value)
    else:
        return False
    return not levels or any(_is_deep(part, levels - 1) for part in parts)


@lru_cache(maxsize=4096)
def encode_names(names: tuple[str, ...]) -> str:
    """Encode node names as a JSON list. Cached: a graph has few different sets of next nodes."""
    return encode_json(names)


def decode_metadata(text: str) -> dict[str, Any]:
    """Decode the metadata of a stored checkpoint.

    Raises:
        FormatVersionError: it is damaged.
    """
    try:
        return _METADATA.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise _damaged("metadata", error) from error


def decode_names(text: str) -> list[str]:
    """Decode the names of the nodes that run next.

    Raises:
        FormatVersionError: it is damaged.
    """
    try:
        return _NAMES.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise _damaged("list of next nodes", error) from error


def _damaged(part: str, error: Exception) -> FormatVersionError:
    return FormatVersionError(
        f"a checkpoint's {part} can't be read: {error}",
        do="check the database's integrity, or restore it from a backup",
    )


_LENGTH = struct.Struct(">I")
_BOTH = struct.Struct(">II")
_CHECKED = 1 << 31


def frame(encoded: bytes) -> bytes:
    """Put encoded items into a frame without a checksum."""
    return _LENGTH.pack(len(encoded)) + encoded


def with_checksums(payload: bytes) -> bytes:
    """Return the same frames, each with a checksum.

    Raises: as `frames`.
    """
    parts: list[bytes] = []
    for encoded in frames(payload):
        size = len(encoded) | _CHECKED
        parts += (_BOTH.pack(size, _sum(size, encoded)), encoded)
    return b"".join(parts)


def frames(payload: bytes) -> Iterator[bytes]:
    """Iterate over the contents of a row's frames, in order, verifying those with a checksum.

    Raises:
        SerializationError: the row ends in the middle of a frame, or a checksum is wrong.
    """
    position, whole = 0, len(payload)
    while position < whole:
        if position + 4 > whole:
            raise _broken("ends in the middle of its items")
        (size,) = _LENGTH.unpack_from(payload, position)
        start = position + (8 if size & _CHECKED else 4)
        end = start + (size & ~_CHECKED)
        if end > whole:
            raise _broken("ends in the middle of its items")
        encoded = payload[start:end]
        if size & _CHECKED and _BOTH.unpack_from(payload, position)[1] != _sum(size, encoded):
            raise _broken("has a wrong checksum")
        yield encoded
        position = end


def _sum(size: int, encoded: bytes) -> int:
    # The length is in the sum: a flipped bit in it would otherwise read as another frame.
    return crc32(encoded, crc32(_LENGTH.pack(size)))


def _broken(what: str) -> SerializationError:
    return SerializationError(
        f"a stored list {what}",
        do="check the database's integrity, or restore it from a backup",
    )


SHARED_BYTES_MIN = 4_096
"""Bytes below which a value is stored inside each row that holds it: sharing would save little."""


class SharedRow(msgspec.Struct, frozen=True):
    """An input value with a row of its own.

    Attributes:
        name: of the row, `__start__:<key>`.
        version: of the row, that of the input.
        value: the object. Holding it keeps its `id` from being reused by another object.
    """

    name: str
    version: int
    value: Any


class SharedInput:
    """The large values of a run's input. Owned by the run's `SaveEncoder`.

    Attributes:
        rows: `id(value)` -> its row; empty for most runs.
    """

    def __init__(self) -> None:
        self.rows: dict[int, SharedRow] = {}
        self._base: CheckpointId | bytes = b""

    def collect(self, point: Any) -> None:
        """Find the large values of the input of which `point` is the checkpoint."""
        given = point.changed[START]
        if type(given) is not dict:
            return
        version, self._base = point.versions[START], point.id
        self.rows = {
            id(value): SharedRow(f"{START}:{key}", version, value)
            for key, value in given.items()
            if type(key) is str and _size(value, SHARED_BYTES_MIN) >= SHARED_BYTES_MIN
        }

    def row_of(self, value: Any) -> SharedRow | None:
        """Return the row of a value; None if the value is not shared."""
        return self.rows.get(id(value))

    def new_with(self, point: Any) -> Sequence[SharedRow]:
        """Return the rows to store with a checkpoint: all of them with the input's, else none."""
        return tuple(self.rows.values()) if point.id == self._base else ()

    def with_references(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the input with a reference in place of each large value."""
        return {key: self._name(value) for key, value in given.items()}

    def writes(self, base: bytes, writes: Iterable[tuple[str, Any]]) -> list[list[Any]]:
        """Return pending writes to encode, with references in those of the input's checkpoint.

        Only its record lists the rows: beside any other checkpoint a reference could not be read.
        """
        if base != self._base:
            return list(map(list, writes))
        return [[channel, self._name(value)] for channel, value in writes]

    def forget_mutable(self) -> None:
        """Forget the values that a node could change from now on; text and bytes stay shared."""
        immutable = (str, bytes)
        kept = {i: s for i, s in self.rows.items() if type(s.value) in immutable}
        self.rows = kept

    def _name(self, value: Any) -> Any:
        row = self.row_of(value)
        return value if row is None else Shared(row.name)


def _size(value: Any, enough: int, levels: int = SIZED_LEVELS) -> int:
    """Estimate the encoded bytes of a value; stops counting at `enough`, and below `levels`.

    A value that is nested deeper is refused when it is encoded, with its place.
    """
    kind = type(value)
    if not levels:
        return 8
    if kind is str or kind is bytes:
        return len(value)
    if kind is not list and kind is not dict and kind is not tuple:
        parts = getattr(value, "__dict__", None)
        return 8 if parts is None else _size(parts, enough, levels - 1)
    size = 0
    for part in value.values() if kind is dict else value:
        size += _size(part, enough - size, levels - 1)
        if size >= enough:
            break
    return size


class Placement(msgspec.Struct):
    """Location of each channel's value; a run updates it with each save.

    Attributes:
        values: channel -> value stored inline in the record.
        blobs: channels whose value is a row of its own.
        stands: channel -> version of its blob, where that is not the channel's version.
        lists: channel -> its list, stored as rows of items.
        growths: channel -> the last list that the run has seen, also if it was stored as a blob.
        outgrown: channels whose list has been appended to by another branch since the checkpoint.
        moved: channel -> value that a migration made, to be stored with the next checkpoint.
        shared: channel -> names of the shared rows that its value is, or refers to.
        shared_versions: name of a shared row -> its version.
        converted: the conversions that the checkpoint's record notes.
        above: those of the graph above that it notes.
        base: id of the checkpoint.
    """

    values: dict[str, Any] = {}
    blobs: set[str] = set()
    stands: dict[str, int] = {}
    lists: dict[str, StoredList] = {}
    growths: dict[str, StoredList] = {}
    outgrown: set[str] = set()
    moved: dict[str, Any] = {}
    shared: dict[str, list[str]] = {}
    shared_versions: dict[str, int] = {}
    converted: Converted = NOTHING_CONVERTED
    above: Converted = NOTHING_CONVERTED
    base: bytes = b""

    def share(self, channel: str, rows: Iterable[SharedRow]) -> None:
        """Record that the channel's value is one of these shared rows, or refers to them."""
        versions = {row.name: row.version for row in rows}
        self.shared[channel] = [*versions]
        self.shared_versions.update(versions)

    def write_shared(self, record: Record) -> None:
        """Write the shared rows of its channels into a record."""
        record.v, record.shared = FORMAT_SHARED, dict(self.shared)
        names = record.shared_rows
        record.blobs = sorted({*record.blobs, *names})
        record.stands = {**record.stands, **{name: self.shared_versions[name] for name in names}}

    def inline(self, channel: str, value: Any) -> None:
        """Record that the channel changed to a value that is stored in the record itself."""
        if channel not in self.values:
            self.forget(channel)
        self.values[channel] = value

    def forget(self, channel: str) -> None:
        """Drop the place of a channel's old value, because the value has changed."""
        self.values.pop(channel, None)
        self.blobs.discard(channel)
        self.lists.pop(channel, None)
        if self.stands:
            self.stands.pop(channel, None)
        if self.shared:
            self.shared.pop(channel, None)
