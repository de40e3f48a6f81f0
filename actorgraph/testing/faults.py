"""Fault injection: storage that fails at the k-th operation, for crash tests of any saver.

A `FaultPlan` counts operations and fails one of them, before or after its effect. Test doubles
consult it: `failing_connection` at each SQL statement of an `SqliteSaver`, COMMIT included;
`failing_files` at each file operation of a `JsonlSaver`; `FaultySaver` at each call of any saver's
port. To enumerate all crash points, run a program with `fail_at=1`, reopen the store with a new
saver and check it; repeat with 2, 3 ... until `plan.fired` is False.

Invariant  an operation that fails "before" has no effect; one that fails "after" has all of it.
Source     https://www.sqlite.org/testing.html, section 3.1.
"""

import errno
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar, cast

import anyio

from actorgraph.api.savers.hosted import HostedSaver
from actorgraph.codec import Codec
from actorgraph.errors import SaverBrokenError
from actorgraph.ports import CommitHere, Saver
from actorgraph.savers.jsonl.files import Files
from actorgraph.storage.sqlite.connections import HopConnection
from actorgraph.values.commits import CommitOutcome, Committed, Query, Request

T = TypeVar("T")
When = Literal["before", "after"]


class FaultPlan:
    """Counts storage operations and fails one of them. Safe to use from several threads.

    Args:
        fail_at: the operation to fail, counted from 1; None counts only.
        when: "before" its effect, or "after" it.
        error: makes the error; default that of the double: an I/O error of SQLite or of the
            operating system, or SaverBrokenError.
        lasting: whether all later operations fail too, as if the process had died (default);
            if False the fault happens once.
    Attributes:
        operations: the names of the operations so far, in order: "BEGIN IMMEDIATE", "commit" ...
        fired: whether the fault has happened.
    """

    def __init__(
        self,
        fail_at: int | None = None,
        when: When = "before",
        *,
        error: Callable[[], Exception] | None = None,
        lasting: bool = True,
    ) -> None:
        self.fail_at = fail_at
        self.when = when
        self.lasting = lasting
        self.operations: list[str] = []
        self.fired = False
        self._error = error
        self._lock = threading.Lock()

    def run(self, name: str, operation: Callable[[], T], default: Callable[[], Exception]) -> T:
        """Carry out an operation, or fail as planned.

        Args:
            name: recorded in `operations`.
            operation: called unless the fault comes before it; its result is returned.
            default: makes the error if the plan has no `error`.
        """
        fails_after = self._count(name, default)
        result = operation()
        if fails_after:
            del result  # a cursor that lives on in the traceback would keep its lock
            raise self._make(default)
        return result

    async def arun(
        self,
        name: str,
        operation: Callable[[], Awaitable[T]],
        default: Callable[[], Exception],
    ) -> T:
        """`run` for an async operation; see there."""
        fails_after = self._count(name, default)
        result = await operation()
        if fails_after:
            del result  # a cursor that lives on in the traceback would keep its lock
            raise self._make(default)
        return result

    def _count(self, name: str, default: Callable[[], Exception]) -> bool:
        """Count an operation; raise if it fails before its effect, return whether it does after."""
        with self._lock:
            down = self.fired and self.lasting
            self.operations.append(name)
            hit = len(self.operations) == self.fail_at
            self.fired = self.fired or hit
        if down or (hit and self.when == "before"):
            raise self._make(default)
        return hit

    def _make(self, default: Callable[[], Exception]) -> Exception:
        return (self._error or default)()


def sqlite_failure(code: int = sqlite3.SQLITE_IOERR) -> sqlite3.OperationalError:
    """Make an error as SQLite raises it, e.g. for `FaultPlan(error=...)`.

    Args:
        code: one of `sqlite3.SQLITE_...`: SQLITE_IOERR (default), SQLITE_FULL, SQLITE_BUSY ...
    """
    error = sqlite3.OperationalError(f"injected fault, SQLite code {code}")
    error.sqlite_errorcode = code
    return error


def failing_connection(plan: FaultPlan) -> type[HopConnection]:
    """Make a class of connections that fails as `plan` says: at BEGIN, each statement, COMMIT.

        class Failing(SqliteSaver):
            connection_class = failing_connection(FaultPlan(fail_at=7))

    The error is one of `sqlite3` by default, so that the saver's own error handling is tested.
    """

    class FailingConnection(HopConnection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            execute = super().execute
            return plan.run(_verb(sql), lambda: execute(sql, parameters), sqlite_failure)

        def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
            executemany = super().executemany
            return plan.run(_verb(sql), lambda: executemany(sql, parameters), sqlite_failure)

        def executescript(self, script: Any, /) -> sqlite3.Cursor:
            executescript = super().executescript
            if not isinstance(script, str):
                return executescript(script)  # a hop: its statements are counted one by one
            return plan.run("script", lambda: executescript(script), sqlite_failure)

    return FailingConnection


def _verb(sql: str) -> str:
    """A short name of a statement: `INSERT INTO runs (run, ...` -> "INSERT INTO runs"."""
    return " ".join(sql.split()[:3])


class FaultySaver(HostedSaver):
    """Wraps any saver and fails as a plan says: at `open`, each `commit`, each `query`.

    To continue after a simulated crash, wrap the same saver in a new one.

    Args:
        saver: stores the checkpoints.
        plan: the operation to fail; default none.
        immediate: False sends everything through the persistence actor, as for a saver on disk,
            even if `saver.immediate` is true; default `saver.immediate`.
        on_stored: called with each request that was stored.
    """

    def __init__(
        self,
        saver: Saver,
        plan: FaultPlan | None = None,
        *,
        immediate: bool | None = None,
        on_stored: Callable[[Request], None] | None = None,
    ) -> None:
        self.saver = saver
        self.plan = plan or FaultPlan()
        self.durable = saver.durable
        self.immediate = saver.immediate if immediate is None else immediate
        self.codec = cast("Codec | None", getattr(saver, "codec", None)) or Codec()
        self._on_stored = on_stored

    async def open(self) -> None:
        """See `ports.Saver.open`."""
        is_open = False

        async def opened() -> None:
            nonlocal is_open
            await self.saver.open()
            is_open = True

        try:
            await self.plan.arun("open", opened, _broken)
        except BaseException:
            if is_open:  # callers don't close a saver whose `open` failed
                with anyio.CancelScope(shield=True):
                    await self.saver.close()
            raise

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        outcomes = await self.plan.arun("commit", lambda: self.saver.commit(batch), _broken)
        return self._report_stored(batch, outcomes)

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        return await self.plan.arun("query", lambda: self.saver.query(queries), _broken)

    async def close(self) -> None:
        """See `ports.Saver.close`; not counted by the plan: a crashed process closes nothing."""
        await self.saver.close()

    def commit_now(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """`commit` for an immediate saver; see `HostedSaver`."""
        inner: Any = self.saver
        outcomes = self.plan.run("commit", lambda: inner.commit_now(batch), _broken)
        return self._report_stored(batch, outcomes)

    @property
    def commit_here(self) -> CommitHere | None:
        """`commit` in a caller's thread, if the wrapped saver has it; see `ports.Saver`."""
        inner: CommitHere | None = getattr(self.saver, "commit_here", None)
        if inner is None or type(self).commit is not FaultySaver.commit:
            return None

        def commit(
            batch: Sequence[Request], durable: list[list[CommitOutcome]]
        ) -> list[CommitOutcome]:
            outcomes = self.plan.run("commit", lambda: inner(batch, durable), _broken)
            return self._report_stored(batch, outcomes)

        return commit

    def query_now(self, queries: Sequence[Query]) -> list[Any]:
        """`query` for an immediate saver; see `HostedSaver`."""
        inner: Any = self.saver
        return self.plan.run("query", lambda: inner.query_now(queries), _broken)

    def _report_stored(
        self, batch: Sequence[Request], outcomes: list[CommitOutcome]
    ) -> list[CommitOutcome]:
        if self._on_stored is not None:
            for request, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, Committed):
                    self._on_stored(request)
        return outcomes


def _broken() -> SaverBrokenError:
    return SaverBrokenError(
        "injected fault: the outcome of the operation is unknown",
        do="open a new saver on the same store",
    )


def failing_files(plan: FaultPlan) -> type[Files]:
    """Make a class of file systems that fails as `plan` says: writes, syncs, renames, removals.

        class Failing(JsonlSaver):
            files_class = failing_files(FaultPlan(fail_at=7))

    The error is an OSError by default, so that the saver's own error handling is tested.
    """

    class FailingFiles(Files):
        def write(self, descriptor: int, data: bytes, offset: int) -> None:
            plan.run("write", lambda: Files.write(self, descriptor, data, offset), _failure)

        def truncate(self, descriptor: int, size: int) -> None:
            plan.run("truncate", lambda: Files.truncate(self, descriptor, size), _failure)

        def sync(self, descriptor: int) -> None:
            plan.run("sync", lambda: Files.sync(self, descriptor), _failure)

        def sync_folder(self, path: str) -> None:
            plan.run("sync folder", lambda: Files.sync_folder(self, path), _failure)

        def rename(self, source: str, target: str) -> None:
            plan.run("rename", lambda: Files.rename(self, source, target), _failure)

        def remove(self, path: str) -> None:
            plan.run("remove", lambda: Files.remove(self, path), _failure)

    return FailingFiles


def _failure() -> OSError:
    return OSError(errno.EIO, "injected fault")
