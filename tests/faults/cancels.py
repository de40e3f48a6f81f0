"""Cancel a call at its k-th suspension, for every k, and look at what is left.

`Counted` drives the call and counts how often it gives up control. At the k-th time it cancels:
with an anyio scope on both event loops, or natively, as `asyncio.timeout` does, on asyncio.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from actorgraph import InMemorySaver, SqliteSaver
from actorgraph.savers.sqlite.drivers import HopConnection
from actorgraph.testing import FaultySaver
from tests.faults.oracle import Oracle

JUDGED = ("open transactions", "locks", "tasks left", "changed later", "lost", "wrong")

Cancel = Callable[[], object]


class Counted:
    """Awaits a coroutine, counts its suspensions, and cancels at the k-th, and maybe again.

    Args:
        times: how many suspensions in a row cancel; 2 is an impatient caller.
    """

    def __init__(
        self, coroutine: Coroutine[Any, Any, Any], k: int, cancel: Cancel, times: int = 1
    ) -> None:
        self._coroutine = coroutine
        self._due = range(k, k + times)
        self._cancel = cancel
        self.count = 0

    @property
    def fired(self) -> bool:
        return self.count >= self._due.start

    def __await__(self) -> Generator[Any, Any, Any]:
        send: Callable[..., Any] = self._coroutine.send
        value: Any = None
        while True:
            try:
                waits_for = send(value)
            except StopIteration as done:
                return done.value
            self.count += 1
            if self.count in self._due:
                self._cancel()
            try:
                send, value = self._coroutine.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001 - passed on to where it belongs
                send, value = self._coroutine.throw, error


async def cancel_at(call: Callable[[], Coroutine[Any, Any, Any]], k: int, how: str) -> bool:
    """Run a call and cancel it at its k-th suspension.

    Args:
        how: "scope", "native", or "twice" (a second native cancellation right after).
    Returns: whether it came to that.
    """
    if how == "scope":
        with anyio.CancelScope() as scope:
            counted = Counted(call(), k, scope.cancel)
            await counted
        return counted.fired
    fired = []

    async def alone() -> None:
        task = asyncio.current_task()
        assert task is not None
        counted = Counted(call(), k, task.cancel, times=2 if how == "twice" else 1)
        try:
            await counted
        finally:
            fired.append(counted.fired)

    task = asyncio.ensure_future(alone())
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return fired[0]


class Place:
    """A store under cancellation: its savers, its connections, its rows."""

    def __init__(self, kind: str, path: Path, oracle: Oracle) -> None:
        self.kind = kind
        self.path = path
        self.oracle = oracle
        self.writers: list[HopConnection] = []
        self.memory = InMemorySaver()
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()

    def saver(self) -> FaultySaver:
        told = self.oracle.stored
        if self.kind.startswith("memory"):
            return FaultySaver(self.memory, immediate=self.kind == "memory", on_stored=told)
        made = self.writers

        class Watched(HopConnection):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                made.append(self)

        class WatchedSaver(SqliteSaver):
            connection_class: type[HopConnection] = Watched

        return FaultySaver(WatchedSaver(self.path), on_stored=told)

    def open_transactions(self) -> int:
        return sum(_in_transaction(writer) for writer in self.writers)

    def locks(self) -> int:
        """1 if another process could not write at once."""
        if self.kind != "sqlite":
            return 0
        other = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return 1
        finally:
            other.close()
        return 0

    def rows(self) -> str:
        """Everything that is stored."""
        if self.kind != "sqlite":
            return repr(vars(self.memory)["_threads"])
        other = sqlite3.connect(self.path)
        try:
            return "\n".join(other.iterdump())
        finally:
            other.close()


def _in_transaction(connection: sqlite3.Connection) -> bool:
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:
        return False  # closed


def tasks_alive() -> int:
    """How many tasks the running event loop has."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        import trio

        return trio.lowlevel.current_statistics().tasks_living


@asynccontextmanager
async def nothing_left(place: Place, tasks_before: int) -> AsyncIterator[Counter[str]]:
    """Count what a cancelled call has left at the moment of its return."""
    left = Counter(
        {
            "open transactions": place.open_transactions(),
            "locks": place.locks(),
            "tasks left": max(0, tasks_alive() - tasks_before),
        }
    )
    yield left


Act = Callable[[Any, FaultySaver], Awaitable[Any]]
