"""astream_events(version="v2"): what starts, streams and ends, under LangChain's names.

On asyncio LangChain makes the events here, on trio this library does.
"""

from operator import add
from typing import Annotated, Any, TypedDict

import langchain_core.runnables  # noqa: F401 - events are LangChain's where it is loaded
import pytest

from actorgraph import InMemorySaver, get_message_writer
from tests.support.gates import Turnstile, patient_group
from tests.support.graphs import ab, at, in_a_row, writer

A = {"foo": "a", "bar": ["a"]}


class Piece:
    """A piece of a message."""

    type = "ai"

    def __init__(self, content: str) -> None:
        self.content = content
        self.id = "m1"

    def __add__(self, other: "Piece") -> "Piece":
        return Piece(self.content + other.content)


class Talk(TypedDict):
    """A conversation."""

    messages: Annotated[list[Any], add]


async def speak(state):
    """A node that runs a model of its own."""
    write = get_message_writer()
    for text in ("hel", "lo"):
        write(Piece(text), {"ls_provider": "mine"})
    return {"messages": [Piece("hello")]}


async def events(graph, given, config=None, **options) -> list:
    """All events."""
    return [e async for e in graph.astream_events(given, config, version="v2", **options)]


def short(told: list) -> list[tuple[str, str]]:
    """Each event's name and whose it is."""
    return [(e["event"].removeprefix("on_"), e["name"]) for e in told]


class TestSpans:
    @pytest.mark.langgraph("F-D16")
    async def test_graph_and_nodes_start_stream_and_end(self):
        """
        The graph is around its nodes, and streams each node's update.
        """
        told = await events(in_a_row({"a": writer("a")}), {"foo": "x"})

        assert short(told) == [
            ("chain_start", "LangGraph"),
            ("chain_start", "a"),
            ("chain_stream", "a"),
            ("chain_end", "a"),
            ("chain_stream", "LangGraph"),
            ("chain_end", "LangGraph"),
        ]
        assert [e["data"] for e in told] == [
            {"input": {"foo": "x"}},
            {"input": {"foo": "x", "bar": []}},
            {"chunk": A},
            {"input": {"foo": "x", "bar": []}, "output": A},
            {"chunk": {"a": A}},
            {"output": A},
        ]

    @pytest.mark.langgraph("F-D16")
    async def test_v2_is_the_default(self):
        """
        Without a version the events are those of version 2.
        """
        told = [e async for e in ab().astream_events({"foo": "x"})]

        assert told[0]["event"] == "on_chain_start"

    @pytest.mark.langgraph("F-D16")
    async def test_ids_tags_and_metadata(self):
        """
        A node's parent is its graph; tags and metadata are the caller's and the step's.
        """
        config = {"tags": ["t"], "metadata": {"user": "u"}}
        told = await events(ab(), {"foo": "x"}, config)
        graph, a = told[:2]

        assert (graph["parent_ids"], a["parent_ids"]) == ([], [graph["run_id"]])
        assert (graph["tags"], a["tags"]) == (["t"], ["graph:step:1", "t"])
        assert graph["metadata"]["user"] == "u"
        assert (a["metadata"]["langgraph_node"], a["metadata"]["user"]) == ("a", "u")

    @pytest.mark.langgraph("F-D16")
    async def test_a_model_is_a_span_in_its_node(self):
        """
        Pieces are `on_chat_model_stream`, joined at the model's end; the message that the node
        returns is none.
        """
        told = await events(in_a_row({"speak": speak}, schema=Talk), {"messages": []})
        model = [e for e in told if "chat_model" in e["event"]]

        assert short(model) == [
            ("chat_model_start", "mine"),
            *[("chat_model_stream", "mine")] * 2,
            ("chat_model_end", "mine"),
        ]
        assert model[-1]["data"]["output"].content == "hello"
        assert model[0]["parent_ids"] == [told[0]["run_id"], told[1]["run_id"]]

    @pytest.mark.langgraph("F-D16")
    async def test_a_graph_in_a_node_is_inside_of_it(self):
        """
        A nested graph is a span of its own, between its node's start and end.
        """
        inner = in_a_row({"a": writer("a")})
        inner.name = "Inner"
        told = await events(in_a_row({"sub": inner}), {"foo": "x"})

        assert short(told)[1:-2] == [
            ("chain_start", "sub"),
            ("chain_start", "Inner"),
            ("chain_start", "a"),
            ("chain_stream", "a"),
            ("chain_end", "a"),
            ("chain_end", "Inner"),
            ("chain_stream", "sub"),
            ("chain_end", "sub"),
        ]
        assert len(told[3]["parent_ids"]) == 3

    @pytest.mark.langgraph("F-D16")
    async def test_filters(self):
        """
        Names, types and tags include and exclude.
        """
        graph = in_a_row({"speak": speak}, schema=Talk)

        named = await events(graph, {"messages": []}, include_names=["speak"])
        models = await events(graph, {"messages": []}, include_types=["chat_model"])
        others = await events(graph, {"messages": []}, exclude_types=["chat_model"])

        assert {e["name"] for e in named} == {"speak"}
        assert len(models) == 4
        assert len(others) == 6

    async def test_an_error_ends_the_events(self):
        """
        The error of a node comes after its events; a failed call has no end event.
        """

        async def bad(state):
            raise ValueError("boom")

        stream = in_a_row({"bad": bad}).astream_events({"foo": "x"})
        told: list = []

        async def read() -> None:
            async for event in stream:
                told.append(event)  # noqa: PERF401 - what comes before the error counts

        with pytest.raises(ValueError, match="boom"):
            await read()
        assert short(told) == [("chain_start", "LangGraph"), ("chain_start", "bad")]

    async def test_leaving_early_ends_the_run(self):
        """
        A reader may leave; what was done is stored.
        """
        slow = Turnstile()
        graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=InMemorySaver())
        async with patient_group():
            async with graph.astream_events({}, at()) as stream:
                async for event in stream:
                    if event["name"] == "slow":
                        break
                await slow.entered.wait()
            state = await graph.aget_state(at())

        assert (slow.closed, state.next) == (1, ("slow",))
