"""Queries, as plain functions over a `sqlite3.Connection` of their own.

Consistent  each list of queries runs inside one read transaction, so that the rows of a checkpoint
            belong together whatever is written meanwhile
Short       the transaction ends before the answers are used: a slow reader blocks nothing
Pages       the values and pending writes of a page of checkpoints are read with one statement, and
            what several checkpoints share, such as the rows of a growing list, once
Damage      fails only the query that meets it; a page of all threads leaves such rows out
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from actorgraph.codec.records import Record, decode_record, encode_json
from actorgraph.savers.judge import sorted_ledger
from actorgraph.savers.soundness import check_blob, check_items, check_point, check_writes, whole
from actorgraph.savers.sqlite import schema as sql
from actorgraph.values.commits import CheckpointRow, LedgerRow, StoredCheckpoint, StoredRange
from actorgraph.values.constants import CONTROL_INDEX, INTERRUPT

Place = tuple[int, str]
"""The integer key of a thread, and a namespace."""


def checked_row(columns: tuple[Any, ...]) -> tuple[Place, CheckpointRow]:
    """Parse a row of `checkpoints` and verify its checksum.

    Raises:
        StorageError: it is damaged.
    """
    place, row = parsed_row(columns)
    check_point(columns[1], place[1], columns[3], row, columns[-1])
    return place, row


def parsed_row(columns: tuple[Any, ...]) -> tuple[Place, CheckpointRow]:
    """Parse a row of `checkpoints` without verifying it."""
    key, _, namespace, _, identifier, parent, step, source, run, following, *more = columns
    metadata, text, _ = more
    row = CheckpointRow(
        id=identifier,
        parent=parent,
        step=step,
        source=source,
        run=run,
        next=following,
        record=text,
        metadata=metadata,
    )
    return (key, namespace), row


def ledger_row(thread_id: str, namespace: str, entry: tuple[Any, ...]) -> LedgerRow:
    """Parse a row of `writes` and verify its checksum.

    Raises:
        StorageError: it is damaged.
    """
    base, task, path, index, generation, payload, crc = entry
    asks = index == CONTROL_INDEX[INTERRUPT]
    row = LedgerRow(base, task, path, index, generation, payload, asks)
    return check_writes(thread_id, namespace, row, crc)


class _PageValues:
    """Values and pending writes of a page's checkpoints, by place.

    Args:
        threads: integer key of a thread -> its id.
    """

    def __init__(self, threads: dict[int, str]) -> None:
        self._threads = threads
        self.blobs: dict[tuple[Place, str, int], bytes] = {}
        self.ranges: dict[tuple[Place, str, int], list[StoredRange]] = {}
        self.ends: dict[tuple[Place, str, int], int] = {}
        self.ledgers: dict[tuple[Place, bytes], list[LedgerRow]] = {}

    def read(self, connection: sqlite3.Connection, needs: dict[str, str]) -> None:
        """Read rows.

        Args:
            needs: keys of the rows, as JSON: "ledgers", "blobs" and "lists".
        """
        for kind, thread, namespace, *columns in connection.execute(sql.SELECT_VALUES, needs):
            place, named = (thread, namespace), self._threads[thread]
            if kind == sql.OF_LEDGER:
                row = ledger_row(named, namespace, tuple(columns))
                self.ledgers.setdefault((place, row.base), []).append(row)
                continue
            channel, number, start, count, end, payload, crc = columns
            if kind == sql.OF_BLOB:
                value = check_blob(named, namespace, channel, number, (payload, crc))
                self.blobs[place, channel, number] = value
                continue
            part = StoredRange(*check_items(named, namespace, channel, (start, count, payload)))
            self.ranges.setdefault((place, channel, number), []).append(part)
            self.ends[place, channel, number] = end

    def checkpoint(self, columns: tuple[Any, ...], record: Record) -> StoredCheckpoint:
        """Put one checkpoint together, from its row, which was verified, and these values."""
        place, row = parsed_row(columns)
        chains = [(c, lineage, end) for c, chain in record.lists.items() for lineage, end in chain]
        keys = {channel: (place, channel, record.version_of(channel)) for channel in record.blobs}
        found = StoredCheckpoint(
            thread_id=columns[1],
            namespace=place[1],
            sequence=columns[3],
            row=row,
            blobs={c: self.blobs[key] for c, key in keys.items() if key in self.blobs},
            ranges={
                (c, lineage): sorted(
                    (r for r in self.ranges.get((place, c, lineage), ()) if r.start < end),
                    key=lambda part: part.start,
                )
                for c, lineage, end in chains
            },
            ends={(c, lineage): self.ends.get((place, c, lineage), 0) for c, lineage, _ in chains},
            ledger=sorted_ledger(self.ledgers.get((place, row.id), [])),
        )
        return whole(found, record)


def read_checkpoints(
    connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]
) -> list[StoredCheckpoint]:
    """Read checkpoints with their values and pending writes, without ancestors.

    Args:
        rows: of `checkpoints`, as `schema.CHECKPOINT_COLUMNS` has them.
    """
    if not rows:
        return []
    points = [(columns, decode_record(checked_row(columns)[1].record)) for columns in rows]
    ledgers: list[list[Any]] = []
    blobs: dict[tuple[Any, ...], None] = {}
    lists: dict[tuple[Any, ...], int] = {}
    for columns, record in points:
        place = (columns[0], columns[2])
        ledgers.append([*place, columns[3]])
        blobs.update(((*place, c, record.version_of(c)), None) for c in record.blobs)
        for channel, chain in record.lists.items():
            for lineage, end in chain:
                key = (*place, channel, lineage)
                lists[key] = max(end, lists.get(key, 0))
    values = _PageValues({columns[0]: columns[1] for columns in rows})
    needs = {
        "ledgers": ledgers,
        "blobs": [*blobs],
        "lists": [(*k, end) for k, end in lists.items()],
    }
    values.read(connection, {name: encode_json(keys) for name, keys in needs.items()})
    return [values.checkpoint(columns, record) for columns, record in points]
