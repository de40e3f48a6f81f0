"""Reads of graphs that a node's function calls and the graph above can't find: tools' agents."""

from typing import Any

import pytest

from actorgraph import Command, interrupt
from actorgraph.errors import InvalidConfigError, SchemaMismatchError
from tests.support.graphs import at, history, in_a_row
from tests.support.subgraphs import Log


class Notes(Log):
    """A state with a key more than that of the graph above."""

    notes: str


def calling(saver: Any) -> Any:
    """A graph whose node calls one that has a key more; found by a lookup, it is undeclared."""
    inner = in_a_row(
        {
            "first": lambda _: {"log": ["f"], "notes": "n"},
            "ask": lambda _: {"log": [interrupt("?")]},
        },
        schema=Notes,
    )
    agents = {"one": inner}

    async def tools(_: Any) -> dict[str, Any]:
        await agents["one"].ainvoke({"log": ["in"]})
        return {"log": ["done"]}

    return in_a_row({"tools": tools}, schema=Log, checkpointer=saver)


async def place_below(graph: Any) -> Any:
    found = [ns async for ns, _ in graph.astream({"log": []}, at(), subgraphs=True) if ns]
    return at(checkpoint_ns=found[0][0])


@pytest.mark.every_saver
async def test_its_state_is_read_as_far_as_the_graph_above_knows_its_keys(saver):
    """
    The state in an undeclared namespace has the keys of the graph that is asked, as its history.
    """
    graph = calling(saver)
    below = await place_below(graph)

    asking = await graph.aget_state(below)
    await graph.ainvoke(Command(resume="yes"), at())
    ended = await graph.aget_state(below)

    assert asking.values == {"log": ["in", "f"]}
    assert ended.values == {"log": ["in", "f", "yes"]}
    shown = [point.values for point in await history(graph, below)]
    assert shown[0] == ended.values
    assert shown[1] == asking.values
    assert (await graph.aget_state(asking.config)).values == asking.values


async def test_its_timeline_is_read(saver):
    """
    The supersteps in an undeclared namespace are listed, and no key that is unknown is in the way.
    """
    graph = calling(saver)
    below = await place_below(graph)

    assert len(await graph.aget_timeline(below)) == 3


async def test_it_can_not_be_changed(saver):
    """
    A change of an undeclared namespace is refused: the graph above has other nodes.
    """
    graph = calling(saver)
    below = await place_below(graph)

    with pytest.raises(InvalidConfigError, match="not found in graph"):
        await graph.aupdate_state(below, {"log": ["x"]})


async def test_a_thread_of_another_graph_is_still_refused(saver):
    """
    Only an unknown namespace is read partly: a thread of a graph with other keys is refused.
    """
    other = in_a_row({"a": lambda _: {"notes": "n"}}, schema=Notes, checkpointer=saver)
    await other.ainvoke({"log": []}, at())

    with pytest.raises(SchemaMismatchError, match="'notes'"):
        await calling(saver).aget_state(at())
