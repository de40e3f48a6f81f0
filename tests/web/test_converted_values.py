"""Values of converted types, over HTTP: the same text in each answer, and never an address."""

from typing import Annotated, Any, TypedDict

import httpx
import pytest

from actorgraph import START, ActorSystem, Codec, StateGraph, interrupt
from actorgraph.web import GraphRoutes
from tests.support.every_saver import store

__all__ = ["store"]


class Tensor:
    """A class of another package, without a `repr` of its own."""

    def __init__(self, items):
        self.items = items

    def __eq__(self, other):
        return isinstance(other, Tensor) and other.items == self.items

    __hash__ = None


class Named(Tensor):
    """One that has a `repr`, which shows another object inside."""

    def __repr__(self):
        return f"Named({self.items}, {object()!r})"


CODEC = Codec(
    converters={Tensor: (lambda t: t.items, Tensor), Named: (lambda t: t.items, Named)},
)
TENSOR, NAMED = f"<{__name__}.Tensor object>", "Named([2], <object object>)"


class State(TypedDict, total=False):
    t: Tensor
    n: Named
    log: Annotated[list[Any], lambda old, new: [*old, *new]]


def write(_):
    return {"t": Tensor([1]), "n": Named([2]), "log": [Tensor([3])]}


def ask(state):
    interrupt({"about": state["t"]})
    return {"log": []}


@pytest.mark.every_saver
async def test_each_answer_shows_the_same(store):
    """
    Results, states, histories, streams and questions show a converted value as its `repr` without
    its address, so that two readings of one checkpoint are equal.
    """
    builder = StateGraph(State).add_node(write).add_node(ask)
    graph = builder.add_edge(START, "write").add_edge("write", "ask").compile()
    values = {"t": TENSOR, "n": NAMED, "log": [TENSOR]}
    async with (
        ActorSystem({"g": graph}, saver=store.saver(codec=CODEC)) as system,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=GraphRoutes(system)), base_url="http://t"
        ) as client,
    ):
        await client.post("/threads", json={"thread_id": "t"})
        asked = {"assistant_id": "g", "input": {}, "stream_mode": ["values", "updates"]}
        streamed = (await client.post("/threads/t/runs/stream", json=asked)).text
        waited = (await client.post("/threads/t/runs/wait", json=asked)).json()
        states = [(await client.get("/threads/t/state")).json() for _ in range(2)]
        history = (await client.post("/threads/t/history", json={})).json()

    assert f'"t":"{TENSOR}"' in streamed
    assert " at 0x" not in streamed
    assert waited["t"] == TENSOR
    assert waited["__interrupt__"][0]["value"] == {"about": TENSOR}
    assert states[0] == states[1]
    assert states[0]["values"] == {**values, "log": [TENSOR, TENSOR]}
    assert history[0]["values"] == states[0]["values"]
    assert " at 0x" not in str(history)
