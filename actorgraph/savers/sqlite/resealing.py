"""The payloads of a thread's rows, made anew by a resealer, inside the transaction of a batch."""

import sqlite3
from collections.abc import Sequence

from actorgraph.values.commits import LedgerRow
from actorgraph.values.retention import Resealer

_VALUES = "SELECT namespace, channel, version, payload FROM blobs WHERE thread = ?"
_ITEMS = "SELECT namespace, channel, lineage, start, payload FROM ranges WHERE thread = ?"
_WRITES = """
SELECT namespace, checkpoint, task, path, idx, generation, payload FROM writes WHERE thread = ?
"""
_INPUTS = "SELECT run, input FROM runs WHERE thread = ? AND input IS NOT NULL"
_SET_VALUE = """
UPDATE blobs SET payload = ? WHERE thread = ? AND namespace = ? AND channel = ? AND version = ?
"""
_SET_ITEMS = """
UPDATE ranges SET payload = ?
WHERE thread = ? AND namespace = ? AND channel = ? AND lineage = ? AND start = ?
"""
_SET_WRITES = """
UPDATE writes SET payload = ?
WHERE thread = ? AND namespace = ? AND checkpoint = ? AND task = ? AND idx = ? AND generation = ?
"""
_SET_INPUT = "UPDATE runs SET input = ? WHERE run = ?"

Changes = list[tuple[str, Sequence[tuple[object, ...]]]]
"""Statements, each with the rows that it is executed for."""


def resealed(
    connection: sqlite3.Connection, source: int, target: int | None, resealer: Resealer
) -> Changes:
    """What gives each row of `target` the payload for the one of `source` that it is a copy of.

    Raises: what the resealer raises.
    """
    values = [
        (resealer.value(ns, channel, version, payload), target, ns, channel, version)
        for ns, channel, version, payload in connection.execute(_VALUES, (source,))
    ]
    items = [
        (resealer.items(ns, channel, line, start, payload), target, ns, channel, line, start)
        for ns, channel, line, start, payload in connection.execute(_ITEMS, (source,))
    ]
    writes = [
        (
            resealer.writes(namespace, LedgerRow(base, task, path, index, generation, payload)),
            *(target, namespace, base, task, index, generation),
        )
        for namespace, base, task, path, index, generation, payload in connection.execute(
            _WRITES, (source,)
        )
    ]
    found: Changes = [(_SET_VALUE, values), (_SET_ITEMS, items), (_SET_WRITES, writes)]
    if source == target:
        runs = connection.execute(_INPUTS, (source,))
        found.append((_SET_INPUT, [(resealer.input(run, given), run) for run, given in runs]))
    return found


def carry_out(connection: sqlite3.Connection, changes: Changes) -> None:
    """Execute what `resealed` found."""
    for statement, rows in changes:
        connection.executemany(statement, rows)
