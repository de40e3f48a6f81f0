"""Copies, removals and re-encryption of threads, inside the transaction of a batch.

`savers.retention` decides which rows go; here are the statements that do it. Re-encryption
(`Reseal`, or a copy with a resealer) reads and verifies every row before it changes the first one.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from actorgraph.savers.judge import ThreadState
from actorgraph.savers.remaking import Remaking
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
UPDATE blobs SET payload = ?2, crc = ?3
WHERE thread = ?1 AND namespace = ?4 AND channel = ?5 AND version = ?6
"""
_SET_ITEMS = """
UPDATE ranges SET payload = ?2
WHERE thread = ?1 AND namespace = ?3 AND channel = ?4 AND lineage = ?5 AND start = ?6
"""
_SET_WRITES = """
UPDATE writes SET payload = ?2, crc = ?3
WHERE thread = ?1 AND namespace = ?4 AND checkpoint = ?5 AND task = ?6 AND idx = ?7
    AND generation = ?8
"""
_SET_INPUT = "UPDATE runs SET input = ?, crc = ? WHERE run = ?"

Changes = list[tuple[str, Sequence[tuple[object, ...]]]]
"""Statements, each with the parameter rows to execute it with."""


def resealed_rows(
    connection: sqlite3.Connection, source: ThreadState, target: ThreadState, resealer: Resealer
) -> Changes:
    """Return the changes that re-encrypt a thread's rows; nothing is written yet.

    Args:
        source: the thread whose payloads are read.
        target: the thread whose rows get the new payloads: `source`, or a copy of it.
    Raises:
        StorageError: a row is damaged.
        EncryptionError: the resealer can't read a payload.
    """
    remaking = Remaking(resealer, source.thread_id, target.thread_id)
    found: Changes = [
        (_SET_VALUE, _of(target, remaking.values(_rows(connection, _VALUES, source)))),
        (_SET_ITEMS, _of(target, remaking.items(_rows(connection, _ITEMS, source)))),
        (_SET_WRITES, _of(target, remaking.writes(_rows(connection, _WRITES, source)))),
    ]
    if source.row == target.row:
        found.append((_SET_INPUT, list(remaking.inputs(_rows(connection, _INPUTS, source)))))
    return found


def _rows(
    connection: sqlite3.Connection, statement: str, thread: ThreadState
) -> Iterable[tuple[Any, ...]]:
    return connection.execute(statement, (thread.row,))


def _of(thread: ThreadState, rows: Iterable[tuple[Any, ...]]) -> list[tuple[object, ...]]:
    return [(thread.row, *row) for row in rows]


def execute_changes(connection: sqlite3.Connection, changes: Changes) -> None:
    """Execute the changes that `resealed_rows` returned."""
    for statement, rows in changes:
        connection.executemany(statement, rows)
