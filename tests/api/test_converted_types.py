"""Values of a type that a converter stores: in inputs, writes, questions, answers and updates."""

from typing import Annotated, TypedDict

import pytest

from actorgraph import START, Codec, Command, SerializationError, StateGraph, interrupt
from tests.support.graphs import at


class Tensor:
    """A class of another package: compared by what it holds."""

    def __init__(self, data):
        self.data = data

    def __eq__(self, other):
        return type(other) is type(self) and other.data == self.data

    __hash__ = None


def joined(value, write):
    return Tensor([*value.data, *write.data])


class State(TypedDict, total=False):
    t: Tensor
    more: Annotated[Tensor, joined]


def ask(state):
    answer = interrupt(state["t"])
    return {"t": Tensor([*state["t"].data, *answer.data]), "more": answer}


def anew(saver):
    """Compile the graph over a codec of its own, as another process does."""
    saver.codec = Codec(converters={Tensor: (lambda value: value.data, Tensor)})
    return StateGraph(State).add_node(ask).add_edge(START, "ask").compile(checkpointer=saver)


@pytest.mark.every_saver
async def test_a_run_stores_converted_values(saver):
    """
    Inputs, writes, questions, answers and updates of a converted type are stored by each saver,
    and read by another codec with that converter.
    """
    asked = await anew(saver).ainvoke({"t": Tensor([1]), "more": Tensor([0])}, at("t"))
    await anew(saver).ainvoke(Command(resume=Tensor([2])), at("t"))
    await anew(saver).aupdate_state(at("t"), {"more": Tensor([3])})
    state = await anew(saver).aget_state(at("t"))

    assert asked["__interrupt__"][0].value == Tensor([1])
    assert state.values == {"t": Tensor([1, 2]), "more": Tensor([0, 2, 3])}


@pytest.mark.every_saver
async def test_without_the_converter_nothing_runs(saver):
    """
    Without the converter the input is refused with its path, before any node runs.
    """
    graph = StateGraph(State).add_node(ask).add_edge(START, "ask").compile(checkpointer=saver)

    with pytest.raises(SerializationError, match="Tensor") as refused:
        await graph.ainvoke({"t": Tensor([1])}, at("t"))

    assert "Codec(converters=) stores others" in refused.value.do
    assert (await graph.aget_state(at("t"))).next == ()
