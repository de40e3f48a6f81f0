"""Clients of event streams that are cut off at random bytes, in each form: nothing is missing.

A thousand cuts in each form, kills and two servers are in tests/faults.
"""

import asyncio
import random
from collections.abc import Iterator

import pytest

from tests.web.cut_clients import FORMS
from tests.web.cut_streams import CutStreams
from tests.web.processes import Server, server

WAITS = ("langgraph-sdk",)
"""Waits for seconds before it connects again: only in tests/faults."""
SEED = 39


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("cuts") / "runs.db"
    module = "tests.web.token_app"
    with server("uvicorn", path, module=module, streams_per_client=None) as one:
        yield one


@pytest.mark.parametrize("name", [name for name in FORMS if name not in WAITS])
def test_nothing_is_missing_after_cuts(name, made):
    """
    Clients that come back from their last event on get each event once and in order, and what they
    make of it is the run's state.
    """
    cuts = CutStreams(FORMS[name], random.Random(SEED), [made])

    async def read() -> None:
        async with cuts.opened():
            for stored in (True, False):
                await cuts.read(clients=4, stored=stored, most=20, pace_s=0.005)

    asyncio.run(read())

    assert not cuts.faults
    assert cuts.cuts["event"] > 3
