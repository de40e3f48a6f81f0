"""Watchdog: disconnects connections whose server does not answer.

A suspended server, or a network that drops all packets, would block a thread for ever: to the
operating system the connection looks alive. So a thread of its own shuts the socket down when an
answer is overdue, and the blocked thread gets an error.

Work without a time limit (a migration, a backup, a vacuum) is left alone while the server reports,
over another connection, that it makes progress. Large work has more time, which grows with its
bytes, as long as the server answers over another connection: one that is suspended is noticed all
the same.
"""

import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import psycopg
from psycopg import Connection

from actorgraph.storage.postgres.translate import NoAnswerError

Link = Connection[Any]
_PROGRESS = "SELECT state, state_change::text FROM pg_stat_activity WHERE pid = %s"


class _Lease(msgspec.Struct):
    """A connection in use.

    Attributes:
        end: the monotonic time at which its answer is overdue.
        patient: whether it may take longer while it makes progress.
        latest: until when it may take while the server answers others; not later than `end` if it
            has no more time than any work.
        seen: the session's activity when the server was asked last.
        is_cut: whether the watchdog has shut its socket down.
    """

    connection: Link
    end: float
    patient: bool
    latest: float
    seen: Any = None
    is_cut: bool = False


class AnswerWatchdog:
    """Watches the connections of one source while they are in use.

    Args:
        answer_timeout_s: seconds until an answer is overdue.
        connect: opens another connection, to ask about patient work; None if that is impossible.
    """

    def __init__(self, answer_timeout_s: float, connect: Callable[[], Link] | None = None) -> None:
        self._timeout_s = answer_timeout_s
        self._connect = connect
        self._leases: dict[int, _Lease] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(
        self, connection: Link, *, patient: bool = False, extra_s: float = 0.0
    ) -> Generator[None]:
        """Watch a connection during the block.

        Args:
            patient, extra_s: as for `ConnectionSource.lease`.
        Raises:
            NoAnswerError: in place of psycopg's error, if the watchdog closed the connection.
        """
        began = time.monotonic()
        end = began + self._timeout_s
        lease = _Lease(connection, end, patient, end + extra_s)
        self._add(lease)
        try:
            yield
        except psycopg.Error as error:
            if lease.is_cut:
                waited_s = lease.end - began
                raise NoAnswerError(f"the server did not answer within {waited_s:.4g} s") from error
            raise
        finally:
            with self._lock:
                del self._leases[id(lease)]

    def close(self) -> None:
        """Stop the thread; watching another connection starts a new one."""
        self._stopped.set()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None or thread is threading.current_thread() or sys.is_finalizing():
            return  # a finalizing interpreter has frozen its daemon threads: joining would hang
        thread.join()

    def _add(self, lease: _Lease) -> None:
        with self._lock:
            self._leases[id(lease)] = lease
            if self._thread is not None:
                return
            self._stopped = threading.Event()
            self._thread = threading.Thread(
                target=self._serve, args=(self._stopped,), name="actorgraph-postgres", daemon=True
            )
            self._thread.start()

    def _serve(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._timeout_s / 8):
            now = time.monotonic()
            with self._lock:
                overdue = [one for one in self._leases.values() if now > one.end]
            for lease in overdue:
                if self._goes_on(lease):
                    lease.end = time.monotonic() + self._timeout_s
                    continue
                # Under the lock: a lease that has ended meanwhile may have its connection in use
                # by another caller, whose work must not be cut.
                with self._lock:
                    if id(lease) in self._leases:
                        lease.is_cut = True
                        _cut(lease.connection)

    def _goes_on(self, lease: _Lease) -> bool:
        """Whether overdue work may go on: it has time left, or makes progress."""
        has_time = time.monotonic() < lease.latest
        if not (lease.patient or has_time):
            return False
        if self._connect is None:
            return True  # the program's connection: its server's address is not known
        asked = _ActivityQuery(self._connect, lease.connection.info.backend_pid)
        asked.start()
        asked.join(self._timeout_s)
        before, lease.seen = lease.seen, asked.answer
        if asked.answer is None:
            return False
        return has_time or asked.answer[0] == "active" or asked.answer != before


class _ActivityQuery(threading.Thread):
    """Asks for a session's activity over a new connection; abandoned if it takes too long."""

    def __init__(self, connect: Callable[[], Link], pid: int) -> None:
        super().__init__(name="actorgraph-postgres-asks", daemon=True)
        self._connect = connect
        self._pid = pid
        self.answer: Any = None

    def run(self) -> None:
        """Set `answer`; it stays None if the server doesn't answer."""
        with suppress(psycopg.Error), self._connect() as connection:
            self.answer = connection.execute(_PROGRESS, (self._pid,)).fetchone()


def _cut(connection: Link) -> None:
    """Shut the socket down, so that the thread that waits for an answer gets an error."""
    with suppress(OSError, psycopg.Error):
        number = connection.fileno()
        with socket.socket(fileno=socket.dup(number)) as copy:
            copy.shutdown(socket.SHUT_RDWR)
