"""Nodes that are tried again: what an attempt starts with, and what of it is kept."""

from contextvars import ContextVar

import anyio
import httpx
import pytest

from actorgraph import (
    START,
    Command,
    InMemorySaver,
    RetryPolicy,
    Send,
    StateGraph,
    get_stream_writer,
    interrupt,
)
from actorgraph.errors import GraphBuildError
from actorgraph.runtime.task.scope import CURRENT
from tests.runtime.test_failures import Flaky
from tests.support.gates import PATIENCE_S, Box, patient_group
from tests.support.graphs import AB, at
from tests.support.subgraphs import Log, asks, says
from tests.support.virtual_time import in_virtual_time

COLOUR: ContextVar[str] = ContextVar("colour", default="none")
AT_ONCE = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)


def one(node, policy=AT_ONCE, *, schema=AB, saver=None, **options):
    """START -> node, with a retry policy."""
    builder = StateGraph(schema).add_node("node", node, retry_policy=policy, **options)
    return builder.add_edge(START, "node").compile(checkpointer=saver)


def refused(seconds: str) -> Exception:
    """The error of a server that asks for a wait."""
    request = httpx.Request("GET", "http://server")
    response = httpx.Response(429, headers={"Retry-After": seconds}, request=request)
    return httpx.HTTPStatusError("too many", request=request, response=response)


class TestAttempts:
    @pytest.mark.langgraph("F-C9", "L43")
    @pytest.mark.parametrize("sync", [True, False])
    async def test_a_node_is_called_until_it_succeeds(self, sync):
        """
        Two failures and a success are one finished task.
        """
        flaky = Flaky(2)

        def node(state):
            flaky.calls += 1
            if flaky.calls < 3:
                raise ValueError("boom")
            return {"bar": ["mended"]}

        result = await one(node if sync else flaky).ainvoke({})

        assert (result["bar"], flaky.calls) == (["mended"], 3)

    @pytest.mark.langgraph("F-C9")
    async def test_the_last_attempts_error_is_the_runs(self):
        """
        When no attempt is left the error comes out, and names the task.
        """
        flaky = Flaky(9)

        with pytest.raises(ValueError, match="boom") as raised:
            await one(flaky).ainvoke({})

        assert flaky.calls == 3
        assert "'node'" in raised.value.__notes__[0]

    @pytest.mark.langgraph("F-C9")
    async def test_an_error_that_no_policy_takes_is_not_retried(self):
        """
        A policy for one class of errors leaves the others alone.
        """
        flaky = Flaky(9)

        with pytest.raises(ValueError, match="boom"):
            await one(flaky, [AT_ONCE._replace(retry_on=KeyError)]).ainvoke({})

        assert flaky.calls == 1

    @pytest.mark.langgraph("F-C9", "F-C19")
    async def test_each_attempt_has_a_context_of_its_own(self):
        """
        The context of an attempt is gone in the next, which knows its own number.
        """
        seen: list[tuple[int, str]] = []

        async def node(state):
            seen.append((CURRENT.get().attempt, COLOUR.get()))
            COLOUR.set("red")
            if len(seen) < 3:
                raise ValueError("boom")

        await one(node).ainvoke({})

        assert seen == [(1, "none"), (2, "none"), (3, "none")]

    @pytest.mark.langgraph("F-C9", "L36", "L43")
    async def test_results_of_a_failed_attempt_are_dropped(self):
        """
        An attempt that failed after the node had returned, in an edge, leaves no writes.
        """
        calls: list[str] = []

        async def node(state):
            calls.append("node")
            return {"bar": [f"attempt {len(calls)}"]}

        def edge(state):
            if len(calls) < 3:
                raise ValueError("boom")
            return "__end__"

        builder = StateGraph(AB).add_node("node", node, retry_policy=AT_ONCE)
        builder.add_edge(START, "node").add_conditional_edges("node", edge, ["__end__"])

        assert (await builder.compile().ainvoke({}))["bar"] == ["attempt 3"]

    async def test_tasks_of_one_node_are_retried_each_for_itself(self):
        """
        Of many Sends to one node those that fail are tried again, and no other.
        """
        calls: list[int] = []

        async def node(number):
            calls.append(number)
            if number % 2 and calls.count(number) < 2:
                raise ValueError("boom")
            return {"bar": [str(number)]}

        builder = StateGraph(AB).add_node("node", node, retry_policy=AT_ONCE)
        builder.add_conditional_edges(START, lambda s: [Send("node", i) for i in range(6)])
        result = await builder.compile().ainvoke({})

        assert result["bar"] == list("012345")
        assert sorted(calls) == [0, 1, 1, 2, 3, 3, 4, 5, 5]

    async def test_a_cancelled_run_does_not_wait_for_the_next_attempt(self):
        """
        A run cancelled while it waits for its next attempt leaves at once.
        """
        failed = anyio.Event()
        policy = AT_ONCE._replace(initial_interval=3600, max_interval=3600)

        async def node(state):
            failed.set()
            raise ValueError("boom")

        saver = InMemorySaver()
        graph = one(node, policy, saver=saver)
        async with patient_group() as group:
            group.start_soon(graph.ainvoke, {}, at())
            await failed.wait()
            group.cancel_scope.cancel()

        assert (await graph.aget_state(at())).tasks[0].error is None

    def test_the_wait_that_a_server_asks_for_is_kept(self):
        """
        After a 429 the next attempt begins when the server said, beyond the policy's maximum.
        """
        called: list[float] = []

        async def node(state):
            called.append(anyio.current_time())
            if len(called) == 1:
                raise refused("600")
            return {"bar": ["mended"]}

        async def main() -> None:
            policy = RetryPolicy(max_interval=1, jitter=False)
            result = await one(node, policy).ainvoke({})
            assert result["bar"] == ["mended"]
            assert called[1] - called[0] == pytest.approx(600)

        in_virtual_time(main)

    async def test_a_deadline_before_the_servers_time_ends_the_attempts(self):
        """
        A run whose deadline would pass while it waits fails with the server's error at once.
        """
        calls: list[str] = []

        async def node(state):
            calls.append("call")
            raise refused("600")

        with anyio.fail_after(PATIENCE_S), pytest.raises(httpx.HTTPStatusError):
            await one(node, RetryPolicy()).ainvoke({}, deadline_s=60)

        assert calls == ["call"]

    async def test_a_sibling_that_fails_ends_the_wait(self):
        """
        A failure elsewhere ends a task that waits for its next attempt.
        """
        failed = anyio.Event()

        async def waits(state):
            failed.set()
            raise ValueError("first")

        policy = AT_ONCE._replace(initial_interval=3600, max_interval=3600)
        builder = StateGraph(AB).add_node("waits", waits, retry_policy=policy)
        builder.add_node("bad", Flaky(after=failed))
        builder.add_edge(START, "waits").add_edge(START, "bad")

        with pytest.raises(ValueError, match="boom"):
            await builder.compile().ainvoke({})


class TestQuestions:
    @pytest.mark.langgraph("F-C9", "L43")
    async def test_answers_stay_and_questions_count_anew(self):
        """
        An attempt after a failure gets the answers that the task has got already.
        """
        asked: list[str] = []

        async def node(state):
            answers = [interrupt("a?"), interrupt("b?")]
            asked.append("+".join(answers))
            if len(asked) == 1:
                raise ValueError("boom")
            return {"bar": answers}

        graph = one(node, saver=InMemorySaver())
        await graph.ainvoke({}, at())
        await graph.ainvoke(Command(resume="A"), at())
        result = await graph.ainvoke(Command(resume="B"), at())

        assert result["bar"] == ["A", "B"]
        assert asked == ["A+B", "A+B"]

    @pytest.mark.langgraph("F-C9", "L43")
    async def test_a_question_is_not_retried(self):
        """
        A node that asks has not failed, also where every error is to be retried.
        """
        calls: list[str] = []
        node = asks("n", calls, "who?")

        result = await one(
            node, AT_ONCE._replace(retry_on=lambda e: True), schema=Log, saver=InMemorySaver()
        ).ainvoke({}, at())

        assert calls == ["n"]
        assert [i.value for i in result["__interrupt__"]] == ["who?"]


class TestGraphsBelow:
    @pytest.mark.langgraph("F-C9", "L43", "L108")
    async def test_a_graph_that_is_run_again_goes_on_where_it_was(self, saver):
        """
        The next attempt of a node finds the graph that it ran where it stopped, at its own place.
        """
        log: list[str] = []
        flaky = Flaky(1)

        async def second(state):
            log.append("second")
            await flaky(state)
            return {"log": ["second"]}

        inner = StateGraph(Log).add_node("first", says("first", log)).add_node("second", second)
        inner.add_edge(START, "first").add_edge("first", "second")
        graph = one(inner.compile(), schema=Log, saver=saver)

        result = await graph.ainvoke({}, at())

        assert log == ["first", "second", "second"]
        assert result["log"] == ["first", "second"]


class TestStreams:
    async def test_chunks_of_a_failed_attempt_stay(self):
        """
        Chunks that readers have got are not taken back; updates come once.
        """
        flaky = Flaky(1)

        async def node(state):
            get_stream_writer()("working")
            return await flaky(state)

        stream = one(node).astream({}, stream_mode=["custom", "updates"])

        assert [chunk async for chunk in stream] == [
            ("custom", "working"),
            ("custom", "working"),
            ("updates", {"node": {"bar": ["mended"]}}),
        ]

    @pytest.mark.langgraph("L47")
    async def test_a_failed_attempt_writes_no_more(self):
        """
        A task that an attempt left running is not heard once that attempt is over.
        """
        flaky = Flaky(1)
        late = Box()

        async def straggler(writer) -> None:
            writer("late")

        async with patient_group() as group:

            async def node(state):
                if flaky.calls:
                    group.start_soon(late.fill, straggler, kept[0])
                    await late.done.wait()
                kept.append(get_stream_writer())
                return await flaky(state)

            kept: list = []
            stream = one(node).astream({}, stream_mode="custom")
            chunks = [chunk async for chunk in stream]

        assert late.done.is_set()
        assert chunks == []


class TestRefused:
    @pytest.mark.parametrize(
        ("policy", "text"),
        [
            ("often", "or a list of them, got 'often'"),
            ([AT_ONCE, 3], "or a list of them, got 3"),
            (AT_ONCE._replace(max_attempts=0), "max_attempts < 1"),
            (AT_ONCE._replace(initial_interval=-1), "negative number"),
            (AT_ONCE._replace(retry_on="ValueError"), "invalid retry_on 'ValueError'"),
            (AT_ONCE._replace(retry_on=[ValueError, 3]), "invalid retry_on"),
            (AT_ONCE._replace(retry_on=str), "must be a subclass of Exception"),
        ],
    )
    def test_a_policy_that_makes_no_sense(self, policy, text):
        """
        `add_node` refuses a value that isn't a policy, or one with numbers out of range.
        """
        with pytest.raises(GraphBuildError, match=text):
            StateGraph(AB).add_node("node", Flaky(), retry_policy=policy)
