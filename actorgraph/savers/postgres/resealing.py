"""Reseal the payloads of a thread's rows, inside the transaction of a batch."""

from collections.abc import Iterable, Sequence
from typing import Any, LiteralString

from psycopg import Cursor

from actorgraph.savers.judge import ThreadState
from actorgraph.savers.remaking import Remaking
from actorgraph.values.retention import Resealer

_VALUES = "SELECT namespace, channel, version, payload, crc FROM blobs WHERE thread = %s"
_ITEMS = """
SELECT namespace, channel, lineage, start, count, payload FROM ranges
WHERE thread = %s AND lineage >= 0
"""
_WRITES = """
SELECT namespace, checkpoint, task, path, idx, generation, payload, crc FROM writes
WHERE thread = %s
"""
_INPUTS = """
SELECT run, head, mode, input, namespace, crc FROM runs WHERE thread = %s AND input IS NOT NULL
"""
_SET_VALUE = """
UPDATE blobs b SET payload = w.payload, crc = w.crc
FROM (VALUES (%s::bigint, %s::bytea, %s::bigint, %s, %s, %s::bigint))
    AS w (thread, payload, crc, namespace, channel, version)
WHERE b.thread = w.thread AND b.namespace = w.namespace AND b.channel = w.channel
    AND b.version = w.version
"""
_SET_ITEMS = """
UPDATE ranges r SET payload = w.payload
FROM (VALUES (%s::bigint, %s::bytea, %s, %s, %s::bigint, %s::bigint))
    AS w (thread, payload, namespace, channel, lineage, start)
WHERE r.thread = w.thread AND r.namespace = w.namespace AND r.channel = w.channel
    AND r.lineage = w.lineage AND r.start = w.start
"""
_SET_WRITES = """
UPDATE writes r SET payload = w.payload, crc = w.crc
FROM (VALUES (%s::bigint, %s::bytea, %s::bigint, %s, %s::bytea, %s::bytea, %s::bigint, %s::bigint))
    AS w (thread, payload, crc, namespace, checkpoint, task, idx, generation)
WHERE r.thread = w.thread AND r.namespace = w.namespace AND r.checkpoint = w.checkpoint
    AND r.task = w.task AND r.idx = w.idx AND r.generation = w.generation
"""
_SET_INPUT = "UPDATE runs SET input = %s, crc = %s WHERE run = %s"

Changes = list[tuple[LiteralString, Sequence[tuple[object, ...]]]]
"""Statements, each with the rows that it is executed for."""


def resealed(
    cursor: Cursor[Any], source: ThreadState, target: ThreadState, resealer: Resealer
) -> Changes:
    """Reseal the rows of `source`; return the statements that store the payloads in `target`.

    Args:
        source: the thread to read; may be `target` itself.
        target: the thread to change, a copy of `source`.
        resealer: makes the new payloads; what it raises is raised.
    Raises:
        StorageError: a row is damaged.
    """
    remaking = Remaking(resealer, source.thread_id, target.thread_id)
    found: Changes = [
        (_SET_VALUE, _of(target, remaking.values(_rows(cursor, _VALUES, source)))),
        (_SET_ITEMS, _of(target, remaking.items(_rows(cursor, _ITEMS, source)))),
        (_SET_WRITES, _of(target, remaking.writes(_rows(cursor, _WRITES, source)))),
    ]
    if source.row == target.row:  # runs are not copied, so a copy has no inputs
        found.append((_SET_INPUT, list(remaking.inputs(_rows(cursor, _INPUTS, source)))))
    return found


def _rows(
    cursor: Cursor[Any], statement: LiteralString, thread: ThreadState
) -> Iterable[tuple[Any, ...]]:
    return cursor.execute(statement, (thread.row,)).fetchall()


def _of(thread: ThreadState, rows: Iterable[tuple[Any, ...]]) -> list[tuple[object, ...]]:
    return [(thread.row, *row) for row in rows]


def carry_out(cursor: Cursor[Any], changes: Changes) -> None:
    """Execute the statements that `resealed` has returned."""
    for statement, rows in changes:
        if rows:
            cursor.executemany(statement, rows)
