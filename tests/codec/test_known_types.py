"""Types of a program that a codec stores and reads: its own, declared ones, stored ones."""

import enum
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import make_dataclass
from pathlib import PurePosixPath
from typing import Any

import pytest

from actorgraph.codec import Codec, known_types
from actorgraph.codec import codec as codec_module
from actorgraph.codec.known_types import (
    declare,
    declared,
    find_below,
    has_other_stored,
    how_to_declare,
    is_below,
    names_subclasses,
    remember,
    stored,
    warn_undeclared,
)
from actorgraph.errors import SerializationError, UndeclaredTypeWarning, UnknownTypeError
from tests.support.known_types import restart

ITEM = f"{__name__}:Item"


def item(*bases: type, name: str = "Item") -> Any:
    """A new class of that name with the field `a`."""
    made = make_dataclass(name, [("a", int)], bases=bases)
    made.__module__ = __name__
    return made


class TestLists:
    def test_a_declared_type_is_found_by_its_name(self):
        """
        Also a subclass of it; types that can't be stored are declared as bases alone.
        """
        plain = type("Base", (), {"__module__": __name__})
        kind = item()
        declare([kind, plain])

        assert declared(ITEM) is kind
        assert declared(f"{__name__}:Base") is None
        assert is_below(item(plain))
        assert is_below(item(kind))
        assert not is_below(item())

    def test_a_class_of_the_standard_library_declares_no_subclasses(self):
        """
        Everything is below some of them; of a program's own class they are meant.
        """
        kind, path = item(), type("Mine", (PurePosixPath,), {"__module__": __name__})
        declare([PurePosixPath])

        there = [kind, PurePosixPath, enum.Enum, OrderedDict, Mapping]
        assert [names_subclasses(each) for each in there] == [True, *[False] * 4]
        assert not is_below(path)
        assert not is_below(path, [PurePosixPath])
        assert is_below(item(kind), [kind])

    def test_the_first_stored_class_of_a_name_counts_as_long_as_it_exists(self):
        """
        A second one is another; without the first it takes the name.
        """
        first, second = item(), item()

        assert remember(first) is first
        assert remember(second) is first
        assert (stored(ITEM), has_other_stored(second), has_other_stored(first)) == (
            first,
            True,
            False,
        )
        del first
        assert not has_other_stored(second)
        assert remember(second) is second

    def test_a_subclass_is_found_by_its_name_alone(self):
        """
        Among the classes below declared ones or those of a codec, at any depth; no other class.
        """
        base = item(name="Base")
        below = item(item(base, name="Middle"))
        assert find_below(ITEM) is None
        assert find_below(ITEM, [base]) is below
        declare([base])

        assert find_below(ITEM) is below
        assert find_below(f"{__name__}:Missing") is None
        assert find_below("elsewhere:Item") is None

    def test_a_type_is_warned_of_once(self):
        """
        The text says what has it, and how to declare it; a warning that is an error is repeated.
        """
        kind = item()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                with pytest.raises(UndeclaredTypeWarning):
                    warn_undeclared(kind, "channel 'v'")
        with pytest.warns(UndeclaredTypeWarning) as caught:
            warn_undeclared(kind, "channel 'v'")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_undeclared(kind, "channel 'v'")

        assert str(caught[0].message) == (
            f"channel 'v' has the type {ITEM!r}, which nothing declares: this process can read it, "
            "but after a restart the thread can't be read; pass "
            f"codec=Codec(types=[{__name__}.Item]) to the saver, or annotate a key of the graph's "
            "state with it"
        )

    def test_a_bounded_number_of_types_is_warned_of(self, monkeypatch):
        """
        A program that makes types without end gets no more warnings after some.
        """
        monkeypatch.setattr(known_types, "_WARNED_MAX", 1)
        with pytest.warns(UndeclaredTypeWarning):
            warn_undeclared(item(), "value")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warn_undeclared(item(name="Other"), "value")


def test_a_class_of_the_program_s_own_file():
    """
    The advice names it as the program does, without its module.
    """
    advice = "pass codec=Codec(types=[{}]) to the saver, or annotate a key of the graph's state"

    assert how_to_declare("__main__:Item") == f"{advice.format('Item')} with it"
    assert how_to_declare("app.a:Item.B") == f"{advice.format('app.a.Item.B')} with it"


class TestStoring:
    def test_an_undeclared_type_is_stored_with_a_warning(self):
        """
        Its path is in the text, and this process reads the value.
        """
        kind, codec = item(), Codec()
        with pytest.warns(UndeclaredTypeWarning, match=r"^v\[1\] has the type"):
            payload = codec.encode([0, kind(1)], "v")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = codec.encode(kind(2), "v")

        assert codec.decode(payload) == [0, kind(1)]
        assert Codec().decode(again) == kind(2)

    def test_a_codec_of_this_process_alone_warns_of_none(self):
        """
        The values it stores end with the process.
        """
        kind = item()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            payload = Codec().for_this_process().encode(kind(1))

        assert Codec().decode(payload) == kind(1)

    def test_a_strict_codec_refuses_an_undeclared_type(self):
        """
        Also one that another codec has stored; a subclass of its own types is stored.
        """
        kind, base = item(), item(name="Base")
        below = item(base, name="Below")
        remember(kind)
        strict = Codec(types=[base], strict=True)
        with pytest.raises(SerializationError, match=r"^v\['k'\]"):
            strict.encode({"k": kind(1)}, "v")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            payload = strict.encode(below(1))

        assert strict.decode(payload) == below(1)

    def test_a_subclass_of_a_declared_type_is_stored_without_a_warning(self):
        """
        It is declared with its base, as a process knows that has just begun.
        """
        base = item(name="Base")
        below = item(base)
        declare([base])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            payload = Codec().encode(below(1))
        restart()
        declare([base])

        assert type(Codec().decode(payload)) is below
        assert stored(ITEM) is below

    def test_a_declared_class_of_which_another_one_is_stored_is_refused(self):
        """
        Its values could be read as those of the other; one that is declared and stored is neither
        refused nor warned of.
        """
        first, second, both = item(), item(), item(name="Both")
        remember(first)
        declare([second, both])
        remember(both)
        with pytest.raises(SerializationError, match="has another class"):
            Codec().encode(second(1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for codec in (Codec(), Codec(strict=True)):
                assert codec.decode(codec.encode(both(1))) == both(1)

    def test_a_class_that_another_thread_stores_meanwhile(self, monkeypatch):
        """
        Of two classes of a name the one that was remembered first has it.
        """
        first, second = item(), item()

        def warn_late(kind: type, path: str) -> None:
            remember(first)  # as another thread would, between the look and the entry

        monkeypatch.setattr(codec_module, "warn_undeclared", warn_late)
        with pytest.raises(SerializationError, match=r"^v has another class"):
            Codec().encode(second(1), "v")

    @pytest.mark.parametrize("known", ["own", "declared", "stored"])
    def test_another_class_of_a_known_name_is_refused(self, known):
        """
        It would be read as the class that has the name; the text says where the value is.
        """
        first, second = item(), item()
        codec = Codec(types=[first] if known == "own" else [])
        if known == "declared":
            declare([first])
        if known == "stored":
            remember(first)
        text = f"^v\\[0\\] has another class '{ITEM}' than the one that is declared"
        with pytest.raises(SerializationError, match=text) as refused:
            codec.encode([second(1)], "v")

        assert refused.value.do == (
            "compile the graph again after its classes were defined anew, or give one of the "
            "classes another name"
        )
        assert codec.decode(codec.encode(first(1))) == first(1)


class TestReading:
    def test_a_type_that_nothing_knows_is_not_read(self):
        """
        As in a process that was begun after the value was stored.
        """
        kind = item()
        payload = Codec(types=[kind]).encode(kind(1))

        with pytest.raises(UnknownTypeError, match=f"has the type '{ITEM}', which this program"):
            Codec().decode(payload)

    def test_a_class_below_one_of_the_codec_is_read(self):
        """
        Although nothing has declared or stored it in this process; a class inside of another too.
        """
        base = item(name="Base")
        below, inside = item(base), item(base, name="Inside")
        inside.__qualname__ = "Outer.Inside"
        first = Codec(types=[below, inside]).encode([below(1), inside(2)])

        assert Codec(types=[base]).decode(first) == [below(1), inside(2)]

    def test_a_base_that_can_not_be_stored_declares_its_subclasses(self):
        """
        In a codec too, unless it is a class of the standard library.
        """
        plain = type("Base", (), {"__module__": __name__})
        below, first = item(plain), Codec(strict=True)
        codec = first.with_types([plain])

        assert first.with_types([object]) is first
        assert codec.decode(codec.encode(below(1))) == below(1)
        with pytest.raises(SerializationError):
            first.encode(below(1))

    def test_of_two_classes_of_a_name_neither_is_read(self):
        """
        Declared after a value of the other one was stored: it may be of either.
        """
        first, second = item(), item()
        remember(first)
        declare([second])
        payload = Codec(types=[first]).encode(first(1))
        with pytest.raises(UnknownTypeError, match="and the program has two") as refused:
            Codec().decode(payload)

        assert ITEM in refused.value.what
        assert refused.value.do == (
            f"pass codec=Codec(types=[{__name__}.Item]) to the saver, or annotate a key of the "
            "graph's state with it; or give one of the classes another name"
        )
        assert Codec(types=[first]).decode(payload) == first(1)

    def test_a_strict_codec_reads_no_type_that_another_one_stored(self):
        """
        But one below its own types, although another codec stored it first; and a declared one.
        """
        kind, base, named = item(), item(name="Base"), item(name="Named")
        below = item(base, name="Below")
        for each in (kind, below):
            remember(each)
        declare([named])
        strict = Codec(types=[base], strict=True)
        every = Codec(types=[kind, below, named])

        assert strict.decode(every.encode(below(1))) == below(1)
        assert strict.decode(every.encode(named(1))) == named(1)
        with pytest.raises(UnknownTypeError):
            strict.decode(every.encode(kind(1)))

    def test_a_strict_codec_does_not_read_one_of_two_classes(self):
        """
        One is below its own type and stored, the other one declared: the value may be of either.
        """
        base = item(name="Base")
        below, named = item(base), item()
        remember(below)
        payload = Codec(types=[below]).encode(below(1))
        declare([named])
        with pytest.raises(UnknownTypeError, match="two classes"):
            Codec(types=[base], strict=True).decode(payload)

    def test_a_strict_codec_is_not_confused_by_another_ones_class(self):
        """
        A class of a declared name that another codec has stored doesn't make the name ambiguous.
        """
        first, second = item(), item()
        remember(first)
        declare([second])
        payload = Codec(types=[second]).encode(second(1))

        assert type(Codec(strict=True).decode(payload)) is second
