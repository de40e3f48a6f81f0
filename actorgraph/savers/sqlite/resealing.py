"""The payloads of a thread's rows, made anew by a resealer, inside the transaction of a batch."""

import sqlite3
from collections.abc import Sequence

from actorgraph.codec.frames import checked
from actorgraph.savers.checksums import blob_sum, run_sum, writes_sum
from actorgraph.savers.judge import ThreadState
from actorgraph.savers.soundness import check_blob, check_items, check_run, check_writes
from actorgraph.values.commits import LedgerRow, OpenRun
from actorgraph.values.retention import Resealer

_VALUES = "SELECT namespace, channel, version, payload, crc FROM blobs WHERE thread = ?"
_ITEMS = "SELECT namespace, channel, lineage, start, count, payload FROM ranges WHERE thread = ?"
_WRITES = """
SELECT namespace, checkpoint, task, path, idx, generation, payload, crc FROM writes
WHERE thread = ?
"""
_INPUTS = """
SELECT run, head, mode, input, namespace, crc FROM runs WHERE thread = ? AND input IS NOT NULL
"""
_SET_VALUE = """
UPDATE blobs SET payload = ?, crc = ?
WHERE thread = ? AND namespace = ? AND channel = ? AND version = ?
"""
_SET_ITEMS = """
UPDATE ranges SET payload = ?
WHERE thread = ? AND namespace = ? AND channel = ? AND lineage = ? AND start = ?
"""
_SET_WRITES = """
UPDATE writes SET payload = ?, crc = ?
WHERE thread = ? AND namespace = ? AND checkpoint = ? AND task = ? AND idx = ? AND generation = ?
"""
_SET_INPUT = "UPDATE runs SET input = ?, crc = ? WHERE run = ?"

Changes = list[tuple[str, Sequence[tuple[object, ...]]]]
"""Statements, each with the rows that it is executed for."""


def resealed(
    connection: sqlite3.Connection, source: ThreadState, target: ThreadState, resealer: Resealer
) -> Changes:
    """What gives each row of `target` the payload for the one of `source` that it is a copy of.

    Raises: what the resealer raises.
        StorageError: a row is damaged.
    """
    old, new = source.thread_id, target.thread_id
    values: list[tuple[object, ...]] = []
    for ns, channel, version, payload, crc in connection.execute(_VALUES, (source.row,)):
        payload = check_blob(old, ns, channel, version, payload, crc)
        made = resealer.value(ns, channel, version, payload)
        crc = blob_sum(new, ns, channel, version, made)
        values.append((made, crc, target.row, ns, channel, version))
    items: list[tuple[object, ...]] = []
    for ns, channel, line, *columns in connection.execute(_ITEMS, (source.row,)):
        start, _, payload = check_items(old, ns, channel, tuple(columns))
        made = checked(resealer.items(ns, channel, line, start, payload))
        items.append((made, target.row, ns, channel, line, start))
    writes: list[tuple[object, ...]] = []
    for ns, *columns, crc in connection.execute(_WRITES, (source.row,)):
        row = check_writes(old, ns, LedgerRow(*columns), crc)
        key = (row.base, row.task, row.index, row.generation)
        made = resealer.writes(ns, row)
        sealed = LedgerRow(row.base, row.task, row.path, row.index, row.generation, made)
        writes.append((made, writes_sum(new, ns, sealed), target.row, ns, *key))
    found: Changes = [(_SET_VALUE, values), (_SET_ITEMS, items), (_SET_WRITES, writes)]
    if source.row == target.row:
        found.append((_SET_INPUT, list(_inputs(connection, source, resealer))))
    return found


def _inputs(
    connection: sqlite3.Connection, thread: ThreadState, resealer: Resealer
) -> list[tuple[object, ...]]:
    inputs: list[tuple[object, ...]] = []
    for run, head, mode, given, ns, crc in connection.execute(_INPUTS, (thread.row,)):
        check_run(thread.thread_id, ns, OpenRun(run, head, mode, given), crc)
        made = resealer.input(run, given)
        inputs.append((made, run_sum(thread.thread_id, run, head, mode, made), run))
    return inputs


def carry_out(connection: sqlite3.Connection, changes: Changes) -> None:
    """Execute what `resealed` found."""
    for statement, rows in changes:
        connection.executemany(statement, rows)
