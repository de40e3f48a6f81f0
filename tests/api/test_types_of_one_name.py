"""Two classes of one name, of which one at most is declared: neither is read as the other."""

from dataclasses import dataclass, make_dataclass
from typing import Any, TypedDict

import pytest

from actorgraph import Codec, InMemorySaver, SerializationError, UnknownTypeError
from actorgraph.codec.known_types import declare
from tests.support.graphs import at, in_a_row

NAME = "another class 'tests.api.test_types_of_one_name:Item'"


def item(*more: str) -> Any:
    """A class with the fields a and those, which are 0 by default."""
    fields: Any = [("a", int), *((name, int, 0) for name in more)]
    made = make_dataclass("Item", fields)
    made.__module__ = __name__
    return made


def of(annotation: Any, value: Any, saver: Any) -> Any:
    """A graph whose node returns the value for a key with that annotation."""
    schema: Any = TypedDict("State", {"v": annotation})  # type: ignore[operator]
    return in_a_row({"n": lambda _: {"v": value}}, schema=schema, checkpointer=saver)


async def test_a_second_class_is_not_stored():
    """
    While a class has values in a store, those of another of its name are refused.
    """
    saver, first, second = InMemorySaver(), item(), item()
    await of(Any, first(1), saver).ainvoke({}, at("1"))
    graph = of(Any, second(2), saver)
    with pytest.raises(SerializationError, match=NAME):
        await graph.ainvoke({}, at("2"))

    state = await of(Any, None, saver).aget_state(at("1"))
    assert type(state.values["v"]) is first
    await of(Any, first(3), saver).ainvoke({}, at("1"))


async def test_a_declared_class_keeps_its_name():
    """
    A value of another class than the declared one of its name is refused, not stored as that one.
    """
    saver, first, second = InMemorySaver(), item(), item("b")
    other = of(second, second(1), InMemorySaver())
    with pytest.raises(SerializationError, match=NAME):
        await of(Any, first(1), saver).ainvoke({}, at())
    assert await other.ainvoke({}, at()) == {"v": second(1)}


async def test_a_later_declaration_changes_no_stored_value():
    """
    After the class is declared anew, a stored value may be of either: it is read with a codec
    that names its class, and not as the other.
    """
    saver, first, second = InMemorySaver(), item(), item("b")
    graph = of(Any, first(1), saver)
    await graph.ainvoke({}, at())
    other = of(second, second(2), saver)
    await other.ainvoke({}, at("other"))
    for thread in ("t", "other"):
        with pytest.raises(UnknownTypeError, match="two classes of that name"):
            await saver.aget_tuple(at(thread))
    assert (await of(first, None, saver).aget_state(at())).values == {"v": first(1)}
    assert (await other.aget_state(at("other"))).values == {"v": second(2)}


def test_a_declaration_alone_does_not_store_over_another():
    """
    A class declared after values of another were stored is refused until a codec names it.
    """
    first, second = item(), item()
    codec = Codec().for_this_process()
    codec.encode(first(1))
    declare([second])
    with pytest.raises(SerializationError, match=NAME):
        codec.encode(second(1))
    with pytest.raises(SerializationError, match=NAME):
        codec.encode(first(1))
    own = Codec([second])
    assert own.decode(own.encode(second(1))) == second(1)


def test_a_dropped_class_gives_its_name_free():
    """
    A class that the program has dropped doesn't hinder the next of its name.
    """
    codec = Codec().for_this_process()
    for number in range(3):

        @dataclass
        class Local:
            a: int

        assert codec.decode(codec.encode(Local(number))) == Local(number)
        del Local
