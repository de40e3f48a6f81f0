"""The contract of dispatchers, over the adapters of this library."""

import pytest

from actorgraph.testing import dispatcher_checks
from tests.dispatch.places import KINDS, engine, nats, place

__all__ = ["engine", "nats", "place"]

BRIDGED = {
    "hints_reach_a_taker_of_their_queue",
    "a_take_cancelled_at_its_answer_loses_no_hint",
    "news_reach_all_systems",
}
"""Checks on trio over adapters whose clients need asyncio: they have one thread for it."""

CROWDS = {
    "workers_that_race_for_a_run_claim_it_once",
    "runs_of_a_thread_are_run_in_order",
    "workers_keep_the_limit_of_a_graph",
}
"""Checks of many runs whose rules are the system's and the saver's, whatever carries the hints.

`every_accepted_run_is_run_once` is such a crowd over each adapter."""


def marks_of(kind, check):
    """What `make faults` runs: those over the adapters with an engine."""
    return [pytest.mark.long] if kind != "memory" and check.__name__ in CROWDS else []


CASES = [
    pytest.param(
        loop, kind, check, id=f"{loop}-{kind}-{check.__name__}", marks=marks_of(kind, check)
    )
    for loop in ("asyncio", "trio")
    for kind in KINDS
    for check in dispatcher_checks()
    if loop == "asyncio" or kind == "memory" or check.__name__ in BRIDGED
]


@pytest.mark.parametrize(
    ("anyio_backend", "place", "check"), CASES, indirect=["anyio_backend", "place"]
)
async def test_a_check(place, check):
    """
    Each adapter keeps each sentence of the contract; tests/faults has all of them on trio.
    """
    await check(place)


ENGINES = [
    pytest.param("asyncio", kind, check, id=f"{kind}-{check.__name__}")
    for kind in ("pgqueuer", "nats")
    for check in dispatcher_checks("engine")
]
"""The clients have one thread of asyncio's on either loop."""


@pytest.mark.parametrize(
    ("anyio_backend", "engine", "check"), ENGINES, indirect=["anyio_backend", "engine"]
)
async def test_a_check_of_engines(engine, check):
    """
    Each adapter outlives the absence of its engine, and what others write to it.
    """
    await check(engine)
