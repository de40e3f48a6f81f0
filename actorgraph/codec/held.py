"""The values that a checkpoint holds itself: inline, as blobs, as lists in ranges."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels import EMPTY
from actorgraph.codec.codec import Codec
from actorgraph.codec.frames import frames
from actorgraph.codec.handoff import Placement
from actorgraph.codec.places import NOWHERE, items_at, value_at
from actorgraph.codec.records import Record
from actorgraph.codec.remembered import starts_right
from actorgraph.errors import SerializationError
from actorgraph.plan.graph import Plan
from actorgraph.superstep.growth import Growth, Row
from actorgraph.values.commits import StoredCheckpoint, StoredRange
from actorgraph.values.ids import as_text


def held_values(
    codec: Codec, plan: Plan, stored: StoredCheckpoint, record: Record, placement: Placement
) -> dict[str, Any]:
    """The values that a checkpoint holds, by channel.

    Args:
        placement: learns where each of them is.
    Raises:
        SerializationError: rows are missing, or can't be read.
    """
    values: dict[str, Any] = {}
    sealed = codec.encrypts
    if sealed and record.values:
        codec.check_plain()
    for channel, value in record.values.items():
        values[channel] = placement.values[channel] = value
    for channel in record.blobs:
        if channel not in stored.blobs:
            raise lost(channel, stored)
        place = NOWHERE
        if sealed:
            version = record.version_of(channel)
            place = value_at(stored.thread_id, stored.namespace, channel, version)
        values[channel] = codec.decode(stored.blobs[channel], place)
        placement.blobs.add(channel)
    placement.stands = dict(record.stands)
    for channel, chain in record.lists.items():
        growth = _list(codec, channel, chain, stored)
        placement.lists[channel] = placement.growths[channel] = growth
        if stored.ends.get((channel, chain[-1][0]), 0) > chain[-1][1]:
            placement.outgrown.add(channel)
        values[channel] = list(growth.items)
    rules = plan.channels
    loaded = {c: rules[c].load(v) if c in rules else v for c, v in values.items()}
    return {channel: value for channel, value in loaded.items() if value is not EMPTY}


def _list(
    codec: Codec, channel: str, chain: list[tuple[int, int]], stored: StoredCheckpoint
) -> Growth:
    items: list[Any] = []
    rows: list[Row] = []
    for lineage, end in chain:
        found = stored.ranges.get((channel, lineage), ())
        items += _items(codec, (channel, lineage), found, stored, (len(items), end))
        rows = [Row(row.start, row.count, len(row.payload)) for row in found]
        if len(items) < end:
            raise lost(channel, stored)
        del items[end:]
    return Growth([(lineage, end) for lineage, end in chain], items, rows)


def _items(
    codec: Codec,
    of: tuple[str, int],
    rows: Sequence[StoredRange],
    stored: StoredCheckpoint,
    span: tuple[int, int],
) -> list[Any]:
    """The items of a lineage's rows, the first of which stands at the beginning of `span`."""
    start, end = span
    where = (stored.thread_id, stored.namespace, *of)
    if codec.lists is not None and starts_right(rows, start):
        known = codec.lists.read(where, rows, end - start, codec.decode)
        if known is not None:
            return known
    items: list[Any] = []
    for row in rows:
        if row.start != start + len(items):
            raise lost(of[0], stored)
        for part in frames(row.payload):
            place = items_at(*where, start + len(items)) if codec.encrypts else NOWHERE
            items.extend(codec.decode(part, place))
    return items


def lost(channel: str, stored: StoredCheckpoint) -> SerializationError:
    """The error of a checkpoint whose rows are not all there."""
    return SerializationError(
        f"checkpoint {as_text(stored.row.id)} of thread {stored.thread_id!r} has lost rows of "
        f"channel {channel!r}",
        do="check the database's integrity, or restore it from a backup",
    )
