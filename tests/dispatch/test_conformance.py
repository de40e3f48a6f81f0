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

CASES = [
    pytest.param(loop, kind, check, id=f"{loop}-{kind}-{check.__name__}")
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
