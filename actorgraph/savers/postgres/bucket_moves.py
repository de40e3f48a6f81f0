"""Move buckets of threads from one database to another; blocking. See `rules.system.sharding`.

The rows of the buckets' threads are locked in the source and copied by COPY. They are committed in
the target, where nothing may use them yet, before the source deletes its own and gives the buckets
away in one transaction. A failure before that is undone, by the next move at the latest.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, LiteralString

from psycopg.sql import SQL, Composed, Identifier

from actorgraph.errors import ActorGraphError, InvalidConfigError, StorageBusyError, StorageError
from actorgraph.rules.system.sharding import ChangeBucket, mending
from actorgraph.savers.postgres.buckets import (
    DELETE_BUCKETS,
    BucketTable,
    delete,
    find,
    set_states,
)
from actorgraph.savers.postgres.columns import Numbers
from actorgraph.values.ids import as_text
from actorgraph.values.shards import BUCKETS

PAUSE_S = 0.05
"""Pause between two looks whether the runs of a bucket have ended."""

_IN_MOVING: LiteralString = "thread IN (SELECT thread FROM moving)"
_RUNS_IN_MOVING: LiteralString = """run IN (SELECT r.run FROM runs r JOIN moving USING (thread)
    UNION SELECT s.run FROM system_runs s JOIN moving USING (thread_id))"""
COPIED: dict[LiteralString, LiteralString] = {
    "threads": _IN_MOVING,
    "shapes": f"shape IN (SELECT shape FROM points WHERE {_IN_MOVING})",  # noqa: S608 - constants
    "runs": _IN_MOVING,
    "points": _IN_MOVING,
    "blobs": _IN_MOVING,
    "ranges": _IN_MOVING,
    "writes": _IN_MOVING,
    "events": _RUNS_IN_MOVING,
    "system_runs": "thread_id IN (SELECT thread_id FROM moving)",
    "cancels": _RUNS_IN_MOVING,
    "alarms": "thread_id IN (SELECT thread_id FROM moving)",
    "thread_index": "thread_id IN (SELECT thread_id FROM moving)",
}
"""Table -> the rows that move; every table of the saver that has rows of threads."""
_LOCK = (
    "SELECT FROM threads WHERE thread IN (SELECT thread FROM moving) ORDER BY thread_id FOR UPDATE",
    """SELECT FROM system_runs WHERE thread_id IN (SELECT thread_id FROM moving)
    ORDER BY run FOR UPDATE""",
)
_ACTIVE = """
SELECT s.run, s.thread_id FROM system_runs s JOIN moving USING (thread_id)
JOIN owners o ON o.owner = s.owner
WHERE s.status IN ('pending', 'running') AND o.lease_until > clock_timestamp()
ORDER BY s.run LIMIT 1
"""
_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname
"""
# In the target no trigger has seen the rows that came: its next search reads their threads.
MARK_MOVED = """
INSERT INTO thread_marks
SELECT n.thread_id, (random() * 9e18)::bigint
FROM (SELECT thread_id FROM staged_threads UNION SELECT thread_id FROM system_runs
      WHERE bucket_of(thread_id) = ANY(%s)) n
ON CONFLICT (thread_id) DO UPDATE SET number = excluded.number
"""
_EMPTY = SQL(" WHERE false")
_MISMATCHED = """
SELECT count(*) FROM staged s JOIN shapes h USING (shape) WHERE h.form <> s.form
"""


class ActiveRun(Exception):
    """A living system has a run of the buckets."""


def mend(tables: Sequence[BucketTable]) -> None:
    """Undo or complete the moves between databases that were given up.

    Raises:
        StorageBusyError: another process moves buckets.
        StorageError: a database can't be used.
    """
    with ExitStack() as stack:
        for table in sorted(tables, key=lambda table: table.name):
            stack.enter_context(table.alone())
        _mend_locked(tables, range(BUCKETS))


def _mend_locked(tables: Sequence[BucketTable], buckets: Sequence[int]) -> None:
    states = {table.name: table.states() for table in tables}
    by_name = {table.name: table for table in tables}
    changes: dict[ChangeBucket, list[int]] = {}
    order: list[ChangeBucket] = []
    for bucket in buckets:
        for change in mending({name: rows[bucket] for name, rows in states.items()}):
            if change not in changes:
                order.append(change)
            changes.setdefault(change, []).append(bucket)
    # Those that delete rows first: a bucket that is "here" again may move again.
    for change in sorted(order, key=lambda change: not change.clear):
        by_name[change.shard].change(changes[change], change)


def move(source: BucketTable, target: BucketTable, buckets: Sequence[int], wait_s: float) -> int:
    """Move buckets.

    Args:
        wait_s: seconds to wait for the runs that living systems have; meanwhile no new ones of
            these buckets are accepted.
    Returns: the number of their threads.
    Raises:
        InvalidConfigError: the source doesn't have them all.
        StorageBusyError: runs have not ended in time, or another process moves buckets.
        StorageError: a database can't be used. Nothing has moved, unless the source's commit got
            no answer; the states in the databases say so, and the next move mends them.
    """
    first, second = sorted((source, target), key=lambda table: table.name)
    with first.alone(), second.alone():
        _mend_locked((source, target), buckets)
        states = source.states()
        missing = [bucket for bucket in buckets if states[bucket].state != "here"]
        if missing:
            raise InvalidConfigError(
                f"the database {source.name!r} doesn't have the bucket {missing[0]}",
                do="read the map again: await system.refresh()",
            )
        target.change(buckets, ChangeBucket(target.name, "arriving", source.name, clear=True))
        source.change(buckets, ChangeBucket(source.name, "leaving", target.name))
        try:
            count = _switch_buckets(source, target, buckets, wait_s)
        except BaseException:
            with suppress(ActorGraphError):  # the next move does it
                _mend_locked((source, target), buckets)
            raise
        target.change(buckets, ChangeBucket(target.name, "here", source.name))
    return count


def _switch_buckets(
    source: BucketTable, target: BucketTable, buckets: Sequence[int], wait_s: float
) -> int:
    """Copy the rows when no living system has a run of them, then delete them in the source."""
    end = time.monotonic() + wait_s
    while True:
        try:
            return _copy_and_leave(source, target, buckets)
        except ActiveRun as active:
            run, thread_id = active.args
            if time.monotonic() > end:
                raise StorageBusyError(
                    f"run {as_text(run)} of thread {thread_id!r} has not ended in {wait_s:g} s",
                    do="raise wait_s, or cancel it; the bucket stays where it is",
                ) from None
        time.sleep(PAUSE_S)


def _copy_and_leave(source: BucketTable, target: BucketTable, buckets: Sequence[int]) -> int:
    with source.connected() as connection, source.transaction(connection) as here:
        count = find(here, buckets)
        # From here on no save of these threads is stored, in whichever process.
        for statement in _LOCK:
            here.execute(statement)
        active = here.execute(_ACTIVE).fetchone()
        if active is not None:
            raise ActiveRun(*active)
        if count:
            with target.connected() as other, target.transaction(other) as there:
                there.execute("SET LOCAL actorgraph.moving = 'on'")
                delete(there, buckets)
                for table, rows in COPIED.items():
                    _copy(here, there, table, rows)
                there.execute(MARK_MOVED, (Numbers(buckets),))
            for statement in DELETE_BUCKETS:
                here.execute(statement)
        # Without the lock of states: these are closed already, so nothing new comes through.
        set_states(here, buckets, ChangeBucket(source.name, "away", target.name))
    return count


def _copy(here: Any, there: Any, table: LiteralString, rows: LiteralString) -> None:
    """Copy rows of one table; keys of threads are numbered anew."""
    names = [name for (name,) in here.execute(_COLUMNS, (table,)).fetchall()]
    columns = SQL(", ").join(map(Identifier, names))
    to = SQL(table)
    there.execute(SQL("CREATE TEMP TABLE staged ON COMMIT DROP AS SELECT * FROM ") + to + _EMPTY)
    read = SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT (FORMAT binary)")
    write = SQL("COPY staged ({}) FROM STDIN (FORMAT binary)").format(columns)
    with here.copy(read.format(columns, to, SQL(rows))) as out, there.copy(write) as into:
        for part in out:
            into.write(part)
    if table == "threads":
        there.execute("ALTER TABLE staged RENAME TO staged_threads")
        rest = SQL(", ").join(Identifier(name) for name in names if name != "thread")
        there.execute(_insertion(to, rest, SQL("staged_threads")))
        there.execute("""CREATE TEMP TABLE numbered ON COMMIT DROP AS
            SELECT s.thread AS source, t.thread FROM staged_threads s JOIN threads t
            USING (thread_id)""")
        return
    if table == "shapes":
        _check_shapes(there)
    elif "thread" in names:
        there.execute(
            "UPDATE staged s SET thread = n.thread FROM numbered n WHERE n.source = s.thread"
        )
    staged = SQL("staged ON CONFLICT DO NOTHING") if table == "shapes" else SQL("staged")
    there.execute(_insertion(to, columns, staged))
    there.execute("DROP TABLE staged")


def _insertion(to: SQL, columns: Composed, source: SQL) -> Composed:
    return SQL("INSERT INTO {0} ({1}) SELECT {1} FROM {2}").format(to, columns, source)


def _check_shapes(there: Any) -> None:
    if there.execute(_MISMATCHED).fetchone() != (0,):
        raise StorageError(
            "two texts of records have the same id in the two databases",
            do="move other buckets; these can't be moved",
        )
