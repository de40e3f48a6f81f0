"""Copies and removals over one connection, inside the transaction of a batch."""

from typing import Any

from psycopg import Connection, Cursor
from psycopg.rows import tuple_row

from actorgraph.savers.judge import ThreadState, refused_copy
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres.rows import arrays
from actorgraph.savers.retention import Cut, Point, cut
from actorgraph.values.commits import Outcome, Refused, Stored
from actorgraph.values.retention import CopyThread, DeleteThread, Removal


def keep(
    connection: Connection[Any],
    request: DeleteThread | CopyThread | Removal,
    threads: dict[str, ThreadState],
) -> Outcome:
    """Carry out a request about what a thread keeps.

    Args:
        threads: those that the request names, all locked; changed to what is stored then.
    """
    cursor = connection.cursor(row_factory=tuple_row, binary=True)
    thread = threads[request.thread_id]
    if isinstance(request, DeleteThread):
        return _delete(cursor, thread)
    if isinstance(request, CopyThread):
        return _copy(cursor, request, threads[request.source], thread)
    return _remove(cursor, request, thread)


def _delete(cursor: Cursor[Any], thread: ThreadState) -> Outcome:
    removed = 0
    for statement in sql.DELETE_THREAD:
        cursor.execute(statement, (thread.row,))
        removed = removed or cursor.rowcount  # the first statement's: the checkpoints
    thread.epoch += 1
    thread.run, thread.heads = None, {}
    return Stored(removed=removed)


def _copy(
    cursor: Cursor[Any], request: CopyThread, source: ThreadState, thread: ThreadState
) -> Outcome:
    if cursor.execute(sql.SELECT_ANY, (thread.row,)).fetchone():
        return Refused(refused_copy(request))
    if not cursor.execute(sql.SELECT_ANY, (source.row,)).fetchone():
        return Stored()
    for statement in sql.COPY_THREAD:
        cursor.execute(statement, {"source": source.row, "target": thread.row})
    thread.next_seq = source.next_seq
    thread.heads = {"": source.heads.get("")}
    _update(cursor, thread)
    return Stored()


def _update(cursor: Cursor[Any], thread: ThreadState) -> None:
    row = (thread.next_seq, thread.heads.get(""), thread.run, thread.row)
    cursor.execute(sql.UPDATE_THREADS, arrays([row]))


def _remove(cursor: Cursor[Any], request: Removal, thread: ThreadState) -> Outcome:
    points = [Point(*row) for row in cursor.execute(sql.SELECT_POINTS, (thread.row,))]
    found = cut(request, points, thread.run)
    if found.stops:
        cursor.execute(sql.RAISE_EPOCH, (thread.row,))
        thread.epoch += 1
        thread.run = None
    if found.gone:
        _take_out(cursor, thread, found)
        head = cursor.execute(sql.SELECT_HEAD, (thread.row,)).fetchone()
        thread.heads = {"": head[0] if head else None}
    if found.stops or found.gone:
        _update(cursor, thread)
        cursor.execute(sql.DELETE_RUNS, (thread.row, thread.run))
    return Stored(removed=len(found.gone))


def _take_out(cursor: Cursor[Any], thread: ThreadState, found: Cut) -> None:
    row = thread.row
    gone = [(point.namespace, point.sequence) for point in found.gone]
    cursor.execute(sql.DELETE_CHECKPOINTS, (*arrays(gone), row))
    if found.ledgers:
        cursor.execute(sql.DELETE_WRITES, (*arrays(found.ledgers), row))
    if found.parents:
        relinked = [(parent, p.namespace, p.sequence) for p, parent in found.parents]
        cursor.execute(sql.UPDATE_PARENTS, (*arrays(relinked), row))
    blobs = cursor.execute(sql.SELECT_BLOB_KEYS, (row,)).fetchall()
    unnamed = [key for key in blobs if key not in found.blobs]
    if unnamed:
        cursor.execute(sql.DELETE_BLOBS, (*arrays(unnamed), row))
    if thread.run is None:  # a run may go on with a list that only it remembers
        ranges = cursor.execute(sql.SELECT_RANGE_KEYS, (row,)).fetchall()
        beyond = [key for key in ranges if key[3] >= found.lists.get(key[:3], 0)]
        if beyond:
            cursor.execute(sql.DELETE_RANGES, (*arrays(beyond), row))
