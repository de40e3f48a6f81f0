"""Store one batch in one transaction: `run_batch` over a plain `sqlite3.Connection`.

Reads      the state of all threads of the batch, with one statement
Decides    `judge`, about each request in order
Writes     the accepted rows, table by table, then the threads' heads
Isolates   a row that SQLite refuses: the batch is rolled back to its savepoint and its requests
           are stored one by one, so that only the refused one fails
Ends       with one COMMIT for all requests; it runs in the connection's thread, in one hop
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter

import msgspec

from actorgraph.errors import StorageError
from actorgraph.savers.integrity import (
    blob_sum,
    check_head,
    checkpoint_sum,
    head_sum,
    run_sum,
    unreadable,
    writes_sum,
)
from actorgraph.savers.judge import ThreadState, answer_rows, branch_base, judge, one_by_one
from actorgraph.savers.sqlite import alarms, range_rows, system_schema, systems, thread_index
from actorgraph.savers.sqlite import schema as sql
from actorgraph.savers.sqlite.retention import apply_retention
from actorgraph.savers.systems import status_after
from actorgraph.storage.sqlite.translate import (
    is_invalid_utf8,
    lenient_text,
    translate_for_saver,
)
from actorgraph.values.alarms import Alarm, TakeAlarm
from actorgraph.values.commits import (
    CheckpointRow,
    Commit,
    CommitOutcome,
    Committed,
    OtherRequest,
    Refused,
    Request,
)
from actorgraph.values.ids import created_of
from actorgraph.values.retention import DeleteThread
from actorgraph.values.systems import OPEN_STATUSES, SYSTEM_REQUESTS, PutRun
from actorgraph.values.thread_rows import THREAD_REQUESTS

States = dict[str, ThreadState]
THREADS_MAX = 4096
HEADS_MAX = 64
"""Of one thread: runs with many subgraphs have a head for each."""


class KnownThreads:
    """Threads whose state a connection knows from its own last commits, and need not read again.

    Valid      while no other connection has written to the file. `PRAGMA data_version` says so;
               it is asked under the write lock, so none can write between question and commit
    Kept       threads with an active run, at most `THREADS_MAX`: those that have more saves to come
    Ends       with anything that isn't a commit which succeeded: then the next batch reads its
               threads
    """

    def __init__(self) -> None:
        self._version: int | None = None
        self._states: States = {}

    def take(self, connection: sqlite3.Connection) -> States:
        """Return the threads that are still valid; this knows nothing until `keep` is called.

        Args:
            connection: always the same one, inside a write transaction.
        """
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        states, self._states = self._states, {}
        if version != self._version:
            self._version = version
            return {}
        return states

    def keep(self, states: States, changed: Mapping[str, ThreadState]) -> None:
        """Know threads after a commit.

        Args:
            states: those of `take`.
            changed: the threads of the batch as they are stored now.
        """
        for thread_id, state in changed.items():
            if state.run is not None and len(state.heads) <= HEADS_MAX:
                states[thread_id] = state
            else:
                states.pop(thread_id, None)
        if len(states) <= THREADS_MAX:
            self._states = states


def run_batch(
    connection: sqlite3.Connection,
    batch: Sequence[Request],
    durable: list[list[CommitOutcome]] | None = None,
    known: KnownThreads | None = None,
) -> list[CommitOutcome]:
    """Store a batch durably.

    Args:
        connection: in autocommit mode (`isolation_level=None`); no other thread uses it now.
        durable: gets the outcomes by the COMMIT itself, even if a signal's handler raises here.
        known: threads that the connection's earlier batches left; updated.
    Returns: one outcome per request, in order.
    Raises:
        StorageBusyError, StorageFullError: rolled back; the connection is usable.
        SaverBrokenError: the outcome of the COMMIT is unknown.
    """
    try:
        # IMMEDIATE takes the write lock before anything is read. With a deferred BEGIN another
        # process could commit after our reads, and `judge` would compare old epochs and
        # heads.
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        raise translate_for_saver(error, committing=False) from error
    except BaseException:
        _rollback(connection)
        raise
    try:
        read = _Read({} if known is None else known.take(connection))
        if len(batch) == 1:
            outcomes = [_write_alone(connection, batch[0], read)]
        else:
            outcomes = _write_together(connection, batch, read)
    except sqlite3.Error as error:
        # Before COMMIT a rollback proves that nothing was stored. If even that failed, the
        # transaction may still be open, which is as unknown as a failed COMMIT.
        raise translate_for_saver(error, committing=not _rollback(connection)) from error
    except BaseException:
        _rollback(connection)
        raise
    done: list[list[CommitOutcome]] = [] if durable is None else durable
    try:
        _commit(connection, outcomes, done)
    except BaseException:
        if not done:
            _rollback(connection)
        raise
    if known is not None and read.is_followed:
        known.keep(read.known, read.threads)
    return outcomes


def _commit(
    connection: sqlite3.Connection, outcomes: list[CommitOutcome], done: list[list[CommitOutcome]]
) -> None:
    try:
        # One call in C, inside which Python calls no handler of a signal.
        done.extend(map(_SECOND, zip(map(connection.execute, _COMMIT), (outcomes,), strict=True)))
    except sqlite3.Error as error:
        # After BUSY or FULL nothing was committed, and this ends the transaction. After any other
        # error the rows may be in the file already, so a rollback that succeeds proves nothing.
        _rollback(connection)
        raise translate_for_saver(error, committing=True) from error


class _Read(msgspec.Struct):
    """The threads of a batch.

    Attributes:
        known: threads that need not be read.
        threads: those of the batch, as the accepted requests leave them.
        is_followed: whether `threads` has all that the batch changes.
    """

    known: States
    threads: States = {}
    is_followed: bool = True


_COMMIT = ("COMMIT",)
_SECOND = itemgetter(1)


def _rollback(connection: sqlite3.Connection) -> bool:
    """Roll back; return whether no transaction is open any more."""
    # SQLite ends the transaction by itself on some errors (a full disk, for one).
    if connection.in_transaction:
        with suppress(sqlite3.Error):  # the caller reports the error that came first
            connection.execute("ROLLBACK")
    return not connection.in_transaction


_ROW_ERRORS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    OverflowError,
    UnicodeError,
)
"""Errors of a row that SQLite doesn't store."""
_DAMAGE = (TypeError, ValueError, LookupError, AttributeError)
"""Errors of a stored row that no saver has written: a text in the column of a number, say."""


def _write_together(
    connection: sqlite3.Connection, batch: Sequence[Request], read: _Read
) -> list[CommitOutcome]:
    # Optimistic: nearly every batch has no bad row, and then one savepoint serves all requests.
    connection.execute("SAVEPOINT together")
    try:
        outcomes = _write(connection, batch, read)
    except Exception as error:
        if not _is_of_a_row(error):
            raise
        connection.execute("ROLLBACK TO together")
        # The threads in memory have changes that were rolled back: each request reads its own.
        read.is_followed = False
        return one_by_one(batch, lambda request: _write_alone(connection, request, _Read({})))
    connection.execute("RELEASE together")
    return outcomes


def _write_alone(connection: sqlite3.Connection, request: Request, read: _Read) -> CommitOutcome:
    connection.execute("SAVEPOINT alone")
    try:
        (outcome,) = _write(connection, (request,), read)
    except Exception as error:
        if not _is_of_a_row(error):
            raise
        connection.execute("ROLLBACK TO alone")
        read.is_followed = False
        if isinstance(error, sqlite3.OperationalError):
            outcome = _write_leniently(connection, request)
        else:
            refused = isinstance(error, _ROW_ERRORS)
            why = _refused(request, error) if refused else unreadable(request.thread_id, error)
            outcome = Refused(why)
    connection.execute("RELEASE alone")
    return outcome


def _is_of_a_row(error: Exception) -> bool:
    """Whether an error is the fault of one row: one to be stored, or a damaged one.

    Any other error fails the whole batch.
    """
    if isinstance(error, sqlite3.OperationalError):
        return is_invalid_utf8(error)
    return isinstance(error, (*_ROW_ERRORS, *_DAMAGE))


def _write_leniently(connection: sqlite3.Connection, request: Request) -> CommitOutcome:
    """Carry out a request that has met text which isn't UTF-8: a removal needs no valid text."""
    connection.text_factory = lenient_text
    try:
        (outcome,) = _write(connection, (request,), _Read({}))
    except sqlite3.OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - rows that no saver has written may raise anything
        connection.execute("ROLLBACK TO alone")
        return Refused(unreadable(request.thread_id, error))
    finally:
        connection.text_factory = str
    return outcome


def _refused(request: Request, error: Exception) -> StorageError:
    refused = StorageError(
        f"SQLite refused a row of thread {request.thread_id!r}: {error}",
        do="store a smaller value (SQLite's limit for a row is 1 GB), or split it",
    )
    refused.__cause__ = error
    return refused


def _write(
    connection: sqlite3.Connection, batch: Sequence[Request], read: _Read
) -> list[CommitOutcome]:
    threads, damaged = _read_threads(connection, batch, read.known)
    read.threads = threads
    rows = BatchRows()
    outcomes: list[CommitOutcome] = []
    for request in batch:
        if not isinstance(request, Commit):
            # These change no thread.
            read.is_followed &= isinstance(request, (PutRun, TakeAlarm, *THREAD_REQUESTS))
            rows, outcome = _apply_other(connection, request, rows, threads, damaged)
            outcomes.append(outcome)
            continue
        if request.thread_id in damaged:
            read.is_followed = False
            outcomes.append(Refused(damaged[request.thread_id]))
            continue
        thread = threads[request.thread_id]
        if request.namespace not in thread.heads:
            _load_head(connection, thread, request.namespace)
        previous_run = thread.run
        answered = False
        if request.claim is not None:
            lost = rows.system_runs.before_claim(connection, thread, request)
            if lost is not None:
                outcomes.append(Refused(lost))
                continue
            answered = _is_answered(connection, thread, request)
        base = branch_base(request)
        if base is not None:
            # The checkpoint that it branches off may have been stored by this very batch.
            rows = rows.flush(connection)
        based = base is None or _has_checkpoint(connection, thread, request, base)
        sequence, error = judge(request, thread, answered=answered, based=based)
        if error is not None:
            outcomes.append(Refused(error))
            continue
        if request.claim is not None and previous_run is not None:
            rows.superseded.append((previous_run,))
        rows.add(thread, request, sequence)
        newest = sequence + len(request.checkpoints) - 1 if request.checkpoints else 0
        outcomes.append(Committed(newest))
    rows.write(connection)
    return outcomes


def _apply_other(
    connection: sqlite3.Connection,
    request: OtherRequest,
    rows: "BatchRows",
    threads: dict[str, ThreadState],
    damaged: dict[str, StorageError],
) -> tuple["BatchRows", CommitOutcome]:
    """Carry out a request other than a commit; return the rows that are still to be written."""
    if isinstance(request, PutRun):
        return rows, rows.system_runs.put(connection, request)
    if isinstance(request, THREAD_REQUESTS):
        return rows, thread_index.apply(connection, request)
    if isinstance(request, TakeAlarm):
        rows = rows.flush(connection)
        return rows, alarms.take(connection, request)
    if isinstance(request, SYSTEM_REQUESTS):
        rows = rows.flush(connection)
        outcome = systems.apply(connection, request)
        # An adoption raises the thread's epoch in the database; later commits of this batch
        # are judged by the epoch in memory.
        systems.reload_epoch(connection, threads.get(request.thread_id))
        return rows, outcome
    # A damaged thread can still be deleted: that is one of the ways out that its error names.
    if request.thread_id in damaged and not isinstance(request, DeleteThread):
        return rows, Refused(damaged[request.thread_id])
    rows = rows.flush(connection)
    return rows, apply_retention(connection, request, threads[request.thread_id])


def _load_head(connection: sqlite3.Connection, thread: ThreadState, namespace: str) -> None:
    # A thread's row has the head of its root namespace; those of subgraphs are looked up when a
    # commit needs them, and kept for the rest of the batch.
    row = connection.execute(sql.SELECT_HEAD, (thread.row, namespace)).fetchone()
    thread.heads[namespace] = row[0] if row else None


def _is_answered(connection: sqlite3.Connection, thread: ThreadState, commit: Commit) -> bool:
    for row in answer_rows(commit):
        key = (thread.row, commit.namespace, row.base, row.task, row.index, row.generation)
        if connection.execute(sql.SELECT_WRITE, key).fetchone() is not None:
            return True
    return False


def _has_checkpoint(
    connection: sqlite3.Connection, thread: ThreadState, commit: Commit, checkpoint: bytes
) -> bool:
    key = (thread.row, commit.namespace, checkpoint)
    return connection.execute(sql.SELECT_BY_ID, key).fetchone() is not None


def _read_threads(
    connection: sqlite3.Connection, batch: Sequence[Request], known: States
) -> tuple[States, dict[str, StorageError]]:
    """Read the state of the batch's threads, and the errors of those whose row is damaged.

    Threads that the database doesn't have get a row here.
    """
    threads: States = {}
    damaged: dict[str, StorageError] = {}
    wanted: set[str] = set()
    for request in batch:
        thread_id = request.thread_id
        if thread_id in known:
            threads[thread_id] = known[thread_id]
        elif not isinstance(request, (TakeAlarm, *SYSTEM_REQUESTS, *THREAD_REQUESTS)):
            wanted.add(thread_id)
    if not wanted:
        return threads, damaged
    names = msgspec.json.encode(list(wanted)).decode()
    for thread_id, row, epoch, run, next_seq, head, crc in connection.execute(
        sql.SELECT_THREADS, (names,)
    ):
        try:
            check_head((thread_id, epoch, run, next_seq, head), crc)
        except StorageError as error:
            damaged[thread_id] = error
        threads[thread_id] = ThreadState(thread_id, row, epoch, run, next_seq, {"": head})
    missing = list(wanted.difference(threads))
    # Numbering from the highest key is safe: this transaction holds the only write lock. A row
    # whose commit is refused below stays, empty; `vacuum` removes it.
    if missing:
        first = connection.execute(sql.NEXT_THREAD).fetchone()[0]
        numbered = list(enumerate(missing, first))
        for row, thread_id in numbered:
            threads[thread_id] = ThreadState(thread_id, row, heads={"": None})
        connection.executemany(sql.INSERT_THREAD, numbered)
    return threads, damaged


_Row = tuple[object, ...]


class BatchRows(msgspec.Struct):
    """Accepted rows of a batch, by table, until `write` executes them.

    Rows are collected to be written with one `executemany` per table. A request that reads or
    changes tables directly calls `flush` first, so that it sees, and doesn't overtake, the rows of
    earlier requests of the batch.
    """

    system_runs: systems.BatchSystemRuns = msgspec.field(default_factory=systems.BatchSystemRuns)
    leases: list[_Row] = []
    begun: list[_Row] = []
    finished: list[_Row] = []
    superseded: list[_Row] = []
    runs: list[_Row] = []
    ended: list[_Row] = []
    checkpoints: list[_Row] = []
    blobs: list[_Row] = []
    writes: list[_Row] = []
    interrupts: list[_Row] = []
    alarms: dict[str, Alarm] = {}
    threads: dict[int | None, ThreadState] = {}
    lists: list[Callable[[sqlite3.Connection], None]] = []

    def add(self, thread: ThreadState, commit: Commit, sequence: int) -> None:
        """Collect the rows of one accepted commit.

        Args:
            sequence: of the commit's first checkpoint.
        """
        key, namespace = thread.row, commit.namespace
        self.threads[key] = thread
        claim = commit.claim
        if claim is not None:
            # A run's first commit may hold its claim and the checkpoint of its input. The run then
            # begins at that checkpoint, not at the head that it claimed.
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
            self._add_system_run(thread, commit)
        if commit.alarm is not None:
            self.alarms[commit.thread_id] = commit.alarm

    def _add_system_run(self, thread: ThreadState, commit: Commit) -> None:
        """Collect the changed status of an ActorSystem's run, and its thread's lease.

        They are written in the transaction of the run's own save, so that a crash can't leave a
        finished run that still counts as open, or the reverse.
        """
        if commit.claim is not None:
            self.begun.append((commit.run,))
            self.system_runs.begun.add(commit.run)
        if commit.ends is not None:
            status = status_after(commit.ends)
            self.finished.append((status, commit.run))
            if status not in OPEN_STATUSES:
                self.system_runs.finished.add(commit.run)
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
                created_of(row.id),
                row.metadata,
                row.record,
                checkpoint_sum(named, namespace, sequence, row),
            )
        )
        for blob in row.blobs:
            where = (namespace, blob.channel, blob.version, blob.payload)
            self.blobs.append((key, *where, blob_sum(named, *where)))
        # Lists are written one statement at a time, in order: an item range may extend a row that
        # an earlier checkpoint of the batch made, and a merge joins rows that must be there.
        for part in row.ranges:
            self.lists.append(lambda c, p=part: range_rows.write_range(c, key, namespace, p))
        for merge in row.merges:
            where = (key, namespace, merge.channel, merge.lineage, merge.start, merge.end)
            self.lists.append(lambda c, w=where: range_rows.merge(c, w))

    def flush(self, connection: sqlite3.Connection) -> "BatchRows":
        """Execute the collected statements; return an object for the rows that follow."""
        self.write(connection)
        return BatchRows()

    def write(self, connection: sqlite3.Connection) -> None:
        """Execute the collected statements.

        The order matters where a statement changes rows of an earlier one: a run is inserted
        before it begins or ends, a checkpoint before its interrupts are marked, and a thread's
        head is set last.
        """
        for statement, rows in (
            (system_schema.INSERT_SYSTEM_RUN, self.system_runs.rows),
            (system_schema.BEGIN_SYSTEM_RUN, self.begun),
            (sql.SUPERSEDE_RUN, self.superseded),
            (sql.INSERT_RUN, self.runs),
            # Before the values: ending a run deletes its input, whose pages they can reuse.
            (sql.END_RUN, self.ended),
            (sql.INSERT_CHECKPOINT, self.checkpoints),
            (sql.INSERT_BLOB, self.blobs),
            (sql.INSERT_WRITE, self.writes),
            (sql.MARK_INTERRUPTS, self.interrupts),
            (system_schema.END_SYSTEM_RUN, self.finished),
            (system_schema.LEASE_THREAD, self.leases),
        ):
            if rows:
                connection.executemany(statement, rows)
        for step in self.lists:
            step(connection)
        if self.alarms:
            alarms.store(connection, self.alarms)
        heads: list[_Row] = []
        for thread in self.threads.values():
            head = (thread.next_seq, thread.heads.get(""), thread.run)
            heads.append((*head, head_sum(thread.thread_id, *head), thread.row))
        if heads:
            connection.executemany(sql.UPDATE_THREAD, heads)
