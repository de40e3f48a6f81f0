"""Copies, removals and re-encryption of threads, inside the transaction of a batch.

`savers.retention` decides which rows go; here are the statements that do it. Re-encryption
(`Reseal`, or a copy with a resealer) reads and verifies every row before it changes the first one.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from actorgraph.codec.records import encode_json
from actorgraph.errors import StorageBusyError
from actorgraph.savers.integrity import (
    Remaking,
    blob_sum,
    check_head,
    head_sum,
    parent_sum,
    record_sum,
    sound_points,
    sound_threads,
    thread_sum,
    unreadable,
)
from actorgraph.savers.judge import ThreadState, epoch_after, next_of_emptied, refused_copy
from actorgraph.savers.retention import RemovalPlan, held_whole, plan_removal
from actorgraph.savers.sqlite import schema as sql
from actorgraph.savers.sqlite import system_schema, thread_index
from actorgraph.savers.sqlite.unreached_rows import remove_orphans, remove_unreadable
from actorgraph.storage.sqlite.translate import is_invalid_utf8
from actorgraph.values.commits import CommitOutcome, Committed, Refused
from actorgraph.values.retention import (
    CopyThread,
    CountCheckpoints,
    DeleteThread,
    HoldWhole,
    ListThreads,
    Removal,
    Reseal,
    Resealer,
    Vacuum,
)

_VALUES = "SELECT namespace, channel, version, payload, crc FROM blobs WHERE thread = ?"
_ITEMS = "SELECT namespace, channel, lineage, start, count, payload FROM ranges WHERE thread = ?"
_WRITES = """
SELECT namespace, checkpoint, task, path, idx, generation, payload, crc FROM writes
WHERE thread = ?
"""
_INPUTS = """
SELECT run, head, mode, input, namespace, crc FROM runs WHERE thread = ? AND input IS NOT NULL
"""
_SET_VALUE = """
UPDATE blobs SET payload = ?, crc = ?
WHERE namespace = ? AND channel = ? AND version = ? AND thread = ?
"""
_SET_ITEMS = """
UPDATE ranges SET payload = ?
WHERE namespace = ? AND channel = ? AND lineage = ? AND start = ? AND thread = ?
"""
_SET_WRITES = """
UPDATE writes SET payload = ?, crc = ?
WHERE namespace = ? AND checkpoint = ? AND task = ? AND idx = ? AND generation = ? AND thread = ?
"""
_SET_INPUT = "UPDATE runs SET input = ?, crc = ? WHERE run = ?"

Changes = list[tuple[str, Sequence[tuple[object, ...]]]]
"""Statements, each with the parameter rows to execute it with."""


def resealed_rows(
    connection: sqlite3.Connection, source: ThreadState, target: ThreadState, resealer: Resealer
) -> Changes:
    """Return the changes that re-encrypt a thread's rows; nothing is written yet.

    Args:
        source: the thread whose payloads are read.
        target: the thread whose rows get the new payloads: `source`, or a copy of it.
    Raises:
        StorageError: a row is damaged.
        EncryptionError: the resealer can't read a payload.
    """
    remaking = Remaking(resealer, source.thread_id, target.thread_id)
    changes: Changes = [
        (_SET_VALUE, _of(target, remaking.values(_rows(connection, _VALUES, source)))),
        (_SET_ITEMS, _of(target, remaking.items(_rows(connection, _ITEMS, source)))),
        (_SET_WRITES, _of(target, remaking.writes(_rows(connection, _WRITES, source)))),
    ]
    if source.row == target.row:
        changes.append((_SET_INPUT, list(remaking.inputs(_rows(connection, _INPUTS, source)))))
    return changes


def _rows(
    connection: sqlite3.Connection, statement: str, thread: ThreadState
) -> Iterable[tuple[Any, ...]]:
    return connection.execute(statement, (thread.row,))


def _of(thread: ThreadState, rows: Iterable[tuple[Any, ...]]) -> list[tuple[object, ...]]:
    return [(*row, thread.row) for row in rows]


def execute_changes(connection: sqlite3.Connection, changes: Changes) -> None:
    """Execute the changes that `resealed_rows` returned."""
    for statement, rows in changes:
        connection.executemany(statement, rows)


_UUID_CHARS = 36


def apply_retention(
    connection: sqlite3.Connection,
    request: DeleteThread | CopyThread | Removal | HoldWhole | Reseal | Vacuum,
    thread: ThreadState,
) -> CommitOutcome:
    """Carry out a request that copies, removes or re-encrypts a thread's rows.

    Args:
        thread: the request's thread; updated to the state that is stored.
    """
    if isinstance(request, DeleteThread):
        return _delete(connection, thread)
    if isinstance(request, CopyThread):
        return _copy(connection, request, thread)
    if isinstance(request, HoldWhole):
        return _hold(connection, request, thread)
    if isinstance(request, Reseal):
        return _reseal(connection, request, thread)
    if isinstance(request, Vacuum):  # carried out after the batch's transaction: see `vacuum`
        return Committed()
    return _remove(connection, request, thread)


def list_threads(connection: sqlite3.Connection, query: ListThreads) -> list[str]:
    """Answer `ListThreads`."""
    if query.older is not None:
        rows = connection.execute(sql.SELECT_THREADS_OLDER, (query.older,)).fetchall()
        old = [thread_id for (thread_id,) in rows]
        if query.runs is None or not old:
            return old
        named = list_threads(connection, ListThreads(query.runs))
        return sorted(set(old).intersection(named))
    if query.runs is None:
        text = sql.SELECT_THREADS_WITH_INPUTS if query.inputs else sql.SELECT_THREAD_IDS
        return sound_threads(thread_id for (thread_id,) in connection.execute(text).fetchall())
    runs = sorted(query.runs)
    named = [run.replace("-", "").upper() for run in runs if len(run) == _UUID_CHARS]
    where = {"texts": encode_json(runs), "runs": encode_json(named)}
    return [thread_id for (thread_id,) in connection.execute(sql.SELECT_THREADS_OF_RUNS, where)]


def _delete(connection: sqlite3.Connection, thread: ThreadState) -> CommitOutcome:
    for statement in system_schema.DELETE_THREAD:
        connection.execute(statement, (thread.thread_id,))
    counts = [connection.execute(text, (thread.row,)).rowcount for text in sql.DELETE_THREAD]
    thread_index.forget(connection, thread.thread_id)
    # The thread's row stays, with a higher epoch: a run that is still going on is refused instead
    # of bringing the thread back.
    thread.epoch, thread.next_seq = epoch_after(thread.epoch), next_of_emptied(thread.next_seq)
    connection.execute(sql.EMPTY_THREAD, (thread.epoch, thread.next_seq, thread.row))
    thread.run, thread.heads = None, {}
    return Committed(removed=counts[0])  # the first statement deletes the checkpoints


def _copy(
    connection: sqlite3.Connection, request: CopyThread, thread: ThreadState
) -> CommitOutcome:
    if connection.execute(sql.SELECT_ANY, (thread.row,)).fetchone():
        return Refused(refused_copy(request))
    names = encode_json([request.source])
    row = connection.execute(sql.SELECT_THREADS, (names,)).fetchone()
    if row is None:
        return Committed()
    _, source, epoch, run, next_seq, head, crc = row
    changes: Changes = []
    try:
        check_head((request.source, epoch, run, next_seq, head), crc)
        if request.resealer is not None:
            where = ThreadState(request.source, source)
            changes = resealed_rows(connection, where, thread, request.resealer)
    except Exception as error:  # noqa: BLE001 - rows that no saver has written may raise anything
        return _refused(request.source, error)
    # Checksums cover the thread id, combined by exclusive or: the statements exchange that part.
    other = thread_sum(request.source) ^ thread_sum(request.thread_id)
    for statement in sql.COPY_THREAD:
        named = {"source": source, "target": thread.row, "other": other}
        connection.execute(statement, named)
    execute_changes(connection, changes)
    thread.next_seq = next_seq
    thread.heads = {"": head}
    _update(connection, thread)
    return Committed()


def _refused(thread_id: str, error: Exception) -> CommitOutcome:
    """Refuse a request because a row of its thread can't be read."""
    if isinstance(error, sqlite3.Error) and not is_invalid_utf8(error):
        raise error
    return Refused(unreadable(thread_id, error))


def _reseal(connection: sqlite3.Connection, request: Reseal, thread: ThreadState) -> CommitOutcome:
    if thread.row is not None:
        try:
            changes = resealed_rows(connection, thread, thread, request.resealer)
        except Exception as error:  # noqa: BLE001 - as above
            return _refused(thread.thread_id, error)
        execute_changes(connection, changes)
    return Committed()


def _hold(connection: sqlite3.Connection, request: HoldWhole, thread: ThreadState) -> CommitOutcome:
    where = (thread.row, request.namespace, request.id)
    try:
        row = connection.execute(sql.SELECT_RECORD, where).fetchone()
        held = row and held_whole(request, row[1])
    except Exception as error:  # noqa: BLE001 - as above
        return _refused(thread.thread_id, error)
    if held:
        text, blobs = held
        values = [(request.namespace, b.channel, b.version, b.payload) for b in blobs]
        rows = [(thread.row, *v, blob_sum(thread.thread_id, *v)) for v in values]
        connection.executemany(sql.INSERT_BLOB, rows)
        changed = record_sum(row[1]) ^ record_sum(text)
        where = (text, changed, changed, thread.row, request.namespace, row[0])
        connection.execute(sql.UPDATE_RECORD, where)
    return Committed()


def count_checkpoints(connection: sqlite3.Connection, query: CountCheckpoints) -> int:
    """Answer `CountCheckpoints`."""
    where = {"thread": query.thread_id, "namespace": query.namespace}
    return connection.execute(sql.COUNT_CHECKPOINTS, where).fetchone()[0]


def vacuum(connection: sqlite3.Connection) -> None:
    """Rewrite the file without deleted rows, and empty its log; outside of transactions.

    Tables of older files are rebuilt first, see `sql.rebuild_tables`.

    Raises:
        StorageBusyError: another process is reading, so that the log, which still holds deleted
            rows, can't be emptied.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        remove_unreadable(connection)
        for statement in sql.FORGET_DELETED:
            connection.execute(statement)
        sql.rebuild_tables(connection)
        thread_index.forget_deleted(connection)
        remove_orphans(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("VACUUM")
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise StorageBusyError(
            "another process is reading the database: its log still holds deleted rows",
            do="call vacuum() again when no process has a long read transaction open",
        )


def _update(connection: sqlite3.Connection, thread: ThreadState) -> None:
    head = (thread.next_seq, thread.heads.get(""), thread.run)
    crc = head_sum(thread.thread_id, *head)
    connection.execute(sql.UPDATE_THREAD, (*head, crc, thread.row))


def _remove(connection: sqlite3.Connection, request: Removal, thread: ThreadState) -> CommitOutcome:
    rows = connection.execute(sql.SELECT_POINTS, (thread.row,)).fetchall()
    try:
        points = sound_points(thread.thread_id, rows)
        plan = plan_removal(request, points, thread.run)
    except Exception as error:  # noqa: BLE001 - as above
        return _refused(thread.thread_id, error)
    if plan.stops:
        connection.execute(sql.RAISE_EPOCH, (thread.row,))
        thread.epoch += 1
        thread.run = None
    freed = 0
    if plan.clears:
        freed = _delete_rows(connection, thread, plan)
        thread.heads = {}
        head = connection.execute(sql.SELECT_HEAD, (thread.row, "")).fetchone()
        thread.heads[""] = head[0] if head else None
    if plan.stops or plan.gone:
        _update(connection, thread)
        connection.execute(sql.DELETE_RUNS, (thread.row, thread.run))
    return Committed(removed=len(plan.gone), freed=freed if plan.kept is not None else 0)


def _delete_rows(connection: sqlite3.Connection, thread: ThreadState, plan: RemovalPlan) -> int:
    """Delete the rows of a removal.

    Returns: how many rows of values, and of writes without a checkpoint, were deleted.
    """
    row, writes = thread.row, 0
    connection.executemany(
        sql.DELETE_CHECKPOINT, [(row, point.namespace, point.sequence) for point in plan.gone]
    )
    connection.executemany(sql.DELETE_WRITES, [(row, *key) for key in plan.ledgers])
    connection.executemany(
        sql.UPDATE_PARENT,
        [
            (parent, changed, changed, row, point.namespace, point.sequence)
            for point, parent in plan.parents
            for changed in [parent_sum(point.parent) ^ parent_sum(parent)]
        ],
    )
    blobs = connection.execute(sql.SELECT_BLOB_KEYS, (row,)).fetchall()
    unnamed = [(row, *key) for key in blobs if key not in plan.blobs]
    connection.executemany(sql.DELETE_BLOB, unnamed)
    if plan.kept is not None:
        writes = connection.execute(sql.DELETE_STRAY_WRITES, (row,)).rowcount
    beyond: list[tuple[Any, ...]] = []
    # While a run is open its next checkpoint may name list rows that no stored checkpoint names.
    if thread.run is None:
        ranges = connection.execute(sql.SELECT_RANGE_KEYS, (row,)).fetchall()
        beyond = [(row, *key) for key in ranges if key[3] >= plan.lists.get(key[:3], 0)]
        connection.executemany(sql.DELETE_RANGE, beyond)
    return len(unnamed) + len(beyond) + writes
