"""The index of threads in SQLite: its tables, the triggers that mark changed threads, searches.

thread_index  a row per thread, with a metadata that was registered or found
thread_facts  name and value of each key of its metadata and values
thread_marks  threads that were changed since their row was written

The tables are made by the first registration or search, the triggers by the first search: the file
of a program that does neither has none of them.
"""

import sqlite3
from typing import Any

import msgspec

from actorgraph.savers.integrity import sound_index, sound_marks
from actorgraph.savers.thread_facts import (
    RARE,
    merged_metadata,
    metadata_facts,
    phase_fact,
    status_fact,
)
from actorgraph.values.commits import CommitOutcome, Committed
from actorgraph.values.thread_rows import (
    DropThread,
    FindThreads,
    IndexThreads,
    ListMarks,
    PatchThread,
    PutThread,
    ThreadFact,
    ThreadQuery,
    ThreadRequest,
    ThreadRow,
    TrackThreads,
)

SETUP = """
CREATE TABLE IF NOT EXISTS thread_index (
    thread        INTEGER PRIMARY KEY,
    thread_id     TEXT NOT NULL UNIQUE,
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
CREATE INDEX IF NOT EXISTS idx_thread_index_created ON thread_index (created);
CREATE INDEX IF NOT EXISTS idx_thread_index_updated ON thread_index (updated);
CREATE INDEX IF NOT EXISTS idx_thread_index_state ON thread_index (state_updated);
CREATE INDEX IF NOT EXISTS idx_thread_index_status ON thread_index (status, created);
CREATE INDEX IF NOT EXISTS idx_thread_index_status_updated ON thread_index (status, updated);
CREATE INDEX IF NOT EXISTS idx_thread_index_status_state ON thread_index (status, state_updated);
CREATE INDEX IF NOT EXISTS idx_thread_index_temporary ON thread_index (thread) WHERE temporary;
CREATE TABLE IF NOT EXISTS facts (
    fact  INTEGER PRIMARY KEY,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (name, value)
);
CREATE TABLE IF NOT EXISTS thread_facts (
    fact   INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    PRIMARY KEY (fact, thread)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idx_thread_facts_thread ON thread_facts (thread);
CREATE TABLE IF NOT EXISTS thread_marks (
    thread_id TEXT NOT NULL PRIMARY KEY,
    number    INTEGER NOT NULL
) WITHOUT ROWID;
"""

STATEMENTS = tuple(SETUP.strip().removesuffix(";").split(";\n"))
"""`SETUP` one by one, for use inside a transaction."""
HAS_TABLES = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'thread_marks'"

# A random number, not a counter: the mark of a later change differs although its row is new.
_MARK = """INSERT INTO thread_marks VALUES (%s, random())
    ON CONFLICT (thread_id) DO UPDATE SET number = excluded.number"""
# Every commit updates the row of its thread; those of runs come and go beside it.
_TRIGGERS = {
    "thread_saved": ("AFTER UPDATE ON threads", "NEW"),
    "thread_forgotten": ("AFTER DELETE ON threads", "OLD"),
    "thread_run_stored": ("AFTER INSERT ON system_runs", "NEW"),
    "thread_run_changed": ("AFTER UPDATE OF status ON system_runs", "NEW"),
    "thread_run_removed": ("AFTER DELETE ON system_runs", "OLD"),
}
TRACK: tuple[str, ...] = tuple(
    f"CREATE TRIGGER IF NOT EXISTS {name} {event} BEGIN {_MARK % (row + '.thread_id')}; END"
    for name, (event, row) in _TRIGGERS.items()
)
# Indexes of earlier versions, without phases, have it by another name: they are read again.
IS_TRACKED = "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name = 'thread_run_stored'"
DROP_OLD = "DROP TRIGGER IF EXISTS thread_run_put"
MARK_ALL = """
INSERT OR IGNORE INTO thread_marks SELECT thread_id, random() FROM threads
UNION SELECT thread_id, random() FROM system_runs
"""
_COLUMNS = """i.thread_id, i.graph, i.status, i.created, i.updated, i.state_updated, i.steps,
    i.metadata, i.registered, i.temporary, coalesce((
        SELECT f.value FROM thread_facts t JOIN facts f ON f.fact = t.fact
        WHERE t.thread = i.thread AND f.name = 's.phase'), '')"""
# The look-up in front of each request about a thread: one statement, which is always the same.
SELECT_LOOKED_UP = f"""
SELECT {_COLUMNS} FROM thread_index i WHERE i.thread_id = ? AND i.registered
"""  # noqa: S608 - constants
# Past the keys of facts too, so that none gets those of a thread whose key is damaged.
NEXT_THREAD = """
SELECT max(0, CAST(coalesce(max(thread), 0) AS INTEGER)) + 1 FROM (
    SELECT max(thread) AS thread FROM thread_index WHERE thread < 4611686018427387904
    UNION ALL SELECT max(thread) FROM thread_facts WHERE thread < 4611686018427387904)
"""
PUT = """
INSERT INTO thread_index (thread, thread_id, created, updated, state_updated, metadata, registered,
                          temporary)
VALUES (:thread, :thread_id, :created, :created, :created, :metadata, 1, :temporary)
ON CONFLICT (thread_id) DO UPDATE SET
    metadata = :metadata, registered = 1, temporary = :temporary, updated = max(updated, :created)
WHERE NOT registered
"""
SELECT_ROW = "SELECT thread, registered, metadata, status FROM thread_index WHERE thread_id = ?"
SELECT_REGISTERED = "SELECT thread, metadata, status FROM thread_index WHERE registered"
PATCH = "UPDATE thread_index SET metadata = ?, updated = max(updated, ?) WHERE thread = ?"
DROP = "DELETE FROM thread_index WHERE thread = ?"
RESET = """
UPDATE thread_index SET graph = '', status = 'idle', steps = -1, state_updated = created
WHERE thread = ?
"""
SELECT_GONE = """
SELECT i.thread, i.registered FROM thread_index i
WHERE NOT EXISTS (SELECT 1 FROM threads t WHERE t.thread_id = i.thread_id)
    AND NOT EXISTS (SELECT 1 FROM system_runs r WHERE r.thread_id = i.thread_id)
"""
FORGET_MARKS = """
DELETE FROM thread_marks
WHERE NOT EXISTS (SELECT 1 FROM threads t WHERE t.thread_id = thread_marks.thread_id)
    AND NOT EXISTS (SELECT 1 FROM system_runs r WHERE r.thread_id = thread_marks.thread_id)
"""
# Threads that a search would read again first; it leaves those with open runs as they are.
SELECT_CHANGED = """
SELECT i.thread, i.registered FROM thread_index i JOIN thread_marks m ON m.thread_id = i.thread_id
WHERE NOT EXISTS (SELECT 1 FROM system_runs r
    WHERE r.thread_id = i.thread_id AND r.status IN ('pending', 'running'))
"""
FORGET_METADATA = "UPDATE thread_index SET metadata = '{}' WHERE thread = ?"
TAKE_MARK = "DELETE FROM thread_marks WHERE thread_id = ? AND number = ?"
INDEX = """
INSERT INTO thread_index (thread, thread_id, graph, status, created, updated, state_updated, steps,
                          metadata, registered)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
ON CONFLICT (thread_id) DO UPDATE SET
    graph = excluded.graph, status = excluded.status, updated = max(updated, excluded.updated),
    state_updated = excluded.state_updated, steps = excluded.steps,
    metadata = CASE WHEN registered THEN metadata ELSE excluded.metadata END
"""
SELECT_FACTS = """
SELECT f.name, f.value, f.fact FROM thread_facts t JOIN facts f ON f.fact = t.fact
WHERE t.thread = ? AND f.name >= ? AND f.name < ?
"""
ADD_FACT = "INSERT OR IGNORE INTO facts (name, value) VALUES (?, ?)"
GIVE_FACT = """
INSERT OR IGNORE INTO thread_facts SELECT fact, ? FROM facts WHERE name = ? AND value = ?
"""
TAKE_FACT = "DELETE FROM thread_facts WHERE fact = ? AND thread = ?"
# Texts that no thread has any more would stay for ever.
DROP_FACT = """
DELETE FROM facts WHERE fact = ? AND NOT EXISTS (
    SELECT 1 FROM thread_facts t WHERE t.fact = facts.fact)
"""
SELECT_FACT = "SELECT fact FROM facts WHERE name = ? AND value = ?"
MARKS = "SELECT thread_id, number FROM thread_marks LIMIT ?"
IDLE_MARKS = """
SELECT thread_id, number FROM thread_marks m WHERE NOT EXISTS (
    SELECT 1 FROM system_runs s
    WHERE s.thread_id = m.thread_id AND s.status IN ('pending', 'running')) LIMIT ?
"""


def apply(connection: sqlite3.Connection, request: ThreadRequest) -> CommitOutcome:
    """Carry out a request, inside a batch's transaction."""
    if isinstance(request, TrackThreads | PutThread):
        _create(connection)
    elif not _has_tables(connection):
        return Committed()
    match request:
        case TrackThreads():
            if connection.execute(IS_TRACKED).fetchone() is None:
                _track(connection)
        case PutThread():
            return Committed(_put(connection, request))
        case PatchThread():
            return Committed(_patch(connection, request))
        case DropThread(thread_id):
            row = connection.execute(SELECT_ROW, (thread_id,)).fetchone()
            if row is not None:
                _drop(connection, row[0])
        case IndexThreads(threads):
            for one in threads:
                mark = (one.mark.thread_id, one.mark.number)
                if connection.execute(TAKE_MARK, mark).rowcount:
                    _index(connection, mark[0], one.row, one.values)
    return Committed()


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute(HAS_TABLES).fetchone() is not None


def _create(connection: sqlite3.Connection) -> None:
    """Create the tables, unless they are there; in the batch's transaction, so all or none."""
    if not _has_tables(connection):
        for statement in STATEMENTS:
            connection.execute(statement)


def forget_deleted(connection: sqlite3.Connection) -> None:
    """Remove from the index what it has of deleted threads and checkpoints.

    Nothing else goes: a thread that was changed stays marked, so that the next search reads it
    again, and a registration stays until it is dropped.

    Args:
        connection: inside a transaction in which rows of deleted threads were removed.
    """
    if not _has_tables(connection):
        return
    for thread, registered in connection.execute(SELECT_GONE).fetchall():
        _empty(connection, thread, registered=registered)
    for thread, registered in connection.execute(SELECT_CHANGED).fetchall():
        _set_facts(connection, thread, "v", ())
        if not registered:
            _set_facts(connection, thread, "m", ())
            connection.execute(FORGET_METADATA, (thread,))
    connection.execute(FORGET_MARKS)


def forget(connection: sqlite3.Connection, thread_id: str) -> None:
    """Remove what the index has of a thread that is deleted, but for its registration."""
    if _has_tables(connection):
        row = connection.execute(SELECT_ROW, (thread_id,)).fetchone()
        if row is not None:
            _empty(connection, row[0], registered=row[1])


def _empty(connection: sqlite3.Connection, thread: int, *, registered: bool) -> None:
    if not registered:
        _drop(connection, thread)
        return
    _set_facts(connection, thread, "v", ())
    _set_facts(connection, thread, "s", _state_facts("idle"))
    connection.execute(RESET, (thread,))


def _track(connection: sqlite3.Connection) -> None:
    for statement in (DROP_OLD, *TRACK, MARK_ALL):
        connection.execute(statement)
    # A copy that was made of another kind of database has registrations without facts.
    for thread, metadata, status in connection.execute(SELECT_REGISTERED).fetchall():
        _set_facts(connection, thread, "m", metadata_facts(metadata))
        _set_facts(connection, thread, "s", _state_facts(status))


def _next(connection: sqlite3.Connection) -> int:
    return connection.execute(NEXT_THREAD).fetchone()[0]


def _put(connection: sqlite3.Connection, put: PutThread) -> int:
    where = {"thread_id": put.thread_id, "created": put.created, "metadata": put.metadata}
    row = {**where, "thread": _next(connection), "temporary": put.temporary}
    count = connection.execute(PUT, row).rowcount
    if count:
        thread, _, _, status = connection.execute(SELECT_ROW, (put.thread_id,)).fetchone()
        _set_facts(connection, thread, "m", metadata_facts(put.metadata))
        _set_facts(connection, thread, "s", _state_facts(status))
    return count


def _state_facts(status: str, phase: str = "") -> tuple[ThreadFact, ...]:
    return status_fact(status), phase_fact(phase)


def _patch(connection: sqlite3.Connection, patch: PatchThread) -> int:
    row = connection.execute(SELECT_ROW, (patch.thread_id,)).fetchone()
    if row is None or not row[1]:
        return 0
    thread, _, metadata, _ = row
    merged = merged_metadata(metadata, patch.metadata)
    connection.execute(PATCH, (merged, patch.updated, thread))
    _set_facts(connection, thread, "m", metadata_facts(merged))
    return 1


def _drop(connection: sqlite3.Connection, thread: int) -> None:
    for kind in "msv":
        _set_facts(connection, thread, kind, ())
    connection.execute(DROP, (thread,))


def _index(
    connection: sqlite3.Connection,
    thread_id: str,
    row: ThreadRow | None,
    values: tuple[ThreadFact, ...],
) -> None:
    before = connection.execute(SELECT_ROW, (thread_id,)).fetchone()
    registered = before is not None and before[1]
    if row is None:
        if before is not None and not registered:
            _drop(connection, before[0])
        if before is None or not registered:
            return
        assert before is not None
        connection.execute(RESET, (before[0],))
    else:
        columns = (row.graph, row.status, row.created, row.updated, row.state_updated, row.steps)
        connection.execute(INDEX, (_next(connection), thread_id, *columns, row.metadata))
    thread, _, metadata, status = connection.execute(SELECT_ROW, (thread_id,)).fetchone()
    _set_facts(connection, thread, "v", values)
    _set_facts(connection, thread, "s", _state_facts(status, row.phase if row else ""))
    if not registered:
        _set_facts(connection, thread, "m", metadata_facts(metadata))


def _set_facts(
    connection: sqlite3.Connection, thread: int, kind: str, facts: tuple[ThreadFact, ...]
) -> None:
    """Give a thread these facts of a kind, and take its others of that kind away."""
    rows = connection.execute(SELECT_FACTS, (thread, f"{kind}.", f"{kind}/")).fetchall()
    known = {(name, value): fact for name, value, fact in rows}
    for fact in facts:
        if known.pop((fact.name, fact.value), None) is None:
            connection.execute(ADD_FACT, (fact.name, fact.value))
            connection.execute(GIVE_FACT, (thread, fact.name, fact.value))
    for number in known.values():
        connection.execute(TAKE_FACT, (number, thread))
        connection.execute(DROP_FACT, (number,))


def answer(connection: sqlite3.Connection, query: ThreadQuery) -> Any:
    """Answer a query."""
    if isinstance(query, ListMarks):
        if connection.execute(IS_TRACKED).fetchone() is None:
            return None
        limit = -1 if query.limit is None else query.limit
        rows = connection.execute(IDLE_MARKS if query.idle else MARKS, (limit,)).fetchall()
        return sound_marks(rows)
    if not _has_tables(connection):
        return [0] if query.counts else []
    return _found(connection, query)


def _row(*columns: Any) -> ThreadRow:
    *values, registered, temporary, phase = columns
    flags = {"registered": bool(registered), "temporary": bool(temporary)}
    return ThreadRow(*values, **flags, phase=phase)


_ORDERS = {
    "thread_id": ("i.thread_id",),
    "status": ("i.status", "i.created", "i.thread"),
    "created_at": ("i.created", "i.thread"),
    "updated_at": ("i.updated", "i.thread"),
    "state_updated_at": ("i.state_updated", "i.thread"),
}
_HAS = "EXISTS (SELECT 1 FROM thread_facts f WHERE f.fact = ? AND f.thread = {})"
_HAS_MANY = """(SELECT count(*) FROM thread_facts f WHERE f.thread = {}
    AND f.fact IN (SELECT value FROM json_each(?))) = ?"""
EACH_MAX = 100
"""Facts that a statement tests one by one; more are counted, as SQLite limits its conditions."""


def _found(connection: sqlite3.Connection, query: FindThreads) -> list[Any]:
    """Answer a search."""
    named = [*query.facts, *([status_fact(query.status)] if query.status else [])]
    named += [phase_fact(query.phase)] if query.phase else []
    known = [connection.execute(SELECT_FACT, (f.name, f.value)).fetchone() for f in named]
    if None in known:
        return [0] if query.counts else []
    statement, values = _statement(connection, query, [fact for (fact,) in known])
    rows = connection.execute(statement, values).fetchall()
    return list(rows[0]) if query.counts else sound_index(_row(*row) for row in rows)


def _statement(
    connection: sqlite3.Connection, query: FindThreads, facts: list[int]
) -> tuple[str, list[Any]]:
    """Return the statement of a search and its values.

    SQLite keeps no statistics of what a file holds, so the plan is chosen here: see `RARE`.
    """
    ids = query.ids or ()
    if len(ids) == 1 and query == FindThreads(ids=ids, registered=True):
        return SELECT_LOOKED_UP, list(ids)
    tests, values = _tests(query)
    if len(facts) > 1:
        most = -1 if query.counts else 10 * RARE
        facts.sort(key=lambda fact: _count(connection, [fact], most))
    if query.counts and facts and not tests:
        return _having(facts, -1)
    # An index on the status serves each order: it needs no other plan, unless threads are counted.
    alone = bool(query.status) and len(facts) == 1
    if facts and not alone and (query.counts or _count(connection, facts, RARE) < RARE):
        source = "thread_facts r CROSS JOIN thread_index i ON i.thread = r.thread"
        others, their = _has_all("r.thread", facts[1:])
        tests, values = ["r.fact = ?", *others, *tests], [facts[0], *their, *values]
    else:
        source = "thread_index i"
        others, their = _has_all("i.thread", facts)
        tests, values = [*others, *tests], [*their, *values]
        if query.status:
            tests, values = ["i.status = ?", *tests], [query.status, *values]
    if query.counts:
        return _counting(source, tests), values
    limit = -1 if query.limit is None else query.limit
    return _paging(source, tests, query), [*values, limit, query.offset]


# These put texts of this file together; values are parameters.


def _where(tests: list[str]) -> str:
    return f"WHERE {' AND '.join(tests)}" if tests else ""


def _counting(source: str, tests: list[str]) -> str:
    return f"SELECT count(*) FROM {source} {_where(tests)}"  # noqa: S608


def _paging(source: str, tests: list[str], query: FindThreads) -> str:
    end = " DESC" if query.down else ""
    by = ", ".join(f"{column}{end}" for column in _ORDERS[query.order])
    # The page is cut before its rows are read: those in front of it are passed over in the index.
    return f"""SELECT {_COLUMNS} FROM (
        SELECT i.thread FROM {source} {_where(tests)} ORDER BY {by} LIMIT ? OFFSET ?) p
        CROSS JOIN thread_index i ON i.thread = p.thread ORDER BY {by}"""  # noqa: S608


def _having(facts: list[int], most: int) -> tuple[str, list[Any]]:
    tests, values = _has_all("r.thread", facts[1:])
    others = " AND ".join(["", *tests])
    return (
        f"""SELECT count(*) FROM (
        SELECT 1 FROM thread_facts r WHERE r.fact = ?{others} LIMIT ?)""",  # noqa: S608
        [facts[0], *values, most],
    )


def _has_all(thread: str, facts: list[int]) -> tuple[list[str], list[Any]]:
    """Return the conditions that a thread has all of these facts, and their values.

    Args:
        thread: the column with the thread.
    """
    each, others = facts[:EACH_MAX], set(facts[EACH_MAX:])
    tests, values = [_HAS.format(thread) for _ in each], list[Any](each)
    if others:
        tests.append(_HAS_MANY.format(thread))
        values += [msgspec.json.encode(sorted(others)).decode(), len(others)]
    return tests, values


def _count(connection: sqlite3.Connection, facts: list[int], most: int) -> int:
    """Count the threads that have all of these facts; counting stops at `most`, unless it is -1."""
    return connection.execute(*_having(facts, most)).fetchone()[0]


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
    if query.before:
        tests.append("i.state_updated < ?")
        values.append(query.before)
    if query.graph:
        tests.append("i.graph = ?")
        values.append(query.graph)
    tests += [f"i.{name}" for name in ("registered", "temporary") if getattr(query, name)]
    return tests, values
