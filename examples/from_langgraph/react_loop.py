"""ReAct: a model asks for tools until it can answer. The model is scripted; no network.

The loop is the classic one: the model's message either names tools, which then run, or is the
answer. Runs under LangGraph too when the import below is changed.
"""

import json
from collections.abc import Callable
from operator import add
from typing import Annotated, Any, Literal, TypedDict

import anyio

from actorgraph import END, START, StateGraph

Message = dict[str, Any]

DEGREES = {"Oslo": -3, "Lima": 24}


class State(TypedDict):
    """The conversation so far."""

    messages: Annotated[list[Message], add]


def temperature(city: str) -> int:
    """Degrees Celsius in a city."""
    return DEGREES[city]


def fahrenheit(celsius: int) -> float:
    """The same in Fahrenheit."""
    return celsius * 9 / 5 + 32


TOOLS: dict[str, Callable[..., Any]] = {"temperature": temperature, "fahrenheit": fahrenheit}


def scripted_model(messages: list[Message]) -> Message:
    """A scripted model: look both cities up, convert the warmer one, answer."""
    results = [m["content"] for m in messages if m["role"] == "tool"]
    if not results:
        calls = [{"name": "temperature", "arguments": {"city": city}} for city in DEGREES]
        return {"role": "assistant", "content": "I look both up.", "calls": calls}
    if len(results) == len(DEGREES):
        call = {"name": "fahrenheit", "arguments": {"celsius": max(results)}}
        return {"role": "assistant", "content": "Now the warmer one.", "calls": [call]}
    return {"role": "assistant", "content": f"Lima is warmer: {results[-1]} F.", "calls": []}


async def think(state: State) -> dict[str, Any]:
    """Ask the model."""
    return {"messages": [scripted_model(state["messages"])]}


async def use_tools(state: State) -> dict[str, Any]:
    """Run every tool that the last message names."""
    calls = state["messages"][-1]["calls"]
    results = [(call["name"], TOOLS[call["name"]](**call["arguments"])) for call in calls]
    return {"messages": [{"role": "tool", "name": n, "content": made} for n, made in results]}


def next_step(state: State) -> Literal["use_tools", "__end__"]:
    """Tools if the model named some, else the end."""
    return "use_tools" if state["messages"][-1]["calls"] else END


builder = StateGraph(State)
builder.add_node("think", think)
builder.add_node("use_tools", use_tools)
builder.add_edge(START, "think")
builder.add_conditional_edges("think", next_step)
builder.add_edge("use_tools", "think")
agent = builder.compile()


async def main() -> Any:
    """Ask once, and show each step as it came."""
    question = {"role": "user", "content": "Where is it warmer, Oslo or Lima? In Fahrenheit."}
    steps = [
        {node: [message["content"] for message in update["messages"]]}
        async for chunk in agent.astream({"messages": [question]}, stream_mode="updates")
        for node, update in chunk.items()
    ]
    final = await agent.ainvoke({"messages": [question]})
    return {"steps": steps, "answer": final["messages"][-1]["content"]}


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
