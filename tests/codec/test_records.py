"""The JSON record of a checkpoint and the frames of a list: read back, or refused with advice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.codec.records import Record, decode_record, encode_record, frame, frames, is_inline
from actorgraph.errors import FormatVersionError, SerializationError

RECORD = Record(
    graph="g:1",
    channel_versions={"log": 3},
    versions_seen={"a": {"log": 2}},
    updated_channels=["log"],
    values={"n": 1, "none": None},
    lists={"log": [(1, 10), (2, 12)]},
    blobs=["text"],
)


@pytest.mark.promise("S023")
@pytest.mark.langgraph("L10")
@pytest.mark.parametrize("record", [Record(), RECORD])
def test_a_record_is_json_that_says_its_version(record):
    """
    A record is plain JSON with its format version, and reads back as it was.
    """
    text = encode_record(record)

    assert json.loads(text)["v"] == 4
    assert decode_record(text) == record


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v":4,"lists":3}', '{"v":"x"}', '{"graph":"g"}'])
def test_a_damaged_record_is_refused(text):
    """
    Bytes that aren't a record are an error with advice.
    """
    with pytest.raises(FormatVersionError) as refused:
        decode_record(text)

    assert refused.value.do


@pytest.mark.promise("S070")
def test_a_newer_record_is_refused():
    """
    A record of a later format names both formats and asks for an upgrade.
    """
    with pytest.raises(FormatVersionError, match="format 9; this version reads 1 to 5") as refused:
        decode_record('{"v":9,"whatever":1}')

    assert refused.value.do == "upgrade actorgraph"


@pytest.mark.parametrize(
    ("value", "inline"),
    [
        (None, True),
        (True, True),
        (0, True),
        (2**53 - 1, True),
        (2**53, False),
        (-(2**53), False),
        (1.0, False),
        ("", False),
        ([], False),
    ],
)
def test_only_what_json_holds_exactly_is_inline(value, inline):
    """
    None, booleans and integers that every JSON reader keeps are stored in the record itself.
    """
    assert is_inline(value) is inline


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_frames_one_behind_the_other_are_the_frames(parts):
    """
    Rows join by putting their bytes together.
    """
    assert list(frames(b"".join(map(frame, parts)))) == parts


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=5), st.data())
def test_a_row_that_is_cut_is_refused(parts, data):
    """
    A row that ends inside a frame is an error; one that ends between two is a shorter row.
    """
    whole = b"".join(map(frame, parts))
    cut = data.draw(st.integers(0, len(whole) - 1))
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + 4 + len(part))
    if cut in ends:
        assert list(frames(whole[:cut])) == parts[: ends.index(cut)]
        return

    with pytest.raises(SerializationError, match="ends in the middle"):
        list(frames(whole[:cut]))
