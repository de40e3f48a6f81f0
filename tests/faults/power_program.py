"""A program that says what is acknowledged, and a judge of what a power cut has left of it."""

import operator
import random
from collections import Counter
from collections.abc import Awaitable, Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import anyio

from actorgraph import START, ActorSystem, StateGraph
from actorgraph.values.alarms import Alarm, ListAlarms, TakeAlarm
from actorgraph.values.commits import EPOCH_ANY, Commit, Refused
from tests.support.graphs import at
from tests.support.power_cuts import Recorder

ALARM = "alarm"
"""Notes of the alarm of thread "a", whose time stands for a log."""
NO_GRAPH = "no graph of the system"
"""So that the system doesn't take the alarm too."""


def keeps_alarms(saver: Any) -> bool:
    """Whether the program moves an alarm."""
    return getattr(saver, "keeps_alarms", False)


class Notes(TypedDict, total=False):
    """The state: numbers in a row, and ballast."""

    log: Annotated[list, operator.add]
    big: str


class Begun(NamedTuple):
    """An operation begins.

    Attributes:
        log: the numbers of the thread when it has ended; empty for a removal.
    """

    thread: str
    log: tuple[int, ...]


class Acknowledged(NamedTuple):
    """The last operation of a thread has returned."""

    thread: str


class Accepted(NamedTuple):
    """`ActorSystem.start` has returned."""

    thread: str


def graph() -> StateGraph:
    """Two nodes: the next number, and more ballast."""
    chance = random.Random(1)
    builder = StateGraph(Notes)
    builder.add_node("number", lambda state: {"log": [len(state.get("log", ())) + 1]})
    builder.add_node("ballast", lambda _: {"big": chance.randbytes(chance.randrange(6000)).hex()})
    return builder.add_edge(START, "number").add_edge("number", "ballast")


@cache
def without_saver() -> Any:
    """The graph, compiled once: thousands of states are looked at with it."""
    return graph().compile()


def over(saver: Any) -> Any:
    """The graph over a saver."""
    compiled = without_saver()
    return type(compiled)(compiled.plan, saver)


class Program:
    """The operations: runs, runs of a system, removals of checkpoints and of threads; in rounds."""

    def __init__(self, saver: Any, recorder: Recorder, rounds: int) -> None:
        self._rounds = rounds
        self._saver = saver
        self._recorder = recorder
        self._logs: dict[str, tuple[int, ...]] = {}

    async def run(self) -> None:
        """Everything, once."""
        compiled = over(self._saver)
        for number in range(self._rounds):
            for thread in ("a", "b"):
                await self._more(
                    thread, compiled.ainvoke({"big": "x" * 700 * (number % 3)}, at(thread))
                )
            if keeps_alarms(self._saver):
                await self._move_alarm(2 * number + 1)
            await self._same("a", self._saver.aprune("a", 1))
            async with ActorSystem({"g": without_saver()}, saver=self._saver) as system:
                for thread in (f"s{number}", f"z{number}"):
                    self._begin(thread, (1,))
                    run = await system.start("g", thread, {"big": "y" * 5000})
                    self._recorder.add("note", note=Accepted(thread))
                    await run.result()
                    self._recorder.add("note", note=Acknowledged(thread))
            await self._drop("b", self._saver.adelete_thread("b"))

    async def _more(self, thread: str, call: Awaitable[Any]) -> None:
        log = self._logs.get(thread, ())
        await self._noted(thread, (*log, len(log) + 1), call)

    async def _same(self, thread: str, call: Awaitable[Any]) -> None:
        await self._noted(thread, self._logs[thread], call)

    async def _drop(self, thread: str, call: Awaitable[Any]) -> None:
        await self._noted(thread, (), call)

    async def _move_alarm(self, to: int) -> None:
        """A save with nothing else sets it, and a system takes it."""
        sets = Commit("a", "", None, EPOCH_ANY, 0, None, alarm=Alarm(to, NO_GRAPH))
        for moved, request in ((to, sets), (to + 1, TakeAlarm("a", to, to + 1))):
            await self._noted(ALARM, (moved,), self._commit(request))

    async def _commit(self, request: Commit | TakeAlarm) -> None:
        (outcome,) = await self._saver.commit([request])
        if isinstance(outcome, Refused):
            raise outcome.error

    def _begin(self, thread: str, log: tuple[int, ...]) -> None:
        self._recorder.add("note", note=Begun(thread, log))
        self._logs[thread] = log

    async def _noted(self, thread: str, log: tuple[int, ...], call: Awaitable[Any]) -> None:
        self._begin(thread, log)
        await call
        self._recorder.add("note", note=Acknowledged(thread))


class Expected:
    """Logs that each thread may hold, by the notes until the power was cut."""

    def __init__(self, notes: list[Any]) -> None:
        self.accepted = {note.thread for note in notes if isinstance(note, Accepted)}
        self.logs: dict[str, list[tuple[int, ...]]] = {}
        self.ended = Counter[str](n.thread for n in notes if isinstance(n, Acknowledged))
        for note in notes:
            if isinstance(note, Begun):
                self.logs.setdefault(note.thread, [()]).append(note.log)

    def fits(self, thread: str, log: tuple[int, ...]) -> bool:
        """Whether it is at the last acknowledged operation, or at one after it."""
        return log in self.logs[thread][self.ended[thread] :]


async def judged(opened: Any, notes: list[Any], *, goes_on: bool) -> Counter[str]:
    """Open what is left and look at it: lost, twice, wrong, refused.

    Args:
        goes_on: whether its runs are taken up, and its threads get one more turn.
    """
    expected, seen = Expected(notes), Counter[str]()
    try:
        async with opened as saver:
            compiled = over(saver)
            logs = await _logs(compiled, expected.logs)
            seen["lost"] += sum(not expected.fits(thread, log) for thread, log in logs.items())
            if not goes_on:
                return seen
            await _finish(saver, expected, seen)
            for thread in ("a", "b"):
                log = await _log(compiled, thread)
                await compiled.ainvoke({"big": ""}, at(thread))
                seen["wrong"] += await _log(compiled, thread) != (*log, len(log) + 1)
    except Exception as error:  # noqa: BLE001 - of any kind
        seen["refused"] += 1
        seen[f"refused: {type(error).__name__} {str(error)[:200]}"] += 1
    return seen


async def _log(compiled: Any, thread: str) -> tuple[int, ...]:
    if thread == ALARM:
        (rows,) = await compiled.checkpointer.query([ListAlarms((NO_GRAPH,), 9)])
        return tuple(row.at for row in rows)
    return tuple((await compiled.aget_state(at(thread))).values.get("log", ()))


async def _logs(compiled: Any, threads: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The logs of threads, which are read together."""
    found: dict[str, tuple[int, ...]] = {}

    async def read(thread: str) -> None:
        found[thread] = await _log(compiled, thread)

    async with anyio.create_task_group() as group:
        for thread in threads:
            group.start_soon(read, thread)
    return found


async def _finish(saver: Any, expected: Expected, seen: Counter[str]) -> None:
    """Each run that was accepted is there; those whose owner is known to be gone end, once."""
    async with ActorSystem({"g": without_saver()}, saver=saver) as system:
        for run in await system.recover():
            seen["twice"] += (await run.result())["log"] != [1]
        there = {run.thread_id for run in await system.runs()}
    seen["lost"] += len(expected.accepted - there)


def failures(seen: Counter[str]) -> dict[str, int]:
    """Counts that must be zero."""
    return {what: count for what, count in seen.items() if count}


def place(folder: Path, number: int) -> Path:
    """A new folder for a state."""
    return folder / "states" / str(number)
