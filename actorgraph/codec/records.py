"""The JSON record of a checkpoint: the coordination, and where each value is.

Keys: `v` the format; `graph`; `channel_versions`; `versions_seen`; `updated_channels`; `values`
for None, booleans and integers; `lists` channel -> [[lineage, end], ...]; `blobs` the channels
whose value is a row of its own, at their version or where `stands` says; `deltas` those whose
value must be folded, with their counters; `folds` whether from the parent's ledger too; `shared`
channel -> the rows, listed among the `blobs`, that its value is or, of an input, names; `highest`
the highest version of the namespace, where another branch has it; `shape` the `v` of a checkpoint
that a program put, where it is another one. Any other channel that has a version and no value is
empty. `parts` counts what all of these keys have, so that a record that has lost some of it is not
taken for a smaller one.

The format is 4; that of a record with `shared` is 5, so that no older version of the library takes
a part of the values for all of them. An older record is read as it is, and what it doesn't have yet
is empty: 1 has no `versions_seen`, 2 no `updated_channels`, 3 no Sends that wait.
`codec.old_layouts` renames what had another name in it. What is written is always one of these two.
"""

from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

import msgspec

from actorgraph.errors import FormatVersionError
from actorgraph.values.constants import CHECKPOINT_FORMAT, START

FORMAT_SHARED = CHECKPOINT_FORMAT + 1
"""Of records whose values are rows that several channels or checkpoints share."""

_INLINE_INT_MAX = 2**53


class Record(msgspec.Struct, omit_defaults=True):
    """A record, decoded; `v` as it was stored."""

    # A factory's value is never left out: `v` says how to read the rest.
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
        """What the versions of any later checkpoint of the namespace must be above."""
        return max(self.highest, max(self.channel_versions.values(), default=0))

    def version_of(self, channel: str) -> int:
        """The version at which the row of one of the `blobs` stands."""
        return self.stands.get(channel) or self.channel_versions.get(channel, 0)

    @property
    def counted(self) -> int:
        """What `parts` must be; 0 there means that nobody has counted."""
        places = len(self.values) + len(self.lists) + len(self.blobs) + len(self.deltas)
        return len(self.channel_versions) + len(self.versions_seen) + places + len(self.shared)

    @property
    def sources(self) -> set[str]:
        """Those of the `blobs` that are no channels: rows that channels share."""
        return {name for names in self.shared.values() for name in names}

    @property
    def depth(self) -> int:
        """How many checkpoints up the last of its values is held whole."""
        return max((points for _, points in self.deltas.values()), default=0)

    def only(self, channels: AbstractSet[str]) -> "Record":
        """The part that says where the values of some channels are."""
        made = Record(
            channel_versions=self.channel_versions,
            values={c: v for c, v in self.values.items() if c in channels},
            lists={c: chain for c, chain in self.lists.items() if c in channels},
            # The ledger beside an input names its rows.
            shared={c: names for c, names in self.shared.items() if c in {*channels, START}},
            stands=self.stands,
        )
        wanted = {*channels, *made.sources}
        made.blobs = [c for c in self.blobs if c in wanted]
        return made


class _Versioned(msgspec.Struct):
    v: int = 0


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Record)
_VERSION = msgspec.json.Decoder(_Versioned)
_METADATA = msgspec.json.Decoder(dict[str, Any])
_NAMES = msgspec.json.Decoder(list[str])


def is_inline(value: Any) -> bool:
    """Whether a value stands in the record itself: it is no longer there than a reference."""
    if value is None or value is True or value is False:
        return True
    return type(value) is int and -_INLINE_INT_MAX < value < _INLINE_INT_MAX


def encode_record(record: Record) -> str:
    """The record as JSON text."""
    return _ENCODER.encode(record).decode()


def decode_record(text: str) -> Record:
    """The record of a stored checkpoint.

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
    """Compact JSON of plain data."""
    return _ENCODER.encode(value).decode()


@lru_cache(maxsize=4096)
def encode_names(names: tuple[str, ...]) -> str:
    """A JSON list of node names; a graph has few different ones."""
    return encode_json(names)


def decode_metadata(text: str) -> dict[str, Any]:
    """The metadata of a stored checkpoint.

    Raises:
        FormatVersionError: it is damaged.
    """
    try:
        return _METADATA.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise _damaged("metadata", error) from error


def decode_names(text: str) -> list[str]:
    """The nodes that run next, of a stored checkpoint.

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
