"""Records of every format on disk: they load, go on, and stay as they are."""

import json
import sqlite3
from pathlib import Path

import pytest

from actorgraph import FormatVersionError, SqliteSaver
from actorgraph.codec.records import decode_record, encode_record
from tests.graphs import ab, at

FORMATS = Path(__file__).parent / "formats"
ALL = [1, 2, 3, 4]


def text_of(version):
    """The record of a thread that waits for `b`, as that format has it."""
    return json.dumps(json.loads((FORMATS / f"v{version}.json").read_text()))


def records(path):
    """The stored records, oldest first."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT record FROM checkpoints ORDER BY seq").fetchall()
    connection.close()
    return [record for (record,) in found]


async def waiting(path, text):
    """A thread that waits for `b`, whose newest record is this text."""
    async with SqliteSaver(path) as saver:
        await ab(saver, interrupt_before=["b"]).ainvoke({"foo": "x", "bar": ["1"]}, at())
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE checkpoints SET record = ? WHERE step = 1", (text,))
    connection.close()


class TestUpgrades:
    @pytest.mark.parametrize("version", ALL)
    async def test_a_record_of_each_format_loads_and_goes_on(self, tmp_path, version):
        """
        A record of format 1, 2, 3 or 4 is read as one of today, its bytes stay, and what comes
        after it is written in the current format. Promise: S069, S070. LangGraph: F-A20.
        """
        path, text = tmp_path / "runs.db", text_of(version)
        await waiting(path, text)

        async with SqliteSaver(path) as saver:
            graph = ab(saver)
            state = await graph.aget_state(at())
            assert (state.values, state.next) == ({"foo": "a", "bar": ["1", "a"]}, ("b",))
            found = await saver.aget_tuple(at())
            assert found.checkpoint["v"] == 4
            assert records(path)[2] == text
            result = await graph.ainvoke(None, at())
            again = await graph.ainvoke({"bar": ["2"]}, at())

        assert result == {"foo": "b", "bar": ["1", "a", "b"]}
        assert again["bar"] == ["1", "a", "b", "2", "a", "b"]
        stored = records(path)
        assert stored[2] == text
        assert {json.loads(record)["v"] for record in stored[3:]} == {4}

    @pytest.mark.parametrize("version", [-1, 0, 5, 99])
    async def test_an_unknown_format_is_refused(self, tmp_path, version):
        """
        A record of a format that isn't known yet, or never was, is an error that names both
        formats; nothing is written. Promise: S070, T37.
        """
        path = tmp_path / "runs.db"
        text = json.dumps({**json.loads(text_of(4)), "v": version})
        await waiting(path, text)

        async with SqliteSaver(path) as saver:
            with pytest.raises(FormatVersionError, match=f"format {version}; this version reads 1"):
                await ab(saver).ainvoke(None, at())
            with pytest.raises(FormatVersionError):
                await ab(saver).aget_state(at())
        assert records(path)[2] == text

    @pytest.mark.parametrize("version", ALL)
    def test_what_a_format_has_not_yet_is_empty(self, version):
        """
        Format 1 has no seen versions, 2 no list of what changed; both are read as nothing.
        Promise: S069.
        """
        record = decode_record(text_of(version))

        assert (record.versions_seen == {}) is (version == 1)
        assert (record.updated_channels is None) is (version <= 2)
        assert decode_record(encode_record(record)) == record
