"""A supervisor hands work to specialists, who hand it back, with `Command(goto=...)`.

One specialist is a graph of its own and leaves it with `Command(graph=Command.PARENT)`.
"""

import json
from operator import add
from typing import Annotated, Any, Literal, TypedDict

import anyio

from actorgraph import END, START, Command, StateGraph


class State(TypedDict, total=False):
    """The work left to do, and the work done by each specialist."""

    todo: list[str]
    log: Annotated[list[str], add]


async def supervisor(
    state: State,
) -> Command[Literal["mathematician", "library", "__end__"]]:
    """Give the next piece of work to the specialist that fits."""
    if not state["todo"]:
        return Command(goto=END, update={"log": ["supervisor: all done"]})
    work, *rest = state["todo"]
    name: Literal["mathematician", "library"] = "mathematician" if "+" in work else "library"
    return Command(goto=name, update={"todo": rest, "log": [f"supervisor: {work} -> {name}"]})


async def mathematician(state: State) -> Command[Literal["supervisor"]]:
    """Add up what the supervisor handed over."""
    work = state["log"][-1].removeprefix("supervisor: ").partition(" -> ")[0]
    total = sum(int(part) for part in work.split("+"))
    return Command(goto="supervisor", update={"log": [f"mathematician: {work} = {total}"]})


async def look_up(state: State) -> dict[str, Any]:
    """The library's first step."""
    return {"log": ["never shown: the Command below leaves without it"]}


async def hand_back(state: State) -> Command[Any]:
    """Leave the library's graph for the supervisor of the graph around it."""
    told = {"log": ["library: found it on shelf 3"]}
    return Command(graph=Command.PARENT, goto="supervisor", update=told)


inner = StateGraph(State)
inner.add_node("look_up", look_up)
inner.add_node("hand_back", hand_back)
inner.add_edge(START, "look_up")
inner.add_edge("look_up", "hand_back")

builder = StateGraph(State)
builder.add_node("supervisor", supervisor)
builder.add_node("mathematician", mathematician)
builder.add_node("library", inner.compile(), destinations=("supervisor",))
builder.add_edge(START, "supervisor")
team = builder.compile()


async def main() -> Any:
    """Three pieces of work."""
    final = await team.ainvoke({"todo": ["2+3", "a book on whales", "40+2"]})
    return final["log"]


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
