"""A process whose run has converted values in input and state; it kills itself in the last node.

Run as a script its class is `__main__:Tensor`; "imported", the one of this module.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypedDict

import anyio

from actorgraph import (
    START,
    ActorSystem,
    Codec,
    JsonlSaver,
    Migration,
    PostgresSaver,
    SqliteSaver,
    StateGraph,
)

LEASE_S = 1.0


class Tensor:
    """A class that only a converter stores."""

    def __init__(self, items: list[int]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and other.items == self.items

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class State(TypedDict, total=False):
    t: Tensor
    last: Tensor


def die() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def system_over(
    place: str, enter: Callable[[], None], *, converts: bool = True, script: bool = False
) -> ActorSystem:
    """A system over a file's path, a folder's with "/" behind, or URL#SCHEMA.

    Args:
        enter: called as the last node begins.
        converts: whether the codec has the converter.
        script: whether values of a script's class are taken for this module's.
    """
    codec = Codec(converters={Tensor: (lambda t: t.items, Tensor)} if converts else None)
    url, _, schema = place.partition("#")
    if schema:
        saver: Any = PostgresSaver(url, schema=schema, codec=codec)
    else:
        saver = (JsonlSaver if place.endswith("/") else SqliteSaver)(place, codec=codec)

    def make(state: State) -> State:
        return {"t": Tensor([*state["t"].items, 1])}

    def last(state: State) -> State:
        enter()
        return {"last": Tensor([*state["t"].items, 2])}

    builder = StateGraph(State).add_node("make", make).add_node("last", last)
    builder.add_edge(START, "make").add_edge("make", "last")
    migrations = [Migration(types={"__main__:Tensor": Tensor})] if script else []
    graph = builder.compile(migrations=migrations)
    return ActorSystem({"g": graph}, saver=saver, lease_s=LEASE_S)


async def main(place: str) -> None:
    """Start the run."""
    async with system_over(place, die) as system:
        run = await system.start("g", "t", {"t": Tensor([5])})
        await run.result()


if __name__ == "__main__":
    loop, at_place, how = sys.argv[1:]
    work = main
    if how == "imported":
        from tests.support import converted_worker

        work = converted_worker.main
    anyio.run(work, at_place, backend=loop)
