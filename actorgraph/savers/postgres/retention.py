"""Copy, prune, delete and reseal threads, inside the transaction of a batch; vacuum the tables."""

from collections.abc import Iterable, Sequence
from typing import Any, LiteralString

from psycopg import Connection, Cursor
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int4, Int8

from actorgraph.errors import ActorGraphError
from actorgraph.savers.integrity import (
    Remaking,
    blob_sum,
    parent_sum,
    record_sum,
    sound_points,
    thread_sum,
    unreadable,
)
from actorgraph.savers.judge import ThreadState, epoch_after, next_of_emptied, refused_copy
from actorgraph.savers.postgres import alarms, thread_index
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres.columns import arrays
from actorgraph.savers.postgres.orphan_tables import remove_orphans
from actorgraph.savers.postgres.rows import head_row
from actorgraph.savers.postgres.statements import INSERT_BLOBS, UPDATE_THREADS
from actorgraph.savers.retention import RemovalPlan, held_whole, plan_removal
from actorgraph.storage.postgres.timeouts import USE_SCHEMA
from actorgraph.values.commits import CommitOutcome, Committed, Refused
from actorgraph.values.retention import (
    CopyThread,
    DeleteThread,
    HoldWhole,
    Removal,
    Reseal,
    Resealer,
)

DELETE_THREAD = (*sql.DELETE_THREAD, alarms.DELETE, *thread_index.DELETE_THREAD)
RetentionRequest = DeleteThread | CopyThread | Removal | HoldWhole | Reseal


def apply_retention(
    connection: Connection[Any],
    request: RetentionRequest,
    threads: dict[str, ThreadState],
) -> CommitOutcome:
    """Carry out a copy, a removal, a hold or a reseal.

    Args:
        connection: inside the batch's transaction.
        threads: the threads that the request names, all locked; updated.
    """
    cursor = connection.cursor(row_factory=tuple_row, binary=True)
    thread = threads[request.thread_id]
    if isinstance(request, DeleteThread):
        return _delete(cursor, thread)
    if isinstance(request, CopyThread):
        return _copy(cursor, request, threads[request.source], thread)
    if isinstance(request, Reseal):
        return _reseal(cursor, request, thread)
    if isinstance(request, HoldWhole):
        return _hold(cursor, request, thread)
    return _remove(cursor, request, thread)


def vacuum(connection: Connection[Any], begin: tuple[str, str, str]) -> None:
    """Rewrite the tables so that removed data is gone from disk; locks one table at a time.

    The server's WAL may contain removed data for longer.

    Args:
        connection: in autocommit mode: VACUUM can't run in a transaction.
        begin: the parameters of `USE_SCHEMA`.
    """
    with connection.transaction():
        connection.execute(USE_SCHEMA, begin)
        connection.execute(sql.FORGET_DELETED)
        remove_orphans(connection)
    with connection.transaction():
        connection.execute(USE_SCHEMA, begin)
        for statement in thread_index.FORGET_DELETED:
            connection.execute(statement)
    # VACUUM runs outside of transactions, so its settings are those of the session. The connection
    # may be the program's: they are restored.
    before = connection.execute(_NOW).fetchall()
    connection.execute(_SET, begin)
    try:
        for statement in sql.VACUUM:
            connection.execute(statement)
    finally:
        if not connection.broken:
            connection.execute(_SET, [*before[0]])


_NOW = """
SELECT current_setting('search_path'), current_setting('lock_timeout'),
       current_setting('statement_timeout')
"""
_SET = USE_SCHEMA.replace("true", "false")
"""`USE_SCHEMA` for the session: for statements outside of transactions."""


def _delete(cursor: Cursor[Any], thread: ThreadState) -> CommitOutcome:
    counts = [cursor.execute(text, (thread.row,)).rowcount for text in DELETE_THREAD]
    thread.epoch, thread.next_seq = epoch_after(thread.epoch), next_of_emptied(thread.next_seq)
    emptied = (Int8(thread.epoch), Int8(thread.next_seq), thread.row)
    cursor.execute(sql.EMPTY_THREAD, emptied)
    thread.run, thread.owner, thread.heads = None, None, {}
    return Committed(removed=counts[0])  # the first statement deletes the checkpoints


def _copy(
    cursor: Cursor[Any], request: CopyThread, source: ThreadState, thread: ThreadState
) -> CommitOutcome:
    if cursor.execute(sql.SELECT_ANY, (thread.row,)).fetchone():
        return Refused(refused_copy(request))
    if not cursor.execute(sql.SELECT_ANY, (source.row,)).fetchone():
        return Committed()
    changes: Changes = []
    if request.resealer is not None:
        try:
            changes = resealed(cursor, source, thread, request.resealer)
        except ActorGraphError as error:
            return Refused(error)
    # A row's checksum contains its thread's id by XOR: the copy is corrected by this value in SQL.
    other = thread_sum(source.thread_id) ^ thread_sum(thread.thread_id)
    for statement in sql.COPY_THREAD:
        named = {"source": source.row, "target": thread.row, "other": Int4(other)}
        cursor.execute(statement, named)
    carry_out(cursor, changes)
    thread.next_seq = source.next_seq
    thread.heads = {"": source.heads.get("")}
    _update(cursor, thread)
    return Committed()


def _reseal(cursor: Cursor[Any], request: Reseal, thread: ThreadState) -> CommitOutcome:
    try:
        changes = resealed(cursor, thread, thread, request.resealer)
    except ActorGraphError as error:
        return Refused(error)
    carry_out(cursor, changes)
    return Committed()


def _hold(cursor: Cursor[Any], request: HoldWhole, thread: ThreadState) -> CommitOutcome:
    where = (thread.row, request.namespace, request.id)
    row = cursor.execute(sql.SELECT_RECORD, where).fetchone()
    try:
        held = row and held_whole(request, row[1])
    except Exception as error:  # noqa: BLE001 - damaged rows may raise anything
        return Refused(unreadable(thread.thread_id, error))
    if row and held:
        text, blobs = held
        values = [(request.namespace, b.channel, b.version, b.payload) for b in blobs]
        rows = [(thread.row, *v, blob_sum(thread.thread_id, *v)) for v in values]
        cursor.execute(INSERT_BLOBS, arrays(rows))
        changed = Int4(record_sum(row[1]) ^ record_sum(text))
        cursor.execute(sql.UPDATE_RECORD, (text, changed, thread.row, request.namespace, row[0]))
    return Committed()


def _update(cursor: Cursor[Any], thread: ThreadState) -> None:
    cursor.execute(UPDATE_THREADS, arrays([head_row(thread)]))


def _remove(cursor: Cursor[Any], request: Removal, thread: ThreadState) -> CommitOutcome:
    rows = cursor.execute(sql.SELECT_POINTS, (thread.row,)).fetchall()
    try:
        points = sound_points(thread.thread_id, rows)
        plan = plan_removal(request, points, thread.run)
    except Exception as error:  # noqa: BLE001 - as above
        return Refused(unreadable(thread.thread_id, error))
    if plan.stops:
        cursor.execute(sql.RAISE_EPOCH, (thread.row,))
        thread.epoch += 1
        thread.run = thread.owner = None
    freed = 0
    if plan.clears:
        freed = _take_out(cursor, thread, plan)
        head = cursor.execute(sql.SELECT_HEAD, (thread.row,)).fetchone()
        thread.heads = {"": head[0] if head else None}
    if plan.stops or plan.gone:
        _update(cursor, thread)
        cursor.execute(sql.DELETE_RUNS, (thread.row, thread.run))
    return Committed(removed=len(plan.gone), freed=freed if plan.kept is not None else 0)


def _take_out(cursor: Cursor[Any], thread: ThreadState, plan: RemovalPlan) -> int:
    """Delete the rows of a removal; return the number of rows of values and stray writes."""
    row, writes = thread.row, 0
    gone = [(point.namespace, point.sequence) for point in plan.gone]
    if gone:
        cursor.execute(sql.DELETE_CHECKPOINTS, (*arrays(gone), row))
    if plan.ledgers:
        cursor.execute(sql.DELETE_WRITES, (*arrays(plan.ledgers), row))
    if plan.parents:
        relinked = [
            (parent, parent_sum(p.parent) ^ parent_sum(parent), p.namespace, p.sequence)
            for p, parent in plan.parents
        ]
        cursor.execute(sql.UPDATE_PARENTS, (*arrays(relinked), row))
    blobs = cursor.execute(sql.SELECT_BLOB_KEYS, (row,)).fetchall()
    unnamed = [key for key in blobs if key not in plan.blobs]
    if unnamed:
        cursor.execute(sql.DELETE_BLOBS, (*arrays(unnamed), row))
    if plan.kept is not None:
        writes = cursor.execute(sql.DELETE_STRAY_WRITES, (row,)).rowcount
    beyond: list[tuple[Any, ...]] = []
    # A run that is going on may continue a list that no stored checkpoint names yet.
    if thread.run is None:
        ranges = cursor.execute(sql.SELECT_RANGE_KEYS, (row,)).fetchall()
        beyond = [key for key in ranges if key[3] >= plan.lists.get(key[:3], 0)]
        if beyond:
            cursor.execute(sql.DELETE_RANGES, (*arrays(beyond), row))
    cursor.execute(sql.DELETE_FREE_RANGES, (row,))
    return len(unnamed) + len(beyond) + writes


_VALUES = "SELECT namespace, channel, version, payload, crc FROM blobs WHERE thread = %s"
_ITEMS = """
SELECT namespace, channel, lineage, start, count, payload FROM ranges
WHERE thread = %s AND lineage >= 0
"""
_WRITES = """
SELECT namespace, checkpoint, task, path, idx, generation, payload, crc FROM writes
WHERE thread = %s
"""
_INPUTS = """
SELECT run, head, mode, input, namespace, crc FROM runs WHERE thread = %s AND input IS NOT NULL
"""
_SET_VALUE = """
UPDATE blobs b SET payload = w.payload, crc = w.crc
FROM (VALUES (%s::bigint, %s::bytea, %s::bigint, %s, %s, %s::bigint))
    AS w (thread, payload, crc, namespace, channel, version)
WHERE b.thread = w.thread AND b.namespace = w.namespace AND b.channel = w.channel
    AND b.version = w.version
"""
_SET_ITEMS = """
UPDATE ranges r SET payload = w.payload
FROM (VALUES (%s::bigint, %s::bytea, %s, %s, %s::bigint, %s::bigint))
    AS w (thread, payload, namespace, channel, lineage, start)
WHERE r.thread = w.thread AND r.namespace = w.namespace AND r.channel = w.channel
    AND r.lineage = w.lineage AND r.start = w.start
"""
_SET_WRITES = """
UPDATE writes r SET payload = w.payload, crc = w.crc
FROM (VALUES (%s::bigint, %s::bytea, %s::bigint, %s, %s::bytea, %s::bytea, %s::bigint, %s::bigint))
    AS w (thread, payload, crc, namespace, checkpoint, task, idx, generation)
WHERE r.thread = w.thread AND r.namespace = w.namespace AND r.checkpoint = w.checkpoint
    AND r.task = w.task AND r.idx = w.idx AND r.generation = w.generation
"""
_SET_INPUT = "UPDATE runs SET input = %s, crc = %s WHERE run = %s"

Changes = list[tuple[LiteralString, Sequence[tuple[object, ...]]]]
"""Statements, each with the rows that it is executed for."""


def resealed(
    cursor: Cursor[Any], source: ThreadState, target: ThreadState, resealer: Resealer
) -> Changes:
    """Reseal the rows of `source`; return the statements that store the payloads in `target`.

    Args:
        source: the thread to read; may be `target` itself.
        target: the thread to change, a copy of `source`.
        resealer: makes the new payloads; what it raises is raised.
    Raises:
        StorageError: a row is damaged.
    """
    remaking = Remaking(resealer, source.thread_id, target.thread_id)
    changes: Changes = [
        (_SET_VALUE, _of(target, remaking.values(_rows(cursor, _VALUES, source)))),
        (_SET_ITEMS, _of(target, remaking.items(_rows(cursor, _ITEMS, source)))),
        (_SET_WRITES, _of(target, remaking.writes(_rows(cursor, _WRITES, source)))),
    ]
    if source.row == target.row:  # runs are not copied, so a copy has no inputs
        changes.append((_SET_INPUT, list(remaking.inputs(_rows(cursor, _INPUTS, source)))))
    return changes


def _rows(
    cursor: Cursor[Any], statement: LiteralString, thread: ThreadState
) -> Iterable[tuple[Any, ...]]:
    return cursor.execute(statement, (thread.row,)).fetchall()


def _of(thread: ThreadState, rows: Iterable[tuple[Any, ...]]) -> list[tuple[object, ...]]:
    return [(thread.row, *row) for row in rows]


def carry_out(cursor: Cursor[Any], changes: Changes) -> None:
    """Execute the statements that `resealed` has returned."""
    for statement, rows in changes:
        if rows:
            cursor.executemany(statement, rows)
