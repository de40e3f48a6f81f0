"""A process with two hand-overs in one superstep, to be killed between them.

The second task waits until the first one's hand-over is stored, or, in "exit", until it is made.
Then it says "held" and waits for the end. "ran NAME" is said as a node begins.

| form      | who hands over                                            |
|-----------|-----------------------------------------------------------|
| subgraphs | two subgraphs side by side, each with a node that does so |
| nodes     | two nodes side by side in one subgraph                    |
"""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import START, ActorSystem, Command, PostgresSaver, Send, SqliteSaver, StateGraph
from actorgraph.testing import FaultySaver
from actorgraph.values.commits import Commit
from tests.support.graphs import at, side_by_side
from tests.support.system_worker import say

NAMES = "ab"
GIVEN: dict[str, Any] = {"log": []}
LOG = ["a;", "b;", "after a;", "after b;"]
"""The log of a run that nothing disturbs."""
LEASE_S = 1.0


class Log(TypedDict, total=False):
    log: Annotated[list[str], add]


class Sent(TypedDict):
    name: str


@dataclass
class Between:
    """Where a process is held: in its second task.

    Attributes:
        first: the task that hands over before; "" to hold nothing.
        stores: whether its hand-over is stored at once.
    """

    first: str = ""
    stores: bool = True
    note: Callable[..., None] = say
    _handed: threading.Event = field(default_factory=threading.Event)

    def stored(self, request: Any) -> None:
        """Note that a saver has stored a request."""
        if isinstance(request, Commit):
            label = f"{self.first};".encode()
            if any(label in row.payload for row in request.ledger):
                self._handed.set()

    def run(self, name: str) -> None:
        """Do a task; the second one goes no further."""
        self.note("ran", name)
        if self.first and name != self.first:
            self._handed.wait()
            self.note("held")
            threading.Event().wait()
        if not self.stores:
            self._handed.set()


def node_of(name: str, between: Between, *, plain: bool) -> Callable[[Log], Any]:
    """A node that hands over."""
    line = f"{name};"
    goto = Send("after", {"name": name})
    up = Command[Any](graph=Command.PARENT, update={"log": [line]}, goto=goto)

    def node(_: Log) -> Command[Any]:
        between.run(name)
        return up

    async def anode(_: Log) -> Command[Any]:
        await anyio.to_thread.run_sync(between.run, name)
        return up

    return node if plain else anode


def graph_of(form: str, between: Between, saver: Any = None, *, plain: bool = False) -> Any:
    """The graph of a form; `after` runs once for each hand-over."""

    def after(state: Sent) -> Log:
        between.note("ran", f"after {state['name']}")
        return {"log": [f"after {state['name']};"]}

    nodes: dict[str, Any] = {name: node_of(name, between, plain=plain) for name in NAMES}
    builder = StateGraph(Log).add_node("after", after)
    if form == "nodes":
        nodes = {"agent": side_by_side(nodes, schema=Log)}
    else:
        nodes = {name: side_by_side({"in": node}, schema=Log) for name, node in nodes.items()}
    for name, inner in nodes.items():
        builder.add_node(name, inner, destinations=("after",)).add_edge(START, name)
    return builder.compile(checkpointer=saver)


def saver_at(place: str) -> Any:
    """The saver of a place: a file's path, or URL#SCHEMA."""
    url, _, schema = place.partition("#")
    return PostgresSaver(url, schema=schema) if schema else SqliteSaver(place)


def watched(place: str, between: Between) -> Any:
    """The saver of a place, which notes what it has stored."""
    saver = saver_at(place)
    commit = saver.commit

    async def commit_and_note(batch: Sequence[Any]) -> Any:
        outcomes = await commit(batch)
        for request in batch:
            between.stored(request)
        return outcomes

    saver.commit = commit_and_note
    return saver


def system_over(place: str, form: str, between: Between) -> ActorSystem:
    """A system over a place."""
    graphs = {"g": graph_of(form, between)}
    return ActorSystem(graphs, saver=watched(place, between), lease_s=LEASE_S)


async def run_graph(place: str, form: str, durability: Any, between: Between) -> None:
    """Run the graph itself."""
    async with FaultySaver(saver_at(place), on_stored=between.stored) as saver:
        await graph_of(form, between, saver).ainvoke(GIVEN, at("t"), durability=durability)


def run_plainly(place: str, form: str, durability: Any, between: Between) -> None:
    """Run it by a blocking call, with plain functions."""
    with FaultySaver(saver_at(place), on_stored=between.stored) as saver:
        graph_of(form, between, saver, plain=True).invoke(GIVEN, at("t"), durability=durability)


async def run_system(place: str, form: str, durability: Any, between: Between) -> None:
    """Run it as a run of a system."""
    async with system_over(place, form, between) as system:
        run = await system.start("g", "t", GIVEN, durability=durability)
        await run.result()


if __name__ == "__main__":
    loop, how, at_place, shape, stored_when, goes_first = sys.argv[1:]
    held = Between(goes_first, stores=stored_when != "exit")
    if how == "blocking":
        run_plainly(at_place, shape, stored_when, held)
    else:
        work = run_graph if how == "graph" else run_system
        anyio.run(work, at_place, shape, stored_when, held, backend=loop)
