"""What an ActorSystem tells of its runs: logs, metrics, who holds the event loop."""

import time
from typing import Any

import prometheus_client
import pytest
import structlog
from structlog.testing import capture_logs

from actorgraph import ActorSystem, InMemorySaver, InvalidConfigError
from actorgraph.api.system_metrics import metrics_registry
from tests.gates import Turnstile
from tests.graphs import ab, in_a_row
from tests.systems import turnstile_first


@pytest.fixture
def configured():
    """Structlog as an application configures it."""
    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars])
    yield
    structlog.configure(**before)
    structlog.reset_defaults()


@pytest.mark.usefixtures("configured")
async def test_logs_carry_the_ids():
    """
    What async and sync nodes log has thread, run, node and step; nothing of it stays behind.
    """
    seen: list[dict[str, Any]] = []

    async def first(state):
        seen.append(dict(structlog.contextvars.get_contextvars()))
        return {"bar": ["a"]}

    def second(state):
        seen.append(dict(structlog.contextvars.get_contextvars()))
        return {"bar": ["b"]}

    graph = in_a_row({"first": first, "second": second})
    with capture_logs():
        async with ActorSystem({"g": graph}, saver=InMemorySaver()) as system:
            run = await system.start("g", "t", {"bar": []})
            await run.result()

    ids = {"thread_id": "t", "run_id": run.id}
    assert seen == [{**ids, "node": "first", "step": 1}, {**ids, "node": "second", "step": 2}]
    assert structlog.contextvars.get_contextvars() == {}


async def test_logs_of_a_program_without_structlog_cost_nothing():
    """
    Nothing is bound where nobody has configured structlog.
    """
    seen = []

    async def node(state):
        seen.append(structlog.contextvars.get_contextvars())

    async with ActorSystem({"g": in_a_row({"a": node})}) as system:
        await (await system.start("g", "t", {"bar": []})).result()

    assert seen == [{}]


async def test_metrics_are_the_figures():
    """
    A scrape has runs by status, what goes on and waits, supersteps and commits.
    """
    slow = Turnstile({"bar": ["a"]})
    async with ActorSystem({"g": ab(), "h": turnstile_first(slow)}) as system:
        registry = metrics_registry(system)
        await (await system.start("g", "t", {"bar": []})).result()
        waiting = await system.start("h", "u", {"bar": []})
        await slow.entered.wait()
        text = prometheus_client.generate_latest(registry).decode()
        slow.out.set()
        await waiting.result()

    lines = text.splitlines()
    for line in (
        'actorgraph_runs_total{status="success"} 1.0',
        "actorgraph_runs_started_total 2.0",
        "actorgraph_runs_active 1.0",
        "actorgraph_supersteps_total 2.0",
    ):
        assert line in lines
    assert any(line.startswith("actorgraph_commit_seconds_total") for line in lines)


async def test_a_node_that_holds_the_loop_is_named():
    """
    The warning has the node's name, so that nobody has to guess.
    """

    async def greedy(state):
        end = time.monotonic() + 5
        while system.statistics().loop_held == 0 and time.monotonic() < end:
            pass

    with capture_logs():
        async with ActorSystem({"g": in_a_row({"greedy": greedy})}, loop_limit_s=0.05) as system:
            await (await system.start("g", "t", {"bar": []})).result()
            figures = system.statistics()

    assert figures.loop_held >= 1
    assert figures.loop_held_by == "greedy"
    with pytest.raises(InvalidConfigError):
        ActorSystem({"g": ab()}, loop_limit_s=0)
