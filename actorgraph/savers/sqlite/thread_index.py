"""The index of threads in SQLite: its tables, the triggers that mark changed threads, searches.

thread_index  a row per thread, with a metadata that was registered or found
thread_facts  name and value of each key of its metadata and values
thread_marks  threads that were changed since their row was written; a program that never searches
              has no triggers, and pays nothing
"""

import sqlite3
from typing import Any

import msgspec

from actorgraph.savers.threads import facts_of, merged_metadata
from actorgraph.values.commits import CommitOutcome, Committed
from actorgraph.values.threads import (
    DropThread,
    FindThreads,
    IndexThreads,
    ListMarks,
    PatchThread,
    PutThread,
    ThreadFact,
    ThreadMark,
    ThreadQuery,
    ThreadRequest,
    ThreadRow,
    TrackThreads,
)

SETUP = """
CREATE TABLE IF NOT EXISTS thread_index (
    thread_id     TEXT NOT NULL PRIMARY KEY,
    graph         TEXT NOT NULL DEFAULT '',
    status        TEXT NOT NULL DEFAULT 'idle',
    created       INTEGER NOT NULL,
    updated       INTEGER NOT NULL,
    state_updated INTEGER NOT NULL,
    steps         INTEGER NOT NULL DEFAULT -1,
    metadata      TEXT NOT NULL,
    registered    INTEGER NOT NULL,
    temporary     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS idx_thread_index_created ON thread_index (created, thread_id);
CREATE INDEX IF NOT EXISTS idx_thread_index_updated ON thread_index (updated, thread_id);
CREATE INDEX IF NOT EXISTS idx_thread_index_state ON thread_index (state_updated, thread_id);
CREATE INDEX IF NOT EXISTS idx_thread_index_status ON thread_index (status, created, thread_id);
CREATE INDEX IF NOT EXISTS idx_thread_index_status_updated
    ON thread_index (status, updated, thread_id);
CREATE INDEX IF NOT EXISTS idx_thread_index_status_state
    ON thread_index (status, state_updated, thread_id);
CREATE INDEX IF NOT EXISTS idx_thread_index_temporary ON thread_index (thread_id) WHERE temporary;
CREATE TABLE IF NOT EXISTS thread_facts (
    name      TEXT NOT NULL,
    value     TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    PRIMARY KEY (name, value, thread_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idx_thread_facts_thread ON thread_facts (thread_id);
CREATE TABLE IF NOT EXISTS thread_marks (
    thread_id TEXT NOT NULL PRIMARY KEY,
    number    INTEGER NOT NULL
) WITHOUT ROWID;
"""

# A random number, not a counter: the mark of a later change differs although its row is new.
_MARK = """INSERT INTO thread_marks VALUES (%s, random())
    ON CONFLICT (thread_id) DO UPDATE SET number = excluded.number"""
# Every commit updates the row of its thread; those of runs come and go beside it.
_TRIGGERS = {
    "thread_saved": ("AFTER UPDATE ON threads", "NEW"),
    "thread_forgotten": ("AFTER DELETE ON threads", "OLD"),
    "thread_run_put": ("AFTER INSERT ON system_runs", "NEW"),
    "thread_run_changed": ("AFTER UPDATE OF status ON system_runs", "NEW"),
    "thread_run_removed": ("AFTER DELETE ON system_runs", "OLD"),
}
TRACK = tuple(
    f"CREATE TRIGGER IF NOT EXISTS {name} {event} BEGIN {_MARK % (row + '.thread_id')}; END"
    for name, (event, row) in _TRIGGERS.items()
)
IS_TRACKED = "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name = 'thread_saved'"
MARK_ALL = """
INSERT OR IGNORE INTO thread_marks SELECT thread_id, random() FROM threads
UNION SELECT thread_id, random() FROM system_runs
"""
_COLUMNS = """i.thread_id, i.graph, i.status, i.created, i.updated, i.state_updated, i.steps,
    i.metadata, i.registered, i.temporary"""
PUT = """
INSERT INTO thread_index (thread_id, created, updated, state_updated, metadata, registered,
                          temporary)
VALUES (:thread_id, :created, :created, :created, :metadata, 1, :temporary)
ON CONFLICT (thread_id) DO UPDATE SET
    metadata = :metadata, registered = 1, temporary = :temporary, updated = max(updated, :created)
WHERE NOT registered
"""
SELECT_METADATA = "SELECT metadata FROM thread_index WHERE thread_id = ? AND registered"
PATCH = "UPDATE thread_index SET metadata = ?, updated = max(updated, ?) WHERE thread_id = ?"
DROP = (
    "DELETE FROM thread_index WHERE thread_id = ?",
    "DELETE FROM thread_facts WHERE thread_id = ?",
)
DROP_FOUND = "DELETE FROM thread_index WHERE thread_id = ? AND NOT registered"
RESET = """
UPDATE thread_index SET graph = '', status = 'idle', steps = -1, state_updated = created
WHERE thread_id = ?
"""
TAKE_MARK = "DELETE FROM thread_marks WHERE thread_id = ? AND number = ?"
INDEX = """
INSERT INTO thread_index VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 0)
ON CONFLICT (thread_id) DO UPDATE SET
    graph = ?2, status = ?3, updated = max(updated, ?5), state_updated = ?6, steps = ?7,
    metadata = CASE WHEN registered THEN metadata ELSE ?8 END
"""
CLEAR_FACTS = "DELETE FROM thread_facts WHERE thread_id = ? AND name >= ? AND name < ?"
INSERT_FACT = "INSERT OR IGNORE INTO thread_facts VALUES (?, ?, ?)"
MARKS = "SELECT thread_id, number FROM thread_marks m"
IDLE_ONLY = """ WHERE NOT EXISTS (
    SELECT 1 FROM system_runs s
    WHERE s.thread_id = m.thread_id AND s.status IN ('pending', 'running'))"""
RARE = 1000
"""A condition that fewer threads meet than this is looked up first; others are tested in order."""
COUNT_FACT = """
SELECT count(*) FROM (SELECT 1 FROM thread_facts WHERE name = ? AND value = ? LIMIT ?)
"""


def apply(connection: sqlite3.Connection, request: ThreadRequest) -> CommitOutcome:
    """Carry out a request, inside a batch's transaction."""
    match request:
        case TrackThreads():
            if connection.execute(IS_TRACKED).fetchone() is None:
                for statement in (*TRACK, MARK_ALL):
                    connection.execute(statement)
        case PutThread():
            return Committed(_put(connection, request))
        case PatchThread():
            return Committed(_patch(connection, request))
        case DropThread(thread_id):
            for statement in DROP:
                connection.execute(statement, (thread_id,))
        case IndexThreads(threads):
            for one in threads:
                mark = (one.mark.thread_id, one.mark.number)
                if connection.execute(TAKE_MARK, mark).rowcount:
                    _index(connection, mark[0], one.row, one.values)
    return Committed()


def _put(connection: sqlite3.Connection, put: PutThread) -> int:
    where = {"thread_id": put.thread_id, "created": put.created, "metadata": put.metadata}
    made = connection.execute(PUT, {**where, "temporary": put.temporary}).rowcount
    if made:
        _write_facts(connection, put.thread_id, "m", _metadata_facts(put.metadata))
    return made


def _patch(connection: sqlite3.Connection, patch: PatchThread) -> int:
    found = connection.execute(SELECT_METADATA, (patch.thread_id,)).fetchone()
    if found is None:
        return 0
    merged = merged_metadata(found[0], patch.metadata)
    connection.execute(PATCH, (merged, patch.updated, patch.thread_id))
    _write_facts(connection, patch.thread_id, "m", _metadata_facts(merged))
    return 1


def _index(
    connection: sqlite3.Connection,
    thread_id: str,
    row: ThreadRow | None,
    values: tuple[ThreadFact, ...],
) -> None:
    registered = connection.execute(SELECT_METADATA, (thread_id,)).fetchone() is not None
    if row is None:
        if registered:
            connection.execute(RESET, (thread_id,))
            _write_facts(connection, thread_id, "v", ())
        else:
            for statement in DROP:
                connection.execute(statement, (thread_id,))
        return
    columns = (row.graph, row.status, row.created, row.updated, row.state_updated, row.steps)
    connection.execute(INDEX, (thread_id, *columns, row.metadata))
    _write_facts(connection, thread_id, "v", values)
    if not registered:
        _write_facts(connection, thread_id, "m", _metadata_facts(row.metadata))


def _metadata_facts(metadata: str) -> tuple[ThreadFact, ...]:
    return facts_of("m", msgspec.json.decode(metadata))


def _write_facts(
    connection: sqlite3.Connection, thread_id: str, kind: str, facts: tuple[ThreadFact, ...]
) -> None:
    connection.execute(CLEAR_FACTS, (thread_id, f"{kind}.", f"{kind}/"))
    connection.executemany(INSERT_FACT, [(f.name, f.value, thread_id) for f in facts])


def answer(connection: sqlite3.Connection, query: ThreadQuery) -> Any:
    """Answer a query."""
    if isinstance(query, ListMarks):
        if connection.execute(IS_TRACKED).fetchone() is None:
            return None
        limit = -1 if query.limit is None else query.limit
        text = f"{MARKS}{IDLE_ONLY if query.idle else ''} LIMIT ?"
        return [ThreadMark(*row) for row in connection.execute(text, (limit,)).fetchall()]
    text, values = _search(connection, query)
    rows = connection.execute(text, values).fetchall()
    if query.counts:
        return [rows[0][0]]
    return [_row(*row) for row in rows]


def _row(*columns: Any) -> ThreadRow:
    *told, registered, temporary = columns
    return ThreadRow(*told, registered=bool(registered), temporary=bool(temporary))


_ORDERS = {
    "thread_id": ("i.thread_id",),
    "status": ("i.status", "i.created", "i.thread_id"),
    "created_at": ("i.created", "i.thread_id"),
    "updated_at": ("i.updated", "i.thread_id"),
    "state_updated_at": ("i.state_updated", "i.thread_id"),
}


def _search(connection: sqlite3.Connection, query: FindThreads) -> tuple[str, list[Any]]:
    """Return the statement of a search and its values.

    SQLite keeps no statistics of what a file holds, so the plan is chosen here. A fact that few
    threads have is looked up, and they are sorted; else threads are tested in the search's order
    until the page is full.
    """
    tests, values = _tests(query)
    facts = sorted((_frequency(connection, fact), fact) for fact in query.facts)
    source = "thread_index i"
    first: list[Any] = []
    if facts and (facts[0][0] < RARE or query.counts):
        _, rarest = facts.pop(0)
        source = """thread_facts r CROSS JOIN thread_index i
            ON r.name = ? AND r.value = ? AND i.thread_id = r.thread_id"""
        first = [rarest.name, rarest.value]
    for _, fact in facts:
        tests.append(
            """EXISTS (SELECT 1 FROM thread_facts f
            WHERE f.name = ? AND f.value = ? AND f.thread_id = i.thread_id)"""
        )
        values += [fact.name, fact.value]
    where = f"WHERE {' AND '.join(tests)}" if tests else ""
    if query.counts:
        return f"SELECT count(*) FROM {source} {where}", [*first, *values]  # noqa: S608
    end = " DESC" if query.down else ""
    order = ", ".join(f"{column}{end}" for column in _ORDERS[query.order])
    limit = -1 if query.limit is None else query.limit
    text = f"SELECT {_COLUMNS} FROM {source} {where} ORDER BY {order} LIMIT ? OFFSET ?"  # noqa: S608
    return text, [*first, *values, limit, query.offset]


def _frequency(connection: sqlite3.Connection, fact: ThreadFact) -> int:
    (count,) = connection.execute(COUNT_FACT, (fact.name, fact.value, RARE)).fetchone()
    return count


def _tests(query: FindThreads) -> tuple[list[str], list[Any]]:
    """Return conditions of a search on columns, and their values."""
    tests: list[str] = []
    values: list[Any] = []
    if query.ids is not None:
        tests.append("i.thread_id IN (SELECT value FROM json_each(?))")
        values.append(msgspec.json.encode(query.ids).decode())
    if query.prefix:
        tests.append("i.thread_id >= ? AND i.thread_id < ? || char(1114111)")
        values += [query.prefix, query.prefix]
    for name in ("status", "graph"):
        if wanted := getattr(query, name):
            tests.append(f"i.{name} = ?")
            values.append(wanted)
    tests += [f"i.{name}" for name in ("registered", "temporary") if getattr(query, name)]
    return tests, values
