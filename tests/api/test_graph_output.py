"""`version="v2"`: what `ainvoke` returns."""

from dataclasses import dataclass

import pytest

from actorgraph import (
    GraphOutput,
    InMemorySaver,
    Interrupt,
    InvalidConfigError,
    StateGraph,
    interrupt,
)
from actorgraph.errors import LostPauseWarning
from tests.support.graphs import at, in_a_row


@dataclass
class Data:
    foo: str = ""
    bar: str = ""


def asks(state):
    return {"bar": interrupt("?")}


class TestGraphOutput:
    @pytest.mark.langgraph("F-C23")
    async def test_the_value_is_in_the_output_schema(self):
        """
        A dataclass graph gives its dataclass, where "v1" gives a dict.
        """
        graph = in_a_row({"n": lambda s: {"foo": "x"}}, schema=Data)

        assert await graph.ainvoke({}) == {"foo": "x"}
        assert await graph.ainvoke({}, version="v2") == GraphOutput(Data("x"))

    @pytest.mark.langgraph("F-C23", "L98")
    async def test_open_questions_are_apart_from_the_values(self):
        """
        A run that pauses gives its state and its questions.
        """
        graph = in_a_row({"asks": asks}, checkpointer=InMemorySaver())
        output = await graph.ainvoke({"foo": "a"}, at(), version="v2")

        assert output.value == {"foo": "a", "bar": []}
        assert [type(i) for i in output.interrupts] == [Interrupt]
        assert output.interrupts[0].value == "?"

    async def test_a_graph_over_one_value_keeps_it_when_it_pauses(self):
        """
        The value is not swallowed by the questions.
        """
        graph = in_a_row({"asks": lambda s: interrupt("?")}, schema=int)
        with pytest.warns(LostPauseWarning):
            output = await graph.ainvoke(5, version="v2")

        assert (output.value, len(output.interrupts)) == (5, 1)

    @pytest.mark.langgraph("F-C23")
    async def test_one_output_key_gives_its_bare_value(self):
        """
        `output_keys="foo"` picks one value in both versions; a pause in "v1" keeps the dict.
        """
        graph = in_a_row({"n": lambda s: {"foo": "x"}})

        assert await graph.ainvoke({}, output_keys="foo") == "x"
        assert await graph.ainvoke({}, output_keys="foo", version="v2") == GraphOutput("x")
        with pytest.warns(LostPauseWarning):
            paused = await in_a_row({"asks": asks}).ainvoke({"foo": "a"}, output_keys="foo")
        assert paused["foo"] == "a"
        assert paused["__interrupt__"][0].value == "?"

    @pytest.mark.langgraph("F-C23", "F-D11")
    async def test_other_modes_give_a_list_of_parts(self):
        """
        With a stream mode the result is the list of typed parts.
        """
        graph = in_a_row({"n": lambda s: {"foo": "x"}})
        parts = await graph.ainvoke({}, stream_mode="updates", version="v2")

        assert parts == [{"type": "updates", "ns": (), "data": {"n": {"foo": "x"}}}]

    @pytest.mark.langgraph("F-C23")
    def test_it_reads_like_the_dict_of_v1(self):
        """
        Keys of the value and `"__interrupt__"` can be read and asked for.
        """
        asked = (Interrupt("?", "i"),)
        for output in (GraphOutput({"foo": 1}, asked), GraphOutput(Data("a"), asked)):
            assert output["foo"]
            assert output["__interrupt__"] == asked
            assert "foo" in output
            assert "__interrupt__" in output
            assert "other" not in output
            with pytest.raises(KeyError):
                output["other"]
        assert "__interrupt__" not in GraphOutput({})

    async def test_other_versions_are_refused(self):
        """
        Nothing runs under a version that isn't there.
        """
        graph = StateGraph(int).add_node("n", lambda s: 1).add_edge("__start__", "n").compile()
        with pytest.raises(InvalidConfigError, match="version"):
            await graph.ainvoke(0, version="v3")


async def test_unknown_arguments_are_refused():
    """
    A misspelled argument of `ainvoke` or `astream` is named, with the one that is meant.
    """
    graph = in_a_row({"n": lambda s: {"foo": "x"}})
    with pytest.raises(InvalidConfigError, match=r"ainvoke\(\).*'contxt'(.|\n)*context"):
        await graph.ainvoke({}, contxt=1)
    with pytest.raises(InvalidConfigError, match=r"astream\(\).*'subgraph'(.|\n)*subgraphs"):
        graph.astream({}, subgraph=True)
