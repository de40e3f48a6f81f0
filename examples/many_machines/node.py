"""One process of the example: `python -m many_machines.node accept|work URL`.

It writes a line of JSON with its figures twice a second. "accept" starts an order ten times per
second on average; "work" runs orders until SIGTERM, then hands the rest over.
"""

import json
import os
import random
import sys

import anyio

from actorgraph import ActorSystem, PostgresSaver, SystemBusyError
from actorgraph.dispatch import PGQueuerDispatcher
from many_machines.graph import order_graph

ORDERS_PER_S = 20.0
LEASE_S = 5.0


def show(system: ActorSystem, role: str) -> None:
    """Write the figures of this process."""
    figures = system.statistics()
    left = figures.left.get("success", 0)
    line = {"pid": os.getpid(), "role": role, "active": figures.active, "done": left}
    sys.stdout.write(json.dumps({**line, "refused": figures.refused}) + "\n")
    sys.stdout.flush()


async def accept(system: ActorSystem) -> None:
    """Start orders until the process ends."""
    number = os.getpid() * 1_000_000
    while True:
        number += 1
        try:
            await system.start("order", f"order-{number}", {"number": number, "done": []})
        except SystemBusyError as busy:
            await anyio.sleep(busy.retry_after_s)
        await anyio.sleep(random.expovariate(ORDERS_PER_S))


async def figures(system: ActorSystem, role: str) -> None:
    """Show the figures until the process ends."""
    while True:
        show(system, role)
        await anyio.sleep(0.5)


async def main(role: str, url: str) -> None:
    """Run one process."""
    async with ActorSystem(
        {"order": order_graph()},
        saver=PostgresSaver(url, schema="machines"),
        dispatcher=PGQueuerDispatcher(),
        role="accept" if role == "accept" else "work",
        max_runs=200,
        reserve=20 if role == "work" else 0,
        lease_s=LEASE_S,
    ) as system:
        system.spawn(figures, system, role)
        if role == "accept":
            system.spawn(accept, system)
        await system.drain_at_signal()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
