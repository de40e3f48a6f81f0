"""Digests of values: equal for equal values, in every process."""

import os
import subprocess
import sys
from decimal import Decimal

import pytest

from actorgraph import Codec
from actorgraph.codec.digests import digest_of, opened_digest, sealed_digest

PROGRAM = """
from actorgraph import Codec
from actorgraph.codec.digests import digest_of
print(digest_of(Codec(), {"b": {"x", "y", "z"}, "a": (1, frozenset("pqrs")), 3: None}))
"""


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

    def test_an_encrypted_one_hides_its_value(self):
        """
        Two digests of one value differ, so that values can't be guessed; another key reads none.
        """
        codec, other = Codec(keys={"k": b"1" * 32}), Codec(keys={"k": b"2" * 32})
        digest = digest_of(codec, "yes")

        assert digest not in sealed_digest(codec, digest)
        assert sealed_digest(codec, digest) != sealed_digest(codec, digest)
        assert opened_digest(other, sealed_digest(codec, digest)) == ""
