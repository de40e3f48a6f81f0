"""Each token, message and update of the prebuilt graphs comes once: as LangGraph streams them."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph import graph as theirs
from langgraph import prebuilt as their_prebuilt

import actorgraph as ours
from actorgraph import prebuilt as our_prebuilt
from actorgraph.values.policies import STREAM_MODES

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""Async chains of LangChain run on asyncio only."""

pytestmark = pytest.mark.filterwarnings("ignore:create_react_agent has been moved")

GRAPHS = ["agent v1", "agent v2", "agent with hooks", "own loop", "own loop without config"]
MODES = [mode for mode in STREAM_MODES if mode not in ("tools", "checkpoints")]
ASKED = {"messages": [("user", "hi")]}
CALL = {"name": "refund", "args": "{}", "id": "1", "index": 0, "type": "tool_call_chunk"}


def refund() -> str:
    """Pay back."""
    return "paid"


class Silent(BaseChatModel):
    """A model that asks for a tool once and then answers in whole messages."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self.bind(tools=[{"name": "refund"}])

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        pieces = list(_pieces(messages))
        whole = pieces[0]
        for piece in pieces[1:]:
            whole = whole + piece
        made = AIMessage(whole.content, tool_calls=whole.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=made)])


class Streaming(Silent):
    """The same, in pieces."""

    def _stream(self, messages: Any, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for piece in _pieces(messages):
            yield ChatGenerationChunk(message=piece)


def _pieces(messages: Any) -> Iterator[AIMessageChunk]:
    if messages[-1].type == "human":
        yield AIMessageChunk("", tool_call_chunks=[CALL])
        return
    for word in ("The ", "answer ", "is yes."):
        yield AIMessageChunk(word)


class Heard(BaseCallbackHandler):
    """Counts the callbacks of a caller's handler."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.calls.append("start")

    def on_llm_new_token(self, token: str, **_: Any) -> None:
        self.calls.append(f"token {token}")

    def on_llm_end(self, *_: Any, **__: Any) -> None:
        self.calls.append("end")


def hook(state: Any) -> dict[str, Any]:
    return {}


def made(kind: str, model: Any, graph: Any, prebuilt: Any) -> Any:
    """One of the prebuilt graphs, of one of the two libraries."""
    agent = prebuilt.create_react_agent
    if kind == "agent with hooks":
        return agent(model, [refund], pre_model_hook=hook, post_model_hook=hook)
    if kind.startswith("agent"):
        return agent(model, [refund], version=kind[-2:])
    bound = model.bind_tools([refund])

    def with_config(state, config):
        return {"messages": [bound.invoke(state["messages"], config)]}

    def without(state):
        return {"messages": [bound.invoke(state["messages"])]}

    builder = graph.StateGraph(graph.MessagesState)
    builder.add_node("model", without if kind.endswith("config") else with_config)
    builder.add_node("tools", prebuilt.ToolNode([refund]))
    builder.add_edge(graph.START, "model").add_edge("tools", "model")
    return builder.add_conditional_edges("model", prebuilt.tools_condition).compile()


def told(value: Any) -> Any:
    """A chunk with each message as its kind and text, and without ids and places."""
    if hasattr(value, "content"):
        return (value.type, value.content, [call["name"] for call in _calls(value)])
    if isinstance(value, dict):
        kept = ("messages", "payload", "result", "input", "name", "type", "agent", "model", "tools")
        return {key: told(inner) for key, inner in value.items() if key in kept}
    if isinstance(value, (list, tuple)):
        return [told(inner) for inner in value]
    return value if isinstance(value, str) else None


def _calls(message: Any) -> list[Any]:
    return getattr(message, "tool_calls", None) or []


def expected(kind: str, model: Any, mode: str) -> tuple[list[Any], list[str]]:
    """The chunks of LangGraph's stream, and the callbacks of a caller's handler."""
    heard = Heard()
    graph = made(kind, model, theirs, their_prebuilt)
    chunks = graph.stream(ASKED, {"callbacks": [heard]}, stream_mode=mode)
    return [told(chunk) for chunk in chunks], heard.calls


CASES = list(itertools.product(GRAPHS, MODES, [Streaming, Silent]))


@pytest.mark.each_value
@pytest.mark.langgraph("F-M4")
@pytest.mark.parametrize(("kind", "mode", "model"), CASES)
def test_a_blocking_stream_sends_each_chunk_once(kind, mode, model):
    """
    Every mode of every prebuilt graph, with a model that streams or not; handlers hear it once too.
    """
    heard = Heard()
    graph = made(kind, model(), ours, our_prebuilt)
    found = [told(c) for c in graph.stream(ASKED, {"callbacks": [heard]}, stream_mode=mode)]

    assert (found, heard.calls) == expected(kind, model(), mode)


@pytest.mark.langgraph("F-M4")
@only_asyncio
@pytest.mark.parametrize(("kind", "mode", "model"), CASES)
async def test_a_stream_sends_each_chunk_once(kind, mode, model):
    """
    The same in async code.
    """
    heard = Heard()
    graph = made(kind, model(), ours, our_prebuilt)
    chunks = graph.astream(ASKED, {"callbacks": [heard]}, stream_mode=mode)
    found = [told(chunk) async for chunk in chunks]

    assert (found, heard.calls) == expected(kind, model(), mode)
