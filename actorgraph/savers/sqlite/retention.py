"""Copies and removals over one connection, inside the transaction of a batch."""

import sqlite3

from actorgraph.codec.records import encode_json
from actorgraph.savers.judge import ThreadState, refused_copy
from actorgraph.savers.retention import Cut, Point, cut
from actorgraph.savers.sqlite import schema as sql
from actorgraph.values.commits import Outcome, Refused, Stored
from actorgraph.values.retention import CopyThread, DeleteThread, ListThreads, Removal

_UUID_CHARS = 36


def keep(
    connection: sqlite3.Connection,
    request: DeleteThread | CopyThread | Removal,
    thread: ThreadState,
) -> Outcome:
    """Carry out a request about what a thread keeps.

    Args:
        thread: the request's; changed to what is stored then.
    """
    if isinstance(request, DeleteThread):
        return _delete(connection, thread)
    if isinstance(request, CopyThread):
        return _copy(connection, request, thread)
    return _remove(connection, request, thread)


def threads(connection: sqlite3.Connection, query: ListThreads) -> list[str]:
    """The answer to `ListThreads`."""
    if query.runs is None:
        return [thread_id for (thread_id,) in connection.execute(sql.SELECT_THREAD_IDS)]
    runs = sorted(query.runs)
    named = [run.replace("-", "").upper() for run in runs if len(run) == _UUID_CHARS]
    where = {"texts": encode_json(runs), "runs": encode_json(named)}
    return [thread_id for (thread_id,) in connection.execute(sql.SELECT_THREADS_OF_RUNS, where)]


def _delete(connection: sqlite3.Connection, thread: ThreadState) -> Outcome:
    removed = 0
    for statement in sql.DELETE_THREAD:
        done = connection.execute(statement, (thread.row,))
        removed = removed or done.rowcount  # the first statement's: the checkpoints
    thread.epoch += 1
    thread.run, thread.heads = None, {}
    return Stored(removed=removed)


def _copy(connection: sqlite3.Connection, request: CopyThread, thread: ThreadState) -> Outcome:
    if connection.execute(sql.SELECT_ANY, (thread.row,)).fetchone():
        return Refused(refused_copy(request))
    names = encode_json([request.source])
    found = connection.execute(sql.SELECT_THREADS, (names,)).fetchone()
    if found is None:
        return Stored()
    _, source, _, _, next_seq, head = found
    for statement in sql.COPY_THREAD:
        connection.execute(statement, {"source": source, "target": thread.row})
    thread.next_seq = next_seq
    thread.heads = {"": head}
    _update(connection, thread)
    return Stored()


def _update(connection: sqlite3.Connection, thread: ThreadState) -> None:
    row = (thread.next_seq, thread.heads.get(""), thread.run, thread.row)
    connection.execute(sql.UPDATE_THREAD, row)


def _remove(connection: sqlite3.Connection, request: Removal, thread: ThreadState) -> Outcome:
    points = [Point(*row) for row in connection.execute(sql.SELECT_POINTS, (thread.row,))]
    found = cut(request, points, thread.run)
    if found.stops:
        connection.execute(sql.RAISE_EPOCH, (thread.row,))
        thread.epoch += 1
        thread.run = None
    if found.gone:
        _take_out(connection, thread, found)
        thread.heads = {}
        head = connection.execute(sql.SELECT_HEAD, (thread.row, "")).fetchone()
        thread.heads[""] = head[0] if head else None
    if found.stops or found.gone:
        _update(connection, thread)
        connection.execute(sql.DELETE_RUNS, (thread.row, thread.run))
    return Stored(removed=len(found.gone))


def _take_out(connection: sqlite3.Connection, thread: ThreadState, found: Cut) -> None:
    row = thread.row
    connection.executemany(
        sql.DELETE_CHECKPOINT, [(row, point.namespace, point.sequence) for point in found.gone]
    )
    connection.executemany(sql.DELETE_WRITES, [(row, *key) for key in found.ledgers])
    connection.executemany(
        sql.UPDATE_PARENT,
        [(parent, row, point.namespace, point.sequence) for point, parent in found.parents],
    )
    blobs = connection.execute(sql.SELECT_BLOB_KEYS, (row,)).fetchall()
    unnamed = [(row, *key) for key in blobs if key not in found.blobs]
    connection.executemany(sql.DELETE_BLOB, unnamed)
    if thread.run is None:  # a run may go on with a list that only it remembers
        ranges = connection.execute(sql.SELECT_RANGE_KEYS, (row,)).fetchall()
        beyond = [(row, *key) for key in ranges if key[3] >= found.lists.get(key[:3], 0)]
        connection.executemany(sql.DELETE_RANGE, beyond)
