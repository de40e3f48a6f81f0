"""Error handlers of nodes: what they get, what replaces the node's result, what a crash leaves."""

import threading

import pytest

from actorgraph import (
    END,
    START,
    Command,
    InMemorySaver,
    NodeError,
    RetryPolicy,
    Send,
    StateGraph,
    interrupt,
)
from actorgraph.errors import GraphBuildError, StoredNodeError
from tests.runtime.test_failures import Flaky
from tests.support.gates import Turnstile, patient_group
from tests.support.graphs import AB, at, count, history, writer

MODES = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


class Handler:
    """An error handler that says what it got.

    Attributes:
        seen: `(state, error)` of each call.
    """

    def __init__(self, answer=None, failures: int = 0) -> None:
        self.answer = answer or {"bar": ["handled"]}
        self.failures = failures
        self.seen: list[tuple[object, NodeError]] = []

    async def __call__(self, state, error: NodeError):
        self.seen.append((state, error))
        if len(self.seen) <= self.failures:
            raise KeyError("handler")
        return self.answer


def handled(node, handler, *, saver=None, after=("after",), **options):
    """START -> node -> the nodes after it, with an error handler; `other` is for Commands."""
    builder = StateGraph(AB).add_node("node", node, error_handler=handler, **options)
    builder.add_node("other", writer("other"))
    builder.add_edge(START, "node").add_edge("other", END)
    for name in after:
        builder.add_node(name, writer(name)).add_edge("node", name)
    return builder.compile(checkpointer=saver)


pytestmark = [
    pytest.mark.filterwarnings("ignore::actorgraph.UnreachableNodeWarning"),
    pytest.mark.first_case,
]


class TestInItsPlace:
    @pytest.mark.promise("D12")
    @pytest.mark.langgraph("F-C12", "L44")
    @pytest.mark.every_saver
    @MODES
    async def test_its_update_replaces_the_nodes(self, saver, durability):
        """
        The handler gets the node's input and its error; its update ends the superstep.
        """
        handler = Handler()
        graph = handled(Flaky(9), handler, saver=saver)

        result = await graph.ainvoke({"foo": "in"}, at(), durability=durability)

        (state, error), *more = handler.seen
        assert (result["bar"], more) == (["handled"], [])
        assert state == {"foo": "in", "bar": []}
        assert (error.node, repr(error.error)) == ("node", "ValueError('boom')")
        assert (await graph.aget_state(at())).next == ()

    @pytest.mark.langgraph("F-C12")
    async def test_the_nodes_edges_are_not_taken(self):
        """
        The successors of the node don't run, unless the handler says so.
        """
        result = await handled(Flaky(9), Handler()).ainvoke({})

        assert result["bar"] == ["handled"]

    @pytest.mark.langgraph("F-C12")
    async def test_its_command_goes_on_elsewhere(self):
        """
        A handler routes as a node does.
        """
        handler = Handler(Command(update={"bar": ["handled"]}, goto="other"))

        result = await handled(Flaky(9), handler).ainvoke({})

        assert result["bar"] == ["handled", "other"]

    @pytest.mark.langgraph("F-C12")
    async def test_a_sync_handler_in_a_thread(self):
        """
        A handler may be sync.
        """

        def handler(state, error):
            return {"bar": [str(error.error)]}

        assert (await handled(Flaky(9), handler).ainvoke({}))["bar"] == ["boom"]

    @pytest.mark.langgraph("F-C9", "F-C12")
    async def test_it_comes_after_the_last_attempt(self):
        """
        A node that is retried fails for good before its handler is called.
        """
        flaky, handler = Flaky(2), Handler()
        policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)

        await handled(flaky, handler, retry_policy=policy, after=()).ainvoke({})
        assert (flaky.calls, handler.seen) == (3, [])

        flaky.failures = 9
        await handled(flaky, handler, retry_policy=policy, after=()).ainvoke({})
        assert (flaky.calls, len(handler.seen)) == (6, 1)

    @pytest.mark.langgraph("F-C12", "L44")
    async def test_of_many_sends_each_failure_is_handled(self):
        """
        A handler gets the Send's argument; the others' writes keep their order.
        """

        async def node(number):
            if number % 2:
                raise ValueError(number)
            return {"bar": [str(number)]}

        async def handler(number, error: NodeError):
            return {"bar": [f"{number}:{error.error}"]}

        builder = StateGraph(AB).add_node("node", node, error_handler=handler)
        builder.add_conditional_edges(START, lambda s: [Send("node", i) for i in range(4)])

        assert (await builder.compile().ainvoke({}))["bar"] == ["0", "1:1", "2", "3:3"]

    @pytest.mark.langgraph("F-C12", "F-C13")
    async def test_siblings_go_on(self):
        """
        A handled failure cancels no other task; the superstep ends when all have finished.
        """
        slow, handler = Turnstile({"bar": ["slow"]}), Handler()

        async def handle(state, error):
            slow.out.set()
            return await handler(state, error)

        builder = StateGraph(AB).add_node("node", Flaky(9, slow.entered), error_handler=handle)
        builder.add_node("slow", slow).add_edge(START, "node").add_edge(START, "slow")
        async with patient_group():
            result = await builder.compile().ainvoke({})

        assert result["bar"] == ["handled", "slow"]

    @pytest.mark.langgraph("F-C12")
    async def test_a_question_is_not_a_failure(self, saver):
        """
        A node that asks is not handled.
        """

        async def node(state):
            return {"bar": [interrupt("who?")]}

        handler = Handler()
        graph = handled(node, handler, saver=saver)

        await graph.ainvoke({}, at())
        result = await graph.ainvoke(Command(resume="ada"), at())

        assert (result["bar"], handler.seen) == (["ada", "after"], [])

    @pytest.mark.langgraph("F-C12")
    async def test_streams_report_both(self):
        """
        Readers see the node's failure and the handler's update under its own name.
        """
        stream = handled(Flaky(9), Handler(), after=()).astream(
            {}, stream_mode=["updates", "tasks"]
        )
        chunks = [chunk async for chunk in stream]

        assert {"__error_handler__node": {"bar": ["handled"]}} in [
            c for m, c in chunks if m[0] == "u"
        ]
        ended = [(c["name"], c["error"]) for mode, c in chunks if mode == "tasks" and "error" in c]
        assert ended == [("node", "ValueError('boom')"), ("__error_handler__node", None)]


class TestItsOwnFailure:
    @pytest.mark.langgraph("F-C12", "L45")
    async def test_it_fails_the_run(self, saver):
        """
        The error of a handler isn't handled; a resume begins with the handler, not the node.
        """
        flaky, handler = Flaky(9), Handler(failures=1)
        graph = handled(flaky, handler, saver=saver)

        with pytest.raises(KeyError, match="handler"):
            await graph.ainvoke({}, at())
        shown = (await graph.aget_state(at())).tasks
        result = await graph.ainvoke(None, at())

        assert [(t.name, t.error) for t in shown] == [
            ("node", "ValueError('boom')"),
            ("__error_handler__node", "KeyError('handler')"),
        ]
        assert (result["bar"], flaky.calls, len(handler.seen)) == (["handled"], 1, 2)

    @pytest.mark.langgraph("F-C12", "L45")
    async def test_its_question_is_answered_as_any(self, saver):
        """
        A handler may ask; the answer reaches the handler, and the node isn't called again.
        """

        async def handler(state, error):
            return {"bar": [interrupt(f"what about {error.node}?")]}

        flaky = Flaky(9)
        graph = handled(flaky, handler, saver=saver)

        asked = await graph.ainvoke({}, at())
        waiting = (await graph.aget_state(at())).interrupts
        result = await graph.ainvoke(Command(resume="skip it"), at())

        assert [i.value for i in asked["__interrupt__"]] == ["what about node?"]
        assert [i.value for i in waiting] == ["what about node?"]
        assert (result["bar"], flaky.calls) == (["skip it"], 1)


class TestAfterACrash:
    @pytest.mark.langgraph("F-C12", "L44", "L45")
    @MODES
    async def test_a_cancelled_run_goes_on_with_the_handler(self, saver, durability):
        """
        The node failed, the run was cancelled: the next run calls the handler, with the text.
        """
        flaky, slow, handler = Flaky(9), Turnstile(), Handler()

        async def first(state, error):
            await slow(state)

        graph = handled(flaky, first, saver=saver)
        async with patient_group() as group:
            group.start_soon(lambda: graph.ainvoke({}, at(), durability=durability))
            await slow.entered.wait()
            group.cancel_scope.cancel()
        result = await handled(flaky, handler, saver=saver).ainvoke(None, at())

        error = handler.seen[0][1].error
        assert isinstance(error, StoredNodeError)
        assert "ValueError('boom')" in str(error)
        assert (result["bar"], flaky.calls) == (["handled"], 1)

    @pytest.mark.langgraph("F-C12", "L42")
    async def test_a_finished_handler_is_not_called_again(self, saver):
        """
        When a sibling fails after the handler has finished, only the sibling runs again.
        """
        handler, late = Handler(), Flaky(1)

        async def handle(state, error):
            made = await handler(state, error)
            slow.out.set()
            return made

        slow = Turnstile()

        async def sibling(state):
            await slow(state)
            return await late(state)

        builder = StateGraph(AB).add_node("node", Flaky(9, slow.entered), error_handler=handle)
        builder.add_node("sibling", sibling).add_edge(START, "node").add_edge(START, "sibling")
        graph = builder.compile(checkpointer=saver)
        async with patient_group():
            with pytest.raises(ValueError, match="boom"):
                await graph.ainvoke({}, at())
            between = await graph.aget_state(at())
            result = await graph.ainvoke(None, at())

        assert (between.next, between.values["bar"]) == (("sibling",), ["handled"])
        assert (result["bar"], len(handler.seen)) == (["handled", "mended"], 1)

    async def test_a_graph_without_the_handler_calls_the_node(self, saver):
        """
        A program that has dropped the handler runs the failed node again.
        """
        handler = Handler(failures=9)
        with pytest.raises(KeyError):
            await handled(Flaky(9), handler, saver=saver).ainvoke({}, at())

        result = await handled(Flaky(0), None, saver=saver).ainvoke(None, at())

        assert result["bar"] == ["mended", "after"]

    async def test_a_fork_begins_with_the_node(self, saver):
        """
        A checkpoint that is resumed from the past has nothing to handle.
        """
        flaky, handler = Flaky(9), Handler()
        graph = handled(flaky, handler, saver=saver)
        await graph.ainvoke({}, at())
        before = (await history(graph, at()))[1].config

        await graph.ainvoke(None, before)

        assert (flaky.calls, len(handler.seen)) == (2, 2)
        assert await count(graph, at()) > 3


class TestRefused:
    def test_a_handler_must_be_a_function(self):
        """
        `add_node` refuses what can't be called.
        """
        with pytest.raises(GraphBuildError, match="expected a function"):
            StateGraph(AB).add_node("node", Flaky(), error_handler=3)

    def test_a_node_with_a_handlers_name(self):
        """
        The names of handlers are reserved.
        """
        with pytest.raises(GraphBuildError, match="reserved"):
            StateGraph(AB).add_node("__error_handler__node", Flaky())


class TestBesideSiblings:
    @pytest.mark.parametrize("durability", [None, "sync", "async", "exit"])
    def test_it_begins_while_the_function_of_a_sibling_lasts(self, durability):
        """
        In a blocking call a handler begins when its node has failed, not when the siblings have
        ended; with a saver and without.
        """
        handled, told = threading.Event(), []

        def fail(_):
            raise ConnectionError("node")

        def handle(_):
            handled.set()
            return {"bar": ["handled"]}

        def last(_):
            told.append(handled.wait(30))
            return {"bar": ["lasted"]}

        builder = StateGraph(AB).add_node("fails", fail, error_handler=handle)
        builder.add_node("a_sibling", last).add_edge(START, "fails").add_edge(START, "a_sibling")
        saver = None if durability is None else InMemorySaver()
        options = {} if durability is None else {"durability": durability}

        result = builder.compile(checkpointer=saver).invoke({}, at(), **options)

        assert told == [True]
        assert sorted(result["bar"]) == ["handled", "lasted"]
