"""The values that a checkpoint holds itself: inline, as blobs, as lists in ranges."""

from typing import Any

from actorgraph.channels import EMPTY
from actorgraph.codec.codec import Codec
from actorgraph.codec.frames import frames
from actorgraph.codec.handoff import Placement
from actorgraph.codec.located import located
from actorgraph.codec.places import NOWHERE, items_at, value_at
from actorgraph.codec.records import Record
from actorgraph.errors import ActorGraphError, SerializationError
from actorgraph.plan.graph import Plan
from actorgraph.superstep.growth import Growth, Row
from actorgraph.values.commits import StoredCheckpoint
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
        try:
            values[channel] = codec.decode(stored.blobs[channel], place)
        except ActorGraphError as error:
            raise located(error, f"the value of channel {channel!r}") from error.__cause__
        placement.blobs.add(channel)
    placement.stands = dict(record.stands)
    for channel, chain in record.lists.items():
        try:
            growth = _list(codec, channel, chain, stored)
        except ActorGraphError as error:
            raise located(error, f"channel {channel!r}") from error.__cause__
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
    sealed = codec.encrypts
    for lineage, end in chain:
        rows = []
        for row in stored.ranges.get((channel, lineage), ()):
            if row.start != len(items):
                raise lost(channel, stored)
            for part in frames(row.payload):
                place = NOWHERE
                if sealed:
                    where = (stored.thread_id, stored.namespace, channel, lineage)
                    place = items_at(*where, len(items))
                items.extend(codec.decode(part, place))
            rows.append(Row(row.start, row.count, len(row.payload)))
        if len(items) < end:
            raise lost(channel, stored)
        del items[end:]
    return Growth([(lineage, end) for lineage, end in chain], items, rows)


def lost(channel: str, stored: StoredCheckpoint) -> SerializationError:
    """The error of a checkpoint whose rows are not all there."""
    return SerializationError(
        f"checkpoint {as_text(stored.row.id)} of thread {stored.thread_id!r} has lost rows of "
        f"channel {channel!r}",
        do="check the database's integrity, or restore it from a backup",
    )
