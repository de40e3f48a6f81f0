"""Classes of stored objects in LangGraph's savers: LangGraph's own, which a strict one reads."""

import operator
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from textwrap import dedent
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt as TheirInterrupt
from langgraph.types import Send as TheirSend

from actorgraph import (
    START,
    Command,
    Interrupt,
    Overwrite,
    Send,
    StateGraph,
    TimeoutPolicy,
    interrupt,
)
from actorgraph.functional import entrypoint, task
from actorgraph.savers.foreign.payloads import convert_from_langgraph, convert_to_langgraph
from actorgraph.values.alarms import Timing
from actorgraph.values.constants import INTERRUPT, TASKS
from tests.savers.foreign.plain import quietly
from tests.support.graphs import at


class Kept(TypedDict, total=False):
    name: str
    kept: Any
    log: Annotated[list[Any], operator.add]


class Asking(TypedDict, total=False):
    name: str


OBJECTS = {
    "asked": [Interrupt("a", "1" * 32), {"next": Send("b", {"of": Interrupt("c", "2" * 32)})}],
    "over": Overwrite([Send("d", 1)]),
}
"""Objects of ours in a state, at several depths."""


def program(saver: Any) -> Any:
    """A graph with everything that such a saver gets: questions, Sends, overwrites, objects."""

    def ask(state: Asking):
        return {"name": interrupt("name?", response_schema={"type": "string"})}

    async def item(given: Any):
        asked = interrupt({"of": [Interrupt("inner", "3" * 32)]}) if given["n"] == 1 else ""
        return {"log": [f"{given['n']}{asked}"]}

    def keep(state: Kept):
        return {"kept": OBJECTS, "log": Overwrite(["over"])}

    def route(state: Kept):
        return [Send("item", {"n": n}, timeout=TimeoutPolicy(idle_timeout=9.0)) for n in range(2)]

    inner = StateGraph(Asking).add_node(ask).add_edge(START, "ask").compile()
    builder = StateGraph(Kept).add_node(keep).add_node("inner", inner).add_node(item)
    builder.add_edge(START, "keep").add_edge("keep", "inner")
    builder.add_conditional_edges("inner", route, ["item"])
    with quietly():
        return builder.compile(checkpointer=saver)


def strict() -> InMemorySaver:
    """A saver whose serializer lets in LangGraph's own classes only."""
    return InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))


def payloads(thing: Any) -> Iterator[bytes]:
    """Every stored payload of an InMemorySaver."""
    if isinstance(thing, bytes):
        yield thing
    elif isinstance(thing, dict):
        for part in thing.values():
            yield from payloads(part)
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from payloads(part)


class TestStrictSavers:
    async def test_a_run_with_everything_is_stored_under_langgraphs_names(self):
        """
        Questions, Sends and objects in the state come back as they were from a strict saver, and
        nothing in it has a class of ours.
        """
        saver = strict()
        graph = program(saver)

        first = await graph.ainvoke({"log": ["start"]}, at())
        stored = saver.get_tuple(at())
        snapshot = await graph.aget_state(at())
        second = await graph.ainvoke(Command(resume="Ann"), at())
        third = await graph.ainvoke(Command(resume="!"), at())

        assert [i.value for i in first["__interrupt__"]] == ["name?"]
        assert snapshot.interrupts == tuple(first["__interrupt__"])
        assert snapshot.interrupts[0].response_schema == {"type": "string"}
        assert snapshot.values["kept"] == OBJECTS
        assert second["__interrupt__"][0].value == {"of": [Interrupt("inner", "3" * 32)]}
        assert third["log"] == ["over", "0", "1!"]
        asked = [v for _, channel, v in stored.pending_writes if channel == INTERRUPT]
        assert [type(i) for i in asked[0]] == [TheirInterrupt]
        found = [p for n in ("storage", "writes", "blobs") for p in payloads(getattr(saver, n))]
        assert found
        assert not [p for p in found if b"actorgraph." in p]

    async def test_a_functional_program_too(self):
        """
        Results of tasks, questions and the saved value of an entrypoint are stored likewise.
        """
        saver = strict()

        @task
        async def make() -> Any:
            return {"made": Interrupt("x", "4" * 32)}

        with quietly():

            @entrypoint(checkpointer=saver)
            async def flow(given: str, previous: Any = None) -> Any:
                made = await make()
                return entrypoint.final(value=(interrupt("?"), previous), save=made)

        await flow.ainvoke("", at())
        assert await flow.ainvoke(Command(resume=1), at()) == (1, None)
        await flow.ainvoke("", at())

        said = await flow.ainvoke(Command(resume=2), at())
        assert said == (2, {"made": Interrupt("x", "4" * 32)})
        found = [p for n in ("storage", "writes", "blobs") for p in payloads(getattr(saver, n))]
        assert not [p for p in found if b"actorgraph." in p]

    def test_a_program_that_imports_a_saver_alone(self):
        """
        In strict mode a program that imports nothing of LangGraph but its saver asks and goes on.
        """
        code = """
            from langgraph.checkpoint.memory import InMemorySaver
            from actorgraph import START, Command, StateGraph, interrupt

            graph = StateGraph(dict).add_node("ask", lambda state: {"a": interrupt("?")})
            graph = graph.add_edge(START, "ask").compile(checkpointer=InMemorySaver())
            at = {"configurable": {"thread_id": "t"}}
            print([i.value for i in graph.invoke({}, at)["__interrupt__"]])
            print(graph.invoke(Command(resume="yes"), at))
        """

        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", dedent(code)],
            env={"LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=False,
        )

        assert ran.stdout.splitlines() == ["['?']", "{'a': 'yes'}"], ran.stderr

    async def test_a_strict_saver_reads_objects_stored_under_our_names(self):
        """
        A strict serializer leaves the fields of questions and Sends of ours: they are made again.
        """
        serde = JsonPlusSerializer(allowed_msgpack_modules=None)
        asked = [Interrupt("a", "1" * 32), Interrupt("b", "2" * 32, {"type": "string"})]
        asked.append(Interrupt("c", "3" * 32, None, Timing(1, 9, ({"ok": 1},), (5, 7), "n|boss")))
        sends = [Send("n", {"x": 1}), Send("n", None)]

        for channel, value in ((INTERRUPT, asked), (TASKS, sends), (TASKS, sends[0])):
            left = serde.loads_typed(serde.dumps_typed(value))
            assert convert_from_langgraph(left, channel) == value


class TestConversion:
    def test_there_and_back(self):
        """
        Objects that become LangGraph's come back as ours, whatever they are in.
        """
        shown = convert_to_langgraph(OBJECTS)

        assert type(shown["asked"][0]) is TheirInterrupt
        assert type(shown["asked"][1]["next"]) is TheirSend
        assert type(shown["asked"][1]["next"].arg["of"]) is TheirInterrupt
        assert convert_from_langgraph(shown) == OBJECTS
        assert type(OBJECTS["asked"][0]) is Interrupt

    def test_only_the_times_of_a_question_are_left_out(self):
        """
        LangGraph's questions have no times; the value, the id and the schema are all there.
        """
        asked = Interrupt("a", "1" * 32, {"type": "string"}, Timing(1, 9, ("go",)))

        shown = convert_to_langgraph(asked)

        assert type(shown) is TheirInterrupt
        assert convert_from_langgraph(shown) == replace(asked, timing=None)

    def test_containers_without_such_objects_stay_the_same(self):
        """
        A value that has nothing to convert is not copied: its parts stay shared.
        """
        shared = [1, {"a": (2, 3)}]
        value = {"x": shared, "y": shared, "z": Interrupt("?")}

        shown = convert_to_langgraph(value)

        assert convert_to_langgraph(shared) is shared
        assert shown["x"] is shown["y"] is shared

    @pytest.mark.parametrize("value", [{"value": 1}, ["n", 1, 2, 3], {"id": 1, "x": 2}, "text", 7])
    def test_other_values_of_these_channels_are_left_alone(self, value):
        """
        Values without exactly the fields of a question or a Send stay as they are.
        """
        assert convert_from_langgraph(value, INTERRUPT) == value
        assert convert_from_langgraph(value, TASKS) == value
