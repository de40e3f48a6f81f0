"""Rows -> a checkpoint with its values: the way back from the saver."""

from typing import Any

from actorgraph.channels import EMPTY
from actorgraph.codec.codec import Codec
from actorgraph.codec.frames import frames
from actorgraph.codec.handoff import Placement
from actorgraph.codec.records import Record, decode_json, decode_record
from actorgraph.errors import SerializationError
from actorgraph.plan.graph import Plan
from actorgraph.superstep.growth import Growth, Row, level_of
from actorgraph.values.commits import LedgerRow, Loaded, StoredCheckpoint
from actorgraph.values.constants import HANDLER_MARK, PUSH
from actorgraph.values.ids import as_text
from actorgraph.values.records import OpenClaim, Restored, StoredWrite
from actorgraph.values.run import Path


def restore(codec: Codec, plan: Plan, loaded: Loaded) -> tuple[Restored, Placement] | None:
    """The checkpoint of an answer to `LoadCheckpoint`, and where its values are stored.

    Returns: None when there is no checkpoint.
    Raises:
        SerializationError, UnknownTypeError, FormatVersionError: a row can't be read.
    """
    stored = loaded.checkpoint
    if stored is None:
        return None
    record = decode_record(stored.row.record)
    placement = Placement()
    values = _values(codec, plan, stored, record, placement)
    row = stored.row
    restored = Restored(
        id=row.id,
        parent=row.parent,
        sequence=stored.sequence,
        namespace=stored.namespace,
        step=row.step,
        source=row.source,
        created=row.created,
        run=row.run,
        graph=record.graph,
        values=values,
        versions=record.channel_versions,
        seen=record.versions_seen,
        updated=None if record.updated_channels is None else tuple(record.updated_channels),
        next=tuple(decode_json(row.next)),
        metadata=decode_json(row.metadata),
        ledger=tuple(stored_write(codec, entry) for entry in stored.ledger),
        version_floor=max(loaded.version_floor, max(record.channel_versions.values(), default=0)),
        head=loaded.head or row.id,
        claim=open_claim(codec, loaded),
    )
    return restored, placement


def open_claim(codec: Codec, loaded: Loaded) -> OpenClaim | None:
    """The run that a dead process left on the thread's head, if there is one."""
    run = loaded.open_run
    if run is None or run.head != loaded.head:
        return None
    given = None if run.input is None else codec.decode(run.input)
    return OpenClaim(run.run, run.mode, given, run.input is not None)


def _values(
    codec: Codec, plan: Plan, stored: StoredCheckpoint, record: Record, placement: Placement
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for channel, value in record.values.items():
        values[channel] = placement.values[channel] = value
    for channel in record.blobs:
        if channel not in stored.blobs:
            raise _lost(channel, stored)
        values[channel] = codec.decode(stored.blobs[channel])
        placement.blobs.add(channel)
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
        rows = []
        for row in stored.ranges.get((channel, lineage), ()):
            if row.start != len(items):
                raise _lost(channel, stored)
            for part in frames(row.payload):
                items.extend(codec.decode(part))
            size = len(row.payload)
            rows.append(Row(row.start, row.count, size, level_of(row.count, size)))
        if len(items) < end:
            raise _lost(channel, stored)
        del items[end:]
    return Growth([(lineage, end) for lineage, end in chain], items, rows)


def _lost(channel: str, stored: StoredCheckpoint) -> SerializationError:
    return SerializationError(
        f"checkpoint {as_text(stored.row.id)} of thread {stored.thread_id!r} has lost rows of "
        f"channel {channel!r}",
        do="check the database's integrity, or restore it from a backup",
    )


def stored_write(codec: Codec, row: LedgerRow) -> StoredWrite:
    """A ledger row, decoded."""
    writes = tuple((channel, value) for channel, value in codec.decode(row.payload))
    return StoredWrite(as_text(row.task), _path(row.path), row.index, row.generation, writes)


def _path(key: str) -> Path:
    parts = key.removeprefix("~").split(", ")
    if parts == [""]:
        return ()
    kind, place = parts[0], parts[1:]
    if HANDLER_MARK in place:
        mark = place.index(HANDLER_MARK)
        return (
            *_path(f"{kind}, {', '.join(place[:mark])}"),
            HANDLER_MARK,
            False,
            *place[mark + 2 :],
        )
    if kind == PUSH and place and place[0].isdigit():
        return (kind, int(place[0]), *place[1:])
    return (kind, ", ".join(place))
