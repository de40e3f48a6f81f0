"""Alarms of threads: the request and the query of `values.alarms`, over one connection."""

import sqlite3
from collections.abc import Mapping

from actorgraph.codec.records import encode_json
from actorgraph.savers.integrity import sound_alarms
from actorgraph.savers.sqlite import system_schema as sql
from actorgraph.values.alarms import Alarm, AlarmRow, ListAlarms, TakeAlarm
from actorgraph.values.commits import Committed

_ALL = -1


def store(connection: sqlite3.Connection, alarms: Mapping[str, Alarm]) -> None:
    """Set alarms, or take them away, inside a batch's transaction.

    Args:
        alarms: thread id -> its alarm from now on.
    """
    rows = [(thread_id, alarm.at, alarm.graph) for thread_id, alarm in alarms.items() if alarm.at]
    connection.executemany(sql.SET_ALARM, rows)
    gone = [(thread_id,) for thread_id, alarm in alarms.items() if not alarm.at]
    connection.executemany(sql.DELETE_ALARM, gone)


def take(connection: sqlite3.Connection, request: TakeAlarm) -> Committed:
    """Carry out a request, inside a batch's transaction."""
    values = (request.thread_id, request.was)
    if not request.at:
        return Committed(connection.execute(sql.TAKE_ALARM_AWAY, values).rowcount)
    return Committed(connection.execute(sql.TAKE_ALARM, (request.at, *values)).rowcount)


def answer(connection: sqlite3.Connection, query: ListAlarms) -> list[AlarmRow]:
    """Answer a query; a file of an older version that is only read has no alarms."""
    if connection.execute(sql.HAS_ALARMS).fetchone() is None:
        return []
    found = _first(connection, query, query.limit)
    if len(getattr(found, "damaged", ())):
        # Rows that can't be read must not take the room of the others.
        found = _first(connection, query, _ALL)
        del found[query.limit :]
    return found


def _first(connection: sqlite3.Connection, query: ListAlarms, limit: int) -> list[AlarmRow]:
    where = {"graphs": encode_json([*dict.fromkeys(query.graphs)]), "limit": limit}
    rows = connection.execute(sql.SELECT_ALARMS, where).fetchall()
    return sound_alarms(AlarmRow(*row) for row in rows)
