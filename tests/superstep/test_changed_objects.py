"""A node that changes the state that it was given, and returns it: what is new is an update."""

import dataclasses
from typing import Any

import msgspec
import pytest
from langgraph import graph as theirs
from langgraph.types import Command as TheirCommand
from pydantic import BaseModel, Field

from actorgraph import START, Command, StateGraph


class Inner(BaseModel):
    tags: list[str] = []


class Model(BaseModel):
    outer: int = 0
    log: list[str] = Field(default_factory=list)
    options: dict[str, Any] = {}
    deep: dict[str, list[int]] = Field(default_factory=lambda: {"x": []})
    inner: Inner = Inner()


@dataclasses.dataclass
class Plain:
    outer: int = 0
    log: list[str] = dataclasses.field(default_factory=list)
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    deep: dict[str, list[int]] = dataclasses.field(default_factory=lambda: {"x": []})
    inner: Inner = dataclasses.field(default_factory=Inner)


class Struct(msgspec.Struct):
    outer: int = 0
    log: list[str] = []
    options: dict[str, Any] = {}
    deep: dict[str, list[int]] = msgspec.field(default_factory=lambda: {"x": []})
    inner: Inner = msgspec.field(default_factory=Inner)


def change(state):
    """Change each field in place."""
    state.outer += 1
    state.log.append("seen")
    state.options["k"] = 1
    state.deep["x"].append(1)
    state.inner.tags.append("t")
    return state


CHANGED = {
    "outer": 2,
    "log": ["seen"],
    "options": {"k": 1},
    "deep": {"x": [1]},
    "inner": Inner(tags=["t"]),
}
RETURNS = {
    "the object": lambda made, _: made,
    "a Command": lambda made, command: command(update=made),
    "a list": lambda made, command: [command(update=made)],
}


@pytest.mark.langgraph("F-A16")
@pytest.mark.parametrize("returns", RETURNS)
@pytest.mark.parametrize("schema", [Model, Plain, Struct])
async def test_a_change_in_place_is_an_update(schema, returns):
    """
    Defaults that were never set count too, nested ones as well, for the next node and the result.
    """

    def node(state):
        return RETURNS[returns](change(state), Command)

    builder = StateGraph(schema).add_node("n", node)
    builder.add_node("next", lambda state: {"log": [*state.log, *state.inner.tags]})
    graph = builder.add_edge(START, "n").add_edge("n", "next").compile()

    expected = {**CHANGED, "log": ["seen", "t"]}
    assert await graph.ainvoke({"outer": 1}) == expected
    assert await graph.ainvoke(schema(outer=1)) == expected


@pytest.mark.langgraph("F-A16")
@pytest.mark.parametrize("returns", RETURNS)
@pytest.mark.parametrize("schema", [Model, Plain])
async def test_it_is_what_langgraph_makes_of_it(schema, returns):
    """
    The same program under LangGraph has the same result, whatever keys the input had.
    """

    def run(builder, command):
        builder.add_node("n", lambda state: RETURNS[returns](change(state), command))
        return builder.add_edge(START, "n").compile()

    ours = run(StateGraph(schema), Command)
    other = run(theirs.StateGraph(schema), TheirCommand)
    for given in ({"outer": 1}, {"outer": 1, "log": ["g"], "deep": {"x": [5]}}):
        assert await ours.ainvoke(given) == other.invoke(given)


async def test_untouched_fields_are_not_an_update():
    """
    A new model with one field leaves what others wrote; what can't be changed isn't made again.
    """
    made: list[int] = []

    class Counted(BaseModel):
        outer: int = 0
        log: list[str] = []
        number: int = Field(default_factory=lambda: made.append(1) or 7)

    builder = StateGraph(Counted).add_node("n", lambda state: Counted(outer=9))
    graph = builder.add_edge(START, "n").compile()

    assert await graph.ainvoke({"outer": 1, "log": ["kept"]}) == {"outer": 9, "log": ["kept"]}
    assert len(made) == 2  # one for each object
