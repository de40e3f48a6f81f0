"""Subclasses of built-in types: the plain value of each, and objects that are built again."""

import datetime as dt
from collections import OrderedDict, defaultdict, deque
from ipaddress import IPv4Interface, IPv4Network
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import pytest

from actorgraph.codec import Codec
from actorgraph.codec.subclasses import base_of, build_subclass, pack_subclass, plain_value
from actorgraph.errors import SerializationError

ZONE = ZoneInfo("Europe/Berlin")


class Items(list[Any]):
    pass


class Buffer(bytearray):
    pass


class Table(dict[Any, Any]):
    pass


class Ordered(OrderedDict[Any, Any]):
    pass


class Defaults(defaultdict[Any, Any]):
    pass


class Slotted(list[Any]):
    __slots__ = ("note", "other")


class Network(IPv4Network):
    pass


class Interface(IPv4Interface):
    pass


class Names(set[Any]):
    pass


class Queue(deque[Any]):
    pass


class Key(UUID):
    pass


class Moment(dt.datetime):
    pass


class Clock(dt.time):
    pass


class Day(dt.date):
    pass


class Span(dt.timedelta):
    pass


class Folder(PurePosixPath):
    pass


class Text(str):
    __slots__ = ()


class Speechless(Exception):
    def __repr__(self) -> str:
        raise ValueError("no words")


class Refusing(set[Any]):
    """Equal to no other object."""

    def __ne__(self, other: object) -> bool:
        return self is not other


EXACT = [
    (Moment(2026, 10, 25, 2, 30, 4, 5, ZONE, fold=1), dt.datetime),
    (Moment(2026, 10, 25, 2, 30, 4, 5), dt.datetime),
    (Clock(2, 30, 4, 5, ZONE, fold=1), dt.time),
    (Clock(2, 30, 4, 5, dt.UTC), dt.time),
    (Day(2026, 10, 25), dt.date),
    (Span(3, 4, 5), dt.timedelta),
    (Names("abc"), set),
    (Queue("abc", 3), deque),
    (Key("12345678123456781234567812345678"), UUID),
    (Folder("a/b"), PurePosixPath),
]
PLAIN = [
    (Items([1, [2]]), list),
    (Buffer(b"abc"), bytearray),
    (Table({"a": 1, 2: "b"}), dict),
    (Ordered(a=1, b=2), dict),
    (Text("abc"), str),
]


def parts(value: Any) -> Any:
    """The parts that equality leaves out: the fold of moments, the bound of a queue."""
    return [getattr(value, name, None) for name in ("tzinfo", "fold", "microsecond", "maxlen")]


@pytest.mark.parametrize(("value", "base"), [*EXACT, *PLAIN], ids=lambda x: type(x).__name__)
def test_a_subclass_is_packed_as_its_base_and_built_again(value, base):
    """
    The packed value has the built-in type and each part of the object; what is built of it has
    the class and the same parts.
    """
    plain = pack_subclass(value)
    made = build_subclass(type(value), plain)

    assert base_of(type(value)) is base
    assert (type(plain), plain == value, parts(plain)) == (base, True, parts(value))
    assert (type(made), made == value, parts(made)) == (type(value), True, parts(value))
    assert made is not value


def test_the_order_of_an_ordered_dict():
    """
    The order that an OrderedDict keeps beside that of its base is the one that is packed.
    """
    value = Ordered(a=1, b=2)
    value.move_to_end("a")
    made = build_subclass(Ordered, pack_subclass(value))
    made["c"] = 3

    assert [*pack_subclass(value)] == ["b", "a"]
    assert [[*OrderedDict.items(made)], [*dict.items(made)]] == [[("b", 2), ("a", 1), ("c", 3)]] * 2


def test_whether_an_id_is_safe():
    """
    It is packed and built again with its value, although equality ignores it.
    """
    made = build_subclass(Key, pack_subclass(Key(int=7, is_safe=SafeUUID.safe)))

    assert (type(made), made.int, made.is_safe) == (Key, 7, SafeUUID.safe)


@pytest.mark.parametrize("form", ["msgpack", "json"])
def test_declared_classes(form):
    """
    A codec reads objects of a declared class, and of one below it, as objects of their class.
    """

    class Below(Ordered):
        pass

    codec = Codec([Ordered, Items, Text, Day]).in_form(form)
    values = [Ordered(b=1, a=2), Below(c=3), Items([1, Items([2])]), Text("x"), Day(2026, 1, 1)]
    made = codec.decode(codec.encode(values))

    assert made == values
    assert [type(value) for value in made] == [Ordered, Below, Items, Text, Day]
    assert type(made[2][1]) is Items
    assert [type(value) for value in codec.decode(codec.encode([Table(a=1), Buffer(b"x")]))] == [
        dict,
        bytearray,
    ]


class TestRefusals:
    def test_attributes(self):
        """
        An object with an attribute of its own can't be packed, in its dict or in a slot: it would
        be lost.
        """
        named, folder, slotted = Names("a"), Folder("a"), Slotted([1])
        for value in (named, folder, slotted):
            value.note = "x"  # pyright: ignore[reportAttributeAccessIssue]
            with pytest.raises(TypeError) as refused:
                pack_subclass(value)
            kind, base = type(value).__name__, base_of(type(value)).__name__
            assert str(refused.value) == f"a {kind} has the attribute 'note' besides its {base}"

    def test_attributes_of_the_built_in_type(self):
        """
        The parts that the built-in value has too, and slots without a value, don't count.
        """
        network = Network("10.0.0.0/8")
        assert str(network.broadcast_address) == "10.255.255.255"  # kept in the object's dict

        assert pack_subclass(network) == IPv4Network("10.0.0.0/8")
        assert pack_subclass(Interface("10.0.0.1/8")) == IPv4Interface("10.0.0.1/8")
        assert pack_subclass(Slotted([1])) == [1]

    def test_a_default_factory(self):
        """
        The factory of a dict with defaults would be lost too; without one it is stored.
        """
        with pytest.raises(TypeError) as refused:
            pack_subclass(Defaults(list, {"a": [1]}))
        assert str(refused.value) == (
            "a Defaults has the attribute 'default_factory' besides its dict"
        )
        assert pack_subclass(Defaults(None, {"a": [1]})) == {"a": [1]}

    def test_an_object_that_is_not_equal_when_built_again(self):
        """
        Its class may know more of it than the built-in value has.
        """
        with pytest.raises(TypeError) as refused:
            pack_subclass(Refusing("a"))
        assert str(refused.value) == "a Refusing can't be made of the set that it is"

    def test_another_built_in_type(self):
        """
        A stored value of another type than the class is derived from is refused.
        """
        with pytest.raises(ValueError, match=r"^Names is not a subclass of list$"):
            build_subclass(Names, [1])

    def test_the_error_names_the_value(self):
        """
        A codec's error has the path, the type and the reason.
        """
        value = Names("a")
        value.note = "x"  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(SerializationError) as refused:
            Codec([Names]).encode({"k": value}, "s")
        assert refused.value.what == (
            f"s['k'] of type '{__name__}:Names' can't be stored: "
            "a Names has the attribute 'note' besides its set"
        )


class TestPlainValues:
    @pytest.mark.parametrize(("value", "base"), PLAIN, ids=lambda x: type(x).__name__)
    def test_text_lists_and_dicts(self, value, base):
        """
        Text, lists, bytes and dicts of a subclass become the built-in type.
        """
        assert (type(plain_value(value)), plain_value(value)) == (base, value)

    @pytest.mark.parametrize("value", [Names("a"), Day(2026, 1, 1), object(), 7, None])
    def test_other_values_stay(self, value):
        """
        Other subclasses, and all other values, are left as they are.
        """
        assert plain_value(value) is value

    def test_an_exception(self):
        """
        An exception becomes its repr.
        """
        assert plain_value(ValueError("x")) == "ValueError('x')"

    def test_parts_that_can_not_be_stored(self):
        """
        A part that can't be stored is named by its place, and an exception without a repr too.
        """
        with pytest.raises(SerializationError, match=r"^s\['k'\]\[0\] has the type"):
            Codec().encode({"k": Items([object()])}, "s")
        with pytest.raises(SerializationError) as refused:
            Codec().encode({"e": Speechless()}, "s")
        assert refused.value.what == (
            f"s['e'] of type '{__name__}:Speechless' can't be stored: no words"
        )

    def test_keys(self):
        """
        Keys of a dict become plain as values do; declared classes keep their class.
        """
        codec, strict = Codec([Day]), Codec([Text])
        found = codec.decode(codec.encode({Text("a"): 1, "b": 2}))
        assert [(type(key), key) for key in found] == [(str, "a"), (str, "b")]
        found = codec.decode(codec.encode({Text("a"): 1, 2: "b", Day(2026, 1, 1): 3}))
        assert [type(key) for key in found] == [str, int, Day]
        assert codec.encode({Text("a"): 1, "b": 2}) == codec.encode({"a": 1, "b": 2})
        assert codec.encode({Text("a"): 1}) == codec.encode({"a": 1})
        found = strict.decode(strict.encode({Text("a"): 1}))
        assert [(type(key), key) for key in found] == [(Text, "a")]
