"""Crash-point enumeration: fail at the k-th storage operation, reopen, resume, judge.

A crash is an operation that raises, and every operation after it. The saver is dropped, a new
one is opened on what is left, and the thread is finished. This for every k until none fires.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from actorgraph.errors import StorageError, StorageFullError
from actorgraph.testing import FaultPlan, When, sqlite_failure
from tests.faults.oracle import Oracle
from tests.faults.scenarios import CONFIG, INPUT, Scenario, go_on, run_through
from tests.faults.stores import Store, numbers, recorded

WHENS: tuple[When, ...] = ("before", "after")
UNCOMMITTED = ("SELECT ", "INSERT ", "UPDATE ", "DELETE ", "SAVEPOINT ", "RELEASE ")
"""Statements in a transaction: a crash after one leaves what a crash before the next one leaves."""
JUDGED = ("wrong", "lost", "re-run", "unreported", "claim lost")
"""Counters that must be 0 at every point."""


async def crash_everywhere(
    scenario: Scenario, kind: str, mode: str, path: Path, part: tuple[int, int] = (0, 1)
) -> Counter[str]:
    """Every crash point of a scenario, before and after; or only a part of them.

    Returns: how many points, and how many of each of `JUDGED`.
    """
    seen: Counter[str] = Counter()
    names: Sequence[str] = ()
    for when in WHENS:
        for k in points(when, names, part):
            plan = FaultPlan(k, when)
            found = await crash_at(scenario, kind, mode, plan, path)
            names = max(names, plan.operations, key=len)
            if not plan.fired and k > len(names):
                break  # in `async` the number of operations differs from run to run
            show(found, f"{scenario.name}, {mode}, {kind}", plan)
            seen += found
    return seen


def points(when: When, names: Sequence[str], part: tuple[int, int]) -> Iterator[int]:
    """The numbers of the operations to fail.

    Args:
        names: of the operations of a whole run, as far as they are known.
        part: which of how many equal parts.
    """
    for k in numbers(part):
        name = "".join(names[k - 1 : k])
        if when == "before" or not name.startswith(UNCOMMITTED):
            yield k


def show(found: Counter[str], what: str, plan: FaultPlan) -> None:
    """Print where something went wrong."""
    bad = {name: found[name] for name in JUDGED if found[name]}
    if bad and plan.fail_at is not None:
        operation = plan.operations[plan.fail_at - 1 :][:1]
        print(f"{what}, {plan.when} operation {plan.fail_at} {operation}: {bad}")


async def crash_at(
    scenario: Scenario, kind: str, mode: str, plan: FaultPlan, path: Path
) -> Counter[str]:
    """One crash and what came of it."""
    oracle = Oracle(staggers=mode != "exit", nested=mode != "exit")
    store = Store(kind, path, oracle)
    store.remove()
    error = await _until_the_crash(scenario, store, mode, plan)
    oracle.crash()
    async with store.saver() as saver:
        graph = scenario.build(oracle).compile(checkpointer=saver)
        text = await recorded(saver, CONFIG)
        claim_lost = False
        try:
            result = await go_on(graph, mode, oracle)
        except AssertionError:
            claim_lost, result = True, {}
        state = await graph.aget_state(CONFIG)
    stored = None if state.next else (*state.values["log"],)
    seen = judged(scenario, oracle, text, result, stored)
    return seen + told(plan, error, claim_lost=claim_lost)


def judged(
    scenario: Scenario,
    oracle: Oracle,
    text: str,
    result: dict[str, Any],
    stored: tuple[str, ...] | None,
) -> Counter[str]:
    """Compare what a crash left, and what a resume made of it, with what the oracle knows.

    Args:
        text: what was stored at the crash.
        result: of the resume.
        stored: the log that is stored after it; None if the thread has not ended.
    """
    final = (*result.get("log", ()),)
    fine = final == scenario.log and stored == final
    began = oracle.crashes[-1]
    again = oracle.labels("start", since=began)
    finished = set(oracle.labels("done", until=began))
    return Counter(
        {
            "wrong": int(not fine),
            "lost": sum(label not in text for label in oracle.acknowledged),
            "re-run": len(oracle.run_again()),
            "acknowledged": len(oracle.acknowledged),
            "unacknowledged run again": sum(label in finished for label in again),
        }
    )


def told(plan: FaultPlan, error: Exception | None, *, claim_lost: bool) -> Counter[str]:
    """Count one crash.

    Args:
        error: what the caller saw.
        claim_lost: whether nodes had run before their input was durable.
    """
    fired, lost = int(plan.fired), int(claim_lost)
    return Counter(
        {"points": fired, "unreported": int(fired and error is None), "claim lost": lost}
    )


async def fill_everywhere(scenario: Scenario, mode: str, path: Path) -> Counter[str]:
    """No space at each SQL statement, once; the same saver then goes on."""
    seen: Counter[str] = Counter()
    most = 0
    for k in numbers():
        plan = FaultPlan(k, error=_full, lasting=False)
        seen += await _full_at(scenario, mode, plan, path)
        most = max(most, len(plan.operations))
        if not plan.fired and k > most:
            break
    return seen


def _full() -> Exception:
    return sqlite_failure(sqlite3.SQLITE_FULL)


async def _full_at(scenario: Scenario, mode: str, plan: FaultPlan, path: Path) -> Counter[str]:
    oracle = Oracle(staggers=mode != "exit", nested=mode != "exit")
    store = Store("sqlite", path, oracle)
    store.remove()
    try:
        async with store.saver(plan) as saver:
            graph = scenario.build(oracle).compile(checkpointer=saver)
            try:
                await run_through(graph, INPUT, mode, oracle)
            except StorageFullError:
                pass
            else:
                return Counter({"unreported": int(plan.fired)})
            oracle.crash()
            result = await go_on(graph, mode, oracle)
    except StorageError:  # it could not be opened
        return Counter()
    again = oracle.run_again()
    return Counter(
        {
            "points": int(plan.fired),
            "wrong": int((*result["log"],) != scenario.log),
            "re-run": len(again),
        }
    )


async def _until_the_crash(
    scenario: Scenario, store: Store, mode: str, plan: FaultPlan
) -> Exception | None:
    """Run until an operation fails; the error that the caller saw."""
    try:
        async with store.saver(plan) as saver:
            graph = scenario.build(store.oracle).compile(checkpointer=saver)
            await run_through(graph, INPUT, mode, store.oracle)
    except Exception as error:
        if not plan.fired:  # of the test itself, such as a store that can't be opened
            raise
        return error  # the fault, in whatever dress; judged by the caller
    return None


def check(seen: Counter[str]) -> None:
    """Nothing went wrong at any point."""
    assert {name: seen[name] for name in JUDGED if seen[name]} == {}
    assert seen["points"] > 0


def row(*cells: Any) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def report(config: pytest.Config, table: str, line: str) -> None:
    """Keep a line of figures for the end of the run."""
    tables: dict[str, list[str]] = config.stash.setdefault(FIGURES, {})
    tables.setdefault(table, []).append(line)


FIGURES: pytest.StashKey[dict[str, list[str]]] = pytest.StashKey()
