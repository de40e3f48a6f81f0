"""Outlines: encoded lists that are read without the values of other types."""

import pytest

from actorgraph import Codec, SerializationError
from actorgraph.codec.outlines import outline
from tests.codec.shapes import CODEC, Point
from tests.codec.test_codec_uses import KEYS, Overriding

POINTS = [["points", [Point(1, 2)] * 50], ["count", 2]]


def test_other_values_are_left_out():
    """
    Plain values are read; one of another type is None, also if the reader doesn't know the type.
    """
    assert outline(Codec(), CODEC.encode(POINTS)) == [["points", [None] * 50], ["count", 2]]


@pytest.mark.parametrize(
    "codec",
    [Overriding([Point]), Codec([Point], compress_above=1), CODEC.in_form("json")],
    ids=["own", "compressed", "json"],
)
def test_other_bytes_are_decoded_whole(codec):
    """
    Bytes of a codec of a program's own, compressed ones and JSON are read by the codec.
    """
    assert outline(codec, codec.encode(POINTS)) == POINTS


def test_encrypted_bytes_are_decoded_whole():
    """
    An encrypted list is read with its key.
    """
    pytest.importorskip("cryptography", reason="the extra `encryption` is not installed")
    codec = Codec([Point], keys=KEYS)

    assert outline(codec, codec.encode(POINTS)) == POINTS


def test_damaged_bytes_are_refused():
    """
    Bytes that end too early raise what decoding raises.
    """
    with pytest.raises(SerializationError):
        outline(CODEC, CODEC.encode(POINTS)[:-1])
