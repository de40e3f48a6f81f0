"""Alarms of threads in PostgreSQL: SQL, and the request and the query of `values.alarms`.

Whoever writes a thread's alarm has locked the thread's row, so writers never wait for each other's
alarms in a circle. `TAKE` never waits at all: while another transaction has the thread, it takes
nothing; that transaction may be setting the alarm anew.
"""

from collections.abc import Callable, Iterable
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8

from actorgraph.savers.integrity import sound_alarms
from actorgraph.savers.postgres.columns import Texts
from actorgraph.values.alarms import AlarmRow, ListAlarms, TakeAlarm
from actorgraph.values.commits import Committed, ReadableRows

# At most one row of each thread: a statement may not change a row twice.
SET = """
WITH w AS (
    SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[]) AS w (thread_id, at, graph)),
gone AS (DELETE FROM alarms a USING w WHERE a.thread_id = w.thread_id AND w.at = 0)
INSERT INTO alarms (thread_id, at, graph) SELECT thread_id, at, graph FROM w WHERE at <> 0
ON CONFLICT (thread_id) DO UPDATE SET at = excluded.at, graph = excluded.graph
"""
_TAKEN: LiteralString = """
WHERE thread_id = (
    SELECT a.thread_id FROM threads t JOIN alarms a USING (thread_id)
    WHERE t.thread_id = %s AND a.at = %s FOR UPDATE SKIP LOCKED)
"""
TAKE: LiteralString = "UPDATE alarms SET at = %s" + _TAKEN  # noqa: S608 - of constants
TAKE_AWAY: LiteralString = "DELETE FROM alarms" + _TAKEN  # noqa: S608 - of constants
DELETE: LiteralString = """
DELETE FROM alarms WHERE thread_id = (SELECT thread_id FROM threads WHERE thread = %s)
"""
# The first ones of each graph are next to each other in the index, in order.
SELECT_FIRST = """
SELECT a.thread_id, a.at, a.graph FROM unnest(%s::text[]) AS g (graph)
CROSS JOIN LATERAL (
    SELECT * FROM alarms a WHERE a.graph = g.graph ORDER BY a.at, a.thread_id LIMIT %s) AS a
ORDER BY a.at, a.thread_id LIMIT %s
"""


def take(connection: Connection[Any], request: TakeAlarm) -> Committed:
    """Carry out a request, inside a batch's transaction."""
    cursor = connection.cursor(row_factory=tuple_row, binary=True)
    values = (request.thread_id, Int8(request.was))
    if not request.at:
        return Committed(cursor.execute(TAKE_AWAY, values, prepare=True).rowcount)
    return Committed(cursor.execute(TAKE, (Int8(request.at), *values), prepare=True).rowcount)


def answer(ask: Callable[..., Iterable[tuple[Any, ...]]], query: ListAlarms) -> list[AlarmRow]:
    """Answer a query.

    Args:
        ask: executes statements and returns the rows of the last one.
    """
    names = Texts(dict.fromkeys(query.graphs))

    def first(limit: Int8 | None) -> list[AlarmRow]:
        rows = ask((SELECT_FIRST, (names, limit, limit)))
        return sound_alarms(AlarmRow(*row) for row in rows)

    found = first(Int8(query.limit))
    if isinstance(found, ReadableRows):
        # Rows that can't be read must not take the room of the others.
        found = first(None)
        del found[query.limit :]
    return found
