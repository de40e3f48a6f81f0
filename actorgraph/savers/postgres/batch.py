"""One batch, one transaction: `run_batch` over a plain psycopg connection, in one thread hop.

Two round trips: the first begins, locks the saver's own row and the rows of the batch's threads
(sorted, so that two savers don't wait for each other) and asks what `judge` needs; the second
writes what was accepted, one statement per table, marks the batch as stored and commits.

A batch may be sent again after its connection was lost. Its transaction first locks the saver's
own row, so it waits for the one that was lost to end; if that one was committed, the row has
the batch's number and nothing is written again.
"""

from collections.abc import Sequence
from typing import Any, LiteralString

import msgspec
from psycopg import Connection, Cursor
from psycopg.rows import tuple_row

from actorgraph.errors import SaverBrokenError, StorageBusyError, StorageError
from actorgraph.savers.judge import ThreadState, answer_rows, branches_off, judge, one_by_one
from actorgraph.savers.postgres import statements as sql
from actorgraph.savers.postgres import systems
from actorgraph.savers.postgres.columns import Texts
from actorgraph.savers.postgres.migrations import VERSION
from actorgraph.savers.postgres.retention import Kept, keep
from actorgraph.savers.postgres.rows import Facts, Rows, Statement, questions
from actorgraph.savers.postgres.shapes import Shapes
from actorgraph.savers.soundness import check_head
from actorgraph.storage.postgres.connections import roll_back
from actorgraph.storage.postgres.failures import Kind, RowError, kind_of, said
from actorgraph.storage.postgres.limits import Limits
from actorgraph.values.commits import Commit, CommitOutcome, Committed, Refused, Request
from actorgraph.values.retention import CopyThread, DeleteThread, Vacuum
from actorgraph.values.systems import PutRun, SetRun, StoreEvents

Link = Connection[Any]


class Settings(msgspec.Struct, frozen=True):
    """What every transaction of a writer begins with.

    Attributes:
        search_path: the schema, quoted.
        limits: how long it may wait.
        synchronous_commit: None for the server's own, but never "off".
        writer: the saver's key in `writers`.
    """

    search_path: str
    limits: Limits
    synchronous_commit: str | None
    writer: bytes


class Turn(msgspec.Struct):
    """A batch on its way, over all attempts.

    Attributes:
        number: the batch's number in `writers`.
        outcomes: what the attempt whose COMMIT went out would have stored.
        unsure: whether a COMMIT went out and nothing came back.
        alone: whether each request gets a savepoint, as one of them was refused.
        skips: whether to leave out threads that somebody else has locked.
        freed: whether those who held locks and stood still were looked for.
        holder: whose lock was in the way, for errors.
    """

    number: int
    outcomes: list[CommitOutcome] | None = None
    unsure: bool = False
    alone: bool = False
    skips: bool = False
    freed: bool = False
    holder: str = ""


def run_batch(
    connection: Link, batch: Sequence[Request], settings: Settings, turn: Turn, shapes: Shapes
) -> list[CommitOutcome]:
    """Store a batch durably, or find that an earlier attempt has done so.

    Args:
        connection: in autocommit mode, used by nobody else meanwhile.
        turn: changed to how far the attempt came.
        shapes: those that are known; changed to what is stored.
    Returns: one outcome per request.
    Raises:
        psycopg.Error, RowError: nothing was stored, unless `turn.unsure`.
    """
    try:
        shapes.store(connection, settings.limits.within(settings.search_path))
        return _attempt(connection, batch, settings, _Work(connection, turn, shapes))
    except BaseException:
        roll_back(connection)
        raise


def _attempt(
    connection: Link, batch: Sequence[Request], settings: Settings, work: "_Work"
) -> list[CommitOutcome]:
    turn = work.turn
    groups = [[batch[0]]] if turn.alone else _groups(batch)
    stored = work.begin(batch, groups[0], settings)
    if turn.outcomes is not None and stored == turn.number:
        connection.rollback()
        turn.unsure = False
        return turn.outcomes
    turn.unsure = False  # the transaction of an earlier attempt has ended, and left no mark
    outcomes = work.all_alone(batch) if turn.alone else work.all_together(groups)
    turn.outcomes = outcomes
    turn.unsure = True
    try:
        work.commit((sql.MARK_WRITER, (turn.number, settings.writer)))
    except Exception as error:
        turn.unsure = kind_of(error, connection) is Kind.LOST
        raise
    turn.unsure = False
    return outcomes


def _groups(batch: Sequence[Request]) -> list[list[Request]]:
    """A batch in parts that are written at once: what runs store, each other request alone."""
    groups: list[list[Request]] = []
    for request in batch:
        if groups and isinstance(request, _OF_RUNS) and isinstance(groups[-1][0], _OF_RUNS):
            groups[-1].append(request)
        else:
            groups.append([request])
    return groups


_OF_RUNS = (Commit, PutRun, SetRun, StoreEvents)


def _is_unlocked(request: Request) -> bool:
    """Whether a request neither changes a thread's row nor depends on who has it."""
    return isinstance(request, Vacuum) or systems.is_unlocked(request)


class _Work:
    """The transaction of one attempt."""

    def __init__(self, connection: Link, turn: Turn, shapes: Shapes) -> None:
        self._connection = connection
        self.turn = turn
        self._shapes = shapes
        self._threads: dict[str, ThreadState] = {}
        self._damaged: dict[str, StorageError] = {}
        self._facts = Facts()
        self._waiting: list[Statement] = []

    def run(self, statements: Sequence[Statement]) -> list[Cursor[Any]]:
        """Send statements in one go; their cursors, with the answers."""
        if len(statements) == 1:
            return [self._execute(*statements[0])]
        with self._connection.pipeline():
            return [self._execute(*statement) for statement in statements]

    def _execute(self, text: LiteralString, values: Any) -> Cursor[Any]:
        cursor = self._connection.cursor(row_factory=tuple_row, binary=True)
        return cursor.execute(text, values, prepare=True)

    def begin(self, batch: Sequence[Request], first: list[Request], settings: Settings) -> int:
        """Begin, lock what the batch is about, read what the first group needs.

        Returns: the number of the batch that this saver stored last.
        """
        names = {request.thread_id for request in batch if not _is_unlocked(request)}
        names.update(request.source for request in batch if isinstance(request, CopyThread))
        found = Texts(sorted(filter(storable, names)))
        lock = sql.LOCK_FREE_THREADS if self.turn.skips else sql.LOCK_THREADS
        values = (*settings.limits.within(settings.search_path), settings.synchronous_commit)
        head: list[Statement] = [
            (sql.BEGIN, ()),
            (sql.SETTINGS, values),
            (sql.LOCK_WRITER, (settings.writer,)),
            (sql.ADD_THREADS, (found,)),
            (lock, (found,)),
        ]
        asked = _questions(first)
        cursors = self.run([*head, *asked])
        for name, row, epoch, run, next_seq, newest, owner, crc in cursors[len(head) - 1]:
            try:
                check_head((name, epoch, run, next_seq, newest), crc)
            except StorageError as error:
                self._damaged[name] = error
            known = ThreadState(name, row, epoch, run, next_seq, {"": newest}, owner=owner)
            self._threads[name] = known
        self._learn(asked, cursors[len(head) :])
        marked = cursors[2].fetchone()
        if marked is None and self.turn.unsure:
            raise SaverBrokenError(
                "the saver's row in the table `writers` is gone: nothing says whether the last "
                "commit was stored",
                do="close the saver and open it again; leave the rows of open savers alone",
            )
        if marked is None:
            self._shapes.forget()
            self.run([(sql.ADD_WRITER, (settings.writer, VERSION))])
        return marked[0] if marked else 0

    def read(self, group: list[Request]) -> None:
        """Read what a later group needs, after what was written before it."""
        asked = _questions(group)
        if asked:
            self._send()
        self._learn(asked, self.run(asked) if asked else [])

    def _learn(self, asked: list[Statement], cursors: list[Cursor[Any]]) -> None:
        self._facts = Facts()
        for (text, _), cursor in zip(asked, cursors, strict=True):
            self._facts.take(text, cursor.fetchall())

    def together(self, group: list[Request]) -> list[CommitOutcome]:
        """Judge a group; its rows wait for the next round trip."""
        request = group[0]
        if not isinstance(request, _OF_RUNS):
            return [self._keep(request)]
        rows, owned = Rows(self._facts.counts, self._shapes), systems.OwnedRows(self._facts)
        outcomes = [
            self._judge(request, rows, owned)
            if isinstance(request, Commit)
            else self._say(request, owned)
            for request in group
            if isinstance(request, _OF_RUNS)
        ]
        self._waiting += [*rows.statements(), *owned.statements()]
        return outcomes

    def _say(self, request: systems.Said, owned: systems.OwnedRows) -> CommitOutcome:
        if _is_unlocked(request) or request.thread_id in self._threads:
            return owned.say(request)
        return Refused(_unlocked(request, self.turn))

    def _keep(self, request: Kept | Vacuum | systems.Rare) -> CommitOutcome:
        """Carry out what no run stores."""
        if isinstance(request, Vacuum):  # its work is done after the batch
            return Committed()
        named = set[str]() if _is_unlocked(request) else {request.thread_id}
        if isinstance(request, CopyThread):
            named.add(request.source)
        if not self._threads.keys() >= named:
            return Refused(_unlocked(request, self.turn))
        if self._damaged.keys() & named and not isinstance(request, DeleteThread):
            return Refused(next(self._damaged[name] for name in named & self._damaged.keys()))
        self._send()
        if isinstance(request, systems.Rare):
            thread = self._threads.get(request.thread_id)
            return systems.apply(self._connection, request, self._facts.owners, thread)
        return keep(self._connection, request, self._threads)

    def _judge(self, commit: Commit, rows: Rows, owned: systems.OwnedRows) -> CommitOutcome:
        thread = self._threads.get(commit.thread_id)
        if thread is None:
            return Refused(_unlocked(commit, self.turn))
        if commit.thread_id in self._damaged:
            return Refused(self._damaged[commit.thread_id])
        place = (commit.thread_id, commit.namespace)
        thread.heads.setdefault(commit.namespace, self._facts.heads.get(place))
        before = thread.run
        answers = [_key(commit, row) for row in answer_rows(commit)]
        answered = any(k in self._facts.answered or k in rows.answers for k in answers)
        base = branches_off(commit)
        key = (*place, base)
        based = base is None or key in self._facts.bases or key in rows.points
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

    def all_together(self, groups: Sequence[list[Request]]) -> list[CommitOutcome]:
        """Write group after group; the first has been read."""
        outcomes: list[CommitOutcome] = []
        for place, group in enumerate(groups):
            if place:
                self.read(group)
            outcomes += self.together(group)
        return outcomes

    def all_alone(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """Write request after request, each behind a savepoint; the first has been read."""

        def store(request: Request) -> CommitOutcome:
            if request is not batch[0]:
                self.read([request])
            return self.alone(request)

        return one_by_one(batch, store)

    def alone(self, request: Request) -> CommitOutcome:
        """Write one request behind a savepoint; if a row is refused, the request is."""
        known = self._threads.get(request.thread_id)
        before = None if known is None else msgspec.structs.replace(known, heads={**known.heads})
        self.run([(sql.SAVEPOINT, ())])
        try:
            (outcome,) = self.together([request])
            self._send()
        except Exception as error:
            if kind_of(error, self._connection) is not Kind.ROW:
                raise
            self._waiting.clear()
            self.run([(sql.ROLLBACK_TO, ())])  # outside of a pipeline: it ends what is prepared
            if before is not None:
                self._threads[request.thread_id] = before
            outcome = Refused(_refused(request, error))
        self.run([(sql.RELEASE, ())])
        return outcome

    def commit(self, mark: Statement) -> None:
        """Write what waits, mark the batch as stored, commit."""
        *_, last = self.run([*self._waiting, mark, (sql.COMMIT, ())])
        assert last.statusmessage == "COMMIT", last.statusmessage

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self.run(waiting)


def _questions(group: list[Request]) -> list[Statement]:
    """What must be read before a group can be judged."""
    commits = [request for request in group if isinstance(request, Commit)]
    nested = {(c.thread_id, c.namespace) for c in commits if c.namespace}
    answers = [_key(c, row) for c in commits for row in answer_rows(c)]
    based = [(c.thread_id, c.namespace, branches_off(c)) for c in commits]
    lists = {
        (c.thread_id, c.namespace, part.channel, part.lineage, part.start)
        for c in commits
        for point in c.checkpoints
        for part in point.ranges
        if part.before
    }
    asked = questions(nested, answers, [base for base in based if base[2]], lists)
    return asked + systems.asked_about_runs([r for r in group if storable(r.thread_id)])


def _key(commit: Commit, row: Any) -> tuple[Any, ...]:
    place = (commit.thread_id, commit.namespace)
    return (*place, row.base, row.task, row.index, row.generation)


def storable(name: str) -> bool:
    """Whether PostgreSQL takes a text: it has no NUL and is Unicode."""
    return "\0" not in name and not any("\ud800" <= c <= "\udfff" for c in name)


def _unlocked(request: Request, turn: Turn) -> StorageError:
    """Why a thread's row could not be locked."""
    if not storable(request.thread_id):
        return _refused(request, RowError("its id is no text that PostgreSQL takes"))
    return StorageBusyError(
        f"another process holds the lock of thread {request.thread_id!r}{turn.holder}",
        do="let it finish its transaction, or raise busy_timeout_s; nothing of this was stored",
    )


def _refused(request: Request, error: Exception) -> StorageError:
    refused = StorageError(
        f"PostgreSQL refused a row of thread {request.thread_id!r}: {said(error)}",
        do="make the value smaller (the limit for a value is 1 GB), leave out NUL characters from "
        "names, or store less of it",
    )
    refused.__cause__ = error
    return refused
