"""A program whose saver has converters, or keys: its commands name another database by --db."""

import os
from operator import add
from typing import Annotated, Any, TypedDict

from actorgraph import START, Codec, InMemorySaver, StateGraph, interrupt


class Tensor:
    """A class of another package."""

    def __init__(self, items: list[int]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and other.items == self.items

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"Tensor({self.items})"


class State(TypedDict, total=False):
    """Tensors, alone and in a growing list."""

    t: Tensor
    log: Annotated[list[Any], add]


def make(_: State) -> State:
    """Write some."""
    return {"t": Tensor([1, 2]), "log": [Tensor([3])]}


def ask(state: State) -> State:
    """Ask with one."""
    return {"log": [interrupt({"about": state.get("t")})]}


CODEC = Codec(converters={Tensor: (lambda t: t.items, Tensor)})
KEYED = Codec(converters={Tensor: (lambda t: t.items, Tensor)}, keys={"k": os.urandom(32)})


def compiled(codec: Codec) -> Any:
    """The graph over a saver with a codec."""
    builder = StateGraph(State).add_node(make).add_node(ask)
    builder.add_edge(START, "make").add_edge("make", "ask")
    return builder.compile(checkpointer=InMemorySaver(codec=codec))


graph = compiled(CODEC)
keyed = compiled(KEYED)
