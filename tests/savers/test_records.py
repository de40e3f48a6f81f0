"""What a stored checkpoint has: all that a resume needs, and nothing else."""

import json
import sqlite3

import pytest

from actorgraph import Command, FormatVersionError, SqliteSaver, interrupt
from tests.graphs import at, in_a_row

ALWAYS = {"v", "parts", "graph", "channel_versions", "versions_seen", "updated_channels"}
WHERE_VALUES_ARE = {"values", "lists", "blobs"}
FOR_RESUMING = {"v", "channel_versions", "versions_seen", *WHERE_VALUES_ARE}


def graph(saver):
    nodes = {
        "a": lambda _: {"foo": "text", "bar": ["a"]},
        "ask": lambda _: {"foo": interrupt("?")},
    }
    return in_a_row(nodes, checkpointer=saver)


def newest(path):
    with sqlite3.connect(path) as database:
        (text,) = database.execute(
            "SELECT record FROM checkpoints ORDER BY seq DESC LIMIT 1"
        ).fetchone()
    database.close()
    return json.loads(text)


def store(path, record):
    with sqlite3.connect(path) as database:
        database.execute(
            "UPDATE checkpoints SET record = ? WHERE seq = (SELECT max(seq) FROM checkpoints)",
            (json.dumps(record),),
        )
    database.close()


class TestRecord:
    async def test_it_has_what_a_resume_needs_and_no_more(self, tmp_path):
        """
        A record has coordination and places of values, and nothing that follows from them.
        Promise: S045.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as saver:
            await graph(saver).ainvoke({"bar": ["in"]}, at())

        assert set(newest(path)) == ALWAYS | WHERE_VALUES_ARE

    @pytest.mark.parametrize("part", sorted(FOR_RESUMING))
    async def test_a_lost_part_is_told(self, part, tmp_path):
        """
        Without any part that a resume needs, the resume fails with a typed error. Promise: S045.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as saver:
            await graph(saver).ainvoke({"bar": ["in"]}, at())
        record = newest(path)
        del record[part]
        store(path, record)

        async with SqliteSaver(path) as saver:
            with pytest.raises(FormatVersionError):
                await graph(saver).ainvoke(Command(resume="yes"), at())

    async def test_one_lost_value_is_told(self, tmp_path):
        """
        A record that names one value fewer than it had is not taken for a smaller one.
        Promise: S045.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as saver:
            await graph(saver).ainvoke({"bar": ["in"]}, at())
        record = newest(path)
        record["blobs"].remove("foo")
        store(path, record)

        async with SqliteSaver(path) as saver:
            with pytest.raises(FormatVersionError, match="parts"):
                await graph(saver).aget_state(at())
