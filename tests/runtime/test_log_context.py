"""The ids that nodes' log lines have, and that nothing is said to who has not asked."""

import subprocess
import sys
from typing import Any

import anyio
import pytest
import structlog
from structlog.testing import capture_logs

from actorgraph import ActorSystem, InMemorySaver, RetryPolicy, StateGraph
from tests.support.graphs import AB, ab, at, in_a_row
from tests.support.structlog_setup import configured

__all__ = ["configured"]


class Seen(list[dict[str, Any]]):
    """The bound values at each look."""

    def look(self) -> None:
        self.append(dict(structlog.contextvars.get_contextvars()))


@pytest.mark.usefixtures("configured")
class TestBound:
    async def test_nodes_tasks_and_threads_have_the_ids(self):
        """
        Log lines of async and sync nodes, of their tasks and worker threads have thread, run, node
        and step; the caller keeps what it had.
        """
        seen = Seen()

        async def first(state):
            seen.look()
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, seen.look)

        def second(state):
            seen.look()

        graph = in_a_row({"first": first, "second": second}, checkpointer=InMemorySaver())
        with capture_logs(), structlog.contextvars.bound_contextvars(request="r1"):
            await graph.ainvoke({"bar": []}, at())
            after = dict(structlog.contextvars.get_contextvars())

        run_id = (await graph.aget_state(at())).metadata["run_id"]
        ids = {"request": "r1", "thread_id": "t", "run_id": run_id}
        one, two = {**ids, "node": "first", "step": 1}, {**ids, "node": "second", "step": 2}
        assert seen == [one, one, two]
        assert after == {"request": "r1"}

    async def test_runs_of_a_system_have_the_ids(self):
        """
        A run that outlives who started it has its own ids, and leaves none behind.
        """
        seen = Seen()

        async def node(state):
            seen.look()

        with capture_logs():
            async with ActorSystem({"g": in_a_row({"node": node})}) as system:
                run = await system.start("g", "t", {"bar": []})
                await run.result()

        assert seen == [{"thread_id": "t", "run_id": run.id, "node": "node", "step": 1}]
        assert structlog.contextvars.get_contextvars() == {}

    async def test_a_graph_inside_names_its_own_nodes(self):
        """
        In a graph that a node runs, thread and run are those of the whole, node and step its own.
        """
        seen = Seen()

        async def inner(state):
            seen.look()

        async def outer(state):
            await in_a_row({"pad": lambda state: None, "inner": inner}).ainvoke({"bar": []})
            seen.look()

        graph = in_a_row({"outer": outer}, checkpointer=InMemorySaver())
        with capture_logs():
            await graph.ainvoke({"bar": []}, at())

        inside, outside = seen
        assert [(s["node"], s["step"]) for s in seen] == [("inner", 2), ("outer", 1)]
        assert inside["run_id"] == outside["run_id"]
        assert inside["thread_id"] == outside["thread_id"] == "t"

    async def test_our_own_events_have_them(self):
        """
        A retry, and a run that has left, are logged with the ids that find them again.
        """
        calls = []

        async def shaky(state):
            calls.append(1)
            if len(calls) == 1:
                raise ConnectionError

        builder = StateGraph(AB)
        policy = RetryPolicy(initial_interval=0, jitter=False)
        builder.add_node("shaky", shaky, retry_policy=policy).set_entry_point("shaky")
        graph = builder.compile(checkpointer=InMemorySaver())
        with capture_logs() as logs:
            await graph.ainvoke({"bar": []}, at())

        run_id = (await graph.aget_state(at())).metadata["run_id"]
        told = {entry["event"]: entry for entry in logs}
        place = {"thread_id": "t", "run_id": run_id, "step": 1, "log_level": "info"}
        assert told["node.retry"].items() >= {**place, "node": "shaky", "attempt": 1}.items()
        assert told["run.left"].items() >= {**place, "outcome": "Succeeded"}.items()


class TestSilent:
    async def test_nothing_is_bound_without_a_configuration(self):
        """
        Nothing is bound if structlog is not configured.
        """
        seen = Seen()

        async def node(state):
            seen.look()

        await in_a_row({"node": node}).ainvoke({"bar": []})
        async with ActorSystem({"g": in_a_row({"node": node})}) as system:
            await (await system.start("g", "t", {"bar": []})).result()

        assert seen == [{}, {}]

    async def test_below_warning_nothing_is_said(self, capfd):
        """
        A run that succeeds says nothing, on no channel, until the program configures structlog.
        """
        await ab(InMemorySaver()).ainvoke({"bar": []}, at())

        assert tuple(capfd.readouterr()) == ("", "")

    def test_structlog_is_not_even_imported(self):
        """
        A program that has nothing to say doesn't pay for what could say it.
        """
        program = """
import sys, anyio
from actorgraph import StateGraph
graph = StateGraph(dict).add_node("a", lambda s: {"x": 1}).set_entry_point("a").compile()
anyio.run(graph.ainvoke, {})
print("structlog" in sys.modules)
"""
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

        assert (done.stdout, done.stderr) == ("False\n", "")
