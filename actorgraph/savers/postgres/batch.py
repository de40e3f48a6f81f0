"""Store one batch in one transaction: `run_batch`, blocking, over a plain psycopg connection.

Round trips  Two. The first begins, locks the saver's row in `writers` and the rows of the batch's
             threads, and reads what `judge` needs. The second writes the accepted rows, one
             statement per table, marks the batch as stored and commits.
Exactly once A batch may be sent again after its connection was lost. Its transaction first locks
             the saver's row, so it waits until the lost transaction has ended; if that one was
             committed, the row has the batch's number, and nothing is written again.
"""

from collections.abc import Callable, Sequence
from typing import Any, LiteralString

import msgspec
from psycopg import Connection, Cursor
from psycopg.rows import tuple_row

from actorgraph.errors import (
    SaverBrokenError,
    StorageBusyError,
    StorageError,
    ThreadMovedError,
)
from actorgraph.savers.integrity import check_head
from actorgraph.savers.judge import ThreadState, answer_rows, branch_base, judge, one_by_one
from actorgraph.savers.postgres import alarms, systems, thread_index
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres.buckets import REFUSED
from actorgraph.savers.postgres.columns import Texts
from actorgraph.savers.postgres.retention import RetentionRequest, apply_retention
from actorgraph.savers.postgres.rows import BatchFacts, BatchRows, Statement, lookups
from actorgraph.savers.postgres.schema import VERSION
from actorgraph.savers.postgres.shapes import Shapes, is_missing
from actorgraph.storage.postgres.connections import roll_back
from actorgraph.storage.postgres.sessions import History, is_other
from actorgraph.storage.postgres.timeouts import LARGE_BYTES, Timeouts
from actorgraph.storage.postgres.translate import (
    ErrorKind,
    RowError,
    classify_error,
    server_message,
)
from actorgraph.storage.store_clock import StoreClock
from actorgraph.values.alarms import TakeAlarm
from actorgraph.values.commits import Commit, CommitOutcome, Committed, Refused, Request
from actorgraph.values.retention import CopyThread, DeleteThread, Vacuum
from actorgraph.values.systems import AdoptRun, PutRun, RunRow, SetRun, StoreEvents
from actorgraph.values.thread_rows import THREAD_REQUESTS, ThreadRequest

Link = Connection[Any]
MakeHints = Callable[[Sequence[RunRow]], list[Statement]]


class TransactionSettings(msgspec.Struct, frozen=True):
    """Settings of every transaction of a writer.

    Attributes:
        search_path: the schema's name, quoted.
        limits: timeouts for locks and answers.
        synchronous_commit: None for the server's setting, with "on" in the place of "off".
        writer: the saver's key in the table `writers`.
        clock: of the server; renewals of leases correct it.
        make_hints: makes the statements that a dispatcher adds for new runs.
    """

    search_path: str
    limits: Timeouts
    synchronous_commit: str | None
    writer: bytes
    clock: StoreClock
    make_hints: MakeHints | None = None


class BatchProgress(msgspec.Struct):
    """State of one batch, over all attempts at storing it.

    Attributes:
        number: the batch's number in `writers`.
        size: bytes of its requests.
        outcomes: those of the last attempt that sent its COMMIT; None before that.
        unsure: whether a COMMIT was sent and its result is unknown.
        separately: whether each request gets a savepoint, since the server refused a row of one.
        skip_locked: whether to leave out threads that other sessions have locked.
        waited_s: seconds for which it has waited for locks in vain.
        holder: a phrase for errors: the session that held a lock; empty if unknown.
        history, doubted: of the server now, and when the COMMIT in doubt was sent; None if unknown.
    """

    number: int
    size: int = 0
    outcomes: list[CommitOutcome] | None = None
    unsure: bool = False
    separately: bool = False
    skip_locked: bool = False
    waited_s: float = 0.0
    holder: str = ""
    history: History | None = None
    doubted: History | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Whether this server isn't the one, or not of the line, that was sent the COMMIT."""
        return is_other(self.doubted, self.history)


def run_batch(
    connection: Link,
    batch: Sequence[Request],
    settings: TransactionSettings,
    progress: BatchProgress,
    shapes: Shapes,
) -> list[CommitOutcome]:
    """Attempt to store a batch durably; find out if an earlier attempt has done so.

    Args:
        connection: in autocommit mode, for this call alone.
        progress: updated by the attempt.
        shapes: the shapes of records that are stored; updated.
    Returns: one outcome per request.
    Raises:
        psycopg.Error, RowError: nothing was stored, unless `progress.unsure`.
    """
    try:
        # In a transaction of its own. An insert waits until another saver's insert of the same key
        # is committed; batches, which hold locks of threads, must not wait for that.
        shapes.store(connection, settings.limits.within(settings.search_path))
        work = _Transaction(connection, progress, shapes, settings)
        return _attempt(connection, batch, settings, work)
    except BaseException:
        roll_back(connection)
        raise


def _attempt(
    connection: Link, batch: Sequence[Request], settings: TransactionSettings, work: "_Transaction"
) -> list[CommitOutcome]:
    progress = work.progress
    groups = [[batch[0]]] if progress.separately else _groups(batch)
    stored = work.begin(batch, groups[0], settings)
    # `begin` has locked the saver's row: an earlier attempt whose connection was lost has ended, so
    # its mark is there for good or never will be. Its outcomes are the ones to return: judged again
    # the batch would conflict with itself.
    if progress.outcomes is not None and stored == progress.number:
        connection.rollback()
        progress.unsure = False
        return progress.outcomes
    progress.unsure = False
    outcomes = work.store_separately(batch) if progress.separately else work.store_groups(groups)
    if progress.size >= LARGE_BYTES:
        work.send()  # apart: a connection that is cut while it sends them leaves nothing in doubt
    progress.outcomes = outcomes
    # From here to the answer a lost connection leaves open whether the server has committed;
    # other errors mean that it has rolled back.
    progress.unsure, progress.doubted = True, progress.history
    try:
        work.commit((sql.MARK_WRITER, (progress.number, settings.writer)))
    except Exception as error:
        progress.unsure = classify_error(error, connection) is ErrorKind.LOST
        raise
    progress.unsure = False
    return outcomes


def kind_of(error: Exception, connection: Link | None) -> ErrorKind:
    """Classify an error as `classify_error` does; a batch whose shapes are gone is sent again."""
    return ErrorKind.AGAIN if is_missing(error) else classify_error(error, connection)


def _groups(batch: Sequence[Request]) -> list[list[Request]]:
    """Split a batch into groups that are judged and written at once, in order.

    Consecutive requests that runs make all the time form one group. Each rarer one is a group of
    its own: it reads and writes its thread by statements of its own, in between.
    """
    groups: list[list[Request]] = []
    for request in batch:
        if groups and isinstance(request, _GROUPED) and isinstance(groups[-1][0], _GROUPED):
            groups[-1].append(request)
        else:
            groups.append([request])
    return groups


_GROUPED = (Commit, PutRun, SetRun, AdoptRun, StoreEvents)


def _is_unlocked(request: Request) -> bool:
    """Whether a request needs no lock of its thread's row."""
    if isinstance(request, (Vacuum, TakeAlarm, *THREAD_REQUESTS)):
        return True
    return systems.is_unlocked(request)


class _Transaction:
    """The transaction of one attempt."""

    def __init__(
        self,
        connection: Link,
        progress: BatchProgress,
        shapes: Shapes,
        settings: TransactionSettings,
    ) -> None:
        self._make_hints = settings.make_hints
        self._clock = settings.clock
        self._connection = connection
        self.progress = progress
        self._shapes = shapes
        self._threads: dict[str, ThreadState] = {}
        self._damaged: dict[str, StorageError] = {}
        self._facts = BatchFacts()
        self._pending: list[Statement] = []

    def run(self, statements: Sequence[Statement]) -> list[Cursor[Any]]:
        """Execute statements in one round trip; return their cursors."""
        if len(statements) == 1:
            return [self._execute(*statements[0])]
        with self._connection.pipeline():
            return [self._execute(*statement) for statement in statements]

    def _execute(self, text: LiteralString, values: Any) -> Cursor[Any]:
        cursor = self._connection.cursor(row_factory=tuple_row, binary=True)
        # Prepared at the first use: the same few texts come with every batch.
        return cursor.execute(text, values, prepare=True)

    def begin(
        self, batch: Sequence[Request], first: list[Request], settings: TransactionSettings
    ) -> int:
        """Begin, lock the rows of the saver and of the batch's threads, read for the first group.

        Returns: the number of the batch that this saver committed last.
        """
        # All threads of the batch are locked at once and in sorted order: two savers whose batches
        # have threads in common wait for each other, but never in a circle.
        names = {request.thread_id for request in batch if not _is_unlocked(request)}
        names.update(request.source for request in batch if isinstance(request, CopyThread))
        thread_ids = Texts(sorted(filter(storable, names)))
        lock = sql.LOCK_FREE_THREADS if self.progress.skip_locked else sql.LOCK_THREADS
        values = (*settings.limits.within(settings.search_path), settings.synchronous_commit)
        head: list[Statement] = [
            (sql.BEGIN, ()),
            (sql.SETTINGS, values),
            (sql.LOCK_WRITER, (settings.writer,)),
            (sql.ADD_THREADS, (thread_ids,)),
            (lock, (thread_ids,)),
        ]
        # In the same round trip as the locks. At READ COMMITTED each statement sees rows
        # committed before it began, so these read what the locks protect.
        asked = _lookups(first)
        cursors = self.run([*head, *asked])
        for name, row, epoch, run, next_seq, newest, owner, crc in cursors[len(head) - 1]:
            try:
                check_head((name, epoch, run, next_seq, newest), crc)
            except StorageError as error:  # refuses requests of this thread; others are stored
                self._damaged[name] = error
            known = ThreadState(name, row, epoch, run, next_seq, {"": newest}, owner=owner)
            self._threads[name] = known
        self._note_facts(asked, cursors[len(head) :])
        marked = cursors[2].fetchone()
        # Without the row an earlier COMMIT can't be looked up. If none is in doubt, add the row:
        # the tables were made after the saver was opened, or have been emptied since. A server that
        # took over before it had the row doesn't have the COMMIT either, which came later.
        if marked is None and self.progress.unsure and not self.progress.is_elsewhere:
            raise SaverBrokenError(
                "the saver's row in the table `writers` was deleted, so it is unknown whether the "
                "last commit was stored",
                do="close the saver and open it again; don't delete rows of open savers",
            )
        if marked is None:
            self._shapes.forget()
            self.run([(sql.ADD_WRITER, (settings.writer, VERSION))])
        return marked[0] if marked else 0

    def read(self, group: list[Request]) -> None:
        """Read what `judge` needs for a later group; first send the rows of earlier ones."""
        asked = _lookups(group)
        if asked:
            self.send()
        self._note_facts(asked, self.run(asked) if asked else [])

    def _note_facts(self, asked: list[Statement], cursors: list[Cursor[Any]]) -> None:
        self._facts = BatchFacts()
        for (text, _), cursor in zip(asked, cursors, strict=True):
            self._facts.take(text, cursor.fetchall())

    def store_group(self, group: list[Request]) -> list[CommitOutcome]:
        """Judge a group and collect its rows; they are sent with the next round trip."""
        request = group[0]
        if not isinstance(request, _GROUPED):
            return [self._apply(request)]
        rows, owned = (
            BatchRows(self._facts.counts, self._shapes),
            systems.OwnedRows(self._facts, self._clock.now()),
        )
        outcomes = [
            self._judge(request, rows, owned)
            if isinstance(request, Commit)
            else self._update_run(request, owned)
            for request in group
            if isinstance(request, _GROUPED)
        ]
        self._pending += [*rows.statements(), *owned.statements()]
        if owned.put and self._make_hints is not None:
            self._pending += self._make_hints(owned.put)
        return outcomes

    def _update_run(self, request: systems.RunUpdate, owned: systems.OwnedRows) -> CommitOutcome:
        thread = self._threads.get(request.thread_id)
        if thread is None and not _is_unlocked(request):
            return Refused(_lock_error(request, self.progress))
        if isinstance(request, AdoptRun) and request.thread_id in self._damaged:
            return Refused(self._damaged[request.thread_id])
        return owned.update(request, thread)

    def _apply(
        self, request: RetentionRequest | Vacuum | TakeAlarm | systems.RareRequest | ThreadRequest
    ) -> CommitOutcome:
        """Carry out a request that is a group of its own."""
        if isinstance(request, Vacuum):  # VACUUM can't run in a transaction: it follows the batch
            return Committed()
        named = set[str]() if _is_unlocked(request) else {request.thread_id}
        if isinstance(request, CopyThread):
            named.add(request.source)
        if not self._threads.keys() >= named:
            return Refused(_lock_error(request, self.progress))
        # A damaged thread can still be deleted: that is the way to get rid of the damage.
        if self._damaged.keys() & named and not isinstance(request, DeleteThread):
            return Refused(next(self._damaged[name] for name in named & self._damaged.keys()))
        self.send()
        if isinstance(request, THREAD_REQUESTS):
            return thread_index.apply(self._connection, request)
        if isinstance(request, TakeAlarm):
            return alarms.take(self._connection, request)
        if isinstance(request, systems.RareRequest):
            return systems.apply_request(self._connection, request, self._clock)
        return apply_retention(self._connection, request, self._threads)

    def _judge(self, commit: Commit, rows: BatchRows, owned: systems.OwnedRows) -> CommitOutcome:
        thread = self._threads.get(commit.thread_id)
        if thread is None:
            return Refused(_lock_error(commit, self.progress))
        if commit.thread_id in self._damaged:
            return Refused(self._damaged[commit.thread_id])
        place = (commit.thread_id, commit.namespace)
        # Not overwritten: an earlier commit of this batch may have moved the nested head already.
        thread.heads.setdefault(commit.namespace, self._facts.heads.get(place))
        before = thread.run
        # Rows of earlier commits in the group count as stored, like those in the tables.
        answers = [_key(commit, row) for row in answer_rows(commit)]
        answered = any(k in self._facts.answered or k in rows.answers for k in answers)
        base = branch_base(commit)
        key = (*place, base)
        based = base is None or key in self._facts.bases or key in rows.points
        # A lease of the claimant itself never refuses it: only that of another owner is looked up.
        if commit.claim is not None and thread.owner not in (None, commit.owner):
            thread.leased = owned.is_leased(self._connection, thread)
        lost = owned.refused(commit)
        if lost is not None:
            return Refused(lost)
        sequence, error = judge(commit, thread, answered=answered, based=based)
        if error is not None:
            return Refused(error)
        if commit.claim is not None and before is not None:
            rows.supersede(before)
        rows.add(thread, commit, sequence)
        if commit.owner is not None:
            owned.add(thread, commit)
        return Committed(sequence + len(commit.checkpoints) - 1 if commit.checkpoints else 0)

    def store_groups(self, groups: Sequence[list[Request]]) -> list[CommitOutcome]:
        """Store the groups in order; `begin` has read for the first one."""
        outcomes: list[CommitOutcome] = []
        for place, group in enumerate(groups):
            if place:
                self.read(group)
            outcomes += self.store_group(group)
        return outcomes

    def store_separately(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Store each request in a savepoint, in order; `begin` has read for the first one."""

        def store(request: Request) -> CommitOutcome:
            if request is not batch[0]:
                self.read([request])
            return self.store_one(request)

        return one_by_one(batch, store)

    def store_one(self, request: Request) -> CommitOutcome:
        """Store one request in a savepoint; if the server refuses a row, refuse the request."""
        # `judge` changes the thread's state as if the request were stored: keep a copy to
        # go back.
        known = self._threads.get(request.thread_id)
        before = None if known is None else msgspec.structs.replace(known, heads={**known.heads})
        self.run([(sql.SAVEPOINT, ())])
        try:
            (outcome,) = self.store_group([request])
            self.send()
        except Exception as error:
            if kind_of(error, self._connection) is not ErrorKind.ROW:
                raise
            self._pending.clear()
            # Alone, so not in a pipeline: psycopg deallocates prepared statements after a ROLLBACK.
            self.run([(sql.ROLLBACK_TO, ())])
            if before is not None:
                self._threads[request.thread_id] = before
            outcome = Refused(_refused(request, error))
        self.run([(sql.RELEASE, ())])
        return outcome

    def commit(self, mark: Statement) -> None:
        """Write the collected rows, mark the batch as stored, commit: one round trip."""
        *_, last = self.run([*self._pending, mark, (sql.COMMIT, ())])
        # COMMIT of a failed transaction is answered by "ROLLBACK", and raises nothing.
        assert last.statusmessage == "COMMIT", last.statusmessage

    def send(self) -> None:
        """Write the rows collected so far."""
        waiting, self._pending = self._pending, []
        if waiting:
            self.run(waiting)


def _lookups(group: list[Request]) -> list[Statement]:
    """The statements that read what `judge` needs for a group; most often none."""
    commits = [request for request in group if isinstance(request, Commit)]
    nested = {(c.thread_id, c.namespace) for c in commits if c.namespace}
    answers = [_key(c, row) for c in commits for row in answer_rows(c)]
    based = [(c.thread_id, c.namespace, branch_base(c)) for c in commits]
    lists = {
        (c.thread_id, c.namespace, part.channel, part.lineage, part.start)
        for c in commits
        for point in c.checkpoints
        for part in point.ranges
        if part.before
    }
    asked = lookups(nested, answers, [base for base in based if base[2]], lists)
    return asked + systems.run_lookups([r for r in group if storable(r.thread_id)])


def _key(commit: Commit, row: Any) -> tuple[Any, ...]:
    place = (commit.thread_id, commit.namespace)
    return (*place, row.base, row.task, row.index, row.generation)


def storable(name: str) -> bool:
    """Whether PostgreSQL can store a text: it has no NUL and no lone surrogates."""
    return "\0" not in name and not any("\ud800" <= c <= "\udfff" for c in name)


def _lock_error(request: Request, progress: BatchProgress) -> StorageError:
    """Error for a request whose thread's row could not be locked."""
    if not storable(request.thread_id):
        return _refused(request, RowError("its id has a NUL or a lone surrogate"))
    if not progress.skip_locked:  # all rows that exist are locked: this one was not let in
        return _moved(request)
    return StorageBusyError(
        f"thread {request.thread_id!r} is locked by another session{progress.holder}",
        do="let it finish its transaction, or raise busy_timeout_s; nothing of this save was "
        "stored",
    )


def _moved(request: Request) -> StorageError:
    return ThreadMovedError(
        f"thread {request.thread_id!r} is not in this database: it was moved or removed",
        do="use a ShardedSystem over all databases, and try again",
    )


def _refused(request: Request, error: Exception) -> StorageError:
    if getattr(error, "sqlstate", None) == REFUSED:
        return _moved(request)
    refused = StorageError(
        f"PostgreSQL refused a row of thread {request.thread_id!r}: {server_message(error)}",
        do="make the value smaller (the limit for a value is 1 GB), remove NUL characters from "
        "names, or store less of it",
    )
    refused.__cause__ = error
    return refused
