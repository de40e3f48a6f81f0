"""Messages of LangChain's models over HTTP, on both event loops."""

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


async def events(node: Any, mode: str) -> tuple[list[str], str]:
    """The names of a run's events, and all of its text."""
    saver = InMemorySaver()
    builder = StateGraph(MessagesState).add_node("talk", node).set_entry_point("talk")
    system = ActorSystem(
        {"talk": builder.compile(checkpointer=saver)}, saver=saver, store=InMemoryStore()
    )
    transport = httpx.ASGITransport(GraphRoutes(system))
    body = {
        "assistant_id": "talk",
        "input": {"messages": [{"role": "user", "content": "hello"}]},
        "stream_mode": mode,
    }
    async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
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
