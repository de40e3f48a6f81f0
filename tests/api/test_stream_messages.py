"""stream_mode="messages": pieces of messages as models make them, and whole ones from nodes."""

from collections.abc import Iterator
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from langchain_core.language_models.fake_chat_models import (
    FakeMessagesListChatModel,
    GenericFakeChatModel,
)
from langchain_core.messages import AIMessage, HumanMessage

from actorgraph import Command, get_message_writer
from actorgraph.errors import OutsideRunError
from tests.support.graphs import compiled, in_a_row

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""LangChain's models can be awaited on asyncio only; its sync methods work on trio too."""

QUESTION = HumanMessage("how?", id="q1")
WORDS = ["hello", " ", "world"]


class Talk(TypedDict):
    """A conversation."""

    messages: Annotated[list[Any], add]


class Piece:
    """A piece of a message of no library."""

    type = "piece"

    def __init__(self, content: str, id: str | None = None) -> None:
        self.content = content
        self.id = id


def model(**options: Any) -> GenericFakeChatModel:
    """A LangChain model that says hello, in three pieces, again and again."""

    def answers() -> Iterator[AIMessage]:
        number = 0
        while True:
            number += 1
            yield AIMessage("hello world", id=f"a{number}")

    return GenericFakeChatModel(messages=answers(), **options)


async def told(graph, config=None, given=QUESTION, **options) -> list:
    """The chunks of the mode, for a conversation that begins with a question."""
    stream = graph.astream({"messages": [given]}, config, stream_mode="messages", **options)
    return [chunk async for chunk in stream]


def texts(chunks: list) -> list[str]:
    return [message.content for message, _ in chunks]


class TestModels:
    @pytest.mark.langgraph("F-D3")
    @on_asyncio
    async def test_an_async_node_streams_its_models_tokens(self):
        """
        A LangChain model that a node awaits is heard, though it was given no config.
        """
        speaker = model()

        async def node(state):
            return {"messages": [await speaker.ainvoke(state["messages"])]}

        chunks = await told(in_a_row({"node": node}, schema=Talk))

        assert texts(chunks) == WORDS  # and the whole message, streamed already, not again
        assert {message.id for message, _ in chunks} == {"a1"}

    @pytest.mark.promise("D12")
    @pytest.mark.langgraph("F-D3")
    async def test_a_sync_node_streams_its_models_tokens(self):
        """
        The same for a node in a worker thread.
        """
        speaker = model()

        def node(state):
            return {"messages": [speaker.invoke(state["messages"])]}

        assert texts(await told(in_a_row({"node": node}, schema=Talk))) == WORDS

    @on_asyncio
    async def test_a_model_with_the_nodes_config_is_heard_once(self):
        """
        Passing the node's config on is allowed and changes nothing.
        """
        speaker = model()

        async def node(state, config):
            return {"messages": [await speaker.ainvoke(state["messages"], config)]}

        assert texts(await told(in_a_row({"node": node}, schema=Talk))) == WORDS

    @pytest.mark.langgraph("F-D3")
    @on_asyncio
    async def test_a_model_that_does_not_stream_gives_the_whole_message(self):
        """
        One chunk, once, for a model that answers in one piece.
        """
        speaker = FakeMessagesListChatModel(responses=[AIMessage("all at once", id="a1")])

        async def node(state):
            return {"messages": [await speaker.ainvoke(state["messages"])]}

        assert texts(await told(in_a_row({"node": node}, schema=Talk))) == ["all at once"]

    @pytest.mark.langgraph("F-D3")
    @on_asyncio
    async def test_the_metadata_says_where_it_comes_from(self):
        """
        Step, node, triggers, path and namespace; the caller's and the node's metadata; the
        model's own; the caller's tags.
        """
        speaker = model(tags=["mine"])

        async def node(state):
            return {"messages": [await speaker.ainvoke(state["messages"])]}

        config = {"metadata": {"user": "u1"}, "tags": ["called"]}
        graph = in_a_row({"first": lambda _: None, "node": node}, schema=Talk)
        _, metadata = (await told(graph, config))[0]

        assert metadata["langgraph_step"] == 2
        assert metadata["langgraph_node"] == "node"
        assert metadata["langgraph_triggers"] == ("branch:to:node",)
        assert metadata["langgraph_path"] == ("__pregel_pull", "node")
        assert metadata["langgraph_checkpoint_ns"].startswith("node:")
        assert metadata["checkpoint_ns"] == metadata["langgraph_checkpoint_ns"]
        assert metadata["user"] == "u1"
        assert metadata["ls_model_type"] == "chat"
        assert sorted(metadata["tags"]) == ["called", "mine"]

    @pytest.mark.langgraph("F-D3", "F-D20")
    @on_asyncio
    async def test_nostream_silences_a_model(self):
        """
        A model with the tag `nostream` is not heard; what its node returns still is.
        """
        speaker = model(tags=["nostream"])

        async def node(state):
            return {"messages": [await speaker.ainvoke(state["messages"])]}

        chunks = await told(in_a_row({"node": node}, schema=Talk))

        assert texts(chunks) == ["hello world"]

    @on_asyncio
    async def test_two_models_at_once_keep_their_nodes(self):
        """
        Tokens of tasks that run side by side name their own node.
        """
        speaker = model()

        async def say(state):
            await speaker.ainvoke([QUESTION])

        edges = [("__start__", "a"), ("__start__", "b")]
        chunks = await told(compiled({"a": say, "b": say}, edges, schema=Talk))

        by_node = {
            name: [m.content for m, md in chunks if md["langgraph_node"] == name] for name in "ab"
        }
        assert by_node == {"a": WORDS, "b": WORDS}

    @pytest.mark.langgraph("F-D17")
    @on_asyncio
    async def test_tokens_come_while_the_node_runs(self):
        """
        A token is delivered before its node has ended: streaming is eager.
        """
        speaker, read = model(), anyio.Event()

        async def node(state):
            async for _ in speaker.astream(state["messages"]):
                pass
            await read.wait()

        stream = in_a_row({"node": node}, schema=Talk).astream(
            {"messages": [QUESTION]}, stream_mode="messages"
        )
        with anyio.fail_after(5):
            first = await anext(stream)
            read.set()
            rest = [chunk async for chunk in stream]

        assert texts([first, *rest]) == WORDS

    async def test_without_a_reader_nothing_is_injected(self):
        """
        Without a reader of messages a node's config has no callbacks of ours.
        """
        seen = []

        async def node(state, config):
            seen.append(config.get("callbacks") or None)

        await in_a_row({"node": node}, schema=Talk).ainvoke({"messages": []})

        assert seen == [None]


class TestWholeMessages:
    @pytest.mark.langgraph("F-D3")
    async def test_returned_messages_are_sent_once(self):
        """
        A node's messages are chunks, except those of its input and those sent before.
        """
        answer = AIMessage("fine", id="a1")

        async def node(state):
            return {"messages": [QUESTION, answer, HumanMessage("no id")]}

        async def again(state):
            return {"messages": [answer]}

        graph = in_a_row({"node": node, "again": again}, schema=Talk)
        chunks = await told(graph)

        assert texts(chunks) == ["fine", "no id"]

    @pytest.mark.langgraph("L95")
    async def test_a_message_without_an_id_gets_one_that_the_state_has_too(self):
        """
        Readers and the state agree on a message's id.
        """

        async def node(state):
            return {"messages": AIMessage("new")}

        graph = in_a_row({"node": node}, schema=TypedDict("One", {"messages": Any}))
        chunks = [
            chunk
            async for chunk in graph.astream(
                {"messages": QUESTION}, stream_mode=["messages", "values"]
            )
        ]

        sent = next(message for mode, (message, *_) in chunks[:2] if mode == "messages")
        assert sent.id is not None
        assert chunks[-1] == ("values", {"messages": sent})

    @pytest.mark.langgraph("F-D3")
    async def test_messages_in_commands_count(self):
        """
        A Command's update is what the node returned.
        """

        async def route(state):
            return Command(update={"messages": [AIMessage("on")]})

        async def end(state):
            return {"messages": [*state["messages"], AIMessage("done")]}

        graph = compiled(
            {"route": route, "end": end}, [("__start__", "route"), ("route", "end")], schema=Talk
        )

        assert texts(await told(graph)) == ["on", "done"]


class TestWriter:
    async def test_pieces_of_any_model_can_be_streamed(self):
        """
        A node streams a model of its own through `get_message_writer()`; the whole message with
        the same id isn't sent again.
        """

        async def node(state):
            write = get_message_writer()
            write(Piece("hel", "m1"), {"ls_provider": "mine"})
            await write.asend(Piece("lo", "m1"))
            return {"messages": [Piece("hello", "m1")]}

        chunks = await told(in_a_row({"node": node}, schema=Talk), {"tags": ["t"]})

        assert texts(chunks) == ["hel", "lo"]
        assert chunks[0][1]["ls_provider"] == "mine"
        assert chunks[1][1]["langgraph_node"] == "node"
        assert chunks[1][1]["tags"] == ["t"]

    async def test_a_writer_obeys_nostream_and_does_nothing_unread(self):
        """
        A `nostream` tag silences a piece; without a reader the writer does nothing.
        """

        async def node(state):
            write = get_message_writer()
            write(Piece("secret"), {"tags": ["nostream"]})
            await write.asend(Piece("secret"), {"tags": ["nostream"]})

        graph = in_a_row({"node": node}, schema=Talk)

        assert await told(graph) == []
        assert await graph.ainvoke({"messages": []}) == {"messages": []}

    def test_outside_of_a_node_the_writer_is_unavailable(self):
        """
        The writer belongs to a task.
        """
        with pytest.raises(OutsideRunError, match="in a node"):
            get_message_writer()
