"""LangGraph's own conformance suite for savers, unchanged, over every saver."""

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop("memory")]


@pytest.mark.promise("S099")
@pytest.mark.langgraph("F-E23", "F-E24", "F-E25", "F-E30")
@pytest.mark.parametrize("capability", [c.value for c in Capability])
async def test_a_capability(store, capability):
    """
    Every test of every capability passes.
    """

    async def factory():
        async with store.saver() as saver:
            yield saver

    report = await validate(checkpointer_test(name="ours")(factory), capabilities={capability})

    result = report.results[capability]
    assert (result.detected, result.failures, result.passed) == (True, [], True)
