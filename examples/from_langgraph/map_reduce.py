"""Map and reduce: one Send per document, all counted at once, folded by a reducer.

The order of the results is that of the Sends, whichever task ends first.
"""

import json
from collections import Counter
from operator import add
from typing import Annotated, Any, TypedDict

import anyio.lowlevel

from actorgraph import END, START, Send, StateGraph

DOCUMENTS = {
    "sea": "the sea is wide and the sky is wide",
    "hill": "a hill is not a mountain",
    "wood": "the wood is dark the wood is deep",
}


def summed(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Two counts added up."""
    return dict(Counter(one) + Counter(other))


class State(TypedDict, total=False):
    """The documents, and the counted words."""

    documents: dict[str, str]
    order: Annotated[list[str], add]
    words: Annotated[dict[str, int], summed]
    top: list[tuple[str, int]]


class Work(TypedDict):
    """One document, as a Send carries it."""

    title: str
    text: str
    rank: int


async def gather(state: State) -> dict[str, Any]:
    """Get the documents."""
    return {"documents": DOCUMENTS}


def fan_out(state: State) -> list[Send]:
    """A task for each document."""
    return [
        Send("count", {"title": title, "text": text, "rank": rank})
        for rank, (title, text) in enumerate(state["documents"].items())
    ]


async def count(work: Work) -> dict[str, Any]:
    """Count one document's words; the first ones take longest."""
    for _ in range(10 - 3 * work["rank"]):
        await anyio.lowlevel.checkpoint()
    return {"order": [work["title"]], "words": dict(Counter(work["text"].split()))}


async def reduce(state: State) -> dict[str, Any]:
    """The three most frequent words."""
    ranked = sorted(state["words"].items(), key=lambda pair: (-pair[1], pair[0]))
    return {"top": ranked[:3]}


builder = StateGraph(State)
builder.add_node("gather", gather)
builder.add_node("count", count, input_schema=Work)
builder.add_node("reduce", reduce)
builder.add_edge(START, "gather")
builder.add_conditional_edges("gather", fan_out, ["count"])
builder.add_edge("count", "reduce")
builder.add_edge("reduce", END)
graph = builder.compile()


async def main() -> Any:
    """Count everything."""
    final = await graph.ainvoke({})
    return {"order": final["order"], "top": final["top"]}


if __name__ == "__main__":
    print(json.dumps(anyio.run(main), indent=1))
