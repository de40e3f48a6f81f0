"""Links with planted faults over the engines of the library: the checks of engines find each."""

import pytest

from actorgraph.testing import dispatcher_checks, engine_checks
from tests.dispatch.faulty_engines import ENGINE_FAULTS, EngineFault, faulty_engine
from tests.dispatch.places import AGAIN_S, engine, nats
from tests.dispatch.test_planted_engine_faults import CHECKS, FOUND

__all__ = ["engine", "nats"]


@pytest.fixture(scope="module", params=["asyncio"])
def anyio_backend(request):
    """
    The clients of the engines have one thread of asyncio's on either loop.
    """
    return request.param


@pytest.mark.parametrize("name", ENGINE_FAULTS)
async def test_a_planted_fault_is_found(engine, name, monkeypatch):
    """
    Over PGQueuer and NATS a link with a fault fails the check of what it breaks.
    """
    fault, check = ENGINE_FAULTS[name]
    monkeypatch.setattr(engine_checks, "PATIENCE_S", 2 * AGAIN_S)

    with pytest.raises(FOUND):
        await CHECKS[check](faulty_engine(engine, fault))


@pytest.mark.parametrize("check", dispatcher_checks("engine"), ids=lambda check: check.__name__)
async def test_links_that_only_forward_pass(engine, check):
    """
    Over each engine a wrapped link without a fault passes.
    """
    await check(faulty_engine(engine, EngineFault))
