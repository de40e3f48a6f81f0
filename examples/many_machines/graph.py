"""The graph that the processes share: an order that is checked, paid, packed and sent."""

import asyncio
import random
from operator import add
from typing import Annotated, Any, TypedDict

from actorgraph import END, START, StateGraph

STAGES = ("check", "pay", "pack", "send")


class Order(TypedDict, total=False):
    """An order and what has been done with it."""

    number: int
    done: Annotated[list[str], add]


def order_graph() -> Any:
    """Return the compiled graph; each node waits as if for another service."""
    builder = StateGraph(Order)
    for name in STAGES:

        async def stage(state: Order, name: str = name) -> dict[str, Any]:
            await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - only a pause
            return {"done": [name]}

        builder.add_node(name, stage)
    for before, after in zip((START, *STAGES), (*STAGES, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile()
