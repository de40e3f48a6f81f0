"""Conversions of stored inputs: those of runs that have not begun, or that died in exit mode."""

from typing import Any

import msgspec
import pytest

from actorgraph.codec import Codec
from actorgraph.codec.conversions import (
    migrated_input,
    note_of_writes,
    noted_in,
    with_note,
    without_note,
)
from actorgraph.codec.decode_errors import unknown_extension_error
from actorgraph.codec.serializers import SerializerCodec
from actorgraph.errors import UnknownTypeError
from actorgraph.plan.plan import Plan
from actorgraph.values.checkpoint import Migration
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import CONVERTED
from tests.codec.test_migrations import PLAN, migrating

CODEC = Codec()
CODES_OF_0_2 = {*range(1, 35), *range(40, 50)}
"""The extension codes that actorgraph 0.2.0 reads; it refuses a value with any other."""
TENS = Migration(values={"n": lambda n: n * 10}, channels={"was": "n"}, nodes={"old": "b"})


def kept(by: Plan, given: Any) -> Any:
    """An input as the next version of a program reads it, after one stored it."""
    stored, converted, _ = without_note(with_note(CODEC, by, given))
    return migrated_input(migrating(TENS), stored, converted)


class TestInputs:
    @pytest.mark.parametrize(
        ("given", "made"),
        [
            ({"was": 1, "text": "x"}, {"n": 10, "text": "x"}),
            (Command(update={"n": 1}, goto="old"), Command(update={"n": 10}, goto=["b"])),
            (
                Command(goto=[Send("old", {"n": 1})]),
                Command(goto=[Send("b", {"n": 10})]),
            ),
            (Command(resume="yes"), Command(resume="yes")),
            ("text", "text"),
        ],
    )
    def test_an_input_of_the_older_version(self, given, made):
        """
        Its keys and nodes have the names of today, and its values are converted.
        """
        assert kept(PLAN, given) == made

    @pytest.mark.parametrize("given", [{"n": 1}, Command(update={"n": 1}), "text", None])
    def test_an_input_of_the_same_version(self, given):
        """
        It is as it was: it was written in today's form.
        """
        assert kept(migrating(TENS), given) == given

    def test_the_graph_is_noted(self):
        """
        So another version knows that it was not the one that accepted the input.
        """
        given = {"n": 1}

        assert without_note(with_note(CODEC, PLAN, given)) == (given, {}, PLAN.graph_id)

    def test_an_input_without_a_note(self):
        """
        Older versions of the library stored it as it was given.
        """
        given = {"n": 1}

        assert without_note(given) == (given, {}, "")
        assert migrated_input(PLAN, given) is given


def read_by_0_2(payload: bytes) -> Any:
    """Decode as actorgraph 0.2.0 does, as far as its rule about extensions goes."""

    def hook(code: int, inner: bytes) -> Any:
        if code not in CODES_OF_0_2:
            raise unknown_extension_error(code)
        return read_by_0_2(inner)

    return msgspec.msgpack.decode(payload, ext_hook=hook)


class JsonSerializer:
    """A program's own serializer, which takes what JSON has."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "json", msgspec.json.encode(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return msgspec.json.decode(data[1])


CODECS = {
    "msgpack": CODEC,
    "json": Codec(form="json"),
    "encrypted": Codec(keys={"k": b"k" * 32}),
    "serializer": SerializerCodec(JsonSerializer()),
}


class TestOlderVersions:
    """Notes that an older version of the library would take for the program's data."""

    @pytest.mark.parametrize("given", [{"n": 1}, Command(update={"n": 1}), "text", None])
    def test_a_noted_input_is_refused(self, given):
        """
        It would have run with a state of the note's keys; it asks for an upgrade.
        """
        payload = CODEC.encode(with_note(CODEC, PLAN, given))

        with pytest.raises(UnknownTypeError, match="extension code 35"):
            read_by_0_2(payload)
        assert read_by_0_2(CODEC.encode({"n": [given, (1, 2)]}))["n"][1] == [1, 2]

    def test_noted_writes_are_refused(self):
        """
        Their values would have been converted a second time.
        """
        payload = CODEC.encode([["n", 1], note_of_writes(CODEC, {"n": {"": "d"}})])

        with pytest.raises(UnknownTypeError, match="extension code 35"):
            read_by_0_2(payload)

    @pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
    def test_each_codec_reads_its_notes(self, codec):
        """
        A program's own serializer gets plain data: it knows no type of the library's.
        """
        had = {"n": {"": "d"}}
        whole = codec.decode(codec.encode(with_note(codec, PLAN, {"n": 1})))
        writes = codec.decode(codec.encode([["n", 1], note_of_writes(codec, had)]))

        assert without_note(whole) == ({"n": 1}, {}, PLAN.graph_id)
        assert noted_in(writes[-1][1]) == had

    def test_an_input_with_a_note_among_its_keys(self):
        """
        Versions between 0.2.0 and this one stored the note as a dict; it is read.
        """
        stored = {CONVERTED: {"n": {"": "d"}}, "graph": "g:1", "input": {"n": 1}}

        assert without_note(stored) == ({"n": 1}, {"n": {"": "d"}}, "g:1")
