"""Reflection: a writer and a critic take turns until the critic is content, or time is up.

`RemainingSteps` shows the critic when to stop, so that no run ends in a recursion error.
"""

import json
from operator import add
from typing import Annotated, Any, Literal, TypedDict

import anyio

from actorgraph import END, START, RemainingSteps, StateGraph


class State(TypedDict, total=False):
    """The text, the critic's remarks, and the number of steps left."""

    topic: str
    text: str
    remarks: Annotated[list[str], add]
    left: RemainingSteps


REMARKS = ["too long", "no number", "no source"]
FIXES = {"too long": "Rain is common here", "no number": " (212 days)", "no source": " [almanac]"}


async def write(state: State) -> dict[str, Any]:
    """A first draft, or a better one."""
    remarks = state.get("remarks", [])
    if not remarks:
        return {"text": f"About {state['topic']} one could write at length"}
    fix = FIXES[remarks[-1]]
    return {"text": fix if len(remarks) == 1 else state["text"] + fix}


async def criticise(state: State) -> dict[str, Any]:
    """The next remark, or none."""
    said = len(state.get("remarks", []))
    return {"remarks": REMARKS[said : said + 1]}


def decide(state: State) -> Literal["criticise", "__end__"]:
    """Stop when all was said, or when few steps are left."""
    if len(state.get("remarks", [])) == len(REMARKS) or state["left"] < MARGIN:
        return END
    return "criticise"


MARGIN = 3
builder = StateGraph(State)
builder.add_node("write", write)
builder.add_node("criticise", criticise)
builder.add_edge(START, "write")
builder.add_conditional_edges("write", decide)
builder.add_edge("criticise", "write")
graph = builder.compile()


async def main() -> Any:
    """With enough time, and in a hurry."""
    given: State = {"topic": "rain"}
    calm = await graph.ainvoke(given)
    hurried = await graph.ainvoke(given, {"recursion_limit": 6})
    return {"calm": [calm["text"], calm["remarks"]], "hurried": [hurried["text"]]}


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
