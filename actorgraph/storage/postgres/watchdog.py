"""Watchdog: cuts connections whose server does not answer.

A server that is stopped, or a network that swallows everything, would hold a thread for ever: the
operating system sees a living connection. So a thread of its own shuts the socket down when the
answer is overdue, and the thread that waits for it gets an error.

Work that may take as long as it takes (a migration, a backup, a vacuum) is not cut while the server
says over another connection that it goes on.
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

from actorgraph.storage.postgres.failures import NoAnswerError

Link = Connection[Any]
_PROGRESS = "SELECT state, state_change FROM pg_stat_activity WHERE pid = %s"


class _Lease(msgspec.Struct):
    """A connection in use.

    Attributes:
        end: when its answer is overdue.
        patient: whether it may take longer, if it makes progress.
        seen: what the server said of a patient one the last time.
        is_cut: whether its socket was shut down.
    """

    connection: Link
    end: float
    patient: bool
    seen: Any = None
    is_cut: bool = False


class Watchdog:
    """Watches the connections of one source while they are in use.

    Args:
        answer_timeout_s: after how long an answer is overdue.
        connect: opens another connection, to ask about patient work; None where there is none.
    """

    def __init__(self, answer_timeout_s: float, connect: Callable[[], Link] | None = None) -> None:
        self._timeout_s = answer_timeout_s
        self._connect = connect
        self._leases: dict[int, _Lease] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, connection: Link, *, patient: bool = False) -> Generator[None]:
        """Watch a connection while the block works over it.

        Raises:
            NoAnswerError: in the place of the error of a connection that was cut.
        """
        lease = _Lease(connection, time.monotonic() + self._timeout_s, patient)
        self._add(lease)
        try:
            yield
        except psycopg.Error as error:
            if lease.is_cut:
                raise NoAnswerError(
                    f"the server did not answer within {self._timeout_s:g} s"
                ) from error
            raise
        finally:
            with self._lock:
                del self._leases[id(lease)]

    def close(self) -> None:
        """End the thread; the next connection that is watched starts another one."""
        self._stopped.set()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None or thread is threading.current_thread() or sys.is_finalizing():
            return  # an interpreter that ends has stopped its daemon threads: none would be joined
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
                if lease.patient and self._goes_on(lease):
                    lease.end = time.monotonic() + self._timeout_s
                    continue
                with self._lock:
                    if id(lease) in self._leases:
                        lease.is_cut = True
                        _cut(lease.connection)

    def _goes_on(self, lease: _Lease) -> bool:
        """Whether the server works on it, or has answered since it was asked last."""
        if self._connect is None:
            return True  # a program's connection: nothing says where else the server is
        asked = _Asked(self._connect, lease.connection.info.backend_pid)
        asked.start()
        asked.join(self._timeout_s)
        before, lease.seen = lease.seen, asked.answer
        if asked.answer is None:
            return False
        return asked.answer[0] == "active" or asked.answer != before


class _Asked(threading.Thread):
    """One question about a session, over a connection of its own; given up by leaving it."""

    def __init__(self, connect: Callable[[], Link], pid: int) -> None:
        super().__init__(name="actorgraph-postgres-asks", daemon=True)
        self._connect = connect
        self._pid = pid
        self.answer: Any = None

    def run(self) -> None:
        """Ask; without an answer there is none."""
        with suppress(psycopg.Error), self._connect() as connection:
            self.answer = connection.execute(_PROGRESS, (self._pid,)).fetchone()


def _cut(connection: Link) -> None:
    """Let whoever waits for this connection's answer see that it is lost."""
    with suppress(OSError, psycopg.Error):
        number = connection.fileno()
        with socket.socket(fileno=socket.dup(number)) as copy:
            copy.shutdown(socket.SHUT_RDWR)
