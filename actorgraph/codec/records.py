"""The formats of stored rows: the JSON record of a checkpoint, and frames of list items.

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
parts             number of entries of the keys above, so that a record that has lost some is
                  detected

A channel with a version and no value is empty.

The format is 4; with `shared` it is 5, so that an older version of the library refuses the record
instead of taking a part of the values for all of them. Older formats are read: 1 has no
`versions_seen`, 2 no `updated_channels`, 3 no waiting Sends; missing ones are empty. Renamed
channels of formats 1 and 2 are handled where records are restored. Only 4 and 5 are written.

A frame is a length (4 bytes, big endian) and that many bytes, which decode to a list. Rows of items
are frames one behind the other, so that rows join without being decoded. Databases store checked
frames: the highest bit of the length is set, and the CRC-32 of the length and the bytes is between
them (4 bytes, big endian). One row may have frames of both kinds: those written before there were
checksums stay as they are.
"""

import struct
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any
from zlib import crc32

import msgspec

from actorgraph.codec.subclasses import plain_value
from actorgraph.errors import FormatVersionError, SerializationError
from actorgraph.values.constants import CHECKPOINT_FORMAT, START

FORMAT_SHARED = CHECKPOINT_FORMAT + 1
"""Format of records with `shared`."""

_INLINE_INT_MAX = 2**53
_EDGES_SINCE = 3
"""The first format in which edge channels have today's names."""


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
        return len(self.channel_versions) + len(self.versions_seen) + places + len(self.shared)

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
        if 1 <= version <= FORMAT_SHARED:
            return _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise _damaged("record", error) from error
    raise FormatVersionError(
        f"a checkpoint's record has format {version}; this version reads 1 to {FORMAT_SHARED}",
        do="upgrade actorgraph",
    )


def encode_json(value: Any) -> str:
    """Encode plain data as compact JSON."""
    return _ENCODER.encode(value).decode()


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


def without_checksums(payload: bytes) -> bytes:
    """Verify the checksums and return the frames without them.

    Raises: as `frames`.
    """
    return b"".join(map(frame, frames(payload)))


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
