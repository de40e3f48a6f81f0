"""An application whose runs take a while: many short steps, each of them durable.

Started as a server of its own by the tests of shutdown; `RUNS_DB` says where its file is.
"""

import os
import sys
from functools import partial
from operator import add
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import END, START, ActorSystem, SqliteSaver, StateGraph
from actorgraph.stores import InMemoryStore
from actorgraph.web import serve, served

STEPS = 40


class Steps(TypedDict, total=False):
    """The numbers of the steps that were done."""

    done: Annotated[list[int], add]


async def step(state: Steps) -> dict[str, Any]:
    """Take a moment, and note that it is over."""
    await anyio.sleep(0.02)
    return {"done": [len(state.get("done", ()))]}


async def more(state: Steps) -> str:
    """Go on until there were enough."""
    return "step" if len(state["done"]) < STEPS else END


builder = StateGraph(Steps)
builder.add_node("step", step)
builder.add_edge(START, "step")
builder.add_conditional_edges("step", more, ["step", END])


def system(path: str) -> ActorSystem:
    """The system over a file."""
    saver = SqliteSaver(path)
    graph = builder.compile(checkpointer=saver)
    return ActorSystem({"steps": graph}, saver=saver, store=InMemoryStore(), drain_timeout_s=10)


if "RUNS_DB" in os.environ and __name__ != "__main__":
    app = served(system(os.environ["RUNS_DB"]))

if __name__ == "__main__":
    served_alone = partial(serve, system(os.environ["RUNS_DB"]), bind="127.0.0.1:0")
    anyio.run(served_alone, backend=sys.argv[1])
