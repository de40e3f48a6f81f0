"""The index of threads in PostgreSQL: as `savers.sqlite.thread_index`, facts in arrays with a GIN
index.
"""

from collections.abc import Callable
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8

from actorgraph.savers.integrity import sound_index, sound_marks
from actorgraph.savers.postgres.columns import Numbers, Texts
from actorgraph.savers.postgres.rows import Statement
from actorgraph.savers.thread_facts import RARE, merged_metadata, metadata_facts, phase_fact
from actorgraph.values.commits import CommitOutcome, Committed
from actorgraph.values.thread_rows import (
    DropThread,
    FindThreads,
    IndexedThread,
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

IS_TRACKED = """
SELECT 1 FROM pg_trigger WHERE tgname = 'thread_run_stored' AND tgrelid = 'system_runs'::regclass
"""
"""Indexes of earlier versions, without phases, have it by another name: they are read again."""
TRACK: tuple[LiteralString, ...] = (
    "DROP TRIGGER IF EXISTS thread_run_put ON system_runs",
    """CREATE OR REPLACE TRIGGER thread_saved AFTER UPDATE OR DELETE ON threads
    FOR EACH ROW EXECUTE FUNCTION mark_thread()""",
    """CREATE TRIGGER thread_run_stored AFTER INSERT OR DELETE ON system_runs
    FOR EACH ROW EXECUTE FUNCTION mark_thread()""",
    """CREATE OR REPLACE TRIGGER thread_run_changed AFTER UPDATE OF status ON system_runs
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION mark_thread()""",
    """INSERT INTO thread_marks
    SELECT n.thread_id, (random() * 9e18)::bigint
    FROM (SELECT thread_id FROM threads UNION SELECT thread_id FROM system_runs) n
    ON CONFLICT DO NOTHING""",
)
PUT = """
INSERT INTO thread_index (thread_id, created, updated, state_updated, metadata, m_facts,
                          v_facts, registered, temporary)
VALUES (%(thread_id)s, %(created)s, %(created)s, %(created)s, %(metadata)s, %(facts)s,
        '{7:s.phase=ended}', true, %(temporary)s)
ON CONFLICT (thread_id) DO UPDATE SET
    metadata = excluded.metadata, m_facts = excluded.m_facts, registered = true,
    temporary = excluded.temporary, updated = greatest(thread_index.updated, excluded.updated)
WHERE NOT thread_index.registered
"""
SELECT_METADATA = """
SELECT metadata FROM thread_index WHERE thread_id = %s AND registered FOR UPDATE
"""
PATCH = """
UPDATE thread_index SET metadata = %s, m_facts = %s, updated = greatest(updated, %s)
WHERE thread_id = %s
"""
DROP = "DELETE FROM thread_index WHERE thread_id = %s"
# A refresh never waits for a run's transaction: marks that one has locked stay for the next time.
TAKE_MARKS = """
DELETE FROM thread_marks m USING (
    SELECT k.thread_id FROM thread_marks k
    JOIN unnest(%s::text[], %s::bigint[]) AS w (thread_id, number)
        ON k.thread_id = w.thread_id AND k.number = w.number
    FOR UPDATE OF k SKIP LOCKED) AS t
WHERE m.thread_id = t.thread_id RETURNING m.thread_id
"""
# One process at a time: else one that has read a thread earlier could store its row later.
LOCK_INDEX = """
SELECT pg_advisory_xact_lock(hashtextextended('actorgraph threads ' || current_schema(), 0))
"""
REMOVE_GONE = "DELETE FROM thread_index WHERE thread_id = ANY(%s) AND NOT registered"
RESET_GONE = """
UPDATE thread_index SET graph = '', status = 'idle', steps = -1, state_updated = created,
    v_facts = '{7:s.phase=ended}' WHERE thread_id = ANY(%s)
"""
_GONE: LiteralString = """
    NOT EXISTS (SELECT FROM threads t WHERE t.thread_id = i.thread_id)
    AND NOT EXISTS (SELECT FROM system_runs s WHERE s.thread_id = i.thread_id)"""
_EMPTIED: LiteralString = """
UPDATE thread_index i SET graph = '', status = 'idle', steps = -1, state_updated = created,
    v_facts = '{7:s.phase=ended}'
WHERE registered AND (steps >= 0 OR v_facts <> '{7:s.phase=ended}') AND"""
# In this order. A thread that was changed stays marked, so that the next search reads it again; a
# search may leave those with open runs unread, so these keep their values. A mark that is made
# again meanwhile has another number, and stays.
FORGET_DELETED: tuple[LiteralString, ...] = (
    LOCK_INDEX,
    f"{_EMPTIED} {_GONE}",
    f"DELETE FROM thread_index i WHERE NOT registered AND {_GONE}",  # noqa: S608 - constants
    f"""WITH old AS MATERIALIZED (SELECT thread_id, number FROM thread_marks i WHERE {_GONE})
    DELETE FROM thread_marks m USING old o
    WHERE m.thread_id = o.thread_id AND m.number = o.number""",  # noqa: S608 - as above
    """UPDATE thread_index i SET v_facts = '{}',
        metadata = CASE WHEN registered THEN metadata ELSE '{}' END,
        m_facts = CASE WHEN registered THEN m_facts ELSE '{}' END
    FROM thread_marks m WHERE m.thread_id = i.thread_id AND NOT EXISTS (
        SELECT FROM system_runs s
        WHERE s.thread_id = i.thread_id AND s.status IN ('pending', 'running'))""",
)
"""Remove from the index what it has of deleted threads and checkpoints."""
_NAMED: LiteralString = "thread_id = (SELECT thread_id FROM threads WHERE thread = %s)"
DELETE_THREAD: tuple[LiteralString, ...] = (
    f"{_EMPTIED} {_NAMED}",
    f"DELETE FROM thread_index WHERE NOT registered AND {_NAMED}",  # noqa: S608 - as above
)
INDEX = """
INSERT INTO thread_index (thread_id, graph, status, created, updated, state_updated, steps,
                          metadata, m_facts, v_facts, registered, temporary)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, false, false)
ON CONFLICT (thread_id) DO UPDATE SET
    graph = excluded.graph, status = excluded.status,
    updated = greatest(thread_index.updated, excluded.updated),
    state_updated = excluded.state_updated, steps = excluded.steps, v_facts = excluded.v_facts,
    metadata = CASE WHEN thread_index.registered THEN thread_index.metadata
                    ELSE excluded.metadata END,
    m_facts = CASE WHEN thread_index.registered THEN thread_index.m_facts
                   ELSE excluded.m_facts END
"""
MARKS: LiteralString = "SELECT m.thread_id, m.number FROM thread_marks m"
IDLE_ONLY: LiteralString = """ WHERE NOT EXISTS (
    SELECT FROM system_runs s
    WHERE s.thread_id = m.thread_id AND s.status IN ('pending', 'running'))"""
COLUMNS: LiteralString = """thread_id, graph, status, created, updated, state_updated, steps,
    metadata, registered, temporary, coalesce((
        SELECT substr(fact, 11) FROM unnest(v_facts) fact WHERE fact LIKE '7:s.phase=%%'), '')"""


def apply(connection: Connection[Any], request: ThreadRequest) -> CommitOutcome:
    """Carry out a request, inside a batch's transaction."""
    run = connection.cursor(row_factory=tuple_row, binary=True).execute
    match request:
        case TrackThreads():
            if run(IS_TRACKED).rowcount == 0:
                for statement in TRACK:
                    run(statement)
        case PutThread(thread_id, created, metadata, temporary):
            where = {"thread_id": thread_id, "created": Int8(created), "metadata": metadata}
            facts = _texts(metadata_facts(metadata))
            count = run(PUT, {**where, "facts": facts, "temporary": temporary}).rowcount
            return Committed(count)
        case PatchThread(thread_id, updated, metadata):
            row = run(SELECT_METADATA, (thread_id,)).fetchone()
            if row is None:
                return Committed()
            merged = merged_metadata(row[0], metadata)
            facts = _texts(metadata_facts(merged))
            run(PATCH, (merged, facts, Int8(updated), thread_id))
            return Committed(1)
        case DropThread(thread_id):
            run(DROP, (thread_id,))
        case IndexThreads(threads):
            _index(run, threads)
    return Committed()


def _index(run: Callable[..., Any], threads: tuple[IndexedThread, ...]) -> None:
    run(LOCK_INDEX)
    names = Texts(one.mark.thread_id for one in threads)
    numbers = Numbers(one.mark.number for one in threads)
    taken = {name for (name,) in run(TAKE_MARKS, (names, numbers)).fetchall()}
    gone = Texts(sorted(one.mark.thread_id for one in threads if one.row is None))
    gone = Texts(name for name in gone if name in taken)
    if gone:
        run(REMOVE_GONE, (gone,))
        run(RESET_GONE, (gone,))
    for one in sorted(threads, key=lambda one: one.mark.thread_id):
        row = one.row
        if row is None or row.thread_id not in taken:
            continue
        times = (Int8(row.created), Int8(row.updated), Int8(row.state_updated), Int8(row.steps))
        known = (*one.values, phase_fact(row.phase))
        facts = (_texts(metadata_facts(row.metadata)), _texts(known))
        run(INDEX, (row.thread_id, row.graph, row.status, *times, row.metadata, *facts))


def _texts(facts: tuple[ThreadFact, ...]) -> Texts:
    return Texts(_text(fact.name, fact.value) for fact in facts)


def _text(name: str, value: str) -> str:
    # A key may have any character, so the sign between both is one that no stored text has.
    return f"{len(name)}:{name}={value}".replace("\0", "\\u0000")


# A plan for any facts would assume that few threads have them; with these it knows how many do.
PLAN_EACH: Statement = ("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)", ())
EACH_MAX = 100
"""Facts of a search that are conditions of their own."""
DEEP = 1000
"""An offset from which a page is cut before its rows are read."""


def answer(ask: Callable[..., list[tuple[Any, ...]]], query: ThreadQuery) -> Any:
    """Answer a query.

    Args:
        ask: executes statements and returns the rows of the last one.
    """
    if isinstance(query, ListMarks):
        if not ask((IS_TRACKED, ())):
            return None
        text = f"{MARKS}{IDLE_ONLY if query.idle else ''} LIMIT %s"
        limit = None if query.limit is None else Int8(query.limit)
        return sound_marks(ask((text, (limit,))))
    rare = False
    if (query.facts or query.phase) and not query.counts:
        # The server takes facts that it has not counted for more frequent than they are.
        ((count,),) = ask(PLAN_EACH, _sample(query))
        rare = count < RARE
    rows = ask(PLAN_EACH, _search(query, rare=rare))
    return [rows[0][0]] if query.counts else sound_index(ThreadRow(*row) for row in rows)


_ORDERS: dict[str, tuple[LiteralString, ...]] = {
    "thread_id": ("thread_id",),
    "status": ("status", "created", "thread_id"),
    "created_at": ("created", "thread_id"),
    "updated_at": ("updated", "thread_id"),
    "state_updated_at": ("state_updated", "thread_id"),
}


def _sample(query: FindThreads) -> Statement:
    """Return the statement that counts the threads which a search finds, up to `RARE`."""
    tests, values = _tests(query)
    where: LiteralString = " AND ".join(tests)
    text: LiteralString = f"""SELECT count(*) FROM (
        SELECT FROM thread_index WHERE {where} LIMIT %s) t"""  # noqa: S608 - as below
    return text, (*values, Int8(RARE))


def _search(query: FindThreads, *, rare: bool) -> Statement:
    """Return the statement of a search.

    Args:
        rare: whether to find all of its threads first, and sort them.
    """
    tests, values = _tests(query)
    where: LiteralString = f" WHERE {' AND '.join(tests)}" if tests else ""
    if query.counts:
        # All texts are constants of this file.
        return f"SELECT count(*) FROM thread_index{where}", tuple(values)  # noqa: S608
    end: LiteralString = " DESC" if query.down else ""
    order: LiteralString = ", ".join([f"{column}{end}" for column in _ORDERS[query.order]])
    if rare:
        inner: LiteralString = f"SELECT thread_id FROM thread_index{where} OFFSET 0"  # noqa: S608
        where = f" WHERE thread_id IN ({inner})"
    page: LiteralString = f"{where} ORDER BY {order} LIMIT %s OFFSET %s"
    text: LiteralString = f"SELECT {COLUMNS} FROM thread_index{page}"  # noqa: S608 - as above
    if query.offset >= DEEP:
        text = f"""SELECT {COLUMNS} FROM (SELECT thread_id FROM thread_index{page}) p
            JOIN thread_index USING (thread_id) ORDER BY {order}"""  # noqa: S608 - as above
    limit = None if query.limit is None else Int8(query.limit)
    return text, (*values, limit, Int8(query.offset))


def _tested_together(facts: tuple[ThreadFact, ...]) -> list[tuple[ThreadFact, ...]]:
    """Return the first facts one by one, which plans count each, and the others together, by kind.

    A statement takes at most 65,535 parameters.
    """
    others = facts[EACH_MAX:]
    of_metadata = tuple(fact for fact in others if fact.name.startswith("m."))
    of_values = tuple(fact for fact in others if not fact.name.startswith("m."))
    each = [(fact,) for fact in facts[:EACH_MAX]]
    return [*each, *filter(None, (of_metadata, of_values))]


def _tests(query: FindThreads) -> tuple[list[LiteralString], list[Any]]:
    """Return the conditions of a search, and their values."""
    tests: list[LiteralString] = []
    values: list[Any] = []
    conditions: tuple[tuple[LiteralString, Any], ...] = (
        ("thread_id = ANY(%s)", None if query.ids is None else Texts(query.ids)),
        ("thread_id >= %s", query.prefix or None),
        ("thread_id < %s", query.prefix + "\U0010ffff" if query.prefix else None),
        ("status = %s", query.status or None),
        ("v_facts @> %s", _texts((phase_fact(query.phase),)) if query.phase else None),
        ("state_updated < %s", Int8(query.before) if query.before else None),
        ("graph = %s", query.graph or None),
        *(
            ("m_facts @> %s" if facts[0].name.startswith("m.") else "v_facts @> %s", _texts(facts))
            for facts in _tested_together(query.facts)
        ),
    )
    for text, value in conditions:
        if value is not None:
            tests.append(text)
            values.append(value)
    if query.registered:
        tests.append("registered")
    if query.temporary:
        tests.append("temporary")
    return tests, values
