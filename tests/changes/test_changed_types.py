"""Stored objects whose class has got other fields since: refused by name, or migrated, wherever."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from actorgraph import (
    START,
    Command,
    InMemorySaver,
    Send,
    StateGraph,
    interrupt,
)
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.errors import ChangedTypeError
from actorgraph.types import Migration
from actorgraph.values.graph_changes import ResumeVerdict
from tests.support.graphs import at
from tests.support.known_types import restart

JOB = f"{__name__}:Job"
MOVED = (Migration(types={JOB: lambda _: "moved"}),)


def made(kind: str, field: str) -> Any:
    """The class Job of one library, with one field."""
    body = {"__annotations__": {field: int}, "__module__": __name__, "__qualname__": "Job"}
    if kind == "dataclass":
        return dataclasses.dataclass(type("Job", (), body))
    if kind == "attrs":
        return attrs.define(type("Job", (), body), slots=False)
    base: Any = {"pydantic": pydantic.BaseModel, "msgspec": msgspec.Struct}[kind]
    return type(base)("Job", (base,), body)


Graph = Callable[..., Any]


def state_of(job: Any) -> Any:
    """A state that declares the class."""
    return TypedDict(
        "State",
        {"job": job, "log": Annotated[list[str], lambda a, b: [*a, *b]]},
        total=False,
    )


def asks(_: Any) -> Any:
    return {"log": [str(interrupt("sure?"))]}


def in_send(job: Any, saver: Any, value: Any, *migrations: Migration) -> Any:
    """A thread that stops before a Send with a Job."""
    builder = StateGraph(state_of(job)).add_node("work", lambda given: {"log": [str(given)]})
    builder.add_node("first", lambda _: Command(goto=Send("work", value)), destinations=("work",))
    builder.add_edge(START, "first")
    options: Any = {"interrupt_before": ["work"], "migrations": migrations, "name": "g"}
    return builder.compile(saver, **options)


def in_question(job: Any, saver: Any, value: Any, *migrations: Migration) -> Any:
    """A thread that asks about a Job."""
    builder = StateGraph(state_of(job))
    builder.add_node("ask", lambda _: {"log": [str(interrupt(value))]}).add_edge(START, "ask")
    return builder.compile(saver, migrations=migrations, name="g")


def in_result(job: Any, saver: Any, value: Any, *migrations: Migration) -> Any:
    """A thread of which a finished task has written a Job, beside one that asks."""
    builder = StateGraph(state_of(job))
    builder.add_node("work", lambda _: {"job": value}).add_node("ask", asks)
    builder.add_edge(START, "work").add_edge(START, "ask")
    return builder.compile(saver, migrations=migrations, name="g")


def in_state(job: Any, saver: Any, value: Any, *migrations: Migration) -> Any:
    """A thread with a Job in its state."""
    builder = StateGraph(state_of(job)).add_node("work", lambda _: {"job": value})
    builder.add_node("ask", asks).add_edge(START, "work").add_edge("work", "ask")
    return builder.compile(saver, migrations=migrations, name="g")


def in_answer(job: Any, saver: Any, value: Any, *migrations: Migration) -> Any:
    """A thread whose first question of two was answered with a Job."""
    builder = StateGraph(state_of(job))

    def ask(_: Any) -> Any:
        return {"log": [str(interrupt("one")), str(interrupt("two"))]}

    builder.add_node("ask", ask).add_edge(START, "ask")
    return builder.compile(saver, migrations=migrations, name="g")


PLACES: dict[str, Graph] = {
    "send": in_send,
    "question": in_question,
    "result": in_result,
    "state": in_state,
    "answer": in_answer,
}


@pytest.mark.parametrize("kind", ["dataclass", "attrs", "pydantic", "msgspec"])
@pytest.mark.parametrize("place", list(PLACES))
async def test_an_object_with_a_renamed_field(place, kind):
    """
    A Job that waits anywhere is refused with its thread, its type and the Migration to write, as
    the check says; with the Migration the thread goes on.
    """
    saver, graph = InMemorySaver(), PLACES[place]
    before, after = made(kind, "price"), made(kind, "cents")
    await graph(before, saver, before(price=7)).ainvoke({"log": []}, at())
    if place == "answer":
        await graph(before, saver, None).ainvoke(Command(resume=before(price=7)), at())
    restart()

    now = graph(after, saver, after(cents=700))
    (group,) = (await check_threads({"g": now}, saver)).groups
    assert group.verdict is ResumeVerdict.REFUSED
    assert f"Migration(types={{{JOB!r}: " in group.reasons[0].cure
    with pytest.raises(ChangedTypeError, match="thread") as refused:
        await now.ainvoke(Command(resume="yes"), at())
    assert JOB in refused.value.what
    assert f"Migration(types={{{JOB!r}: " in refused.value.do

    moved = graph(after, saver, after(cents=700), *MOVED)
    (group,) = (await check_threads({"g": moved}, saver)).groups
    assert group.verdict is not ResumeVerdict.REFUSED
    given = None if place == "send" else Command(resume="yes")
    assert "yes" in str(result := await moved.ainvoke(given, at())) or "moved" in str(result)
