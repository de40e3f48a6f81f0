"""Contexts of runs that wait, under a graph whose `context_schema` has changed since."""

import dataclasses
from typing import Any, NotRequired, TypedDict

import anyio
import anyio.lowlevel
import attrs
import msgspec
import pydantic
import pytest

from actorgraph import START, ActorSystem, InMemorySaver, Runtime, StateGraph
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.types import Migration
from actorgraph.values.graph_changes import ResumeVerdict
from tests.support.known_types import restart

pytestmark = pytest.mark.each_value

KINDS = ["dataclass", "attrs", "pydantic", "msgspec", "typeddict"]


def made(kind: str, fields: dict[str, Any], name: str = "Settings") -> Any:
    """A class of one library with these fields: name -> annotation."""
    body = {"__annotations__": fields, "__module__": __name__, "__qualname__": name}
    if kind == "typeddict":
        schema = TypedDict(name, fields)  # type: ignore[misc]
        schema.__module__ = __name__
        return schema
    if kind == "dataclass":
        return dataclasses.dataclass(type(name, (), body))
    if kind == "attrs":
        return attrs.define(type(name, (), body), slots=False)
    base: Any = {"pydantic": pydantic.BaseModel, "msgspec": msgspec.Struct}[kind]
    return type(base)(name, (base,), body)


class State(TypedDict, total=False):
    said: str


def graph(saver: Any, schema: Any, *migrations: Migration) -> Any:
    """A graph whose node says what context it has got."""

    def say(_: Any, runtime: Runtime[Any]) -> Any:
        context = runtime.context
        shown = context if isinstance(context, dict) else vars_of(context)
        return {"said": str(sorted(shown.items()))}

    builder = StateGraph(State, context_schema=schema).add_node("say", say)
    return builder.add_edge(START, "say").compile(saver, name="g", migrations=migrations)


def vars_of(thing: Any) -> dict[str, Any]:
    """The fields of an object."""
    names = getattr(thing, "__struct_fields__", None) or vars(thing)
    return {name: getattr(thing, name) for name in names}


async def verdict_of(saver: Any, now: Any) -> Any:
    (group,) = (await check_threads({"g": now}, saver)).groups
    return group


async def outcome(saver: Any, now: Any) -> Any:
    """The result of the run that waits; None if the system leaves it as a misfit."""
    async with ActorSystem({"g": now}, saver=saver) as system:
        with anyio.fail_after(20):
            while not (runs := await system.recover()):
                if system.statistics().misfits:
                    return None
                await anyio.lowlevel.checkpoint()
            return await runs[0].result()


CHANGES = {
    "a field renamed": ({"model": str}, {"engine": str}),
    "a field lost": ({"model": str, "limit": int}, {"engine": str}),
    "a field more": ({"model": str}, {"model": str, "engine": str}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", list(CHANGES))
@pytest.mark.parametrize("as_object", [True, False])
async def test_a_changed_class(kind, change, as_object):
    """
    A run with a context of before is refused with its type and the Migration to write, as the
    check says, and left by recovery; with the Migration it runs.
    """
    old, new = CHANGES[change]
    saver, before, after = InMemorySaver(), made(kind, old), made(kind, new)
    given: Any = {key: "x" if hint is str else 7 for key, hint in old.items()}
    context = before(**given) if as_object else given
    async with ActorSystem({"g": graph(saver, before)}, saver=saver) as system:
        await system.start("g", "t", {"said": ""}, context=context, delay_s=0.001)
    restart()

    plain = graph(saver, after)
    group = await verdict_of(saver, plain)
    name = f"{__name__}:Settings"
    assert group.verdict is ResumeVerdict.REFUSED
    assert f"Migration(types={{{name!r}: " in group.reasons[0].cure
    assert await outcome(saver, plain) is None

    def moved(fields: dict[str, Any]) -> Any:
        fields = fields[0] if isinstance(fields, list) else fields  # of a pydantic model
        return after(**{key: fields.get(key, fields["model"]) for key in new})

    migrated = graph(saver, after, Migration(types={name: moved}))
    assert (await verdict_of(saver, migrated)).verdict is not ResumeVerdict.REFUSED
    said = (await outcome(saver, migrated))["said"]
    assert said == str(sorted(dict.fromkeys(new, "x").items()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_object", [True, False])
async def test_a_renamed_class(kind, as_object):
    """
    The Migration that leads the old class to the new one does it for contexts too.
    """
    saver, before = InMemorySaver(), made(kind, {"model": str})
    after = made(kind, {"model": str}, "Options")
    context = before(model="x") if as_object else {"model": "x"}
    async with ActorSystem({"g": graph(saver, before)}, saver=saver) as system:
        await system.start("g", "t", {"said": ""}, context=context, delay_s=0.001)
    restart()

    moved = Migration(types={f"{__name__}:Settings": after})
    assert "model" in (await outcome(saver, graph(saver, after, moved)))["said"]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unchanged_class(kind):
    """
    A run goes on with its context, and with keys that no schema has ever declared.
    """
    saver, schema = InMemorySaver(), made(kind, {"model": str})
    more = {"extra": 7} if kind in ("typeddict", "pydantic") else {}
    given = {"model": "x", **more}
    async with ActorSystem({"g": graph(saver, schema)}, saver=saver) as system:
        await system.start("g", "t", {"said": ""}, context=given, delay_s=0.001)
    now = graph(saver, schema)
    assert (await verdict_of(saver, now)).verdict is ResumeVerdict.FITS
    assert "model" in (await outcome(saver, now))["said"]


async def test_a_context_without_a_needed_key():
    """
    A TypedDict's key that was missing when the run was accepted may be missing still.
    """

    class Needs(TypedDict):
        model: str
        other: NotRequired[str]

    saver = InMemorySaver()
    given: Any = {"other": "x"}
    async with ActorSystem({"g": graph(saver, Needs)}, saver=saver) as system:
        await system.start("g", "t", {"said": ""}, context=given, delay_s=0.001)
    assert "other" in (await outcome(saver, graph(saver, Needs)))["said"]
