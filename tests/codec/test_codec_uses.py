"""A codec's settings and its copies with other ones, and each refusal in full."""

import collections
import sys
from dataclasses import dataclass
from typing import Any

import ormsgpack
import pytest

from actorgraph.codec import Codec
from actorgraph.codec.advice import advice_of
from actorgraph.codec.bounds import LARGE
from actorgraph.codec.buffers import refuse_buffers
from actorgraph.errors import (
    ActorGraphError,
    EncryptionError,
    GraphBuildError,
    InvalidConfigError,
    SerializationError,
    UnknownTypeError,
)
from actorgraph.values.commands import Send
from tests.codec.shapes import CODEC, Color, Frozen, Level, Model, Note, Point

KEYS = {"k": b"1" * 32}
HERE = ("value", "t", "", "c", 1)
PLAIN = "store plain data in the state"
REPAIR = "check the database's integrity, or restore it from a backup"


class Overriding(Codec):
    """A codec of a program's own."""

    def encode(self, value: Any, path: str = "value", place: Any = ()) -> bytes:
        """Encode with a mark in front."""
        return b"own" + super().encode(value, path, place)

    def decode(self, payload: bytes, place: Any = ()) -> Any:
        """Decode behind the mark."""
        return super().decode(payload.removeprefix(b"own"), place)


class Extending(Codec):
    """A codec with a method more."""

    def hello(self) -> str:
        """Greet."""
        return "hello"


@dataclass
class Broken:
    """Its field is gone."""

    value: int


def broken() -> Broken:
    """An object that lacks a field."""
    made = Broken(1)
    del made.value
    return made


class TestSettings:
    def test_a_codec_by_default(self):
        """
        By default a codec has no types, encrypts and compresses nothing, and the form is msgpack.
        """
        codec = Codec()

        assert codec.types == ()
        assert not codec.encrypts
        assert codec.encode("x" * 9_999) == ormsgpack.packb("x" * 9_999)
        assert codec.at_rest is codec

    @pytest.mark.parametrize(
        ("codec", "encrypts", "encodes_all", "remembers"),
        [
            (Codec(), False, False, True),
            (Codec(compress_above=1), False, False, True),
            (Codec(keys=KEYS), True, True, False),
            (Overriding(), False, True, False),
            (Overriding(keys=KEYS), True, True, False),
            (Extending(), False, False, False),
            (Codec().with_upgrades({"m:Old": Note}), False, False, False),
        ],
    )
    def test_questions_of_others_to_a_codec(self, codec, encrypts, encodes_all, remembers):
        """
        Encryption and a program's own encoding need each value in a row; they, upgrades and other
        classes also rule out that decoded lists are kept.
        """
        assert codec.encrypts is encrypts
        assert codec.encodes_all is encodes_all
        assert (codec.lists is not None) is remembers

    def test_a_codec_keeps_its_own_lists(self):
        """
        A codec has one cache of decoded lists, and its copies have caches of their own.
        """
        codec = Codec()
        copies = [codec.with_types([Note]), codec.in_form("json")]

        assert codec.lists is codec.lists
        assert len({id(each.lists) for each in (codec, *copies)}) == 3

    def test_plain_values_beside_a_key(self):
        """
        Only a codec with a key and without `reads_plain` refuses plain values.
        """
        Codec().check_plain()
        Codec(compress_above=1).check_plain()
        Codec(keys=KEYS, reads_plain=True).check_plain()

        with pytest.raises(EncryptionError):
            Codec(keys=KEYS).check_plain()

    def test_a_subclass_must_override_what_storing_calls(self):
        """
        A subclass that overrides LangGraph's methods alone is refused, with those to override.
        """
        with pytest.raises(GraphBuildError) as refused:
            type("Mine", (Codec,), {"dumps_typed": lambda self, obj: ("x", b"")})

        assert refused.value.what == (
            "Mine overrides dumps_typed, which a Codec doesn't store with"
        )
        assert refused.value.do == (
            "override encode(value, path, place) and decode(payload, place), which those call; or "
            "write a class of your own with dumps_typed and loads_typed, which a saver also takes "
            "as its codec"
        )
        both = {"dumps_typed": None, "loads_typed": None}
        with pytest.raises(GraphBuildError, match="overrides dumps_typed, loads_typed, which"):
            type("Mine", (Codec,), both)
        assert type("Mine", (Codec,), {**both, "encode": Overriding.encode})
        assert type("Mine", (Codec,), {**both, "decode": Overriding.decode})


class TestCopies:
    def test_more_types(self):
        """
        A copy with more types has those of the first codec too, which stays as it was.
        """
        first = Codec([Note], compress_above=50)
        second = first.with_types([Color, Note])

        assert (first.types, second.types) == ((Note,), (Note, Color))
        assert second.encode("x" * 99) == first.encode("x" * 99) != Codec().encode("x" * 99)
        assert first.with_types([Note]) is first
        assert first.with_types([]) is first

    def test_upgrades(self):
        """
        Data of an older type is built as the newer one, or by a function; types among the
        upgrades are allowed, and further upgrades are added.
        """
        stored = CODEC.encode([Note("x", [1]), Frozen(2)])
        names = [f"tests.codec.shapes:{kind}" for kind in ("Note", "Frozen")]
        first = Codec().with_upgrades({names[0]: Newer})
        second = first.with_upgrades({names[1]: lambda data: data["value"] + 1})

        assert second.decode(stored) == [Newer("x", [1]), 3]
        assert second.decode(second.encode(Newer("y"))) == Newer("y")
        assert second.types == (Newer,)
        assert first.with_upgrades({}) is first
        with pytest.raises(UnknownTypeError, match="Frozen"):
            first.decode(stored)

    def test_another_form(self):
        """
        A copy in another form writes that, and leaves the first as it was.
        """
        first = Codec([Note])
        second = first.in_form("json")

        assert second.encode([1]) == b"[1]"
        assert first.encode([1]) == second.in_form("msgpack").encode([1]) == b"\x91\x01"
        assert second.types == (Note,)


@dataclass
class Newer:
    """The class that `Note` has become."""

    text: str
    tags: Any = None


class TestUses:
    def test_langgraph_s_methods(self):
        """
        A value is dumped with the form's name, and loaded if it has that form.
        """
        assert CODEC.dumps_typed(Point(1, 2)) == ("actorgraph", CODEC.encode(Point(1, 2)))
        assert CODEC.loads_typed(CODEC.dumps_typed(Point(1, 2))) == Point(1, 2)

        with pytest.raises(SerializationError) as refused:
            CODEC.loads_typed(("msgpack", b"\x01"))
        assert refused.value.what == (
            "a stored value has the form 'msgpack', which another serializer wrote"
        )
        assert refused.value.do == (
            "read it with that serializer; actorgraph.migrate moves LangGraph's threads"
        )

    @pytest.mark.parametrize(
        "codec", [CODEC, CODEC.in_form("json"), Codec(keys=KEYS), Codec(compress_above=1)]
    )
    def test_items_are_counted(self, codec):
        """
        A stored list's items are counted in every form, also where their types are unknown.
        """
        writer = codec.with_types([Note, Color])
        stored = writer.encode([Note("x", [1, 2]), Color.RED, (1,), {1: 2}], "v", HERE)

        assert codec.count(stored, HERE) == 4
        assert Codec(keys=KEYS, reads_plain=True).count(stored, HERE) == 4
        assert codec.count(writer.encode([])) == 0

    @pytest.mark.parametrize("payload", [b"\xd9", b"\x07", b'{"$tuple"'])
    def test_damaged_items_are_not_counted(self, payload):
        """
        Bytes of anything but a list are refused as damaged.
        """
        with pytest.raises(SerializationError) as refused:
            CODEC.count(payload)

        assert refused.value.do == REPAIR
        assert not refused.value.what.endswith("None")

    def test_hashes(self):
        """
        Values are encoded for hashes as they are: in msgpack, uncompressed, with the text of
        refusals that storing has.
        """
        codec = Codec([Note], compress_above=1, form="json")

        assert codec.encode_plainly({1: Note("x")}) == CODEC.encode({1: Note("x")})
        assert codec.encode_plainly("x" * 99) == Codec().encode("x" * 99)
        with pytest.raises(SerializationError, match=r"^value\[0\] has the type"):
            codec.encode_plainly([object()])
        with pytest.raises(SerializationError, match="has the type 'builtins:memoryview'"):
            codec.encode_plainly(memoryview(b"x"))

    def test_places(self):
        """
        A value that is encoded for a place is read there; without one it is bound to none.
        """
        codec = Codec(keys=KEYS)

        assert codec.decode(codec.encode([1], "v", HERE), HERE) == [1]
        assert (
            codec.decode(codec.encode([1]), ()) == codec.decode(codec.encode([1], "v", ())) == [1]
        )

    def test_compressed_values_are_read_without_settings(self):
        """
        A codec without settings reads compressed values, also in JSON, and refuses a second
        compression inside.
        """
        value = {"k": [Note("x" * 99), (1, 2)]}
        for form in ("msgpack", "json"):
            codec = Codec([Note], compress_above=1, form=form)
            stored = codec.encode(value)
            assert stored[:2] == b"\xc1\x01"
            assert CODEC.decode(stored) == value
        twice = Codec(compress_above=1)._envelope.close(stored * 9)  # noqa: SLF001
        with pytest.raises(SerializationError, match="can't be decoded"):
            CODEC.decode(twice)

    def test_large_values_are_counted(self):
        """
        A value of up to 32 KiB is decoded without counting copies, a larger one with; both come
        back.
        """
        for size in (LARGE - 10, LARGE, LARGE + 10):
            value = (b"x" * size, Note("x"))
            assert CODEC.decode(CODEC.encode(value)) == value
            assert CODEC.in_form("json").decode(CODEC.in_form("json").encode(value)) == value

    @pytest.mark.parametrize("form", ["msgpack", "json"])
    def test_too_many_copies(self, form):
        """
        Stored bytes whose types would copy too much are refused, in each form.
        """
        payload = b"\xc6" + (3_000_000).to_bytes(4) + bytes(3_000_000)
        if form == "json":
            payload = b'{"$tuple":[' * 60 + b'"' + b"x" * 3_000_000 + b'"' + b"]}" * 60
        else:
            for _ in range(60):
                payload = ormsgpack.packb(ormsgpack.Ext(1, b"\x91" + payload))

        with pytest.raises(SerializationError, match="too many levels of types"):
            CODEC.decode(payload)

    def test_too_many_copies_are_not_stored(self):
        """
        A value that could not be read is refused with its path when it is stored.
        """
        value: Any = b"x" * 3_000_000
        for _ in range(60):
            value = (value,)
        for codec in (CODEC, CODEC.in_form("json")):
            with pytest.raises(
                SerializationError, match=r"^state can't be stored: a value has too"
            ):
                codec.encode(value, "state")


def looped() -> list[Any]:
    """A list that contains itself."""
    made: list[Any] = []
    made.append(made)
    return made


KEEP = "UntrackedValue keeps a value out"
ALLOW = (
    "store plain data, a dataclass, model, Struct, enum, named tuple; Codec(converters=) stores "
    "others; UntrackedValue keeps it out"
)
SHALLOW = "store plain, shallow data in the state"
BUFFER = "a bytearray or memoryview would come back as bytes"


def declare(name: str) -> str:
    """The advice to declare a type."""
    return (
        f"pass codec=Codec(types=[{name}]) to the saver, or annotate a key of the graph's state "
        "with it"
    )


REFUSED: list[tuple[Any, str, str]] = [
    (object(), "s has the type 'builtins:object', which can't be stored", ALLOW),
    (
        {"a": (1, {2: collections.ChainMap()})},
        "s['a'][1][2] has the type 'collections:ChainMap', which can't be stored",
        advice_of(collections.ChainMap()),
    ),
    (
        {Color: 1},
        f"s key {Color!r} has the type 'enum:EnumType', which can't be stored",
        "store the class's name, and look the class up by it where it is used",
    ),
    (
        {1: [object()]},
        "s[1][0] has the type 'builtins:object', which can't be stored",
        ALLOW,
    ),
    (
        Level.LOW,
        "s has the type 'tests.codec.shapes:Level', which can't be stored",
        f"{declare('tests.codec.shapes.Level')}; {KEEP}",
    ),
    (
        looped(),
        (
            f"s{('[0]' * 27)[:79]}...{('[0]' * 7)[1:]} is nested more than 200 levels deep, or "
            "contains itself"
        ),
        SHALLOW,
    ),
    (
        ["\ud800"],
        "s[0] holds a lone surrogate at position 0, which UTF-8 can't encode",
        "decode the text with errors='replace' where it enters the program",
    ),
    (
        [{"a\udfff": 1}],
        "s[0] holds a lone surrogate at position 1, which UTF-8 can't encode",
        "decode the text with errors='replace' where it enters the program",
    ),
    (
        {(): {"\udfff": 1}},
        "s[()] holds a lone surrogate at position 0, which UTF-8 can't encode",
        "decode the text with errors='replace' where it enters the program",
    ),
    (
        {"a": [memoryview(b"x")]},
        "s['a'][0] has the type 'builtins:memoryview', which can't be stored",
        advice_of(memoryview(b"")),
    ),
    (
        [1, broken()],
        (
            "s[1] of type 'tests.codec.test_codec_uses:Broken' can't be stored: 'Broken' object "
            "has no attribute 'value'"
        ),
        PLAIN,
    ),
    (
        dict.fromkeys(2**61 * n - n for n in range(2_000)),
        "s can't be stored: too many keys of a set or dict of 2,000 collide",
        PLAIN,
    ),
]


class TestRefusals:
    @pytest.mark.parametrize(("value", "what", "do"), REFUSED, ids=range(len(REFUSED)))
    def test_values_that_can_not_be_stored(self, value, what, do):
        """
        Each value that can't be stored is refused with its place, the fault and a way out.
        """
        codec = Codec([Broken, Note, Color], strict=True)
        with pytest.raises(SerializationError) as refused:
            codec.encode(value, "s")

        assert (refused.value.what, refused.value.do) == (what, do)

    def test_the_default_name_of_a_value(self):
        """
        Without a path the text calls it the value.
        """
        with pytest.raises(SerializationError, match=r"^value has the type"):
            Codec().encode(object())

    @pytest.mark.parametrize(
        ("wrap", "most"),
        [
            (lambda value: [value], 200),
            (lambda value: {"k": value}, 200),
            (lambda value: {1: value}, 200),
            (lambda value: (value,), 100),
            (lambda value: {1: (value,)}, 66),
        ],
    )
    def test_depth(self, wrap, most, deep_stack):
        """
        The place of a fault is looked for 200 levels deep, in containers of each kind.
        """
        value: Any = "\ud800"
        for _ in range(most):
            value = wrap(value)

        with pytest.raises(SerializationError, match="holds a lone surrogate"):
            CODEC.encode(value)
        with pytest.raises(SerializationError, match="is nested more than 200 levels"):
            CODEC.encode(wrap(value))

    @pytest.fixture
    def deep_stack(self):
        """A stack that is deep enough, whatever traces the calls."""
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(10_000)
        yield
        sys.setrecursionlimit(before)

    @pytest.mark.parametrize("kind", [object, int, Codec])
    def test_types_that_can_not_be_allowed(self, kind):
        """
        A type that can't be stored is refused by its name, with the kinds that can.
        """
        with pytest.raises(SerializationError) as refused:
            Codec([Note, kind])

        assert refused.value.what == f"type {kind!r} can't be put on the codec's allow-list"
        assert refused.value.do == (
            "use a dataclass, pydantic model, msgspec.Struct, enum, NamedTuple or a subclass of a "
            "built-in type; Codec(converters={Type: (to_plain, from_plain)}) stores any other type"
        )

    def test_a_form_that_there_is_not(self):
        """
        An unknown form is refused with the known ones.
        """
        with pytest.raises(InvalidConfigError) as refused:
            Codec().in_form("yaml")  # pyright: ignore[reportArgumentType]

        assert refused.value.what == "form must be 'msgpack' or 'json', got 'yaml'"
        assert refused.value.do == 'use "msgpack" or "json"'

    @pytest.mark.parametrize(
        ("payload", "kind", "what", "do"),
        [
            (
                ormsgpack.packb(ormsgpack.Ext(99, b"")),
                UnknownTypeError,
                "a stored value has the extension code 99, which this version doesn't know",
                "upgrade actorgraph to the version that wrote it",
            ),
            (
                ormsgpack.packb(ormsgpack.Ext(40, ormsgpack.packb(["m:Notes", {}]))),
                UnknownTypeError,
                "a stored value has the type 'm:Notes', which this program doesn't allow",
                (
                    f"{declare('m.Notes')}; if it was renamed, compile(migrations=[Migration("
                    "types={'m:Notes': NewType})])"
                ),
            ),
            (
                ormsgpack.packb(
                    ormsgpack.Ext(43, ormsgpack.packb(["tests.codec.shapes:Colour", 1]))
                ),
                UnknownTypeError,
                (
                    "a stored value has the type 'tests.codec.shapes:Colour', which this program "
                    "doesn't allow"
                ),
                (
                    f"{declare('tests.codec.shapes.Colour')}; if it was renamed, compile(migrations"
                    "=[Migration(types={'tests.codec.shapes:Colour': NewType})]); did you mean "
                    "'tests.codec.shapes:Color'?"
                ),
            ),
            (
                ormsgpack.packb(ormsgpack.Ext(13, ormsgpack.packb(7))),
                SerializationError,
                "a stored value can't be decoded: str was expected, not int",
                REPAIR,
            ),
        ],
    )
    def test_bytes_that_can_not_be_read(self, payload, kind, what, do):
        """
        Each payload that can't be read is refused with the fault and a way out.
        """
        types = [Color] if b"Colour" in payload else []
        with pytest.raises(ActorGraphError) as refused:
            Codec(types).decode(payload)

        assert type(refused.value) is kind
        assert (refused.value.what, refused.value.do) == (what, do)

    def test_the_name_of_a_refused_type(self):
        """
        The error of an unknown type has its name, and none for an unknown extension.
        """
        for payload, name in (
            (CODEC.encode([Note("x")]), "tests.codec.shapes:Note"),
            (ormsgpack.packb(ormsgpack.Ext(99, b"")), ""),
        ):
            with pytest.raises(UnknownTypeError) as refused:
                Codec().decode(payload)
            assert refused.value.type_name == name

    def test_a_class_of_the_same_name(self):
        """
        A type is allowed as the class that it is, not by its name.
        """
        other = dataclass(type("Note", (), {"__module__": Note.__module__, "__annotations__": {}}))

        with pytest.raises(SerializationError, match=r"another class 'tests\.codec\.shapes:Note'"):
            CODEC.encode(other())

    def test_the_cause(self):
        """
        Refusals have what was raised as their cause.
        """
        with pytest.raises(SerializationError) as refused:
            Codec([Broken]).encode(broken())
        assert isinstance(refused.value.__cause__, AttributeError)
        with pytest.raises(SerializationError) as refused:
            CODEC.decode(b"\xd9")
        assert refused.value.__cause__ is not None


class TestBuffers:
    @pytest.mark.parametrize(
        "value",
        [
            bytearray(b"x"),
            memoryview(b"x"),
            [1, [bytearray()]],
            {"a": 1, "b": {"c": [memoryview(b"")]}},
        ],
    )
    def test_they_are_found(self, value):
        """
        A bytearray or a memoryview in lists and dicts is refused.
        """
        with pytest.raises(TypeError, match=f"^{BUFFER}$"):
            refuse_buffers(value)

    @pytest.mark.parametrize("value", [b"x", [b"x", {"a": b""}], (bytearray(),), Send("a", 1)])
    def test_others_are_not(self, value):
        """
        Bytes pass, and other containers aren't entered.
        """
        refuse_buffers(value)

    def test_beside_other_types(self):
        """
        A bytearray inside a value of another type, and beside one, comes back as it was.
        """
        for value in (
            Note(bytearray(b"x")),
            [Note("x"), bytearray(b"y"), {1: bytearray(b"z")}],
            Model(name="x", parts=[bytearray(b"x")]),
        ):
            assert CODEC.decode(CODEC.encode(value)) == value
