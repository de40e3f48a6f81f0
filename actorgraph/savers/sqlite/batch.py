"""One batch, one transaction: `run_batch` over a plain `sqlite3.Connection`, in one thread hop.

The state of the batch's threads is read with one statement, `judge` decides about each request
in order, and what was accepted is written table by table. A row that the database refuses
rolls back to the batch's savepoint, and the requests are then tried one by one, so that only
the refused one fails.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from actorgraph.codec.frames import checked
from actorgraph.errors import StorageError
from actorgraph.savers.checksums import (
    blob_sum,
    checkpoint_sum,
    run_sum,
    writes_sum,
)
from actorgraph.savers.judge import ThreadState, answer_rows, branches_off, judge, one_by_one
from actorgraph.savers.soundness import check_head
from actorgraph.savers.sqlite import schema as sql
from actorgraph.savers.sqlite import system_schema, systems
from actorgraph.savers.sqlite.failures import translate
from actorgraph.savers.sqlite.retention import head_row, keep
from actorgraph.savers.systems import status_after
from actorgraph.values.commits import (
    CheckpointRow,
    Commit,
    CommitOutcome,
    Committed,
    LedgerRow,
    RangeRow,
    Refused,
    Request,
)
from actorgraph.values.retention import DeleteThread
from actorgraph.values.systems import OPEN_STATUSES, SYSTEM_REQUESTS, PutRun


def run_batch(connection: sqlite3.Connection, batch: Sequence[Request]) -> list[CommitOutcome]:
    """Store a batch durably.

    Args:
        connection: in autocommit mode (`isolation_level=None`), used by nobody else.
    Returns: one outcome per request.
    Raises:
        StorageBusyError, StorageFullError: rolled back; the connection is usable.
        SaverBrokenError: the outcome of the COMMIT is unknown.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise translate(error, committing=False) from error
    try:
        outcomes = _write_all(connection, batch)
    except sqlite3.Error as error:
        raise translate(error, committing=not _rollback(connection)) from error
    except BaseException:
        _rollback(connection)
        raise
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        _rollback(connection)
        raise translate(error, committing=True) from error
    return outcomes


def _rollback(connection: sqlite3.Connection) -> bool:
    """Whether the transaction is gone; if not, the connection can't be used any more."""
    if connection.in_transaction:
        with suppress(sqlite3.Error):  # the first error is what counts
            connection.execute("ROLLBACK")
    return not connection.in_transaction


_POISON = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    OverflowError,
    UnicodeError,
)
"""What one row can be refused for; everything else concerns the whole batch."""


def _write_all(connection: sqlite3.Connection, batch: Sequence[Request]) -> list[CommitOutcome]:
    if len(batch) == 1:
        return [_write_alone(connection, batch[0])]
    connection.execute("SAVEPOINT together")
    try:
        outcomes = _write(connection, batch)
    except _POISON:
        connection.execute("ROLLBACK TO together")
        return one_by_one(batch, lambda request: _write_alone(connection, request))
    connection.execute("RELEASE together")
    return outcomes


def _write_alone(connection: sqlite3.Connection, request: Request) -> CommitOutcome:
    connection.execute("SAVEPOINT alone")
    try:
        (outcome,) = _write(connection, (request,))
    except _POISON as error:
        connection.execute("ROLLBACK TO alone")
        outcome = Refused(_refused(request, error))
    connection.execute("RELEASE alone")
    return outcome


def _refused(request: Request, error: Exception) -> StorageError:
    refused = StorageError(
        f"SQLite refused a row of thread {request.thread_id!r}: {error}",
        do="make the value smaller (SQLite's limit for a row is 1 GB), or store less of it",
    )
    refused.__cause__ = error
    return refused


def _write(connection: sqlite3.Connection, batch: Sequence[Request]) -> list[CommitOutcome]:
    threads, damaged = _read_threads(connection, batch)
    rows = Rows()
    outcomes: list[CommitOutcome] = []
    for request in batch:
        if isinstance(request, PutRun):
            outcomes.append(rows.owned.put(connection, request))
            continue
        if isinstance(request, SYSTEM_REQUESTS):
            rows.write(connection)
            rows = Rows()
            outcomes.append(systems.apply(connection, request))
            systems.read_fence(connection, threads.get(request.thread_id))
            continue
        if request.thread_id in damaged and not isinstance(request, DeleteThread):
            outcomes.append(Refused(damaged[request.thread_id]))
            continue
        thread = threads[request.thread_id]
        if not isinstance(request, Commit):
            rows.write(connection)
            rows = Rows()
            outcomes.append(keep(connection, request, thread))
            continue
        _know_head(connection, thread, request.namespace)
        before = thread.run
        lost = None
        if request.claim is not None:
            lost = rows.owned.before_claim(connection, thread, request)
        if lost is not None:
            outcomes.append(Refused(lost))
            continue
        answered = any(_has_row(connection, thread, request, r) for r in answer_rows(request))
        base = branches_off(request)
        if base is not None:  # it may be in this batch
            rows.write(connection)
            rows = Rows()
        based = base is None or _has_point(connection, thread, request, base)
        sequence, error = judge(request, thread, answered=answered, based=based)
        if error is not None:
            outcomes.append(Refused(error))
            continue
        if request.claim is not None and before is not None:
            rows.superseded.append((before,))
        rows.add(thread, request, sequence)
        newest = sequence + len(request.checkpoints) - 1 if request.checkpoints else 0
        outcomes.append(Committed(newest))
    rows.write(connection)
    return outcomes


def _know_head(connection: sqlite3.Connection, thread: ThreadState, namespace: str) -> None:
    if namespace not in thread.heads:
        found = connection.execute(sql.SELECT_HEAD, (thread.row, namespace)).fetchone()
        thread.heads[namespace] = found[0] if found else None


def _has_row(
    connection: sqlite3.Connection, thread: ThreadState, commit: Commit, row: LedgerRow
) -> bool:
    key = (thread.row, commit.namespace, row.base, row.task, row.index, row.generation)
    return connection.execute(sql.SELECT_WRITE, key).fetchone() is not None


def _has_point(
    connection: sqlite3.Connection, thread: ThreadState, commit: Commit, point: bytes
) -> bool:
    key = (thread.row, commit.namespace, point)
    return connection.execute(sql.SELECT_BY_ID, key).fetchone() is not None


def _read_threads(
    connection: sqlite3.Connection, batch: Sequence[Request]
) -> tuple[dict[str, ThreadState], dict[str, StorageError]]:
    """The state of the threads of a batch, and the errors of those whose row is damaged."""
    wanted = {r.thread_id for r in batch if not isinstance(r, SYSTEM_REQUESTS)}
    threads: dict[str, ThreadState] = {}
    names = msgspec.json.encode(list(wanted)).decode()
    damaged: dict[str, StorageError] = {}
    for thread_id, row, epoch, run, next_seq, head, crc in connection.execute(
        sql.SELECT_THREADS, (names,)
    ):
        try:
            check_head((thread_id, epoch, run, next_seq, head), crc)
        except StorageError as error:
            damaged[thread_id] = error
        threads[thread_id] = ThreadState(thread_id, row, epoch, run, next_seq, {"": head})
    missing = [thread_id for thread_id in wanted if thread_id not in threads]
    if missing:
        first = connection.execute(sql.NEXT_THREAD).fetchone()[0]
        for row, thread_id in enumerate(missing, first):
            threads[thread_id] = ThreadState(thread_id, row, heads={"": None})
        connection.executemany(
            sql.INSERT_THREAD, [(t.row, t.thread_id) for t in _new(threads, missing)]
        )
    return threads, damaged


def _new(threads: dict[str, ThreadState], missing: list[str]) -> list[ThreadState]:
    return [threads[thread_id] for thread_id in missing]


_Row = tuple[object, ...]


class Rows:
    """What a batch writes, by table, in the order in which the tables are written."""

    def __init__(self) -> None:
        self.owned = systems.Owned()
        self.leases: list[_Row] = []
        self.begun: list[_Row] = []
        self.left: list[_Row] = []
        self.superseded: list[_Row] = []
        self.runs: list[_Row] = []
        self.ended: list[_Row] = []
        self.checkpoints: list[_Row] = []
        self.blobs: list[_Row] = []
        self.writes: list[_Row] = []
        self.interrupts: list[_Row] = []
        self.threads: dict[int | None, ThreadState] = {}
        self.lists: list[Callable[[sqlite3.Connection], None]] = []

    def add(self, thread: ThreadState, commit: Commit, sequence: int) -> None:
        """The rows of one accepted commit."""
        key, namespace = thread.row, commit.namespace
        self.threads[key] = thread
        claim = commit.claim
        if claim is not None:
            head = commit.checkpoints[-1].id if commit.checkpoints else claim.head
            self.runs.append(
                (
                    commit.run,
                    key,
                    namespace,
                    claim.mode,
                    head,
                    claim.input,
                    claim.resumes,
                    thread.epoch,
                    run_sum(thread.thread_id, commit.run or b"", head, claim.mode, claim.input),
                )
            )
        for row in commit.ledger:
            self.writes.append(
                (
                    key,
                    namespace,
                    row.base,
                    row.task,
                    row.index,
                    row.generation,
                    row.path,
                    row.payload,
                    writes_sum(thread.thread_id, namespace, row),
                )
            )
            if row.asks:
                self.interrupts.append((key, namespace, row.base))
        for offset, point in enumerate(commit.checkpoints):
            self._add_checkpoint(thread, namespace, sequence + offset, point)
        if commit.ends is not None:
            self.ended.append((commit.ends, commit.run))
        if commit.owner is not None:
            self._add_owned(thread, commit)

    def _add_owned(self, thread: ThreadState, commit: Commit) -> None:
        """What a commit says of a system's run."""
        if commit.claim is not None:
            self.begun.append((commit.run,))
            self.owned.begun.add(commit.run)
        if commit.ends is not None:
            status = status_after(commit.ends)
            self.left.append((status, commit.run))
            if status not in OPEN_STATUSES:
                self.owned.left.add(commit.run)
        if commit.claim is not None or commit.ends is not None:
            self.leases.append((thread.owner, thread.epoch, thread.row))

    def _add_checkpoint(
        self, thread: ThreadState, namespace: str, sequence: int, row: CheckpointRow
    ) -> None:
        key, named = thread.row, thread.thread_id
        self.checkpoints.append(
            (
                key,
                namespace,
                sequence,
                row.id,
                row.parent,
                row.step,
                row.source,
                row.run,
                row.next,
                row.created,
                row.metadata,
                row.record,
                checkpoint_sum(named, namespace, sequence, row),
            )
        )
        for blob in row.blobs:
            where = (namespace, blob.channel, blob.version, blob.payload)
            self.blobs.append((key, *where, blob_sum(named, *where)))
        for part in row.ranges:
            self.lists.append(lambda c, p=part: _write_range(c, key, namespace, p))
        for merge in row.merges:
            where = (key, namespace, merge.channel, merge.lineage, merge.start, merge.end)
            self.lists.append(lambda c, w=where: _merge(c, w))

    def write(self, connection: sqlite3.Connection) -> None:
        """Execute everything."""
        for statement, rows in (
            (system_schema.INSERT_SYSTEM_RUN, self.owned.rows),
            (system_schema.BEGIN_SYSTEM_RUN, self.begun),
            (sql.SUPERSEDE_RUN, self.superseded),
            (sql.INSERT_RUN, self.runs),
            # A run that leaves gives the pages of its input free, for the values that follow.
            (sql.END_RUN, self.ended),
            (sql.INSERT_CHECKPOINT, self.checkpoints),
            (sql.INSERT_BLOB, self.blobs),
            (sql.INSERT_WRITE, self.writes),
            (sql.MARK_INTERRUPTS, self.interrupts),
            (system_schema.END_SYSTEM_RUN, self.left),
            (system_schema.LEASE_THREAD, self.leases),
        ):
            if rows:
                connection.executemany(statement, rows)
        for step in self.lists:
            step(connection)
        updated = [head_row(thread) for thread in self.threads.values()]
        if updated:
            connection.executemany(sql.UPDATE_THREAD, updated)


def _write_range(
    connection: sqlite3.Connection, key: int | None, namespace: str, part: RangeRow
) -> None:
    where = (key, namespace, part.channel, part.lineage, part.start)
    payload = checked(part.payload)
    if part.before == 0:
        connection.execute(sql.INSERT_RANGE, (*where, part.count, payload))
        return
    done = connection.execute(sql.EXTEND_RANGE, (part.count, payload, *where, part.before))
    if done.rowcount != 1:
        msg = f"the list {part.channel!r} has no row at {part.start} with {part.before} items"
        raise sqlite3.IntegrityError(msg)


def _merge(connection: sqlite3.Connection, where: tuple[object, ...]) -> None:
    rows = connection.execute(sql.SELECT_MERGED, where).fetchall()
    connection.execute(sql.DELETE_MERGED, where)
    merged = (*where[:5], sum(count for count, _ in rows), b"".join(p for _, p in rows))
    connection.execute(sql.INSERT_RANGE, merged)
