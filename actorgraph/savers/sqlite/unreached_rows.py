"""Removal of rows that no request reaches, inside the transaction of a vacuum."""

import sqlite3

from actorgraph.savers.orphans import report_orphans

_NAMED = (("threads", "thread"), ("system_runs", "run"), ("thread_index", "thread"))
"""Tables with ids of threads, and their keys."""
_OF_THREADS = ("checkpoints", "blobs", "ranges", "writes", "runs")
_OF_NO_THREAD = "thread NOT IN (SELECT thread FROM threads)"
_OF_NO_RUN = "run NOT IN (SELECT run FROM system_runs)"
_ORPHANS = {
    **{(table, "thread"): _OF_NO_THREAD for table in _OF_THREADS},
    ("events", "run"): f"{_OF_NO_RUN} AND run NOT IN (SELECT run FROM runs)",  # noqa: S608
    ("cancels", "run"): _OF_NO_RUN,
    ("alarms", "thread_id"): "thread_id NOT IN (SELECT thread_id FROM threads)",
    ("thread_facts", "thread"): """thread NOT IN (SELECT thread FROM thread_index)
        OR fact NOT IN (SELECT fact FROM facts)""",
}


def remove_unreadable(connection: sqlite3.Connection) -> None:
    """Remove rows whose thread id isn't text: no caller can name such a thread."""
    there = _tables(connection)
    for table, key in _NAMED:
        if table in there:
            # As bytes: sqlite3 fails the whole statement at text that isn't UTF-8.
            rows = connection.execute(_ids(table, key))
            gone = [(row, raw) for row, raw, kind in rows if kind != "text" or not _is_utf8(raw)]
            connection.executemany(_by_key(table, key), [(row,) for row, _ in gone])
            report_orphans(table, [(thread_id, 1) for _, thread_id in gone])


def remove_orphans(connection: sqlite3.Connection) -> None:
    """Remove rows of threads and runs that aren't there."""
    there = _tables(connection)
    for (table, key), condition in _ORPHANS.items():
        if table in there:
            rows = connection.execute(_counted(table, key, condition)).fetchall()
            if rows:
                connection.execute(_without(table, condition))
            report_orphans(table, [(_key(raw, kind), count) for raw, kind, count in rows])


# These put texts of this file together: a table's name can't be a parameter.


def _ids(table: str, key: str) -> str:
    return f"SELECT {key}, CAST(thread_id AS BLOB), typeof(thread_id) FROM {table}"  # noqa: S608


def _counted(table: str, key: str, condition: str) -> str:
    return f"""SELECT CAST({key} AS BLOB), typeof({key}), count(*) FROM {table}
        WHERE {condition} GROUP BY 1, 2"""  # noqa: S608


def _by_key(table: str, key: str) -> str:
    return f"DELETE FROM {table} WHERE {key} = ?"  # noqa: S608


def _without(table: str, condition: str) -> str:
    return f"DELETE FROM {table} WHERE {condition}"  # noqa: S608


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _key(raw: bytes, kind: str) -> object:
    return int(raw) if kind == "integer" else raw


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name for (name,) in rows}
