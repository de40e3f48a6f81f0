"""Conversations of an agent with two tools, timed: one library's half of the comparison.

    python [-m actorgraph.compat -m] tests.ecosystem.speed SAVER WAY CONVERSATIONS

SAVER is "memory", the path of an SQLite file, or "alone": the same calls of LangChain's model and
tools by a loop, without an agent, which no graph library can do without. WAY is "async" or
"blocking". Prints the seconds of each conversation of 20 turns, by the clock and of processor time;
a turn is two calls of the model and one of each tool.
"""

import asyncio
import json
import sys
import time
import warnings
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
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


TOOLS: dict[str, Any] = {"add": add, "multiply": multiply}


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


async def alone_awaiting(conversations: int) -> list[tuple[float, float]]:
    """Time the calls of `by_awaiting` without an agent."""
    model, times = Model(), []
    for _ in range(conversations):
        messages, began = list[BaseMessage](), now()
        for turn in range(TURNS):
            messages.append(HumanMessage(f"turn {turn}"))
            messages.append(await model.ainvoke(messages))
            calls = messages[-1].tool_calls
            messages += await asyncio.gather(
                *(TOOLS[each["name"]].ainvoke({**each, "type": "tool_call"}) for each in calls)
            )
            messages.append(await model.ainvoke(messages))
        times.append(since(began))
    return times


def alone_blocking(conversations: int) -> list[tuple[float, float]]:
    """Time the calls of `by_blocking` without an agent."""
    model, times = Model(), []
    for _ in range(conversations):
        messages, began = list[BaseMessage](), now()
        for turn in range(TURNS):
            messages.append(HumanMessage(f"turn {turn}"))
            messages.append(model.invoke(messages))
            calls = messages[-1].tool_calls
            messages += [TOOLS[c["name"]].invoke({**c, "type": "tool_call"}) for c in calls]
            messages.append(model.invoke(messages))
        times.append(since(began))
    return times


async def awaited(place: str, conversations: int) -> list[tuple[float, float]]:
    """Time conversations with a saver, async."""
    if place == "alone":
        return await alone_awaiting(conversations)
    if place == "memory":
        return await by_awaiting(InMemorySaver(), conversations)
    async with AsyncSqliteSaver.from_conn_string(place) as saver:
        return await by_awaiting(saver, conversations)


def blocking(place: str, conversations: int) -> list[tuple[float, float]]:
    """Time conversations with a saver, blocking."""
    if place == "alone":
        return alone_blocking(conversations)
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
