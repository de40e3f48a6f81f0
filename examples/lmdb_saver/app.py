"""A program over the saver: the graph of an order, its system, and the names that commands take.

cd examples
export LMDB_FOLDER=orders.lmdb
actorgraph threads --db lmdb_saver.app:make_saver
actorgraph doctor lmdb_saver.app:graph
"""

import os
from operator import add
from typing import Annotated, TypedDict

from actorgraph import START, ActorSystem, StateGraph, interrupt
from lmdb_saver.saver import LmdbSaver


class Order(TypedDict, total=False):
    """The steps that an order has had."""

    done: Annotated[list[str], add]


async def reserve(state: Order) -> Order:
    """Reserve the goods."""
    return {"done": ["reserved"]}


async def approve(state: Order) -> Order:
    """Ask a person."""
    return {"done": [f"approved by {interrupt('Who approves?')}"]}


async def ship(state: Order) -> Order:
    """Ship the goods."""
    return {"done": ["shipped"]}


def make_saver() -> LmdbSaver:
    """The saver of this program, in the folder that the environment names."""
    return LmdbSaver(os.environ.get("LMDB_FOLDER", "orders.lmdb"))


def make_system() -> ActorSystem:
    """A system of this program; each process has one."""
    return ActorSystem({"orders": graph}, saver=make_saver())


builder = StateGraph(Order).add_node(reserve).add_node(approve).add_node(ship)
builder.add_edge(START, "reserve").add_edge("reserve", "approve").add_edge("approve", "ship")
graph = builder.compile(name="orders", checkpointer=make_saver())
