"""Deferred nodes, and the channels behind them."""

import json
from dataclasses import asdict
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import END, START, Overwrite, Send, StateGraph
from actorgraph.channels import (
    EMPTY,
    UNCHANGED,
    BinaryOperatorAggregate,
    LastValueAfterFinish,
    NamedBarrierValueAfterFinish,
)
from actorgraph.codec import Codec
from actorgraph.errors import InvalidUpdateError
from tests.support.graphs import at, history


class Log(TypedDict, total=False):
    log: Annotated[list[str], add]


def says(name: str):
    async def node(state: Log) -> dict[str, Any]:
        return {"log": [name]}

    return node


def diamond(defer: bool, checkpointer: Any = None):
    """`a` leads to `last` at once, and to it through `b` and `c`."""
    builder = StateGraph(Log)
    for name in "abc":
        builder.add_node(name, says(name))
    builder.add_node("last", says("last"), defer=defer)
    edges = [(START, "a"), ("a", "last"), ("a", "b"), ("b", "c"), ("c", "last"), ("last", END)]
    for start, end in edges:
        builder.add_edge(start, end)
    return builder.compile(checkpointer=checkpointer)


class TestDefer:
    @pytest.mark.langgraph("F-A7", "L18")
    async def test_a_deferred_node_waits_for_the_rest(self, saver):
        """
        A deferred node runs once, when no other node would run next.
        """
        at_once = await diamond(defer=False).ainvoke({"log": []})
        deferred = await diamond(defer=True, checkpointer=saver).ainvoke({"log": []}, at())

        assert at_once["log"] == ["a", "b", "last", "c", "last"]
        assert deferred["log"] == ["a", "b", "c", "last"]

    @pytest.mark.langgraph("L110")
    async def test_a_deferred_node_waits_for_sends(self):
        """
        It waits for Sends that are on their way too.
        """
        builder = StateGraph(Log)
        for name in "ab":
            builder.add_node(name, says(name))
        builder.add_node("last", says("last"), defer=True)
        builder.add_edge(START, "a").add_edge("a", "last")
        builder.add_conditional_edges("a", lambda _: [Send("b", {}), Send("b", {})], ["b"])

        result = await builder.compile().ainvoke({"log": []})

        assert result["log"] == ["a", "b", "b", "last"]

    @pytest.mark.langgraph("F-B12")
    async def test_a_deferred_join(self, saver):
        """
        A deferred node behind a join waits for its names and for the rest.
        """
        builder = StateGraph(Log)
        for name in "abcd":
            builder.add_node(name, says(name))
        builder.add_node("last", says("last"), defer=True)
        edges = [(START, "a"), (START, "b"), (["a", "b"], "last"), ("a", "c"), ("c", "d")]
        for start, end in edges:
            builder.add_edge(start, end)
        graph = builder.compile(checkpointer=saver)

        result = await graph.ainvoke({"log": []}, at())

        assert result["log"] == ["a", "b", "c", "d", "last"]
        nexts = [s.next for s in await history(graph, at())]
        assert nexts == [(), ("last",), ("d",), ("c",), ("a", "b"), ("__start__",)]

    @pytest.mark.langgraph("L18")
    async def test_it_may_run_in_each_round(self):
        """
        A deferred node that leads back runs again once the next round is over.
        """
        builder = StateGraph(Log)
        builder.add_node("a", says("a")).add_node("b", says("b"))
        builder.add_node("last", says("last"), defer=True)
        builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "last")
        builder.add_conditional_edges(
            "last", lambda s: "a" if s["log"].count("last") < 2 else END, ["a", END]
        )

        result = await builder.compile().ainvoke({"log": []})

        assert result["log"] == ["a", "b", "last", "a", "b", "last"]


class TestLastValueAfterFinish:
    @pytest.mark.langgraph("F-B3", "L25")
    def test_is_seen_only_after_finish(self):
        """
        A value is hidden until finish, hidden again by a new write, gone once consumed.
        """
        rule = LastValueAfterFinish(int)
        written = rule.fold("k", EMPTY, [1, 2])
        finished = rule.finish(written)
        rewritten = rule.fold("k", finished, [3])

        seen = [rule.read(cell) for cell in (EMPTY, written, finished, rewritten)]
        assert seen == [EMPTY, EMPTY, 2, EMPTY]
        assert rule.consume(finished) is EMPTY
        assert rule.consume(written) is rule.finish(finished) is rule.finish(EMPTY) is UNCHANGED


class TestBarrierAfterFinish:
    @pytest.mark.langgraph("F-B12", "L25")
    def test_opens_with_all_names_and_finish(self):
        """
        It needs all names, then finish; a repeated name doesn't close it.
        """
        rule = NamedBarrierValueAfterFinish(str, ["a", "b"])
        one = rule.fold("k", EMPTY, ["a"])
        both = rule.fold("k", one, ["b"])
        finished = rule.finish(both)

        assert (
            rule.finish(one) is rule.finish(EMPTY) is rule.fold("k", finished, ["a"]) is UNCHANGED
        )
        assert [rule.read(cell) for cell in (one, both, finished)] == [EMPTY, EMPTY, None]
        assert rule.consume(both) is UNCHANGED
        assert rule.consume(finished) is EMPTY
        with pytest.raises(InvalidUpdateError, match="not in"):
            rule.fold("k", both, ["c"])


class TestOverwrite:
    @pytest.mark.langgraph("F-B10", "L21", "L114")
    @pytest.mark.parametrize(
        "write",
        [
            Overwrite([9]),
            {"__overwrite__": [9]},
            {"value": [9], "type": "__overwrite__"},
            json.loads(json.dumps(asdict(Overwrite([9])))),
        ],
    )
    @pytest.mark.parametrize("before", [EMPTY, [1]])
    def test_replaces_the_value_and_the_other_writes(self, write, before):
        """
        An Overwrite in any form replaces the value, whatever else is written, and in whatever
        order.
        """
        rule = BinaryOperatorAggregate(list, add)

        assert rule.fold("k", before, [[2], write, [3]]) == [9]

    @pytest.mark.langgraph("F-B10")
    def test_two_are_refused(self):
        """
        Two Overwrites of one superstep are refused.
        """
        with pytest.raises(InvalidUpdateError, match="only one Overwrite"):
            BinaryOperatorAggregate(list, add).fold("k", [1], [Overwrite([2]), Overwrite([3])])

    @pytest.mark.langgraph("L114")
    def test_a_first_write_without_a_default(self):
        """
        The first write to a channel without a default stores the value, not the Overwrite.
        """

        class Odd:
            def __init__(self, needed: int) -> None:
                self.needed = needed

        assert BinaryOperatorAggregate(Odd, add).fold("k", EMPTY, [Overwrite([5])]) == [5]

    @pytest.mark.langgraph("F-B10")
    async def test_travels_through_a_run(self, saver):
        """
        A node's Overwrite is stored with its writes and folded once.
        """

        async def node(state: Log) -> dict[str, Any]:
            return {"log": Overwrite(["only"])}

        builder = StateGraph(Log).add_node("a", says("a")).add_node("node", node)
        builder.add_edge(START, "a").add_edge("a", "node")
        graph = builder.compile(checkpointer=saver)
        codec = Codec()

        assert (await graph.ainvoke({"log": ["in"]}, at()))["log"] == ["only"]
        assert codec.decode(codec.encode(Overwrite((1, 2)), "x")) == Overwrite((1, 2))
