"""Digests of values: equal for equal values, in every process."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from actorgraph import Codec
from actorgraph.codec.digests import digest_of, opened_digest, sealed_digest
from actorgraph.codec.serializers import SerializerCodec
from actorgraph.errors import SerializationError

PROGRAM = """
from actorgraph import Codec
from actorgraph.codec.digests import digest_of
print(digest_of(Codec(), {"b": {"x", "y", "z"}, "a": (1, frozenset("pqrs")), 3: None}))
"""


@dataclass
class Note:
    text: str
    more: dict[str, int] = field(default_factory=dict)


CODEC = Codec([Note])


class TestDigest:
    def test_order_makes_no_difference(self):
        """
        Dicts that were filled in another order, at any depth, have one digest.
        """
        one = {"a": 1, "b": [{"x": 1, 2: "y"}]}
        other = {"b": [{2: "y", "x": 1}], "a": 1}

        assert digest_of(Codec(), one) == digest_of(Codec(), other)

    def test_different_values_differ(self):
        """
        Types count too.
        """
        values = [1, "1", 1.0, True, [1], (1,), {1}, {"a": 1}, {"a": 2}, Decimal(1), None, 2**70]

        assert len({digest_of(Codec(), value) for value in values}) == len(values)

    @pytest.mark.parametrize("kind", [set, frozenset])
    def test_sets_that_were_filled_in_another_order(self, kind):
        """
        The items of a set count in no order, at any depth, and those of two are kept apart.
        """
        codec, numbers = Codec(), [0, 8, 16, 24, 32, 2**40]
        forwards, backwards = kind(numbers), kind(reversed(numbers))
        assert [*forwards] != [*backwards]

        digests = {digest_of(codec, {"a": [(one,)]}) for one in (forwards, backwards)}
        assert len(digests) == 1
        nested = [{frozenset(order), (frozenset(order), 1)} for order in (numbers, numbers[::-1])]
        assert digest_of(codec, nested[0]) == digest_of(codec, nested[1])
        inner = [{(("a", (order,)),)} for order in (frozenset(numbers), frozenset(numbers[::-1]))]
        assert digest_of(codec, inner[0]) == digest_of(codec, inner[1])
        assert digest_of(codec, forwards) != digest_of(codec, forwards - {8})
        assert digest_of(codec, kind((1, 2))) != digest_of(codec, kind((1, 3)))
        assert digest_of(codec, kind(((1,), "ab"))) != digest_of(codec, kind(((1,), "ba")))

    def test_dicts_inside_of_sets_and_objects(self):
        """
        The keys of a dict with other keys than text count in no order either.
        """
        one, other = {1: "a", 2: "b"}, {2: "b", 1: "a"}
        objects = [Note("a", {"x": 1, "y": 2}), Note("a", {"y": 2, "x": 1})]

        assert digest_of(CODEC, [one]) == digest_of(CODEC, [other])
        assert digest_of(CODEC, objects[0]) == digest_of(CODEC, objects[1])
        assert digest_of(CODEC, Note("a")) != digest_of(CODEC, Note("b"))

    def test_arrays_count_by_their_bytes(self):
        """
        Those of equal shape and type too.
        """
        assert digest_of(CODEC, np.arange(3)) == digest_of(CODEC, np.arange(3))
        assert digest_of(CODEC, np.arange(3)) != digest_of(CODEC, np.arange(1, 4))

    def test_its_length(self):
        """
        Sixteen bytes as hex digits.
        """
        assert len(digest_of(CODEC, None)) == 32
        assert int(digest_of(CODEC, None), 16)

    def test_processes_agree(self):
        """
        The order of a set of texts differs between processes; its digest doesn't.
        """
        digests = {
            subprocess.run(
                [sys.executable, "-c", PROGRAM],
                env={**os.environ, "PYTHONHASHSEED": seed},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for seed in ("1", "2")
        }

        assert len(digests) == 1

    def test_a_value_that_can_not_be_encoded_has_none(self):
        """
        Instead of an error: whether the value can be stored is decided elsewhere.
        """
        assert digest_of(Codec(), object()) == ""


class TestSealed:
    @pytest.mark.parametrize("codec", [Codec(), Codec(keys={"k": b"1" * 32})])
    def test_a_sealed_digest_is_read_again(self, codec):
        """
        With encryption and without it.
        """
        digest = digest_of(codec, {"a": 1})

        assert opened_digest(codec, sealed_digest(codec, digest)) == digest

    def test_a_codec_that_refuses_it(self):
        """
        The error of a serializer that can't store text says what was stored.
        """

        class Refusing:
            def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
                raise TypeError("not text")

            def loads_typed(self, data: tuple[str, bytes]) -> Any:
                return data

        with pytest.raises(SerializationError, match=r"^the digest of an input can't be stored"):
            sealed_digest(SerializerCodec(Refusing()), "0" * 32)

    def test_an_encrypted_one_hides_its_value(self):
        """
        Two digests of one value differ, so that values can't be guessed; another key reads none.
        """
        codec, other = Codec(keys={"k": b"1" * 32}), Codec(keys={"k": b"2" * 32})
        digest = digest_of(codec, "yes")

        assert len(digest) == 32
        assert digest not in sealed_digest(codec, digest)
        assert sealed_digest(codec, digest) != sealed_digest(codec, digest)
        assert opened_digest(other, sealed_digest(codec, digest)) == ""
