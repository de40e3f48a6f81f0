"""Records of every format; tests/savers/test_resume_from_rows.py has them stored."""

import json
from pathlib import Path

import pytest

from actorgraph.codec.records import decode_record, encode_record

FORMATS = Path(__file__).parent / "formats"
ALL = [1, 2, 3, 4]


def text_of(version):
    """The record of a thread that waits for `b`, as that format has it."""
    return json.dumps(json.loads((FORMATS / f"v{version}.json").read_text()))


@pytest.mark.promise("S069")
@pytest.mark.parametrize("version", ALL)
def test_fields_missing_in_an_older_format_are_empty(version):
    """
    Format 1 has no seen versions, 2 no list of what changed; both are read as nothing.
    """
    record = decode_record(text_of(version))

    assert (record.versions_seen == {}) is (version == 1)
    assert (record.updated_channels is None) is (version <= 2)
    assert decode_record(encode_record(record)) == record
