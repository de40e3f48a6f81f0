"""The errors themselves: their codes, what they carry, and that they can be copied."""

import copy

import pytest

from actorgraph import (
    ErrorCode,
    GraphDrained,
    GraphRecursionError,
    InvalidUpdateError,
    NodeCancelledError,
    NodeError,
    NodeTimeoutError,
)
from actorgraph.errors import GraphBubbleUp
from tests.support.graphs import in_a_row, side_by_side, writer


class TestCodes:
    @pytest.mark.langgraph("F-C26")
    async def test_two_writers_of_one_key(self):
        """
        Two values for a key without a reducer have LangGraph's code.
        """
        with pytest.raises(InvalidUpdateError) as raised:
            await side_by_side({"a": writer("a"), "b": writer("b")}).ainvoke({})

        assert raised.value.code is ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE

    @pytest.mark.langgraph("F-C26")
    async def test_a_node_that_returns_no_update(self):
        """
        A value of which no update can be made has LangGraph's code.
        """

        async def node(state):
            return 3

        with pytest.raises(InvalidUpdateError) as raised:
            await in_a_row({"a": node}).ainvoke({})

        assert raised.value.code is ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE

    @pytest.mark.langgraph("F-C8", "F-C26")
    async def test_a_loop_without_end(self):
        """
        The recursion limit has LangGraph's code, and the error is a RecursionError.
        """
        with pytest.raises(GraphRecursionError) as raised:
            await in_a_row({"a": writer("a"), "b": writer("b")}).ainvoke({}, {"recursion_limit": 1})

        assert raised.value.code is ErrorCode.GRAPH_RECURSION_LIMIT
        assert isinstance(raised.value, RecursionError)


class TestWhatTheyCarry:
    @pytest.mark.langgraph("F-C26")
    def test_a_timeout_says_which_limit(self):
        """
        `timeout` is the limit that was exceeded.
        """
        options = {"do": "wait", "node": "a", "run_timeout": 3.0, "idle_timeout": 1.0}

        assert NodeTimeoutError("late", kind="run", **options).timeout == 3.0
        assert NodeTimeoutError("late", kind="idle", **options).timeout == 1.0

    @pytest.mark.langgraph("F-C26")
    @pytest.mark.parametrize(
        ("error", "name", "value"),
        [
            (NodeTimeoutError("late", do="wait", node="a", elapsed=2.5), "elapsed", 2.5),
            (NodeCancelledError("it did", do="don't", node="a"), "node", "a"),
            (GraphDrained("Graph drained: x", do="go on", reason="x"), "reason", "x"),
            (
                GraphRecursionError("deep", do="stop", code=ErrorCode.GRAPH_RECURSION_LIMIT),
                "code",
                ErrorCode.GRAPH_RECURSION_LIMIT,
            ),
        ],
    )
    def test_it_survives_a_copy(self, error, name, value):
        """
        An error that is taken apart and made again keeps its text, its advice and its attributes.
        """
        again = copy.copy(error)

        assert (type(again), str(again), getattr(again, name)) == (type(error), str(error), value)

    @pytest.mark.langgraph("F-C26")
    def test_a_drain_is_an_exception_that_bubbles_up(self):
        """
        Callers catch it as any error, or as what stops a node without failing it.
        """
        assert issubclass(GraphDrained, Exception)
        assert issubclass(GraphDrained, GraphBubbleUp)

    @pytest.mark.langgraph("F-C26")
    def test_a_node_error_is_data(self):
        """
        A handler gets an object that isn't an exception: node and error.
        """
        error = ValueError("boom")

        assert NodeError("a", error) == NodeError(node="a", error=error)
        assert not isinstance(NodeError("a", error), BaseException)
