"""Plan and execute: make a plan, do its first step, look at the result, plan again.

The planner and the worker are scripted. A step that turns out to be impossible makes the
replanner put another one in its place.
"""

import json
from operator import add
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import END, START, Command, InMemorySaver, StateGraph


class State(TypedDict, total=False):
    """The goal, the steps left to do, and the steps done."""

    goal: str
    plan: list[str]
    done: Annotated[list[tuple[str, str]], add]
    answer: str


KNOWN = {
    "find the length of the bridge": "1280 m",
    "ask the archive for the year": "unavailable",
    "read the year off the plaque": "1937",
}


async def make_plan(state: State) -> dict[str, Any]:
    """The first plan."""
    return {"plan": ["find the length of the bridge", "ask the archive for the year"]}


async def do_step(state: State) -> dict[str, Any]:
    """Do the first step that is left."""
    step = state["plan"][0]
    return {"done": [(step, KNOWN[step])], "plan": state["plan"][1:]}


async def plan_again(state: State) -> Command[str]:
    """Answer if nothing is left; find a way around what failed; else go on."""
    _, result = state["done"][-1]
    if result == "unavailable":
        return Command(update={"plan": ["read the year off the plaque"]}, goto="do_step")
    if state["plan"]:
        return Command(goto="do_step")
    found = [what for _, what in state["done"] if what != "unavailable"]
    return Command(update={"answer": f"{found[0]} long, of {found[1]}"}, goto=END)


builder = StateGraph(State)
builder.add_node("make_plan", make_plan)
builder.add_node("do_step", do_step)
builder.add_node("plan_again", plan_again, destinations=("do_step", END))
builder.add_edge(START, "make_plan")
builder.add_edge("make_plan", "do_step")
builder.add_edge("do_step", "plan_again")
agent = builder.compile(checkpointer=InMemorySaver())


async def main() -> Any:
    """Run to the end and read the plans of each step from the thread's history."""
    config = {"configurable": {"thread_id": "bridge"}}
    final = await agent.ainvoke({"goal": "describe the bridge"}, config)
    plans = [s.values.get("plan") async for s in agent.aget_state_history(config)]
    return {"answer": final["answer"], "done": final["done"], "plans, newest first": plans}


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
