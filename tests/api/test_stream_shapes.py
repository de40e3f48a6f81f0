"""The shape in which chunks reach their reader: bare, named, placed, or as typed parts."""

from dataclasses import dataclass, field
from operator import add
from typing import Annotated, Any

import pytest

from actorgraph import InMemorySaver, InvalidConfigError, interrupt
from tests.support.graphs import ab, at, in_a_row

LAST = {"b": {"foo": "b", "bar": ["b"]}}


async def chunks(graph, given, config=None, **options) -> list:
    """All chunks of a stream."""
    return [chunk async for chunk in graph.astream(given, config, **options)]


@dataclass
class Log:
    """A state that readers get as an object."""

    text: str = ""
    log: Annotated[list[str], add] = field(default_factory=list)


async def step(state: Log) -> dict[str, Any]:
    """A node that appends its argument."""
    return {"log": [interrupt("what?")]}


class TestV1:
    @pytest.mark.langgraph("F-D9", "F-D10", "L99")
    @pytest.mark.parametrize(
        ("mode", "subgraphs", "last"),
        [
            ("updates", False, LAST),
            (["updates"], False, ("updates", LAST)),
            ("updates", True, ((), LAST)),
            (["updates"], True, ((), "updates", LAST)),
        ],
    )
    async def test_modes_and_namespaces_are_named_where_asked_for(self, mode, subgraphs, last):
        """
        A list of modes names the mode, `subgraphs` the namespace; the root's is ().
        """
        told = await chunks(ab(), {}, stream_mode=mode, subgraphs=subgraphs)

        assert told[-1] == last

    @pytest.mark.langgraph("F-D9", "L99", "L117")
    async def test_any_sequence_of_modes_names_them(self):
        """
        A tuple of modes is a list of modes: a chunk never leaves open which mode it is of.
        """
        told = await chunks(ab(), {"foo": "x"}, stream_mode=("updates", "values"))

        assert [mode for mode, _ in told] == ["values", *["updates", "values"] * 2]


class TestV2:
    @pytest.mark.langgraph("F-D11")
    @pytest.mark.parametrize("mode", ["updates", ["updates"]])
    @pytest.mark.parametrize("subgraphs", [False, True])
    async def test_every_combination_gives_the_same_parts(self, mode, subgraphs):
        """
        Type, namespace and data, whether or not modes are a list or namespaces asked for.
        """
        told = await chunks(ab(), {}, stream_mode=mode, subgraphs=subgraphs, version="v2")

        assert told[-1] == {"type": "updates", "ns": (), "data": LAST}

    @pytest.mark.langgraph("F-D11", "L98")
    async def test_values_are_objects_of_the_schema_and_interrupts_a_field(self):
        """
        `values` parts hold the user's class; questions are beside it, not in it.
        """
        graph = in_a_row({"step": step}, schema=Log, checkpointer=InMemorySaver())

        told = await chunks(graph, {"text": "x"}, at(), stream_mode="values", version="v2")

        assert [part["data"] for part in told] == [Log("x", []), Log("x", [])]
        assert [[i.value for i in part["interrupts"]] for part in told] == [[], ["what?"]]

    @pytest.mark.langgraph("F-D11")
    async def test_checkpoints_hold_objects_of_the_schema_once_the_input_is_in(self):
        """
        A checkpoint's values are the user's class; before the input is in they are a dict.
        """
        graph = in_a_row({"step": step}, schema=Log, checkpointer=InMemorySaver())

        told = await chunks(
            graph, {"text": "x"}, at(), stream_mode=["checkpoints", "debug"], version="v2"
        )
        plain = [part["data"]["values"] for part in told if part["type"] == "checkpoints"]
        wrapped = [
            part["data"]["payload"]["values"]
            for part in told
            if part["type"] == "debug" and part["data"]["type"] == "checkpoint"
        ]

        assert plain == wrapped == [{"log": []}, Log("x", [])]


class TestPrinting:
    @pytest.mark.langgraph("F-D18")
    async def test_printed_modes_are_beside_what_is_read(self, capsys):
        """
        `print_mode` prints chunks and changes nothing of what the reader gets.
        """
        told = await chunks(ab(), {}, stream_mode="values", print_mode="updates")

        assert told == await chunks(ab(), {}, stream_mode="values")
        printed = capsys.readouterr().out.splitlines()
        assert [line.split(" ", 1)[1] for line in printed][-1] == repr(LAST)
        assert all("[updates]" in line for line in printed)

    @pytest.mark.langgraph("F-D18")
    async def test_debug_prints_updates_and_values(self, capsys):
        """
        `debug=True` prints what each task returned and the state after it.
        """
        await chunks(ab(), {"foo": "x"}, stream_mode="custom", debug=True)

        printed = capsys.readouterr().out.splitlines()
        assert sum("[updates]" in line for line in printed) == 2
        assert sum("[values]" in line for line in printed) == 3

    @pytest.mark.langgraph("F-A15", "F-D18")
    async def test_a_graph_may_print_every_run(self, capsys):
        """
        `compile(debug=True)` is `debug=True` for each call that doesn't say otherwise.
        """
        loud = ab(debug=True)
        await loud.ainvoke({})
        await loud.ainvoke({}, debug=False)
        await chunks(loud, {}, stream_mode="custom")
        await ab().ainvoke({}, debug=True)

        printed = capsys.readouterr().out.splitlines()
        assert sum("[updates]" in line for line in printed) == 3 * 2

    @pytest.mark.langgraph("F-D18")
    async def test_ainvoke_prints_too(self, capsys):
        """
        `ainvoke(print_mode=)` prints chunks and returns what it returns without.
        """
        result = await ab().ainvoke({}, print_mode=["updates", "tasks"])

        assert result == await ab().ainvoke({})
        printed = capsys.readouterr().out.splitlines()
        assert sum("[updates]" in line for line in printed) == 2
        assert sum("[tasks]" in line for line in printed) == 4


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "advice"),
        [
            ({"version": "v9"}, "v1"),
            ({"subgrafs": True}, "subgraphs"),
            ({"when_full": "blok"}, "block"),
            ({"print_mode": "valeus"}, "values"),
            ({"buffer": 0}, "1 chunk"),
        ],
    )
    def test_a_wrong_option_fails_at_the_call(self, options, advice):
        """
        An unknown option is refused before the run begins, with the nearest right word.
        """
        with pytest.raises(InvalidConfigError, match=advice):
            ab().astream({}, **options)
