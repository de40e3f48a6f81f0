"""Savers in memory that copy nothing: states of any objects."""

import threading
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import (
    END,
    START,
    Codec,
    Command,
    InMemorySaver,
    InvalidConfigError,
    StateGraph,
    interrupt,
)
from actorgraph.errors import SerializationError
from tests.support.graphs import at, history

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


class Objects(TypedDict, total=False):
    """A value that no database takes."""

    lock: Any
    calls: Annotated[list[Any], add]


def graph(saver):
    async def first(state):
        return {"lock": threading.Lock(), "calls": [lambda: 1]}

    async def second(state):
        with state["lock"]:
            return {"calls": [lambda: interrupt_answer]}

    async def ask(state):
        return {"calls": [interrupt("?")]}

    interrupt_answer = 2
    builder = StateGraph(Objects).add_sequence([("first", first), ("second", second), ("ask", ask)])
    return builder.add_edge(START, "first").add_edge("ask", END).compile(checkpointer=saver)


@pytest.mark.promise("S093")
async def test_a_state_of_locks_and_functions():
    """
    With copy="none" a run with a lock and functions in its state is saved, pauses, goes on, and has
    a history, all with the very objects.
    """
    async with InMemorySaver(copy="none") as saver:
        await graph(saver).ainvoke({"calls": [print]}, at())
        paused = (await graph(saver).aget_state(at())).values
        ended = await graph(saver).ainvoke(Command(resume=len), at())
        points = await history(graph(saver), at())
        copied = await saver.acopy_thread("t", "copy")
        there = (await graph(saver).aget_state(at("copy"))).values

    assert [call if call in {print, len} else call() for call in ended["calls"]] == [
        print,
        1,
        2,
        len,
    ]
    assert ended["lock"] is paused["lock"] is there["lock"]
    assert [len(p.values.get("calls", [])) for p in points] == [4, 3, 2, 1, 0]
    assert copied is None


@pytest.mark.promise("S093")
async def test_other_savers_name_the_channel(saver):
    """
    Savers that encode refuse the state, and name the channel.
    """
    with pytest.raises(SerializationError, match="of first: lock has"):
        await graph(saver).ainvoke({"calls": []}, at())


@pytest.mark.parametrize("options", [{"copy": "deep"}, {"copy": "none", "codec": Codec()}])
def test_useless_settings_are_refused(options):
    """
    A copy that there isn't, and a codec that would have nothing to do, are refused.
    """
    with pytest.raises(InvalidConfigError, match="copy="):
        InMemorySaver(**options)
