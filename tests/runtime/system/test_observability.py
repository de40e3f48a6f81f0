"""Observation of an ActorSystem: metrics, and calls that block the event loop."""

import time

import anyio
import prometheus_client
import pytest
from structlog.testing import capture_logs

from actorgraph import ActorSystem, InvalidConfigError, SystemBusyError
from actorgraph.api.system.prometheus import metrics_registry
from tests.support.gates import Turnstile
from tests.support.graphs import ab, in_a_row, writer
from tests.support.structlog_setup import configured

__all__ = ["configured"]


async def test_metrics_are_the_figures():
    """
    A scrape has runs by status, what goes on and waits, supersteps and commits.
    """
    slow = Turnstile({"bar": ["a"]})
    async with ActorSystem({"g": ab(), "h": in_a_row({"a": writer("a"), "b": slow})}) as system:
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
        "actorgraph_supersteps_total 3.0",
    ):
        assert line in lines


async def test_a_full_system_is_seen():
    """
    Saturation, refusals and the fullest mailbox are reported while they last.
    """
    slow = Turnstile({"bar": ["a"]})
    bounds = {"max_runs": 1, "max_queued": 2}
    async with ActorSystem({"g": in_a_row({"a": slow})}, **bounds) as system:
        registry = metrics_registry(system)
        first = await system.start("g", "t", {"bar": []})
        for _ in range(2):
            await system.start("g", "t", {"bar": []}, if_busy="enqueue")
        with pytest.raises(SystemBusyError):
            await system.start("g", "u", {"bar": []})
        await slow.entered.wait()
        full = prometheus_client.generate_latest(registry).decode().splitlines()
        slow.out.set()
        await first.result()
        later = prometheus_client.generate_latest(registry).decode().splitlines()

    for line in ("saturated 1.0", "runs_refused_total 1.0", "mailbox_depth 2.0", "runs_queued 2.0"):
        assert f"actorgraph_{line}" in full
    assert "actorgraph_saturated 0.0" in later


class TestLoop:
    """Nodes that block the event loop."""

    @pytest.mark.usefixtures("configured")
    @pytest.mark.parametrize("inside", [False, True], ids=["node", "task of a node"])
    async def test_a_node_that_holds_the_loop_is_named(self, inside):
        """
        A blocking call in an async node, or in a task that it starts, is logged with node and ids.
        """

        async def blocks():
            end = time.monotonic() + 10
            while system.statistics().loop_held == 0 and time.monotonic() < end:
                time.sleep(0.01)  # noqa: ASYNC251 - what is to be found

        async def greedy(state):
            async with anyio.create_task_group() as group:
                if inside:
                    group.start_soon(blocks)
                else:
                    await blocks()

        with capture_logs() as logs:
            graph = in_a_row({"greedy": greedy})
            async with ActorSystem({"g": graph}, loop_limit_s=0.05) as system:
                run = await system.start("g", "t", {"bar": []})
                await run.result()
                figures = system.statistics()

        told = next(entry for entry in logs if entry["event"] == "loop.held")
        place = {key: told[key] for key in ("log_level", "node", "thread_id", "run_id", "step")}
        ids = {"thread_id": "t", "run_id": run.id}
        assert place == {"log_level": "warning", "node": "greedy", **ids, "step": 1}
        assert figures.loop_held >= 1
        assert figures.loop_held_by == "greedy"

    async def test_a_limit_is_above_0(self):
        """
        A limit that everything would reach is refused.
        """
        with pytest.raises(InvalidConfigError):
            ActorSystem({"g": ab()}, loop_limit_s=0)
