"""The JSON record of a checkpoint and the frames of a list: read back, or refused with advice."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.codec.records import (
    Record,
    decode_metadata,
    decode_names,
    decode_record,
    encode_json,
    encode_record,
    frame,
    frames,
    is_inline,
    with_checksums,
)
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
    with pytest.raises(FormatVersionError, match="format 9; this version reads 1 to 6") as refused:
        decode_record('{"v":9,"whatever":1}')

    assert refused.value.do == "upgrade actorgraph"


@pytest.mark.parametrize(
    ("value", "inline"),
    [
        (None, True),
        (True, True),
        (False, True),
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


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_every_format_so_far_is_read(version):
    """
    Records of each format up to the newest are read, and keep their number.
    """
    assert decode_record(f'{{"v":{version}}}').v == version


REPAIR = "check the database's integrity, or restore it from a backup"


@pytest.mark.parametrize(
    ("decode", "name"),
    [
        (decode_record, "record"),
        (decode_metadata, "metadata"),
        (decode_names, "list of next nodes"),
    ],
)
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("7", "Expected `"),
        ("", "Input data was truncated"),
        ("\udcff", "'utf-8' codec can't encode"),
        ("[" * 100_000, ""),
    ],
)
def test_damaged_text_is_named(decode, name, text, fault):
    """
    Text that can't be read is refused with its part of the checkpoint, the fault and the advice.
    """
    with pytest.raises(FormatVersionError) as refused:
        decode(text)

    assert refused.value.what.startswith(f"a checkpoint's {name} can't be read: {fault}")
    assert not refused.value.what.endswith(": None")
    assert refused.value.do == REPAIR


def test_metadata_and_names_come_back():
    """
    Metadata is a JSON object and the next nodes are a JSON list, both compact.
    """
    assert encode_json({"a": [1, None]}) == '{"a":[1,null]}'
    assert decode_metadata('{"a":[1,null]}') == {"a": [1, None]}
    assert decode_names('["a","b"]') == ["a", "b"]


def test_a_row_is_stored_at_the_version_of_its_channel_or_its_own():
    """
    A blob's version is the one noted for it, else that of its channel; 0 where neither is known.
    """
    record = Record(channel_versions={"a": 3, "b": 4}, stands={"b": 9, "c": 5})

    assert [record.version_of(channel) for channel in "abcd"] == [3, 9, 5, 0]


def test_a_record_of_some_channels():
    """
    A part of a record locates these channels, and the shared rows of them and of the input.
    """
    record = Record(
        graph="g",
        channel_versions={"a": 1, "b": 2},
        values={"a": 1, "b": 2},
        lists={"c": [(1, 2)], "d": [(1, 3)]},
        blobs=["e", "f", "s", "t", "u", "__start__"],
        shared={"g": ["s"], "h": ["t"], "__start__": ["u"]},
        stands={"s": 7},
    )

    assert record.only({"a", "c", "e", "g"}) == Record(
        channel_versions={"a": 1, "b": 2},
        values={"a": 1},
        lists={"c": [(1, 2)]},
        blobs=["e", "s", "u"],
        shared={"g": ["s"], "__start__": ["u"]},
        stands={"s": 7},
    )


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_checksums_are_added_and_taken_off(parts):
    """
    Frames with checksums have the same contents, and are the same frames again without them.
    """
    plain = b"".join(map(frame, parts))
    checked = with_checksums(plain)

    assert len(checked) == len(plain) + 4 * len(parts)
    assert list(frames(checked)) == parts
    assert b"".join(map(frame, frames(checked))) == plain
    assert with_checksums(checked) == checked


def test_the_stored_bytes_of_a_checked_frame():
    """
    A checked frame is its length with the highest bit set, the CRC-32 of length and content, and
    the content.
    """
    assert with_checksums(frame(b"abc")).hex() == "80000003" + "cdaa02b2" + "616263"


@pytest.mark.parametrize("mixed", [False, True])
def test_a_changed_bit_of_a_checked_frame_is_found(mixed):
    """
    Any flipped bit of a checked frame is an error, also behind frames without a checksum.
    """
    head = frame(b"plain") if mixed else b""
    checked = with_checksums(frame(b"abc") + frame(b"defg"))
    assert list(frames(head + checked))[-2:] == [b"abc", b"defg"]
    texts: set[str] = set()
    for bit in range(8 * len(checked)):
        if bit % 88 == 0:
            continue  # the bit that marks a checked frame: without it the frame is another one
        wrong = bytearray(checked)
        wrong[bit // 8] ^= 128 >> bit % 8
        with pytest.raises(SerializationError) as refused:
            list(frames(head + wrong))
        texts.add(refused.value.what)
        assert refused.value.do == REPAIR

    assert texts == {
        "a stored list has a wrong checksum",
        "a stored list ends in the middle of its items",
    }


@pytest.mark.parametrize("row", [b"\0", b"\0\0\0", frame(b"ab")[:-1], frame(b"") + b"\0"])
def test_a_cut_row_is_named(row):
    """
    A row that ends in a length or in a frame's content is refused with the fault.
    """
    with pytest.raises(SerializationError) as refused:
        list(frames(row))

    assert refused.value.what == "a stored list ends in the middle of its items"
