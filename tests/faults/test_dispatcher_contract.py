"""The contract of dispatchers on trio: the long form of tests/dispatch/test_conformance.py."""

import pytest

from actorgraph.testing import dispatcher_checks
from tests.dispatch.faulty_links import FAULTS
from tests.dispatch.places import nats, place
from tests.dispatch.test_planted_faults import (
    passes_without_a_fault,
    test_a_planted_fault_is_found,
    test_claims_without_compare_and_set_are_found,
)

__all__ = [
    "nats",
    "place",
    "test_a_planted_fault_is_found",
    "test_claims_without_compare_and_set_are_found",
]


@pytest.fixture(scope="module", params=["trio"])
def anyio_backend(request):
    """
    The loop on which `make test` runs a few checks of adapters whose clients need asyncio.
    """
    return request.param


@pytest.mark.parametrize("check", dispatcher_checks(), ids=lambda check: check.__name__)
async def test_a_check(place, check):
    """
    Each adapter keeps each sentence of the contract on trio.
    """
    await check(place)


@pytest.mark.parametrize("check", sorted({check for _, check in FAULTS.values()}))
async def test_links_that_only_forward_pass(place, check):
    """
    Over each adapter a wrapped link without a fault passes the checks that find faults.
    """
    await passes_without_a_fault(place, check)
