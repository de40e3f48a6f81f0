"""A converted field in states and values of each kind, and converters of another version."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypedDict

import attrs
import msgspec
import pydantic
import pytest

from actorgraph import START, Codec, Command, Migration, StateGraph, interrupt
from actorgraph.caches import InMemoryCache, SqliteCache
from actorgraph.codec import Converter
from actorgraph.errors import CacheWarning, UnknownTypeError
from actorgraph.types import CachePolicy
from tests.support.graphs import at


class Tensor:
    """A class of another package."""

    def __init__(self, items: list[int]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and other.items == self.items

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def zero() -> Tensor:
    return Tensor([0])


class Typed(TypedDict, total=False):
    t: Tensor


@dataclass
class Data:
    t: Tensor = field(default_factory=zero)


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    t: Tensor = pydantic.Field(default_factory=zero)


class Struct(msgspec.Struct):
    t: Tensor = msgspec.field(default_factory=zero)


@attrs.define
class Attrs:
    t: Tensor = attrs.field(factory=zero)


KINDS = [Typed, Data, Model, Struct, Attrs]
FIRST = Converter(lambda t: t.items, Tensor)
SECOND = Converter(lambda t: {"d": t.items}, lambda d: Tensor(d["d"]), version=2)
BOTH = Converter(SECOND.to_plain, SECOND.from_plain, version=2, older={1: Tensor})


def codec(converter: Converter = FIRST, kind: type = Tensor) -> Codec:
    return Codec(converters={kind: converter})


def tensor_of(state: Any) -> Tensor:
    return state["t"] if isinstance(state, dict) else state.t


def asking(kind: Any, saver: Any, ran: list[str] | None = None, **options: Any) -> Any:
    """`make` adds to the field, `ask` asks with it and adds the answer."""

    def make(state: kind) -> Any:
        return {"t": Tensor([*tensor_of(state).items, 1])}

    def ask(state: kind) -> Any:
        if ran is not None:
            ran.append("ask")
        answer = interrupt(tensor_of(state))
        return {"t": Tensor([*tensor_of(state).items, *answer.items])}

    builder = StateGraph(kind).add_node("make", make).add_node("ask", ask)
    builder.add_edge(START, "make").add_edge("make", "ask")
    return builder.compile(checkpointer=saver, **options)


@pytest.mark.every_saver
@pytest.mark.parametrize("kind", KINDS)
class TestKinds:
    async def test_a_field_of_a_state(self, saver, kind):
        """
        In a state of each kind a converted field is stored, asked with, and read by a codec anew.
        """
        saver.codec = codec()
        asked = await asking(kind, saver).ainvoke({"t": Tensor([5])}, at("t"))
        saver.codec = codec()
        done = await asking(kind, saver).ainvoke(Command(resume=Tensor([9])), at("t"))
        state = await asking(kind, saver).aget_state(at("t"))

        assert asked["__interrupt__"][0].value == Tensor([5, 1])
        assert done["t"] == state.values["t"] == Tensor([5, 1, 9])

    async def test_a_field_of_a_value(self, saver, kind):
        """
        So it is in a value of each kind that is a part of the state.
        """

        class Outer(TypedDict, total=False):
            values: list[kind]

        saver.codec = codec()
        builder = StateGraph(Outer).add_node("keep", lambda _: {}).add_edge(START, "keep")
        graph = builder.compile(checkpointer=saver)
        given = [kind(t=Tensor([7])), kind(t=Tensor([]))]
        await graph.ainvoke({"values": given}, at("t"))
        saver.codec = codec()
        state = await builder.compile(checkpointer=saver).aget_state(at("t"))

        assert [type(each) for each in state.values["values"]] == [type(each) for each in given]
        assert [tensor_of(each) for each in state.values["values"]] == [Tensor([7]), Tensor([])]


@pytest.mark.every_saver
class TestVersions:
    async def test_a_waiting_run_goes_on_with_a_newer_one(self, saver):
        """
        A converter that reads the version of before goes on with a thread that waits.
        """
        saver.codec = codec()
        await asking(Typed, saver).ainvoke({"t": Tensor([5])}, at("t"))
        saver.codec = codec(BOTH)
        done = await asking(Typed, saver).ainvoke(Command(resume=Tensor([9])), at("t"))

        assert done["t"] == Tensor([5, 1, 9])

    @pytest.mark.parametrize(
        ("before", "now", "advice"),
        [(FIRST, SECOND, "give Converter(older={1: function})"), (BOTH, FIRST, "newer program")],
    )
    async def test_a_version_that_is_not_read_is_refused(self, saver, before, now, advice):
        """
        Nothing runs then, and the thread waits as before for a program that reads it.
        """
        saver.codec = codec(before)
        await asking(Typed, saver).ainvoke({"t": Tensor([5])}, at("t"))
        saver.codec, ran = codec(now), []
        with pytest.raises(UnknownTypeError, match="the converter's version") as refused:
            await asking(Typed, saver, ran).ainvoke(Command(resume=Tensor([9])), at("t"))
        saver.codec = codec(before)
        state = await asking(Typed, saver).aget_state(at("t"))

        assert advice in refused.value.do
        assert ran == []
        assert state.interrupts[0].value == Tensor([5, 1])

    @pytest.mark.parametrize("module", ["__main__", "old.place"])
    async def test_a_class_in_another_module_is_named(self, saver, module):
        """
        A thread that a script has stored, or a module before the class moved, is refused with both
        names and the migration, by which it goes on.
        """
        moved = type("Tensor", (Tensor,), {"__module__": module})
        moved.__qualname__ = "Tensor"
        saver.codec = codec(Converter(lambda t: t.items, moved), moved)
        builder = StateGraph(Typed).add_node("ask", lambda _: interrupt("?"))
        graph = builder.add_edge(START, "ask").compile(checkpointer=saver)
        await graph.ainvoke({"t": moved([5])}, at("t"))
        saver.codec = codec()
        with pytest.raises(UnknownTypeError) as refused:
            await asking(Typed, saver).aget_state(at("t"))
        migrations = [Migration(types={f"{module}:Tensor": Tensor})]
        state = await asking(Typed, saver, migrations=migrations).aget_state(at("t"))

        assert f"has one for '{__name__}:Tensor'" in refused.value.what
        assert ("a program names its classes" in refused.value.what) is (module == "__main__")
        assert f"Migration(types={{'{module}:Tensor': Tensor}})" in refused.value.do
        assert state.values["t"] == Tensor([5])


@pytest.mark.parametrize("kind", [InMemoryCache, SqliteCache])
async def test_a_cached_result_of_another_version(kind, saver, tmp_path):
    """
    It is read if the converter reads that version; else the node runs, with a warning, and its
    result is never another value.
    """
    ran: list[int] = []

    def node(_: Typed) -> Typed:
        ran.append(1)
        return {"t": Tensor([1])}

    def graph(cache: Any) -> Any:
        policy = CachePolicy(name="n", key_func=lambda _: "k")
        builder = StateGraph(Typed).add_node("node", node, cache_policy=policy)
        return builder.add_edge(START, "node").compile(checkpointer=saver, cache=cache)

    made = nullcontext(kind()) if kind is InMemoryCache else kind(tmp_path / "cache.db")
    with made as cache:
        for number, converter in enumerate((FIRST, FIRST, BOTH)):
            saver.codec = codec(converter)
            result = await graph(cache).ainvoke({"t": zero()}, at(f"t{number}"))
            assert result["t"] == Tensor([1])
        assert len(ran) == 1
        saver.codec = codec(SECOND)
        with pytest.warns(CacheWarning, match="could not be read.*the converter's version 1"):
            result = await graph(cache).ainvoke({"t": zero()}, at("t"))
        assert result["t"] == Tensor([1])
        assert len(ran) == 2
