"""Every iterator of the public API, left early: what it reads goes on, and nothing of it stays."""

import gc
import weakref
from contextlib import suppress

import anyio
import pytest

from actorgraph import InMemorySaver
from actorgraph.runtime import portal
from actorgraph.sessions import session
from tests.support.abandoned_iterators import SAME, SCENES, TRANSFORMERS, WAYS, tasks
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, in_a_row, writer
from tests.support.public_iterators import iterators


def every_stream(graph):
    """A run's events, as a plain `for` reads them."""
    return iter(graph.stream_events({}, at(), version="v3", transformers=TRANSFORMERS))


BLOCKING = {
    "StreamCalls.stream": lambda graph: graph.stream({}, at()),
    "StateCalls.get_state_history": lambda graph: graph.get_state_history(at()),
    "CheckpointMethods.list": lambda graph: graph.checkpointer.list(at()),
    "StateCalls.get_subgraphs": lambda graph: graph.get_subgraphs(),
    "RunCalls.stream_events": every_stream,
    "_BlockingView.__iter__": every_stream,
    "StreamChannel.__iter__": lambda g: iter(g.stream_events({}, at()).values),
    "StreamChannel.tee": lambda g: g.stream_events({}, at()).values.tee(2)[0],
    "Session.stream": lambda _: session("t", InMemorySaver()).stream(lambda: iter("abc")),
}


def test_every_iterator_of_the_public_api_is_left_here():
    """
    Each method that returns an iterator has a scene, or equals another one.
    """
    left = {name for scene in SCENES for name in scene.covers} | set(BLOCKING) | set(SAME)

    assert iterators() - left == set(), "add a scene to tests/support/abandoned_iterators.py"
    assert left - iterators() == set(), "these are gone"


@pytest.mark.one_loop
@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_a_left_iterator_is_freed(scene, leave, tmp_path):
    """
    Left by `break`, an error, a cancellation, as garbage or unread: what it reads comes to its
    end, and no object and no task of it stays.
    """
    async with scene.opened(tmp_path) as (make, finish):
        before = tasks()
        left = await leave(make)
        gc.collect()
        await finish()

        assert left() is None
        with anyio.fail_after(PATIENCE_S):
            while tasks() > before:
                await anyio.lowlevel.checkpoint()


def left_by_break(made):
    for _ in made:
        break


def left_by_error(made):
    with suppress(KeyError):
        for _ in made:
            raise KeyError


def left_as_garbage(made):
    next(iter(made), None)
    cycle = [made]
    cycle.append(cycle)


@pytest.mark.parametrize("leave", [left_by_break, left_by_error, left_as_garbage, lambda _: None])
@pytest.mark.parametrize("name", BLOCKING)
def test_a_left_blocking_iterator_is_freed(name, leave):
    """
    The same in code without an event loop: the thread is free, and the background loop as well.
    """
    inner = ab(checkpointer=True)
    graph = in_a_row({"inner": inner, "a": writer("a")}, checkpointer=InMemorySaver())
    graph.invoke({}, at())
    before = portal.call(counted)

    made = BLOCKING[name](graph)
    left = weakref.ref(made)
    leave(made)
    del made
    gc.collect()

    assert left() is None
    graph.invoke({}, at())
    assert portal.call(counted) <= before


async def counted():
    return tasks()
