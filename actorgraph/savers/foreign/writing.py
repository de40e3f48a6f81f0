"""Checkpoint rows as LangGraph's checkpoints: whole values, from the parent's and the new ones.

A run's last checkpoint is kept in memory while the run goes on, so that only its first one must
read the parent.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec

from actorgraph.codec.records import Record, decode_metadata, decode_names, decode_record
from actorgraph.savers.foreign.payloads import ParentVersions, SaverStyle, number_of, value_of
from actorgraph.savers.foreign.reading import COUNTERS, EXTRA
from actorgraph.values.commits import CheckpointRow, RangeRow
from actorgraph.values.ids import as_text


class LastCheckpoint(msgspec.Struct):
    """A namespace's newest checkpoint, as it was put.

    Attributes:
        id: None for no checkpoint.
        values: channel -> value in our classes.
        versions: channel -> version in the saver's form.
        seen: node -> channel -> version in the saver's form.
        lists: channel -> the growing list to which new rows add items.
    """

    id: bytes | None
    values: dict[str, Any]
    versions: Mapping[str, Any]
    seen: Mapping[str, Mapping[str, Any]]
    lists: dict[str, list[Any]]


class PutArguments(msgspec.Struct, frozen=True):
    """The arguments of `put`, without the config."""

    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    new_versions: dict[str, Any]


def put_arguments(
    row: CheckpointRow, last: LastCheckpoint, style: SaverStyle
) -> tuple[PutArguments, LastCheckpoint]:
    """Return the arguments of `put` that store a checkpoint, and it as the next one's parent.

    Args:
        last: its parent; one without an id if it has none. Not changed.
    """
    record = decode_record(row.record)
    known = ParentVersions(style, last.versions, last.seen)
    lists = _grown(row, record, last)
    values = _values(row, record, last, lists)
    versions = known.all_written(record.channel_versions)
    seen = {node: known.all_written(at) for node, at in record.versions_seen.items()}
    checkpoint = {
        "v": record.shape,
        "id": as_text(row.id),
        "ts": _iso(row.created),
        "channel_values": {channel: style.shown(value) for channel, value in values.items()},
        "channel_versions": versions,
        "versions_seen": seen,
        "updated_channels": record.updated_channels,
    }
    numbers = record.channel_versions
    held = {c for c in numbers if c not in values or c in last.values}
    new = {c: v for c, v in versions.items() if not (c in held and known.has(c, numbers[c]))}
    put = PutArguments(checkpoint, _metadata(row, record), new)
    return put, LastCheckpoint(row.id, values, versions, seen, lists)


def missing_values(row: CheckpointRow, last: LastCheckpoint) -> dict[str, int]:
    """Return channel -> version of the values that are neither new nor the parent's.

    A checkpoint that copies another one is a sibling of it: it has that one's values and the
    parent of both.
    """
    record = decode_record(row.record)
    new = {blob.channel for blob in row.blobs} | {part.channel for part in row.ranges}
    full = [c for c, chain in record.lists.items() if chain[-1][1] and c not in last.lists]
    old = {c for c in (*record.blobs, *full) if c not in new}
    numbers = record.channel_versions
    return {
        channel: numbers[channel]
        for channel in old
        if channel not in last.values or number_of(last.versions[channel]) != numbers[channel]
    }


def _grown(row: CheckpointRow, record: Record, last: LastCheckpoint) -> dict[str, list[Any]]:
    """Add the new items to the growing lists, in new objects: the saver may keep the old ones."""
    lists = dict(last.lists)
    begun: set[str] = set()
    for part in row.ranges:
        if part.channel not in begun:
            begun.add(part.channel)
            lists[part.channel] = list(lists.get(part.channel, ())[: _start(part)])
        lists[part.channel].extend(value_of(part.payload))
    for channel, chain in record.lists.items():
        end = chain[-1][1]
        if channel not in begun and (channel in lists or not end):
            lists[channel] = lists.get(channel, [])[:end]  # an empty list has no rows
    return lists


def _start(part: RangeRow) -> int:
    return part.start + part.before


def _values(
    row: CheckpointRow, record: Record, last: LastCheckpoint, lists: Mapping[str, list[Any]]
) -> dict[str, Any]:
    new = {blob.channel: value_of(blob.payload) for blob in row.blobs}
    values = dict(record.values)
    for channel in record.blobs:
        values[channel] = new[channel] if channel in new else last.values[channel]
    for channel in record.lists:
        values[channel] = lists[channel] if channel in lists else last.values[channel]
    return values


def _metadata(row: CheckpointRow, record: Record) -> dict[str, Any]:
    extra: dict[str, Any] = {"graph": record.graph, "next": decode_names(row.next)}
    if record.highest:
        extra["highest"] = record.highest
    if record.converted:
        extra["converted"] = record.converted
    if record.above:
        extra["above"] = record.above
    if record.deltas:
        extra["folds"] = record.folds
    metadata = {"parents": {}, **decode_metadata(row.metadata)}
    metadata.update(source=row.source, step=row.step)
    if row.run:
        metadata["run_id"] = as_text(row.run)
    if record.deltas:
        metadata[COUNTERS] = {c: list(counts) for c, counts in record.deltas.items()}
    return {**metadata, EXTRA: extra}


def _iso(created: int) -> str:
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return (epoch + dt.timedelta(microseconds=created)).isoformat()
