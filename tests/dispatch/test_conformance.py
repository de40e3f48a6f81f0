"""The contract of dispatchers, over the adapters of this library."""

import os

import pytest

from actorgraph.testing import dispatcher_checks
from tests.dispatch.places import memory_place, nats_place, nats_server, pgqueuer_place

KINDS = ("memory", "pgqueuer", "nats")


@pytest.fixture(scope="session")
def nats():
    """
    The address of a NATS server.
    """
    with nats_server() as address:
        yield address


@pytest.fixture(params=KINDS)
async def place(request, postgres, schema):
    """
    Each adapter with an engine and a store that are empty.
    """
    if request.param == "memory":
        async with memory_place() as made:
            yield made
        return
    if request.param == "pgqueuer":
        yield pgqueuer_place(postgres.url, schema)
        return
    address = request.getfixturevalue("nats")
    if address is None:
        pytest.skip("nats-server is not installed")
    yield nats_place(address, f"s{os.urandom(6).hex()}", postgres.url, schema)


@pytest.mark.parametrize("check", dispatcher_checks(), ids=lambda check: check.__name__)
async def test_a_check(place, check):
    """
    Each adapter keeps each sentence of the contract.
    """
    await check(place)
