"""Time limits of nodes: of a whole attempt, and of the time without progress."""

import asyncio
import math
import threading
from datetime import timedelta

import anyio
import pytest
from langchain_core.runnables import RunnableLambda

from actorgraph import (
    START,
    InMemorySaver,
    NodeTimeoutError,
    RetryPolicy,
    Send,
    StateGraph,
    TimeoutPolicy,
    get_stream_writer,
)
from actorgraph.errors import GraphBuildError, InvalidUpdateError
from actorgraph.runtime.run.attempts import Idle
from actorgraph.runtime.task.scope import CURRENT
from tests.support.gates import Box, Turnstile, patient_group
from tests.support.graphs import AB, at, in_a_row, writer

SHORT_S = 0.02
BEAT_S = 0.06
"""Between two signs of life, of which a busy machine may delay each by five more."""
SHORT = timedelta(seconds=SHORT_S)


def one(node, timeout, **options):
    """START -> node, with a timeout."""
    builder = StateGraph(AB).add_node("node", node, timeout=timeout, **options)
    return builder.add_edge(START, "node").compile()


class TestTheWholeAttempt:
    @pytest.mark.langgraph("F-C10")
    @pytest.mark.parametrize("limit", [SHORT_S, SHORT, TimeoutPolicy(run_timeout=SHORT)])
    async def test_a_number_a_timedelta_or_a_policy(self, limit):
        """
        Each form of `timeout` ends the call, and the error says what happened.
        """
        slow = Turnstile()

        with pytest.raises(NodeTimeoutError) as raised:
            await one(slow, limit).ainvoke({})

        error = raised.value
        assert (error.node, error.kind, error.timeout) == ("node", "run", SHORT_S)
        assert (error.run_timeout, error.idle_timeout) == (SHORT_S, None)
        assert error.elapsed >= SHORT_S * 0.9
        assert slow.closed == 1
        assert not isinstance(error, OSError)

    @pytest.mark.langgraph("F-C10")
    async def test_progress_does_not_put_it_off(self):
        """
        The limit of the whole attempt counts from its begin, whatever the node writes.
        """

        async def node(state):
            while True:
                get_stream_writer()("on")
                CURRENT.get().heartbeat()
                await anyio.sleep(SHORT_S / 10)

        with pytest.raises(NodeTimeoutError) as raised:
            await one(node, TimeoutPolicy(run_timeout=SHORT_S, idle_timeout=60)).ainvoke({})

        assert raised.value.kind == "run"

    @pytest.mark.langgraph("F-C9", "F-C10")
    async def test_each_attempt_has_its_own(self):
        """
        A node that was too slow is tried again by default, with the whole time anew.
        """
        calls: list[int] = []

        async def node(state):
            calls.append(CURRENT.get().attempt)
            if len(calls) == 1:
                await anyio.sleep_forever()
            return {"bar": ["in time"]}

        policy = RetryPolicy(initial_interval=0, jitter=False)
        result = await one(node, SHORT_S, retry_policy=policy).ainvoke({})

        assert (calls, result["bar"]) == ([1, 2], ["in time"])

    @pytest.mark.langgraph("F-C10")
    async def test_errors_raised_during_cancellation_do_not_count(self):
        """
        A node that raises an error of its own while it is stopped has timed out all the same.
        """

        async def node(state):
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("cleaning up")

        with pytest.raises(NodeTimeoutError) as raised:
            await one(node, SHORT_S).ainvoke({})

        assert isinstance(raised.value.__cause__, ValueError)

    async def test_a_cancelled_run_is_not_a_timeout(self):
        """
        A caller that cancels the run while a limited node works gets the cancellation.
        """
        slow = Turnstile()
        graph = in_a_row({"slow": slow}, checkpointer=InMemorySaver())

        async with patient_group() as group:
            group.start_soon(graph.ainvoke, {}, at())
            await slow.entered.wait()
            group.cancel_scope.cancel()

        assert (await graph.aget_state(at())).tasks[0].error is None


class TestIdleTime:
    def test_a_thread_of_another_kind_puts_it_off(self):
        """
        A sign of progress counts from any thread, without waiting for the event loop.
        """

        async def program() -> float:
            idle = Idle(SHORT_S)
            thread = threading.Thread(target=idle.touch)
            thread.start()
            thread.join()
            await asyncio.sleep(0)
            return idle.scope.deadline

        assert asyncio.run(program()) < math.inf

    @pytest.mark.langgraph("F-C10")
    async def test_a_node_without_progress_fails(self):
        """
        A node without visible progress for too long is ended.
        """
        with pytest.raises(NodeTimeoutError, match="no progress") as raised:
            await one(Turnstile(), TimeoutPolicy(idle_timeout=SHORT_S)).ainvoke({})

        assert (raised.value.kind, raised.value.timeout) == ("idle", SHORT_S)

    @pytest.mark.langgraph("F-C10")
    @pytest.mark.parametrize("how", ["write", "heartbeat", "heartbeat in a thread", "graph"])
    async def test_progress_puts_it_off(self, how):
        """
        Writing to a stream, running a graph and a heartbeat each start the idle time anew.
        """
        inner = in_a_row({"a": writer("a")})

        async def node(state):
            for _ in range(8):
                await anyio.sleep(BEAT_S)
                if how == "write":
                    get_stream_writer()("on")
                elif how == "heartbeat":
                    CURRENT.get().heartbeat()
                elif how == "graph":
                    await inner.ainvoke({})
                else:
                    await anyio.to_thread.run_sync(CURRENT.get().heartbeat)
            return {"bar": ["done"]}

        result = await one(node, TimeoutPolicy(idle_timeout=BEAT_S * 6)).ainvoke({})

        assert result["bar"] == ["done"]

    @pytest.mark.langgraph("F-C10")
    @pytest.mark.parametrize("refresh_on", ["auto", "heartbeat"])
    async def test_langchain_s_callbacks_put_it_off(self, refresh_on):
        """
        Callbacks of LangChain's runnables in the node count as progress, unless it is not to.
        """
        runnable = RunnableLambda(lambda text: text.upper())

        async def node(state):
            for _ in range(8):
                await anyio.sleep(BEAT_S)
                runnable.invoke("on")
            return {"bar": ["done"]}

        graph = one(node, TimeoutPolicy(idle_timeout=BEAT_S * 6, refresh_on=refresh_on))
        if refresh_on == "auto":
            assert (await graph.ainvoke({}))["bar"] == ["done"]
        else:
            with pytest.raises(NodeTimeoutError):
                await graph.ainvoke({})

    @pytest.mark.langgraph("F-C10")
    async def test_progress_in_a_graph_below_counts(self):
        """
        A node that runs a graph makes progress whenever a node of that one does.
        """

        async def step(state):
            await anyio.sleep(BEAT_S * 2)

        inner = in_a_row(dict.fromkeys("abcd", step))

        async def node(state):
            await inner.ainvoke({})
            return {"bar": ["done"]}

        result = await one(node, TimeoutPolicy(idle_timeout=BEAT_S * 7)).ainvoke({})

        assert result["bar"] == ["done"]

    @pytest.mark.langgraph("F-C10")
    async def test_only_a_heartbeat_counts_if_so_asked(self):
        """
        With refresh_on="heartbeat" the writes of a node don't count as progress.
        """

        async def node(state):
            while True:
                get_stream_writer()("on")
                await anyio.sleep(SHORT_S / 10)

        policy = TimeoutPolicy(idle_timeout=SHORT_S, refresh_on="heartbeat")
        with pytest.raises(NodeTimeoutError) as raised:
            await one(node, policy).ainvoke({})

        assert raised.value.kind == "idle"


class TestAfterwards:
    @pytest.mark.langgraph("F-C10", "L47")
    async def test_late_writes_are_dropped(self):
        """
        A task that a timed out node left running can neither write to the stream nor start graphs.
        """
        over, late = anyio.Event(), Box()
        inner = in_a_row({"a": writer("a")})

        async def straggler() -> None:
            send = get_stream_writer()
            await over.wait()
            send("late")
            await inner.ainvoke({})

        async with patient_group() as group:

            async def node(state):
                group.start_soon(late.fill, straggler)
                try:
                    await anyio.sleep_forever()
                finally:
                    left.append(1)

            left: list[int] = []
            stream = one(node, SHORT_S).astream({}, stream_mode="custom")
            with pytest.raises(NodeTimeoutError):
                await anext(stream)
            over.set()
            await late.done.wait()

        assert left == [1]
        assert "after its attempt had ended" in str(late.error)


class TestRefused:
    @pytest.mark.parametrize(
        ("timeout", "text"),
        [
            (0, "must be greater than 0"),
            (timedelta(0), "must be greater than 0"),
            (TimeoutPolicy(idle_timeout=-1), "idle_timeout must be greater than 0"),
            (float("nan"), "must be greater than 0"),
            ("fast", "must be greater than 0"),
            (TimeoutPolicy(run_timeout=1, refresh_on="never"), "refresh_on"),
        ],
    )
    def test_a_limit_that_makes_no_sense(self, timeout, text):
        """
        `add_node` refuses a limit that isn't a positive time, and names the node.
        """
        with pytest.raises(GraphBuildError, match=f"(?s)'node'.*{text}"):
            one(writer("a"), timeout)

    @pytest.mark.langgraph("F-C10")
    @pytest.mark.parametrize("timeout", [1, TimeoutPolicy(idle_timeout=1)])
    def test_a_sync_node_takes_no_timeout(self, timeout):
        """
        A thread can't be stopped, so a limit for a sync node is refused where it is declared.
        """
        with pytest.raises(GraphBuildError, match="a thread can't be stopped"):
            one(lambda state: None, timeout)

    @pytest.mark.langgraph("F-C4", "F-C10")
    async def test_a_send_takes_none_to_a_sync_node(self):
        """
        A Send with a timeout to a sync node fails the task that sends it.
        """
        builder = StateGraph(AB).add_node("node", lambda state: None)
        builder.add_conditional_edges(START, lambda s: [Send("node", 1, timeout=1)])

        with pytest.raises(InvalidUpdateError, match="with a timeout"):
            await builder.compile().ainvoke({})

    @pytest.mark.langgraph("F-C4")
    async def test_a_sends_policy_is_stored_with_it(self, saver):
        """
        A Send's limit is a policy, in whatever form it was given, and survives the store.
        """
        sent = Send("node", 1, timeout=timedelta(seconds=60))
        builder = StateGraph(AB).add_node("node", Turnstile())
        builder.add_conditional_edges(START, lambda s: [sent])
        graph = builder.compile(checkpointer=saver, interrupt_before=["node"])

        await graph.ainvoke({}, at())
        stored = (await saver.aget_tuple(at())).checkpoint["channel_values"]

        assert sent.timeout == TimeoutPolicy(run_timeout=60.0)
        assert stored["__pregel_tasks"] == [sent]
