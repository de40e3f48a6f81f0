"""Members of an enum of strings as names of nodes and as keys of the state."""

from enum import Enum, StrEnum
from typing import Literal

import pytest

from actorgraph import END, START, Command, Send, StateGraph
from tests.support.graphs import AB, at, writer


class Old(str, Enum):  # noqa: UP042 - as programs have them
    A = "a"
    B = "b"
    C = "c"


class New(StrEnum):
    A = "a"
    B = "b"
    C = "c"


class Key(str, Enum):  # noqa: UP042 - as above
    FOO = "foo"
    BAR = "bar"


@pytest.fixture(params=[Old, New])
def names(request):
    """An enum with the names of three nodes."""
    return request.param


def nodes(names):
    """A builder with the nodes, and an edge from START to the first."""
    builder = StateGraph(AB)
    for name in names:
        builder.add_node(name, writer(name.value))
    return builder.add_edge(START, names.A)


async def ran(graph, *place, **options) -> list[str]:
    """The nodes that ran, in order."""
    chunks = [chunk async for chunk in graph.astream({}, *place, **options)]
    found = [name for chunk in chunks for name in chunk]
    assert all(type(name) is str for name in found)
    return found


class TestNamesOfNodes:
    async def test_edges_take_them(self, names, saver):
        """
        Of one start or of several; snapshots and updates from outside have the text.
        """
        builder = nodes(names).add_edge(names.A, names.B).add_edge([names.A, names.B], names.C)
        graph = builder.add_edge(names.C, END).compile(checkpointer=saver)

        assert await ran(graph, at()) == ["a", "b", "c"]
        await graph.aupdate_state(at(), {"foo": "x"}, names.A)
        found = await graph.aget_state(at())
        assert found.next == ("b",)
        assert type(found.next[0]) is str

    @pytest.mark.parametrize("mapped", ["names", "texts", "annotation", "nothing"])
    async def test_conditional_edges_take_them(self, names, mapped):
        """
        As the source, as the answer of the path, and on both sides of a path map.
        """

        def path(state):
            return names.C

        ends = {"names": {names.C: names.C}, "texts": ["c", END]}.get(mapped)
        if mapped == "annotation":
            path.__annotations__["return"] = Literal[names.B, names.C]
        builder = nodes(names).add_conditional_edges(names.A, path, ends)
        if mapped in {"names", "texts"}:
            builder.add_edge(names.B, END).add_edge(names.C, names.B)

        assert (await ran(builder.compile()))[:2] == ["a", "c"]

    @pytest.mark.parametrize("sends", [False, True])
    async def test_commands_and_sends_take_them(self, names, sends, saver):
        """
        As targets, over a saver too: the stored name is the text.
        """

        def go(state):
            return Command(goto=[Send(names.B, {})] if sends else names.B)

        builder = StateGraph(AB).add_node(names.A, go, destinations=[names.B])
        builder.add_node(names.B, writer("b")).add_edge(START, names.A)
        graph = builder.compile(checkpointer=saver, interrupt_before=[names.B])

        assert await ran(graph, at()) == ["a", "__interrupt__"]
        assert (await graph.aget_state(at())).next == ("b",)
        assert (await graph.ainvoke(None, at()))["bar"] == ["b"]

    async def test_breakpoints_of_a_call_take_them(self, names, saver):
        """
        `interrupt_after` of a call names the node.
        """
        graph = nodes(names).add_edge(names.A, names.B).add_edge(names.B, names.C)

        found = await ran(graph.compile(checkpointer=saver), at(), interrupt_after=names.B)

        assert found == ["a", "b", "__interrupt__"]


class TestKeysOfTheState:
    @pytest.mark.every_saver
    async def test_updates_take_them(self, saver):
        """
        In an input, a return, a Command, and an update from outside; the stored key is the text.
        """

        async def first(state):
            return {Key.FOO: "first"}

        async def second(state):
            return [{Key.BAR: ["second"]}, Command(update={Key.BAR: ["third"]})]

        builder = StateGraph(AB).add_sequence([first, second]).add_edge(START, "first")
        graph = builder.compile(checkpointer=saver)
        await graph.ainvoke({Key.FOO: "input", Key.BAR: ["input"]}, at())
        await graph.aupdate_state(at(), {Key.FOO: "outside"}, "second")
        await graph.ainvoke(Command(update={Key.BAR: ["command"]}), at())

        values = (await graph.aget_state(at())).values
        assert values == {"foo": "outside", "bar": ["input", "second", "third", "command"]}
        assert all(type(key) is str for key in values)
