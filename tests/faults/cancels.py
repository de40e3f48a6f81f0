"""Cancel a call at its k-th suspension, for every k, and look at what is left.

A `Meter` counts how often the call, or any task that it starts, gives up control. At the k-th
time it cancels the call: with an anyio scope on both event loops, or natively, as
`asyncio.timeout` does, on asyncio.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import trio

from actorgraph import EmptyInputError, InMemorySaver, SqliteSaver
from actorgraph.loops import on_trio
from actorgraph.ports import Saver
from actorgraph.savers.memory.schema import settled
from actorgraph.storage.sqlite.connections import HopConnection
from actorgraph.testing import FaultySaver
from tests.faults.oracle import Oracle
from tests.faults.scenarios import CONFIG, INPUT, Scenario, run_through
from tests.faults.stores import numbers, recorded

JUDGED = ("open transactions", "locks", "tasks left", "changed later", "lost", "wrong")

Cancel = Callable[[], object]
Act = Callable[[Any, Oracle], Coroutine[Any, Any, Any]]
UPDATE = "update;"


async def nothing(_: Any, __: Oracle) -> None:
    """A call that begins on an empty thread needs nothing before it."""


class Meter:
    """Counts suspensions, of the call and of every task it starts, and cancels at the k-th.

    Args:
        times: how many suspensions in a row cancel; 2 is an impatient caller.
    """

    def __init__(self, k: int, cancel: Cancel, times: int = 1) -> None:
        self._due = range(k, k + times)
        self._cancel = cancel
        self._count = 0

    @property
    def fired(self) -> bool:
        return self._count >= self._due.start

    def tick(self) -> None:
        self._count += 1
        if self._count in self._due:
            self._cancel()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count every step of every task meanwhile."""
        if on_trio():
            instrument = _Steps(self.tick)
            trio.lowlevel.add_instrument(instrument)
            yield
            trio.lowlevel.remove_instrument(instrument)
            return
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda _, c, **kw: asyncio.Task(Counted(c, self), loop=loop, **kw))
        yield
        loop.set_task_factory(None)


class _Steps(trio.abc.Instrument):
    def __init__(self, tick: Callable[[], None]) -> None:
        self.after_task_step = lambda _: tick()


class Counted(Coroutine[Any, Any, Any]):
    """A coroutine around another one, that reports each suspension to a meter."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], meter: Meter) -> None:
        self._coroutine = coroutine
        self._meter = meter
        self.__name__ = self.__qualname__ = "counted"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self.send
        value: Any = None
        while True:
            try:
                waits_for = step(value)
            except StopIteration as done:
                return done.value
            try:
                step, value = self.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001 - passed on to where it belongs
                step, value = self.throw, error

    def send(self, value: Any) -> Any:
        waits_for = self._coroutine.send(value)
        self._meter.tick()
        return waits_for

    def throw(self, *error: Any) -> Any:
        waits_for = self._coroutine.throw(*error)
        self._meter.tick()
        return waits_for

    def close(self) -> None:
        self._coroutine.close()


async def cancel_at(call: Callable[[], Coroutine[Any, Any, Any]], k: int, how: str) -> bool:
    """Run a call and cancel it at the k-th suspension of any of its tasks.

    Args:
        how: "scope", "native", or "twice" (a second native cancellation right after).
    Returns: whether it came to that.
    """
    if how == "scope":
        with anyio.CancelScope() as scope:
            meter = Meter(k, scope.cancel)
            with meter.watching():
                await (call() if on_trio() else Counted(call(), meter))
        return meter.fired

    def cancel() -> None:
        task.cancel()

    meter = Meter(k, cancel, times=2 if how == "twice" else 1)
    with meter.watching():
        task = asyncio.ensure_future(call())
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return meter.fired


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

    def saver(self) -> "WatchedSaver":
        told = self.oracle.stored
        if self.kind.startswith("memory"):
            return WatchedSaver(self, self.memory, immediate=self.kind == "memory", on_stored=told)
        made = self.writers

        class Watched(HopConnection):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                made.append(self)

        class WatchedSqlite(SqliteSaver):
            connection_class: type[HopConnection] = Watched

        return WatchedSaver(self, WatchedSqlite(self.path), on_stored=told)

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
            return repr({t: settled(known) for t, known in vars(self.memory)["_threads"].items()})
        other = sqlite3.connect(self.path)
        try:
            return "\n".join(other.iterdump())
        finally:
            other.close()


class WatchedSaver(FaultySaver):
    """A saver that can make another one of the same store, for a call that opens its own."""

    def __init__(self, place: Place, saver: Saver, **options: Any) -> None:
        super().__init__(saver, **options)
        self.again = place.saver


def _in_transaction(connection: sqlite3.Connection) -> bool:
    try:
        return connection.in_transaction
    except sqlite3.ProgrammingError:
        return False  # closed


def tasks_alive() -> int:
    """How many tasks the running event loop has."""
    if on_trio():
        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


@dataclass(frozen=True)
class Call:
    """A call to cancel.

    Args:
        act: the call.
        ready: brings the thread to where the call begins.
        deletes: whether the thread may be gone afterwards.
    """

    name: str
    act: Act
    ready: Act = nothing
    deletes: bool = False


async def cancel_everywhere(  # noqa: PLR0917 - as the table of its callers has them
    call: Call,
    scenario: Scenario,
    kind: str,
    how: str,
    path: Path,
    part: tuple[int, int] = (0, 1),
) -> Counter[str]:
    """Cancel a call at each of its suspensions, or only at a part of them.

    Returns: how many there were, and how many of each of `JUDGED`.
    """
    seen: Counter[str] = Counter()
    for k in numbers(part):
        fired, found = await _one(call, scenario, k, kind=kind, how=how, path=path)
        bad = {name: found[name] for name in JUDGED if found[name]}
        if bad:
            print(f"{call.name}, {kind}, {how}, at suspension {k}: {bad}")
        seen += found
        if not fired:
            return seen
        seen["awaits"] += 1
    raise AssertionError("unreachable")


async def _one(
    call: Call, scenario: Scenario, k: int, *, kind: str, how: str, path: Path
) -> tuple[bool, Counter[str]]:
    oracle = Oracle()
    place = Place(kind, path, oracle)
    left: Counter[str] = Counter()
    async with place.saver() as saver:
        graph = scenario.build(oracle).compile(checkpointer=saver)
        await call.ready(graph, oracle)
        before = tasks_alive()

        fired = await cancel_at(lambda: call.act(graph, oracle), k, how)

        left["tasks left"] = max(0, tasks_alive() - before)
        left["open transactions"] = place.open_transactions()
        left["locks"] = place.locks()
        rows = place.rows()
        oracle.crash()
    left["changed later"] = int(place.rows() != rows)
    async with place.saver() as saver:
        graph = scenario.build(oracle).compile(checkpointer=saver)
        text = await recorded(saver, CONFIG)
        if not call.deletes:
            left["lost"] = sum(label not in text for label in oracle.acknowledged)
            left["lost"] += len(oracle.run_again())
        left["wrong"] = int(not await _goes_on(graph, scenario, oracle, text))
    return fired, left


async def _goes_on(graph: Any, scenario: Scenario, oracle: Oracle, text: str) -> bool:
    """Whether the thread comes to its end, with at most the update of `update_state` besides."""
    try:
        result = await run_through(graph, None, "sync", oracle)
    except EmptyInputError:
        if text:
            return False
        result = await run_through(graph, INPUT, "sync", oracle)
    log = tuple(label for label in result["log"] if label != UPDATE)
    return log == scenario.log and result["log"].count(UPDATE) <= 1
