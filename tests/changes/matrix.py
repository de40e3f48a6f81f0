"""One cell of the matrix: a thread of one version, stopped at a step, goes on under another.

The verdict of `check_threads` is asked first, then the thread is resumed. Faults of a cell:

word      the verdict said something else than what the resume then did
lost      a role that had ended is not in the log of the thread
twice     a role that had ended ran again
silent    the thread is at its end, and a role that both versions have never ran
harmed    the resume was refused, and the version of before can't end the thread any more
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import anyio

from actorgraph import Command
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.errors import SchemaMismatchError, UnknownTypeError
from actorgraph.runtime.task.scope import DEFINED_TASKS
from actorgraph.values.graph_changes import ResumeVerdict
from tests.changes.kinds import Kind
from tests.changes.programs import PROGRAMS, ROLES, Broken, Run, Version
from tests.support.graphs import at
from tests.support.known_types import restart, same_types_afterwards

TURNS_MAX = 12
REFUSALS = (SchemaMismatchError, UnknownTypeError)


def stops(program: str) -> Iterator[tuple[str, Any]]:
    """Where a thread can stop: after a number of supersteps, at a failing role, at its question."""
    yield "asks", None
    for role in ROLES[program]:
        yield "fails", role
    if program != "functional":
        for steps in range(1, 5):
            yield "after", steps


def _given(program: str) -> Any:
    return 7 if program == "functional" else {"log": []}


@dataclass(frozen=True)
class Cell:
    """A program, a change, a stop, and the thread of a saver in which they are tried."""

    program: str
    kind: Kind
    stop: tuple[str, Any]
    saver: Any
    thread: str

    def graph(self, version: Version, run: Run) -> Any:
        """Compile a version, as a new process does."""
        restart()
        return PROGRAMS[self.program](version, run, self.saver)


def begin(cell: Cell) -> Run:
    """Run a thread of the version of before until it stops."""
    run, program, place = Run(), cell.program, at(cell.thread)
    kind, where = cell.stop
    if kind == "fails":
        run.failing.add(where)
    graph = cell.graph(cell.kind.before, run)
    options = {"interrupt_after": "*"} if kind == "after" else {}
    given: Any = _given(program)
    for _ in range(where if kind == "after" else 2):
        try:
            # One task at a time: which ones have ended when another fails is no race.
            graph.invoke(given, {**place, "max_concurrency": 1}, durability="sync", **options)
        except Broken:
            break
        state = graph.get_state(place)
        if not state.next or kind == "asks":
            break
        given = Command(resume="yes") if state.interrupts and kind == "fails" else None
        if state.interrupts and kind == "after":
            break
    run.failing.clear()
    DEFINED_TASKS.clear()  # as in the process of the next version
    return run


def finish(graph: Any, place: dict[str, Any]) -> list[str]:
    """Run a thread to its end, answering its questions; returns the roles in its log.

    Raises: what a resume raises.
    """
    for _ in range(TURNS_MAX):
        state = graph.get_state(place)
        if not state.next:
            values = state.values
            return list(values["log"] if isinstance(values, dict) else values or [])
        graph.invoke(Command(resume="yes") if state.interrupts else None, place, durability="sync")
    msg = "the thread doesn't come to its end"
    raise AssertionError(msg)


def verdict_of(graph: Any, cell: Cell) -> ResumeVerdict:
    """Ask what a resume would do."""

    async def ask() -> Any:
        graphs = {graph.plan.name: graph, "program": graph}
        return await check_threads(graphs, cell.saver, prefix=cell.thread)

    (group,) = anyio.run(ask).groups
    return group.verdict


def faults(cell: Cell) -> list[str]:
    """Run one cell; returns its faults."""
    with same_types_afterwards():
        return _faults(cell)


def _faults(cell: Cell) -> list[str]:
    kind, run = cell.kind, begin(cell)
    ended = list(run.ended)
    graph = cell.graph(kind.after, run)
    verdict = verdict_of(graph, cell)
    try:
        log = finish(graph, at(cell.thread))
    except REFUSALS as error:
        return [*_after_refusal(cell, run, ended, verdict), *_named(error)]
    found = ["word: refused, and it went on"] if verdict is ResumeVerdict.REFUSED else []
    found += [f"lost: {role}" for role in ended if role not in log and not kind.drops]
    found += [f"twice: {role}" for role in {*run.ended} if run.ended.count(role) > 1]
    both = [r for r in ROLES[cell.program] if r not in kind.after.without and not kind.drops]
    found += [f"silent: {role} never ran" for role in both if role not in log]
    return found


def _after_refusal(cell: Cell, run: Run, ended: list[str], verdict: ResumeVerdict) -> list[str]:
    refused = verdict is ResumeVerdict.REFUSED
    found = [] if refused else [f"word: {verdict}, and it was refused"]
    if cell.kind.goes_on:
        found.append("refused, although nothing is in the way")
    before = [role for role in run.ended[len(ended) :] if role not in cell.kind.again]
    if before:
        found.append(f"ran before the refusal: {before}")
    run.ended[:] = [*ended, *before]
    try:
        log = finish(cell.graph(cell.kind.before, run), at(cell.thread))
    except Exception as error:  # noqa: BLE001 - any error is the fault
        return [*found, f"harmed: {type(error).__name__}: {error}"]
    found += [f"harmed: {role} is gone" for role in ROLES[cell.program] if role not in log]
    found += [f"twice: {role}" for role in {*run.ended} if run.ended.count(role) > 1]
    return found


def _named(error: Any) -> list[str]:
    """An error names what is in the way, and a way out."""
    return [] if error.do and ("Migration" in error.do or "graph" in error.do) else ["no advice"]
