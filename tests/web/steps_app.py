"""An application whose runs take a while: many short steps, each of them durable.

Started as a server of its own by the tests of shutdown; `RUNS_DB` says where its file is, `GRAPH`
which graph it has, `DRAIN_S` how long its end may take.
"""

import os
import sys
import time
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


async def stuck(state: Steps) -> None:
    """Never return."""
    await anyio.sleep_forever()


def blocked(state: Steps) -> None:
    """Hold a thread for longer than any test waits."""
    time.sleep(300)


async def more(state: Steps) -> str:
    """Go on until there were enough."""
    return "step" if len(state["done"]) < STEPS else END


builder = StateGraph(Steps)
builder.add_node("step", step)
builder.add_edge(START, "step")
builder.add_conditional_edges("step", more, ["step", END])


GRAPHS = {"steps": builder}
for node in (stuck, blocked):
    GRAPHS[node.__name__] = StateGraph(Steps).add_node(node).set_entry_point(node.__name__)


def system(path: str) -> ActorSystem:
    """The system over a file."""
    saver = SqliteSaver(path)
    name = os.environ.get("GRAPH", "steps")
    graph = GRAPHS[name].compile(checkpointer=saver)
    limit = float(os.environ.get("DRAIN_S", "10"))
    return ActorSystem({name: graph}, saver=saver, store=InMemoryStore(), drain_timeout_s=limit)


if "RUNS_DB" in os.environ and __name__ != "__main__":
    app = served(system(os.environ["RUNS_DB"]))

if __name__ == "__main__":
    served_alone = partial(serve, system(os.environ["RUNS_DB"]), bind="127.0.0.1:0")
    anyio.run(served_alone, backend=sys.argv[1])
