"""docs/inspecting.md: each SQL statement of the page, on a database that has something to show."""

import json
import re
from itertools import starmap

import pytest

from actorgraph import SqliteSaver, interrupt
from tests.savers.test_sqlite_file import connected
from tests.support.graphs import ab, at, in_a_row, writer
from tests.support.source_files import ROOT

STATEMENTS = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/inspecting.md").read_text(), re.DOTALL)


@pytest.fixture
def path(tmp_path):
    """A file with a finished thread and one that waits for an answer."""

    async def ask(state):
        return {"bar": [interrupt("?")]}

    file = tmp_path / "runs.db"
    with SqliteSaver(file) as saver:
        ab(saver).invoke({"foo": "x"}, {**at("letter-7"), "metadata": {"user": "ada"}})
        in_a_row({"a": writer("a"), "ask": ask}, checkpointer=saver).invoke({}, at("w"))
    return file


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_a_statement_of_the_page(path, statement):
    """
    It runs as it is, and every value that it shows can be read by a person.
    """
    with connected(path) as db:
        found = db.execute(statement)
        names = [column[0] for column in found.description]
        rows = found.fetchall()

    assert names
    assert all(isinstance(cell, (str, int, type(None))) for row in rows for cell in row)


@pytest.mark.promise("S095", "S096", "S106")
def test_checkpoints_can_be_listed_with_their_steps(path):
    """
    Thread, step, source, next nodes and metadata of each checkpoint are there as text, in order.
    """
    with connected(path) as db:
        rows = db.execute(STATEMENTS[0]).fetchall()

    assert [row[:4] for row in rows] == [
        ("letter-7", -1, "input", '["__start__"]'),
        ("letter-7", 0, "loop", '["a"]'),
        ("letter-7", 1, "loop", '["b"]'),
        ("letter-7", 2, "loop", "[]"),
        ("w", -1, "input", '["__start__"]'),
        ("w", 0, "loop", '["a"]'),
        ("w", 1, "loop", '["ask"]'),
    ]
    assert [json.loads(row[4]).get("user") for row in rows] == ["ada"] * 4 + [None] * 3


def test_ids_are_those_of_the_snapshots(path):
    """
    The digits that hex() shows are those of the checkpoint's id in a config.
    """
    with SqliteSaver(path) as saver:
        states = [*ab(saver).get_state_history(at("letter-7"))]
    with connected(path) as db:
        rows = db.execute(STATEMENTS[1]).fetchall()

    ids = [s.config["configurable"]["checkpoint_id"].replace("-", "") for s in states]
    assert [row[0] for row in rows] == ids[::-1]
    assert [row[1] for row in rows] == ["", *ids[:0:-1]]


def test_waiting_threads_can_be_listed(path):
    """
    Threads that wait for an answer can be listed, and none is shown as going on.
    """
    with connected(path) as db:
        waiting, running = starmap(db.execute, [(s,) for s in STATEMENTS[2:4]])

        assert waiting.fetchall() == [("w", '["ask"]', 1)]
        assert running.fetchall() == []
