"""The values that a checkpoint holds itself: inline, as blobs, as lists in rows of items."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels import EMPTY
from actorgraph.codec.codec import Codec
from actorgraph.codec.frames import frames
from actorgraph.codec.located import with_location
from actorgraph.codec.placement import Placement
from actorgraph.codec.places import NOWHERE, items_at, value_at
from actorgraph.codec.records import Record
from actorgraph.codec.remembered import are_contiguous
from actorgraph.errors import ActorGraphError, SerializationError
from actorgraph.plan.graph import Plan
from actorgraph.superstep.growth import ListRow, StoredList
from actorgraph.values.commits import StoredCheckpoint, StoredRange
from actorgraph.values.constants import START
from actorgraph.values.ids import as_text
from actorgraph.values.shared import Shared


def held_values(
    codec: Codec, plan: Plan, stored: StoredCheckpoint, record: Record, placement: Placement
) -> dict[str, Any]:
    """Decode the values that a checkpoint holds itself.

    Args:
        placement: updated with where each of them is stored.
    Returns: channel -> value; delta channels and empty ones are absent.
    Raises:
        SerializationError: rows are missing, or can't be read.
    """
    values: dict[str, Any] = {}
    sealed = codec.encrypts
    if sealed and record.values:
        codec.check_plain()
    for channel, value in record.values.items():
        values[channel] = placement.values[channel] = value
    sources = record.shared_rows if record.shared else ()
    for channel in record.blobs:
        if channel not in sources:
            values[channel] = _blob(codec, stored, record, channel)
            placement.blobs.add(channel)
    for channel, names in record.shared.items():
        placement.shared[channel] = names
        placement.shared_versions.update((name, record.version_of(name)) for name in names)
        if channel != START:
            values[channel] = _blob(codec, stored, record, names[0])
        elif START in values:  # an input holds references to the shared rows of its large values
            values[START] = {
                key: resolve_shared(codec, stored, record, value)
                for key, value in values[START].items()
            }
    placement.stands = dict(record.stands)
    for channel, chain in record.lists.items():
        try:
            growth = _list(codec, channel, chain, stored)
        except ActorGraphError as error:
            raise with_location(error, f"channel {channel!r}") from error.__cause__
        placement.lists[channel] = placement.growths[channel] = growth
        if stored.ends.get((channel, chain[-1][0]), 0) > chain[-1][1]:
            placement.outgrown.add(channel)
        values[channel] = list(growth.items)
    rules = plan.channels
    loaded = {c: rules[c].load(v) if c in rules else v for c, v in values.items()}
    return {channel: value for channel, value in loaded.items() if value is not EMPTY}


def resolve_shared(codec: Codec, stored: StoredCheckpoint, record: Record, value: Any) -> Any:
    """Return a value, or a new decoding of the shared row that it refers to.

    New for each holder, so that no two of them hold the same mutable object.
    """
    return _blob(codec, stored, record, value.name) if type(value) is Shared else value


def _blob(codec: Codec, stored: StoredCheckpoint, record: Record, name: str) -> Any:
    """Decode a blob row."""
    if name not in stored.blobs:
        raise missing_rows_error(name, stored)
    place = NOWHERE
    if codec.encrypts:
        place = value_at(stored.thread_id, stored.namespace, name, record.version_of(name))
    try:
        return codec.decode(stored.blobs[name], place)
    except ActorGraphError as error:
        raise with_location(error, f"the value of channel {name!r}") from error.__cause__


def _list(
    codec: Codec, channel: str, chain: list[tuple[int, int]], stored: StoredCheckpoint
) -> StoredList:
    items: list[Any] = []
    rows: list[ListRow] = []
    for lineage, end in chain:
        found = stored.ranges.get((channel, lineage), ())
        items += _items(codec, (channel, lineage), found, stored, (len(items), end))
        rows = [ListRow(row.start, row.count, len(row.payload)) for row in found]  # of the last one
        if len(items) < end:
            raise missing_rows_error(channel, stored)
        del items[end:]
    return StoredList([(lineage, end) for lineage, end in chain], items, rows)


def _items(
    codec: Codec,
    of: tuple[str, int],
    rows: Sequence[StoredRange],
    stored: StoredCheckpoint,
    span: tuple[int, int],
) -> list[Any]:
    """Decode the rows of one lineage.

    Args:
        of: channel and lineage.
        span: positions in the list of the lineage's first item, and of the end that is wanted.
    """
    start, end = span
    where = (stored.thread_id, stored.namespace, *of)
    if codec.lists is not None and are_contiguous(rows, start):
        known = codec.lists.read(where, rows, end - start, codec.decode)
        if known is not None:
            return known
    items: list[Any] = []
    for row in rows:
        if row.start != start + len(items):
            raise missing_rows_error(of[0], stored)
        for part in frames(row.payload):
            place = items_at(*where, start + len(items)) if codec.encrypts else NOWHERE
            items.extend(codec.decode(part, place))
    return items


def missing_rows_error(channel: str, stored: StoredCheckpoint) -> SerializationError:
    """Error for a checkpoint some of whose rows are missing."""
    return SerializationError(
        f"checkpoint {as_text(stored.row.id)} of thread {stored.thread_id!r} lacks rows of "
        f"channel {channel!r}",
        do="check the database's integrity, or restore it from a backup",
    )
