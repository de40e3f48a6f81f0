"""Converters: types of other packages, stored by a pair of functions; exact, versioned, bounded."""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import pytest

from actorgraph import (
    Codec,
    GraphBuildError,
    InvalidConfigError,
    SerializationError,
    UnknownTypeError,
)
from actorgraph.codec import Converter


class Tensor:
    """A class of another package: compared by what it holds."""

    def __init__(self, data):
        self.data = data

    def __eq__(self, other):
        return type(other) is type(self) and other.data == self.data

    def __hash__(self):
        return hash(str(self.data))


class Parameter(Tensor):
    pass


class Opaque:
    """A class whose objects are equal to nothing but themselves."""

    def __init__(self, data):
        self.data = data


class Ambiguous:
    """As arrays do, it compares item by item."""

    def __init__(self, *data):
        self.data = data

    def __eq__(self, other):
        return Ambiguous(*(a == b for a, b in zip(self.data, other.data, strict=True)))

    def __bool__(self):
        raise ValueError("ambiguous")

    __hash__ = None


class Strange(Tensor):
    """As one with NaN: unlike itself."""

    def __eq__(self, other):
        return False

    __hash__ = None


class Box:
    """Doesn't compare itself."""

    def __init__(self, data):
        self.data = data


def last(stored):
    return Tensor(stored[-1])


@dataclass
class Point:
    x: Any
    cache: Any = None


PAIR = (lambda value: value.data, Tensor)
FORMS = ["msgpack", "json"]


def codec_of(**options):
    return Codec(converters={Tensor: PAIR}, **options)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "value",
    [
        Tensor([1, 2.5]),
        [Tensor(None), {"a": (Tensor({"b": 1}),)}],
        {Tensor((1,)): 1},
        Tensor([Tensor({1: Tensor("deep")})]),
        Tensor(math.inf),
    ],
    ids=range(5),
)
def test_values_come_back(form, value):
    """
    A value of a converted type comes back equal, wherever it is: in containers, as a key, in
    another one.
    """
    codec = codec_of(form=form)

    assert codec.decode(codec.encode(value)) == value


def test_values_that_no_bool_compares():
    """
    Values that don't compare, or compare item by item, are held to the data that they are made of.
    """
    codec = Codec(
        converters={
            Opaque: (lambda value: value.data, Opaque),
            Ambiguous: (lambda value: list(value.data), lambda stored: Ambiguous(*stored)),
        }
    )

    assert codec.decode(codec.encode(Opaque([1]))).data == [1]
    assert codec.decode(codec.encode(Ambiguous(1, 2))).data == (1, 2)


def test_a_value_that_is_unlike_itself():
    """
    A value with NaN, which isn't equal to itself, is stored by its data.
    """
    codec = Codec(converters={Strange: (lambda value: value.data, Strange)})

    made = codec.decode(codec.encode(Strange([math.nan, 1])))

    assert math.isnan(made.data[0])
    assert made.data[1] == 1


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ((lambda value: value.data[:1], Tensor), "returns another value"),
        ((lambda value: value.data, Parameter), "from_plain returns a .*Parameter"),
        ((lambda value: value.data, lambda stored: stored), "from_plain returns a builtins:list"),
        ((lambda value: value, Tensor), "returns a Tensor again"),
        ((lambda value: value.gone, Tensor), "has no attribute 'gone'"),
        ((lambda value: value.data, lambda stored: 1 / 0), "division by zero"),
    ],
    ids=range(6),
)
def test_inexact_converters_are_refused_when_they_store(pair, reason):
    """
    A converter that wouldn't give the value back is refused, with the path of the value.
    """
    codec = Codec(converters={Tensor: pair})

    with pytest.raises(SerializationError, match=rf"(?s)value\['a'\]\[0\].*{reason}"):
        codec.encode({"a": [Tensor([1, 2])]})


def test_a_function_that_takes_its_data_to_pieces():
    """
    from_plain may change the data it gets: what is stored stays whole.
    """
    pair = (
        lambda value: {"kind": "t", "data": value.data},
        lambda stored: Tensor(stored.pop("data")),
    )
    codec = Codec(converters={Tensor: pair})

    assert codec.decode(codec.encode([Tensor([1])])) == [Tensor([1])]


def test_data_that_come_back_as_others():
    """
    A value is compared with what its stored data give, not with what to_plain returned.
    """
    codec = Codec(converters={Tensor: (lambda value: [str(value.data), value.data], last)})
    assert codec.decode(codec.encode(Tensor("a"))) == Tensor("a")

    with pytest.raises(SerializationError, match="returns another value") as refused:
        codec.encode(Tensor(ValueError("lost")))

    assert refused.value.do == (
        "change the converter of Tensor: from_plain must build this value again of what to_plain "
        "returns"
    )


@pytest.mark.parametrize("data", [lambda below: [below], lambda below: {1: below}])
def test_values_inside_one_another_are_checked_once_each(data):
    """
    The functions are called a few times for each level of values that don't compare, not twice as
    often for each further level.
    """
    calls = []

    def to_plain(value):
        calls.append(value)
        return value.data

    value = Box(0)
    for _ in range(12):
        value = Box(data(value))

    Codec(converters={Box: (to_plain, Box)}).encode(value)

    assert len(calls) < 12 * 12 * 5


def test_lists_without_converted_values_are_kept_decoded():
    """
    A converter of another type leaves a codec its cache; one of a data class does not.
    """
    assert codec_of().lists is not None
    assert Codec(converters={Point: (lambda value: value.x, Point)}).lists is None


def test_data_that_can_not_be_stored():
    """
    Of data that can't be stored itself the error names the place.
    """
    with pytest.raises(
        SerializationError, match=r"value\[0\]\['a'\] has the type 'builtins:object'"
    ):
        codec_of().encode([Tensor({"a": object()})])


def test_without_the_check_a_value_is_converted_once():
    """
    check=False stores what to_plain returns, and calls no function to build the value.
    """
    calls = []
    converter = Converter(lambda value: value.data, calls.append, check=False)

    Codec(converters={Tensor: converter}).encode(Tensor(1))

    assert calls == []


def test_a_subclass_of_a_converted_type_is_refused():
    """
    A converter is for exactly its type: a subclass would lose what it adds, so it is refused.
    """
    with pytest.raises(SerializationError) as refused:
        codec_of().encode(Parameter(1))

    assert refused.value.do == (
        "give the codec a converter of Parameter too, or store a Tensor: the converter of Tensor "
        "is for exactly that type"
    )


def test_another_codec_names_the_converter():
    """
    A codec without the converter refuses the stored value and shows what to pass.
    """
    with pytest.raises(UnknownTypeError) as refused:
        Codec().decode(codec_of().encode([Tensor(1)]))

    assert refused.value.type_name == f"{__name__}:Tensor"
    assert "Codec(converters={Tensor: (to_plain, from_plain)})" in refused.value.do


class TestVersions:
    """A converter's version is stored with each value."""

    OLD = Codec(converters={Tensor: (lambda value: value.data, Tensor)})
    NEW = Codec(
        converters={
            Tensor: Converter(
                lambda value: {"data": value.data},
                lambda stored: Tensor(stored["data"]),
                version=2,
                older={1: Tensor},
            )
        }
    )

    def test_older_data_are_read(self):
        """
        Data of an older version are read by its function, and newer ones by from_plain.
        """
        assert self.NEW.decode(self.OLD.encode(Tensor([1]))) == Tensor([1])
        assert self.NEW.decode(self.NEW.encode(Tensor([1]))) == Tensor([1])

    def test_a_version_without_a_function(self):
        """
        Data of a version that nothing reads are refused with the function to give.
        """
        new = Codec(converters={Tensor: Converter(*PAIR, version=3)})

        with pytest.raises(UnknownTypeError) as refused:
            new.decode(self.NEW.encode(Tensor(1)))

        assert refused.value.do.startswith("give Converter(older={2: function})")

    def test_a_newer_version(self):
        """
        Data of a newer version are refused: the newer program reads them.
        """
        with pytest.raises(UnknownTypeError) as refused:
            self.OLD.decode(self.NEW.encode(Tensor(1)))

        assert refused.value.do.startswith("read it with the newer program")


class Shape(ABC):
    @abstractmethod
    def area(self): ...


class Sized(Protocol):
    def size(self): ...


@pytest.mark.parametrize(
    ("converters", "reason"),
    [
        ({"Tensor": PAIR}, "which is not a type"),
        ({dict: PAIR}, "always stored as they are"),
        ({tuple: PAIR}, "always stored as they are"),
        ({str: PAIR}, "always stored as they are"),
        ({object: PAIR}, "always stored as they are"),
        ({Shape: PAIR}, "is abstract"),
        ({Sized: PAIR}, "is abstract"),
        ({Hashable: PAIR}, "is abstract"),
        ({Tensor: Tensor}, "must be"),
        ({Tensor: (Tensor,)}, "must be"),
        ({Tensor: ("data", Tensor)}, "can't be called"),
        ({Tensor: (Tensor, None)}, "can't be called"),
        ({Tensor: Converter(*PAIR, version=0)}, "has the version 0"),
        ({Tensor: Converter(*PAIR, version=True)}, "has the version True"),
        ({Tensor: Converter(*PAIR, older={2: Tensor})}, "has the version 2"),
        ({Tensor: Converter(*PAIR, older={1: Tensor})}, "two functions for version 1"),
        ({Tensor: Converter(*PAIR, version=2, older={1: "x"})}, "can't be called"),
        ({type("Twin", (), {}): PAIR, type("Twin", (), {}): PAIR}, "two types"),
    ],
    ids=range(18),
)
def test_converters_that_can_not_work_are_refused(converters, reason):
    """
    A converter that could never work is refused by Codec, not by the first run.
    """
    with pytest.raises(InvalidConfigError, match=reason):
        Codec(converters=converters)


@pytest.mark.parametrize("kind", [pd.Timestamp, pd.Timedelta, type(pd.NaT), Tensor, pd.DataFrame])
def test_types_with_hidden_state_can_not_be_declared(kind):
    """
    A class in C that adds to a built-in type holds what nothing shows: declaring it is refused.
    """
    with pytest.raises(SerializationError, match="can't be put on the codec's allow-list"):
        Codec(types=[kind])


@pytest.mark.parametrize(
    "methods",
    [
        {"encode": lambda self, value: b""},
        {"decode": lambda self, payload: None},
        {"encode": lambda self, value, *, path, place: b""},
    ],
    ids=["encode", "decode", "keywords"],
)
def test_overrides_with_other_parameters(methods):
    """
    A codec whose class overrides a method that storing can't call is refused when it is made.
    """
    kind = type("Mine", (Codec,), methods)

    with pytest.raises(GraphBuildError, match=r"Mine\.(en|de)code can't be called with \("):
        kind()


def test_overrides_with_these_parameters():
    """
    Methods that take the arguments of storing, under any names, are called.
    """

    class Mine(Codec):
        def encode(self, value, *rest):
            return super().encode({"mine": value}, *rest)

        def decode(self, payload, where=None):
            return super().decode(payload)["mine"]

    assert Mine().decode(Mine().encode(1, "value", None)) == 1


def test_an_object_that_was_stored_by_its_fields():
    """
    A data class that gets a converter later is still read as it was stored before.
    """
    converter = (lambda value: value.x, Point)
    now = Codec(converters={Point: converter})

    assert now.decode(Codec(types=[Point]).encode(Point(1, [2]))) == Point(1, [2])
    with pytest.raises(SerializationError, match="returns another value"):
        now.encode(Point(1, [2]))


def test_equal_values_have_equal_digests():
    """
    Cached results and inputs are compared by bytes that depend on the value alone.
    """
    codec = codec_of()

    assert codec.encode_plainly(Tensor([1])) == codec.encode_plainly(Tensor([1]))
    assert codec.encode_plainly(Tensor([1])) != codec.encode_plainly(Tensor([2]))


def test_a_type_that_moved():
    """
    Migration(types=) leads stored values to the type's converter of today, or to a function.
    """

    class Tensor2(Tensor):
        pass

    payload = codec_of().encode(Tensor([1]))
    moved = Codec(converters={Tensor2: (lambda value: value.data, Tensor2)})
    name = f"{__name__}:Tensor"

    assert moved.with_upgrades({name: Tensor2}).decode(payload) == Tensor2([1])
    assert Codec().with_upgrades({name: len}).decode(payload) == 1
    with pytest.raises(UnknownTypeError):
        Codec().with_upgrades({name: Point}).decode(payload)


@pytest.mark.parametrize(
    ("module", "script"),
    [("__main__", " (so a program names its classes that is run itself)"), ("old.place", "")],
)
def test_a_class_of_another_module_is_not_taken_for_another(module, script):
    """
    A converter of a class of the same name in another module doesn't read it; the error has both.
    """

    def kind_in(place):
        made = type("Moved", (), {"__module__": place, "__eq__": lambda *_: True})
        return made, (lambda _: 1, lambda _: made())

    stored = Codec(converters=dict([kind_in(module)]))
    kind, pair = kind_in("new.place")
    name = f"{module}:{next(iter(stored.converted)).__qualname__}"
    with pytest.raises(UnknownTypeError) as refused:
        Codec(converters={kind: pair}).decode(stored.encode(next(iter(stored.converted))()))

    assert refused.value.type_name == name
    assert refused.value.what == (
        f"a stored value has the type {name!r}{script}, which a converter has written, and this "
        "codec has one for 'new.place:Moved'"
    )
    assert refused.value.do.startswith(
        f"if it is the same class, compile(migrations=[Migration(types={{{name!r}: Moved}})])"
    )
