"""Conversations of an agent with two tools, timed: one library's half of the comparison.

    python [-m actorgraph.compat -m] tests.ecosystem.speed SAVER WAY CONVERSATIONS

SAVER is "memory" or the path of an SQLite file, WAY "async" or "blocking". Prints the seconds of
each conversation of 20 turns, by the clock and of processor time; a turn is two calls of the model
and one of each tool.
"""

import asyncio
import json
import sys
import time
import warnings
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

TURNS = 20


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def multiply(a: int, b: int) -> int:
    """Multiply."""
    return a * b


class Model(BaseChatModel):
    """Calls both tools, then answers; no time of its own."""

    @property
    def _llm_type(self) -> str:
        return "quick"

    def bind_tools(self, tools: Any, **options: Any) -> "Model":
        """Return itself."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        if messages[-1].type == "tool":
            reply = AIMessage("done")
        else:
            calls = [
                {"name": name, "args": {"a": 2, "b": 3}, "id": f"{name}{len(messages)}"}
                for name in ("add", "multiply")
            ]
            reply = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])

    async def _agenerate(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> ChatResult:
        return self._generate(messages)


def made(saver: Any) -> Any:
    """The agent."""
    return create_agent(Model(), tools=[add, multiply], checkpointer=saver)


def now() -> tuple[float, float]:
    """The clock and the processor time."""
    return time.perf_counter(), time.process_time()


def since(began: tuple[float, float]) -> tuple[float, float]:
    """Seconds since then, of both."""
    clock, processor = now()
    return clock - began[0], processor - began[1]


def at(number: int) -> Any:
    """The config of a conversation."""
    return {"configurable": {"thread_id": f"c{number}"}}


async def by_awaiting(saver: Any, conversations: int) -> list[tuple[float, float]]:
    """Time conversations of `ainvoke`."""
    agent, times = made(saver), []
    for number in range(conversations):
        began = now()
        for turn in range(TURNS):
            await agent.ainvoke({"messages": [("user", f"turn {turn}")]}, at(number))
        times.append(since(began))
    return times


def by_blocking(saver: Any, conversations: int) -> list[tuple[float, float]]:
    """Time conversations of `invoke`."""
    agent, times = made(saver), []
    for number in range(conversations):
        began = now()
        for turn in range(TURNS):
            agent.invoke({"messages": [("user", f"turn {turn}")]}, at(number))
        times.append(since(began))
    return times


async def awaited(place: str, conversations: int) -> list[tuple[float, float]]:
    """Time conversations with a saver, async."""
    if place == "memory":
        return await by_awaiting(InMemorySaver(), conversations)
    async with AsyncSqliteSaver.from_conn_string(place) as saver:
        return await by_awaiting(saver, conversations)


def blocking(place: str, conversations: int) -> list[tuple[float, float]]:
    """Time conversations with a saver, blocking."""
    if place == "memory":
        return by_blocking(InMemorySaver(), conversations)
    with SqliteSaver.from_conn_string(place) as saver:
        return by_blocking(saver, conversations)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place, way, number = sys.argv[1:]
    took = (
        asyncio.run(awaited(place, int(number))) if way == "async" else blocking(place, int(number))
    )
    print(json.dumps(took))
