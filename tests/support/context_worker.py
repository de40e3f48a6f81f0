"""A program with graphs whose contexts are objects, to be killed while their nodes wait.

`python -m tests.support.context_worker PLACE` starts a run of each graph and writes "started" when
all of their nodes wait.
"""

import dataclasses
import sys
from typing import Any, TypedDict

import anyio
import attrs
import msgspec
from pydantic import BaseModel

from actorgraph import START, ActorSystem, Runtime, SqliteSaver, StateGraph, entrypoint


class State(TypedDict, total=False):
    """The values that the node saw."""

    limit: int
    inner: int


@dataclasses.dataclass
class Inner:
    """A class that only a field of a context names."""

    n: int = 1


@dataclasses.dataclass
class Data:
    limit: int
    inner: Inner


class Model(BaseModel):
    limit: int
    inner: Inner


class Struct(msgspec.Struct):
    limit: int
    inner: Inner


@attrs.define
class Attrs:
    limit: int
    inner: Inner


class Dict(TypedDict):
    limit: int
    inner: Inner


KINDS: dict[str, Any] = {
    "dataclass": Data,
    "pydantic": Model,
    "msgspec": Struct,
    "attrs": Attrs,
    "TypedDict": Dict,
}
waiting: list[str] = []
"""The nodes that wait for ever, in the process that is killed."""
all_wait: list[anyio.Event] = []
"""Set when all of them do; empty in a process that isn't killed."""


async def hold(name: str) -> None:
    """Wait for the end of the process, if it is the one that is killed."""
    if all_wait:
        waiting.append(name)
        if len(waiting) > len(KINDS):
            all_wait[0].set()
        await anyio.sleep_forever()


def graph_of(kind: Any) -> Any:
    """A graph with a context of this class, which it reads in a subgraph."""

    async def work(state: State, runtime: Runtime[Any]) -> State:
        await hold(kind.__name__)
        given = runtime.context
        read = given.get if isinstance(given, dict) else lambda name: getattr(given, name)
        return {"limit": read("limit"), "inner": read("inner").n}

    inner = StateGraph(State).add_node(work).add_edge(START, "work").compile()
    return StateGraph(State, kind).add_node("below", inner).add_edge(START, "below").compile()


@entrypoint(context_schema=Data)
async def functional(given: dict[str, Any], *, runtime: Runtime[Data]) -> dict[str, Any]:
    """An entrypoint with a context."""
    await hold("functional")
    return {"limit": runtime.context.limit, "inner": runtime.context.inner.n}


def system_over(place: str) -> ActorSystem:
    """A system with all graphs."""
    graphs = {name: graph_of(kind) for name, kind in KINDS.items()}
    return ActorSystem({**graphs, "functional": functional}, saver=SqliteSaver(place), lease_s=1)


async def main() -> None:
    """Start a run of each graph, and wait to be killed."""
    all_wait.append(anyio.Event())
    async with system_over(sys.argv[1]) as system:
        for name, kind in KINDS.items():
            await system.start(name, name, {"limit": 0}, context=kind(limit=7, inner=Inner(3)))
        given = {"limit": 7, "inner": {"n": 3}}  # as a route gets it
        await system.start("functional", "functional", {"limit": 0}, context=given)
        await all_wait[0].wait()
        sys.stdout.write("started\n")
        sys.stdout.flush()
        await anyio.sleep_forever()


if __name__ == "__main__":
    # The classes of the importable module: they have its name, not `__main__`, where they are read.
    from tests.support import context_worker

    anyio.run(context_worker.main)
