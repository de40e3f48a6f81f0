"""A process with an ActorSystem over a database, one of whose runs may kill it.

    python -m tests.support.poison_worker LOOP PLACE COUNT POISON LEASE_S PAUSE_S

It starts COUNT runs, of which that with the number POISON kills its process (-1: none), and takes
up what others have left until no run is open.
"""

import os
import signal
import sys
from typing import Any

import anyio

from actorgraph import START, ActorSystem, StateGraph
from tests.support.system_worker import Log, recover, saver_of

POISON = "poison"


def steps(pause_s: float) -> Any:
    """Two nodes; the second one kills the process if its thread is that of the poison."""

    async def first(_: Any) -> dict[str, list[str]]:
        await anyio.sleep(pause_s)
        return {"bar": ["first"]}

    async def second(state: Any) -> dict[str, list[str]]:
        await anyio.sleep(pause_s)
        if state["name"] == POISON:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"bar": ["second"]}

    builder = StateGraph(Log)
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    return builder.add_edge("first", "second").compile()


def system_at(place: str, lease_s: float, pause_s: float = 0.0) -> ActorSystem:
    """The system of the workers, with the default number of attempts."""
    return ActorSystem({"g": steps(pause_s)}, saver=saver_of(place), lease_s=lease_s)


async def main(place: str, count: int, poison: int, lease_s: float, pause_s: float) -> None:
    """Start runs and take up others until none is open."""
    async with system_at(place, lease_s, pause_s) as system:
        for number in range(count):
            name = POISON if number == poison else f"t{number}"
            await system.start("g", name, {"name": name, "bar": []})
        print("started", flush=True)
        await recover(system)


if __name__ == "__main__":
    loop, place, *rest = sys.argv[1:]
    numbers = (int(rest[0]), int(rest[1]), float(rest[2]), float(rest[3]))
    anyio.run(main, place, *numbers, backend=loop)
