"""Removal of rows that no request reaches, inside a transaction of a vacuum."""

from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row

from actorgraph.savers.orphans import report_orphans

_OF_NO_THREAD: LiteralString = "NOT EXISTS (SELECT FROM threads t WHERE t.thread = o.thread)"
_OF_NO_ID: LiteralString = "NOT EXISTS (SELECT FROM threads t WHERE t.thread_id = o.thread_id)"
_OF_NO_RUN: LiteralString = "NOT EXISTS (SELECT FROM system_runs s WHERE s.run = o.run)"
_NOR_A_CLAIM: LiteralString = "NOT EXISTS (SELECT FROM runs r WHERE r.run = o.run)"
_TABLES: tuple[tuple[LiteralString, LiteralString, LiteralString], ...] = (
    ("points", "thread", _OF_NO_THREAD),
    ("blobs", "thread", _OF_NO_THREAD),
    ("ranges", "thread", _OF_NO_THREAD),
    ("writes", "thread", _OF_NO_THREAD),
    ("runs", "thread", _OF_NO_THREAD),
    ("events", "run", f"{_OF_NO_RUN} AND {_NOR_A_CLAIM}"),
    ("cancels", "run", _OF_NO_RUN),
    ("alarms", "thread_id", _OF_NO_ID),
)


def remove_orphans(connection: Connection[Any]) -> None:
    """Remove rows of threads and runs that aren't there."""
    cursor = connection.cursor(row_factory=tuple_row)
    for table, key, condition in _TABLES:
        orphans = cursor.execute(_without(table, key, condition)).fetchall()
        report_orphans(table, orphans)


def _without(table: LiteralString, key: LiteralString, condition: LiteralString) -> LiteralString:
    return f"""WITH gone AS (DELETE FROM {table} o WHERE {condition} RETURNING o.{key})
        SELECT {key}, count(*) FROM gone GROUP BY 1 ORDER BY 1"""  # noqa: S608 - constants
