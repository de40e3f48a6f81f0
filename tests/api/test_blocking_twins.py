"""Blocking calls of plain functions do what async calls of the same graph do."""

import json
from typing import Any

import anyio
import pytest

from tests.api.plain_scenarios import SCENARIOS, Calls, Scenario
from tests.differential.blocking import Blocking, run


def traces(scenario: Scenario, driver: str) -> list[str]:
    """The traces of a scenario under one driver: an event loop's name, or "blocking"."""
    made: list[Calls] = []

    def calls(graph: Any) -> Calls:
        made.append(Calls(Blocking(graph) if driver == "blocking" else graph))
        return made[-1]

    if driver == "blocking":
        run(scenario(calls))
    else:
        anyio.run(scenario, calls, backend=driver)
    return [told.trace() for told in made]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.filterwarnings("ignore::actorgraph.ActorGraphWarning")
def test_a_blocking_run_does_the_same(scenario):
    """
    Results, chunks, histories with pending writes, and errors: equal on asyncio, trio and here.
    """
    asyncio, trio, blocking = (
        traces(SCENARIOS[scenario], driver) for driver in ("asyncio", "trio", "blocking")
    )

    assert blocking == asyncio
    assert trio == asyncio


def test_no_trace_is_empty():
    """
    Each trace has at least one state or chunk, and no random id is left in it.
    """
    for scenario in SCENARIOS.values():
        told = traces(scenario, "blocking")
        assert all(len(json.loads(trace)) > 0 for trace in told)
        assert told == traces(scenario, "blocking")
