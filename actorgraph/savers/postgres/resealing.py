"""The payloads of a thread's rows, made anew by a resealer, inside the transaction of a batch."""

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import Cursor

from actorgraph.values.commits import LedgerRow
from actorgraph.values.retention import Resealer

_VALUES = "SELECT namespace, channel, version, payload FROM blobs WHERE thread = %s"
_ITEMS = """
SELECT namespace, channel, lineage, start, payload FROM ranges WHERE thread = %s AND lineage >= 0
"""
_WRITES = """
SELECT namespace, checkpoint, task, path, idx, generation, payload FROM writes WHERE thread = %s
"""
_INPUTS = "SELECT run, input FROM runs WHERE thread = %s AND input IS NOT NULL"
_SET_VALUE = """
UPDATE blobs SET payload = %s
WHERE thread = %s AND namespace = %s AND channel = %s AND version = %s
"""
_SET_ITEMS = """
UPDATE ranges SET payload = %s
WHERE thread = %s AND namespace = %s AND channel = %s AND lineage = %s AND start = %s
"""
_SET_WRITES = """
UPDATE writes SET payload = %s
WHERE thread = %s AND namespace = %s AND checkpoint = %s AND task = %s AND idx = %s
    AND generation = %s
"""
_SET_INPUT = "UPDATE runs SET input = %s WHERE run = %s"

Changes = list[tuple[LiteralString, Sequence[tuple[object, ...]]]]
"""Statements, each with the rows that it is executed for."""


def resealed(
    cursor: Cursor[Any], source: int | None, target: int | None, resealer: Resealer
) -> Changes:
    """What gives each row of `target` the payload for the one of `source` that it is a copy of.

    Raises: what the resealer raises.
    """
    values = [
        (resealer.value(ns, channel, version, payload), target, ns, channel, version)
        for ns, channel, version, payload in cursor.execute(_VALUES, (source,)).fetchall()
    ]
    items = [
        (resealer.items(ns, channel, line, start, payload), target, ns, channel, line, start)
        for ns, channel, line, start, payload in cursor.execute(_ITEMS, (source,)).fetchall()
    ]
    writes = [
        (
            resealer.writes(ns, LedgerRow(base, task, path, index, generation, payload)),
            *(target, ns, base, task, index, generation),
        )
        for ns, base, task, path, index, generation, payload in cursor.execute(
            _WRITES, (source,)
        ).fetchall()
    ]
    found: Changes = [(_SET_VALUE, values), (_SET_ITEMS, items), (_SET_WRITES, writes)]
    if source == target:
        runs = cursor.execute(_INPUTS, (source,)).fetchall()
        found.append((_SET_INPUT, [(resealer.input(run, given), run) for run, given in runs]))
    return found


def carry_out(cursor: Cursor[Any], changes: Changes) -> None:
    """Execute what `resealed` found."""
    for statement, rows in changes:
        if rows:
            cursor.executemany(statement, rows)
