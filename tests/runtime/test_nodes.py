"""Nodes: contexts, timeouts, cancellation, limits."""

import asyncio
import contextvars
import threading

import anyio
import pytest
import structlog

from actorgraph import (
    START,
    InMemorySaver,
    NodeTimeoutError,
    Send,
    StateGraph,
    get_config,
    get_stream_writer,
    interrupt,
)
from actorgraph.errors import GraphBuildError, NodeCancelledError, OutsideRunError
from tests.support.gates import PATIENCE_S, ThreadTurnstile, Turnstile, patient_group, settled
from tests.support.graphs import AB, at, in_a_row, side_by_side, writer

COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def fan_out(node, n: int, **options):
    """A graph that sends n tasks to one node."""
    builder = StateGraph(AB)
    builder.add_node("each", node, **options)
    builder.add_conditional_edges(START, lambda s: [Send("each", i) for i in range(n)])
    return builder.compile()


async def writes_bar(state):
    return {"bar": ["x"]}


class TestContext:
    @pytest.mark.parametrize("sync", [True, False])
    async def test_contextvars_of_a_node_do_not_leak(self, sync):
        """
        A contextvar set in one node is not set in the next one, nor in the caller.
        """
        seen: list[str] = []

        def paint(state):
            seen.append(COLOUR.get())
            COLOUR.set("red")

        async def apaint(state):
            paint(state)

        node = paint if sync else apaint
        COLOUR.set("caller's")
        await in_a_row({"a": node, "b": node, "c": node}).ainvoke({})

        assert seen == ["caller's"] * 3
        assert COLOUR.get() == "caller's"

    async def test_a_node_called_again_starts_afresh(self):
        """
        A node of a loop doesn't see what its last call set.
        """
        seen: list[str] = []

        async def paint(state):
            seen.append(COLOUR.get())
            COLOUR.set("red")
            return {"bar": ["x"]}

        builder = StateGraph(AB).add_node("paint", paint)
        builder.add_edge(START, "paint")
        builder.add_conditional_edges(
            "paint", lambda s: "paint" if len(s["bar"]) < 4 else "__end__", ["paint", "__end__"]
        )
        await builder.compile().ainvoke({})

        assert seen == ["none"] * 4

    @pytest.mark.parametrize("sync", [True, False])
    async def test_structlog_contexts_work_in_nodes(self, sync):
        """
        Values that the caller bound to structlog's context are bound in sync and async nodes.
        """
        seen: list[dict] = []

        def look(state):
            seen.append(structlog.contextvars.get_contextvars())

        async def alook(state):
            look(state)

        with structlog.contextvars.bound_contextvars(request="r1"):
            await in_a_row({"look": look if sync else alook}).ainvoke({})

        assert seen == [{"request": "r1"}]

    @pytest.mark.langgraph("F-C18")
    @pytest.mark.parametrize("sync", [True, False])
    async def test_get_config_is_the_callers_with_the_tasks_place(self, sync):
        """
        A node reads the call's config, with its own namespace below the run's and its place in
        the metadata; the run's name and id are not for what the node calls.
        """
        seen: list[dict] = []

        def look(state):
            seen.append(get_config())

        async def alook(state):
            look(state)

        graph = in_a_row({"look": look if sync else alook}, checkpointer=InMemorySaver())
        await graph.ainvoke({}, {**at("t7"), "metadata": {"user": "ada"}, "run_name": "r"})
        namespace = seen[0]["configurable"]["checkpoint_ns"]

        assert seen[0]["metadata"] == {
            "user": "ada",
            "thread_id": "t7",
            "langgraph_step": 1,
            "langgraph_node": "look",
            "langgraph_triggers": ("branch:to:look",),
            "langgraph_path": ("__pregel_pull", "look"),
            "langgraph_checkpoint_ns": namespace,
        }
        assert "run_name" not in seen[0]
        assert seen[0]["configurable"]["thread_id"] == "t7"
        assert seen[0]["configurable"]["checkpoint_ns"].startswith("look:")

    async def test_a_task_started_by_a_node_belongs_to_it(self):
        """
        Tasks and threads that a node starts can write to its stream.
        """

        async def node(state):
            async def child() -> None:
                get_stream_writer()("child")
                await anyio.to_thread.run_sync(lambda: get_stream_writer()("thread"))

            async with anyio.create_task_group() as group:
                group.start_soon(child)

        stream = in_a_row({"node": node}).astream({}, stream_mode="custom")

        assert [chunk async for chunk in stream] == ["child", "thread"]

    @pytest.mark.parametrize(
        "function",
        [lambda: interrupt("?"), get_config, get_stream_writer],
        ids=lambda f: f.__qualname__,
    )
    async def test_outside_of_a_node_they_say_so(self, function):
        """
        interrupt, get_config and get_stream_writer are for code inside nodes.
        """
        with pytest.raises(OutsideRunError, match="outside of a node"):
            function()


class TestThreads:
    async def test_a_sync_node_does_not_block_the_loop(self):
        """
        While a sync node works in its thread, other tasks of the loop run.
        """
        node = ThreadTurnstile({"foo": "done"})
        ticks = 0

        async with patient_group() as group:

            async def run() -> None:
                nonlocal ticks
                while not node.entered_thread.is_set():
                    await anyio.lowlevel.checkpoint()
                for _ in range(100):
                    ticks += 1
                    await anyio.lowlevel.checkpoint()
                node.out_thread.set()

            group.start_soon(run)
            result = await in_a_row({"node": node.__call__}).ainvoke({})

        assert (ticks, result["foo"]) == (100, "done")

    async def test_a_hundred_sync_nodes_run_at_once(self):
        """
        More sync nodes than anyio's default of 40 threads may wait for each other.
        """
        barrier = threading.Barrier(100)

        def node(state):
            barrier.wait(PATIENCE_S)
            return {"bar": ["x"]}

        result = await fan_out(node, 100).ainvoke({})

        assert result["bar"] == ["x"] * 100

    async def test_a_cancelled_sync_node_is_abandoned(self):
        """
        A cancelled call doesn't wait for a sync node's thread, and its result is dropped.
        """
        node = ThreadTurnstile({"foo": "late"})
        graph = in_a_row({"node": node.__call__}, checkpointer=InMemorySaver())

        async with patient_group() as group:
            group.start_soon(graph.ainvoke, {}, at())
            await anyio.to_thread.run_sync(node.entered_thread.wait, PATIENCE_S)
            group.cancel_scope.cancel()
        state = await graph.aget_state(at())
        node.out_thread.set()

        assert node.closed == 0
        assert (state.next, state.values) == (("node",), {"bar": []})


class TestTimeouts:
    async def test_a_node_that_takes_too_long_fails(self):
        """
        `timeout=` ends the call with NodeTimeoutError, and the node is cancelled.
        """
        slow = Turnstile()
        builder = StateGraph(AB).add_node("slow", slow, timeout=0.01).add_edge(START, "slow")

        with pytest.raises(NodeTimeoutError, match=r"'slow'.*0\.01 s"):
            await builder.compile().ainvoke({})

        assert slow.closed == 1

    async def test_a_fast_node_is_left_alone(self):
        """
        A timeout that isn't reached changes nothing.
        """
        builder = StateGraph(AB).add_node("a", writer("a"), timeout=PATIENCE_S)
        graph = builder.add_edge(START, "a").compile()

        assert (await graph.ainvoke({}))["bar"] == ["a"]

    async def test_a_send_has_a_timeout_of_its_own(self):
        """
        `Send(timeout=)` bounds one task.
        """
        slow = Turnstile()
        builder = StateGraph(AB).add_node("slow", slow)
        builder.add_conditional_edges(START, lambda s: [Send("slow", 1, timeout=0.01)])

        with pytest.raises(NodeTimeoutError):
            await builder.compile().ainvoke({})

    def test_a_sync_node_takes_no_timeout(self):
        """
        A thread can't be stopped, so the timeout of a sync node is refused.
        """
        with pytest.raises(GraphBuildError, match="timeout"):
            StateGraph(AB).add_node("a", lambda s: None, timeout=1)

    async def test_a_timeout_error_of_the_nodes_own_is_its_error(self):
        """
        A TimeoutError that the node raises itself is not taken for the run's.
        """

        async def node(state):
            with anyio.fail_after(0):
                await anyio.sleep_forever()

        builder = StateGraph(AB).add_node("node", node, timeout=PATIENCE_S)
        with pytest.raises(TimeoutError) as raised:
            await builder.add_edge(START, "node").compile().ainvoke({})

        assert not isinstance(raised.value, NodeTimeoutError)


class TestCancellation:
    @pytest.mark.langgraph("F-C14")
    def test_a_node_that_raises_the_cancellation_itself_fails(self):
        """
        An unrequested CancelledError is the node's error; trio has none to raise.
        """

        async def node(state):
            raise asyncio.CancelledError

        with pytest.raises(NodeCancelledError, match="'node'"):
            asyncio.run(in_a_row({"node": node}).ainvoke({}))

    async def test_a_scope_inside_a_node_is_its_own_affair(self):
        """
        A node may cancel a scope of its own and go on.
        """

        async def node(state):
            with anyio.move_on_after(0):
                await anyio.sleep_forever()
            return {"foo": "went on"}

        assert (await in_a_row({"node": node}).ainvoke({}))["foo"] == "went on"

    @pytest.mark.langgraph("F-C15")
    async def test_cancelling_the_call_ends_every_task(self):
        """
        After a cancellation from outside no task of the run lives, and each node cleaned up.
        """
        nodes = {name: Turnstile() for name in "abc"}
        async with patient_group() as group:
            group.start_soon(side_by_side(nodes).ainvoke, {})
            for node in nodes.values():
                await node.entered.wait()
            group.cancel_scope.cancel()

        assert [node.closed for node in nodes.values()] == [1, 1, 1]

    async def test_a_deadline_around_the_call_is_a_cancellation(self):
        """
        `move_on_after` around `ainvoke` ends the run, and the thread can go on.
        """
        slow = Turnstile({"bar": ["slow"]})
        graph = in_a_row({"slow": slow}, checkpointer=InMemorySaver())

        with anyio.move_on_after(0.01) as scope:
            await graph.ainvoke({}, at())
        slow.out.set()
        result = await graph.ainvoke(None, at())

        assert scope.cancelled_caught
        assert result["bar"] == ["slow"]


class TestLimits:
    @pytest.mark.parametrize("where", ["run", "node"])
    async def test_max_concurrency_bounds_the_tasks(self, where):
        """
        No more tasks run at once than `max_concurrency` of the run, or of the node, allows.
        """
        running = most = 0

        async def node(state):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await settled(3)
            running -= 1
            return {"bar": ["x"]}

        graph = fan_out(node, 20, **({"max_concurrency": 3} if where == "node" else {}))
        config = {"max_concurrency": 3} if where == "run" else {}

        result = await graph.ainvoke({}, config)

        assert (most, len(result["bar"])) == (3, 20)

    async def test_without_a_limit_all_run_at_once(self):
        """
        The default is unbounded.
        """
        running = most = 0
        out = anyio.Event()

        async def node(state):
            nonlocal running, most
            running += 1
            most = max(most, running)
            if running == 50:
                out.set()
            await out.wait()

        async with patient_group():
            await fan_out(node, 50).ainvoke({})

        assert most == 50

    async def test_figures_of_the_run_and_its_nodes(self):
        """
        A stream's statistics count each node's calls, and how many ran at once.
        """
        graph = fan_out(writes_bar, 5)
        stream = graph.astream({})
        chunks = [chunk async for chunk in stream]
        figures = stream.statistics()

        assert len(chunks) == 5
        assert (figures.step, figures.running, figures.sent) == (1, 0, 0)
        assert (figures.nodes["each"].calls, figures.nodes["each"].running) == (5, 0)
        assert 1 <= figures.nodes["each"].running_max <= 5
