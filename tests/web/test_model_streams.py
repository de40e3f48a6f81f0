"""Messages of LangChain's models over HTTP, on both event loops."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from langchain_core.language_models.fake_chat_models import (
    FakeListChatModel,
    GenericFakeChatModel,
)
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda

from actorgraph import ActorSystem, InMemorySaver, MessagesState, StateGraph
from actorgraph.loops import on_trio
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes

MODEL = FakeListChatModel(responses=["Hi"])


def invoked(state: MessagesState) -> dict[str, Any]:
    """Call the model in a thread."""
    return {"messages": [MODEL.invoke(state["messages"])]}


def streamed(state: MessagesState) -> dict[str, Any]:
    """Stream the model in a thread."""
    pieces = list(MODEL.stream(state["messages"]))
    return {"messages": [sum(pieces[1:], pieces[0])]}


async def awaited(state: MessagesState) -> dict[str, Any]:
    """Await the model."""
    return {"messages": [await MODEL.ainvoke(state["messages"])]}


async def awaited_stream(state: MessagesState) -> dict[str, Any]:
    """Await the pieces of a model that has none of its own."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Hi", id="1")]))
    return {"messages": [await model.ainvoke(state["messages"])]}


CHAIN = RunnableLambda(lambda state: state["messages"]) | MODEL | (lambda m: {"messages": [m]})


@asynccontextmanager
async def served(node: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a graph with this node, twice: in the graph, and in a subgraph."""
    saver = InMemorySaver()
    builder = StateGraph(MessagesState).add_node("talk", node).set_entry_point("talk")
    outer = StateGraph(MessagesState).add_node("inner", builder.compile(name="below"))
    graphs = {
        "talk": builder.compile(checkpointer=saver, name="small"),
        "outer": outer.set_entry_point("inner").compile(checkpointer=saver, name="outer"),
    }
    system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
    transport = httpx.ASGITransport(GraphRoutes(system))
    async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        yield client


async def events(node: Any, mode: str) -> tuple[list[str], str]:
    """The names of a run's events, and all of its text."""
    body = {
        "assistant_id": "talk",
        "input": {"messages": [{"role": "user", "content": "hello"}]},
        "stream_mode": mode,
    }
    async with served(node) as client:
        text = (await client.post("/runs/stream", json=body)).text
    return [line[7:] for line in text.splitlines() if line.startswith("event: ")], text


@pytest.mark.parametrize("node", [invoked, streamed, CHAIN], ids=["invoke", "stream", "chain"])
@pytest.mark.parametrize("mode", ["messages", "messages-tuple"])
async def test_a_models_pieces_are_streamed(node, mode):
    """
    A model that a plain function calls, or that is the node, sends its pieces on both loops.
    """
    names, _ = await events(node, mode)

    assert names.count("messages/partial" if mode == "messages" else "messages") >= 2
    assert (names[0], names[-1], "error" in names) == ("metadata", "end", False)


@pytest.mark.parametrize("node", [awaited, awaited_stream])
@pytest.mark.parametrize("mode", ["messages", "messages-tuple"])
async def test_a_model_that_needs_asyncio_is_named_on_trio(node, mode):
    """
    A model's async methods need asyncio: on trio the run's error names node, library and fix.
    """
    names, text = await events(node, mode)

    if not on_trio():
        assert "error" not in names
        return
    assert names[-2:] == ["error", "end"]
    for part in ("OtherLoopError", "node 'talk'", "langchain_core"):
        assert part in text
    assert "model.invoke()" in text


SPANS = [
    ("on_chain_start", "small"),
    ("on_chain_start", "talk"),
    ("on_chat_model_start", "fakelistchatmodel"),
    ("on_chat_model_stream", "fakelistchatmodel"),
    ("on_chat_model_end", "fakelistchatmodel"),
    ("on_chain_stream", "talk"),
    ("on_chain_end", "talk"),
    ("on_chain_stream", "small"),
    ("on_chain_end", "small"),
]


def spans(text: str) -> list[dict[str, Any]]:
    """The data of the events of mode `events`, the pieces of a message as one."""
    blocks = [dict(line.split(": ", 1) for line in b.splitlines()) for b in text.split("\n\n") if b]
    told = [json.loads(block["data"]) for block in blocks if block.get("event") == "events"]
    pairs = zip([{}, *told], told, strict=False)
    return [two for one, two in pairs if (one.get("event"), one.get("name")) != named(two)]


def named(span: dict[str, Any]) -> tuple[str, str]:
    return span["event"], span["name"]


BODY = {
    "assistant_id": "talk",
    "input": {"messages": [{"role": "user", "content": "hello"}]},
    "stream_mode": ["events"],
    "if_not_exists": "create",
}


class TestEvents:
    async def test_graphs_nodes_and_models_have_spans(self):
        """
        Mode `events` sends what starts, streams and ends, one inside the other, on both loops.
        """
        async with served(streamed) as client:
            answer = await client.post("/threads/t/runs/stream", json=BODY)
            run_id = answer.headers["content-location"].rpartition("/")[2]
            told = spans(answer.text)

        assert [named(span) for span in told] == SPANS
        assert [span["data"]["input"] for span in told[:1]] == [BODY["input"]]
        assert [told[0]["run_id"], told[0]["run_id"]] == [run_id, told[1]["parent_ids"][0]]

    async def test_a_client_that_comes_back_gets_the_rest(self):
        """
        A client that reconnects gets the events after its last one, with the same ids of spans.
        """
        async with served(streamed) as client:
            answer = await client.post("/threads/t/runs/stream", json=BODY)
            path, told = answer.headers["location"], spans(answer.text)
            whole = await client.get(path)
            last = [line for line in answer.text.splitlines() if line.startswith("id: ")][2]
            rest = await client.get(path, headers={"last-event-id": last[4:]})

        assert spans(whole.text) == told
        ends = [span for span in told if span["event"] == "on_chain_end"]
        assert [span for span in spans(rest.text) if span["event"] == "on_chain_end"] == ends
        assert len(spans(rest.text)) < len(told)

    async def test_subgraphs_are_inside_and_other_modes_are_not_changed(self):
        """
        A subgraph's spans come without `stream_subgraphs`, which other modes need for its chunks.
        """
        async with served(invoked) as client:
            body = {**BODY, "assistant_id": "outer", "stream_mode": ["updates", "events"]}
            text = (await client.post("/threads/t/runs/stream", json=body)).text

        names = [line[7:] for line in text.splitlines() if line.startswith("event: ")]
        assert [name for name in names if name != "events"] == ["metadata", "updates", "end"]
        opened = [span["name"] for span in spans(text) if span["event"] == "on_chain_start"]
        assert opened == ["outer", "inner", "below", "talk"]
