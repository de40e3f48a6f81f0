"""Crash points of blocking calls: as `crashes.py`, with plain functions in the caller's thread."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from actorgraph.testing import FaultPlan
from tests.faults.crashes import WHENS, judged, points, show, told
from tests.faults.plain_scenarios import PlainOracle, compiled, go_on, run_through
from tests.faults.scenarios import CONFIG, INPUT, Scenario
from tests.faults.stores import Store, recorded_blocking


def crash_everywhere(
    scenario: Scenario, kind: str, mode: str, path: Path, part: tuple[int, int] = (0, 1)
) -> Counter[str]:
    """Every crash point of a scenario, before and after; or only a part of them.

    Returns: how many points, and how many of each of `crashes.JUDGED`.
    """
    seen: Counter[str] = Counter()
    names: Sequence[str] = ()
    for when in WHENS:
        for k in points(when, names, part):
            plan = FaultPlan(k, when)
            found = crash_at(scenario, kind, mode, plan, path)
            names = max(names, plan.operations, key=len)
            if not plan.fired and k > len(names):
                break  # the number of operations differs from run to run
            show(found, f"{scenario.name}, {mode}, {kind}", plan)
            seen += found
    return seen


def crash_at(scenario: Scenario, kind: str, mode: str, plan: FaultPlan, path: Path) -> Counter[str]:
    """One crash and what came of it."""
    oracle = PlainOracle(staggers=mode != "exit", nested=mode != "exit")
    store = Store(kind, path, oracle)
    store.remove()
    error = _until_the_crash(scenario, store, mode, plan, oracle)
    oracle.crash()
    with store.saver() as saver:
        graph = compiled(scenario, oracle, saver)
        text = recorded_blocking(saver, CONFIG)
        claim_lost = False
        try:
            result = go_on(graph, mode, oracle)
        except AssertionError:
            claim_lost, result = True, {}
        state = graph.get_state(CONFIG)
    stored = None if state.next else (*state.values["log"],)
    seen = judged(scenario, oracle, text, result, stored)
    return seen + told(plan, error, claim_lost=claim_lost)


def _until_the_crash(
    scenario: Scenario, store: Store, mode: str, plan: FaultPlan, oracle: PlainOracle
) -> Exception | None:
    """Run until an operation fails; the error that the caller saw."""
    try:
        with store.saver(plan) as saver:
            run_through(compiled(scenario, oracle, saver), INPUT, mode, oracle)
    except Exception as error:
        if not plan.fired:  # of the test itself, such as a store that can't be opened
            raise
        return error  # the fault, in whatever dress; judged by the caller
    return None
