"""Graphs that write tokens at a pace: one source for both libraries.

Reads      TOKEN_LIBRARY, TOKEN_COUNT, TOKEN_PACE_S, TOKEN_STAMPS and TOKEN_MODEL_URL from the
           environment, because `langgraph dev` loads a copy of this file
Runs in    the measured library's environment; uses that library, LangChain and the standard library

A token is `tok7 `; with TOKEN_STAMPS it has the time at which it was written, by the clock that all
processes of a machine share.
"""

import asyncio
import operator
import os
import time
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import Annotated, Any, TypedDict

LIBRARY = os.environ.get("TOKEN_LIBRARY", "actorgraph")
COUNT = int(os.environ.get("TOKEN_COUNT", "40"))
PACE_S = float(os.environ.get("TOKEN_PACE_S", "0.02"))
STAMPS = bool(os.environ.get("TOKEN_STAMPS"))
MODEL_URL = os.environ.get("TOKEN_MODEL_URL", "")

START = "__start__"


class Answers(TypedDict, total=False):
    """The state of a graph that writes tokens itself."""

    text: str
    answers: Annotated[list, operator.add]


def token(number: int) -> str:
    """The text of a token."""
    return f"tok{number}@{time.monotonic_ns()} " if STAMPS else f"tok{number} "


async def tokens() -> AsyncIterator[str]:
    """All tokens of an answer, each after a pause."""
    for number in range(COUNT):
        await asyncio.sleep(PACE_S)
        yield token(number)


def made(kind: str) -> Any:
    """A builder of the graph of a kind: `custom`, `messages`, `model` or `silent`."""
    return {"custom": _custom, "messages": _messages, "model": _model, "silent": _silent}[kind]()


def _of(module: str, name: str) -> Any:
    """A name of the measured library: of a module of LangGraph's, or of actorgraph itself."""
    return getattr(import_module(module if LIBRARY == "langgraph" else "actorgraph"), name)


def _graph(schema: Any, node: Callable[..., Any]) -> Any:
    builder = _of("langgraph.graph", "StateGraph")(schema)
    builder.add_node("answer", node)
    builder.add_edge(START, "answer")
    return builder


def _custom() -> Any:
    get_stream_writer = _of("langgraph.config", "get_stream_writer")

    async def answer(state: Answers) -> dict:
        write = get_stream_writer()
        async for text in tokens():
            write(text)
        return {"answers": ["done"]}

    return _graph(Answers, answer)


def _silent() -> Any:
    async def answer(state: Answers) -> dict:
        return {"answers": ["done"]}

    return _graph(Answers, answer)


def _messages() -> Any:
    model = _langchain_model()

    async def answer(state: Any) -> dict:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return _graph(_of("langgraph.graph", "MessagesState"), answer)


def _model() -> Any:
    from actorgraph import MessagesState
    from actorgraph.prebuilt import ChatCompletions

    model = ChatCompletions("paced", base_url=MODEL_URL, api_key="")

    async def answer(state: Any) -> dict:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return _graph(MessagesState, answer)


def _langchain_model() -> Any:
    """A chat model of LangChain that streams the tokens."""
    models = import_module("langchain_core.language_models")
    messages = import_module("langchain_core.messages")
    outputs = import_module("langchain_core.outputs")

    class PacedModel(models.BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "paced"

        def _generate(self, *given: Any, **options: Any) -> Any:
            raise NotImplementedError

        async def _astream(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
            async for text in tokens():
                yield outputs.ChatGenerationChunk(message=messages.AIMessageChunk(content=text))

    return PacedModel()
