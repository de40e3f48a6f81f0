"""Commands over all threads of a database: a damaged one is named, and the others are served."""

import json
import sqlite3
from contextlib import closing

import pytest

from actorgraph import SqliteSaver
from actorgraph.cli.kept_data import PruneResult, TransferResult
from actorgraph.cli.printed import ThreadList
from tests.cli.command_runs import caller
from tests.cli.runs import run_thread
from tests.web.bad_commands import not_asked

LOST_HEAD = "UPDATE threads SET head = x'00' WHERE thread_id = 'bad'"
RECORD = """UPDATE checkpoints SET record = '{', crc = NULL
    WHERE thread = (SELECT thread FROM threads WHERE thread_id = 'bad')"""
CONTROL = "UPDATE threads SET thread_id = '\x01bad', crc = NULL WHERE thread_id = 'bad'"


@pytest.fixture
def call(tmp_path, capsys):
    """Calls on a database with two threads, after a statement has changed the row of one."""
    path = str(tmp_path / "runs.db")
    run_thread(path, "good", times=2)
    run_thread(path, "bad", times=2)

    def damaged(statement):
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            assert db.execute(statement).rowcount
        return caller(capsys, path)

    return damaged


@pytest.mark.parametrize("statement", [LOST_HEAD, RECORD, CONTROL])
class TestCommands:
    def test_the_list_has_the_others(self, call, statement):
        """
        `threads` lists every thread, the damaged one with the reason.
        """
        found = call(statement)("threads", "--json")

        errors = {line.thread_id: line.error for line in found.json(ThreadList).threads}
        assert (found.code, errors.pop("good")) == (0, "")
        assert ["bad" in text for text in errors.values()] == [True]

    def test_an_export_has_the_others(self, call, statement, tmp_path):
        """
        `export` writes the other threads; if the damaged one can't be read it names it and fails.
        """
        out = tmp_path / "out.jsonl"

        found = call(statement)("export", "-o", str(out), "--json")

        result = found.json(TransferResult)
        assert (result.threads + len(result.left), found.code) == (2, len(result.left))
        assert all("bad" in text for text in result.left)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert "good" in {line.get("thread_id") for line in lines}
        assert len(lines) == result.checkpoints + 2

    def test_a_prune_removes_of_the_others(self, call, statement, tmp_path):
        """
        `prune` removes old checkpoints of the other threads, names the damaged one, and fails.
        """
        words = ("prune", "--keep-last", "1", "--yes", "--vacuum", "--json")

        found = call(statement)(*words)

        result = found.json(PruneResult)
        assert "good" in {thread.thread_id for thread in result.threads if thread.removed}
        assert found.code == (1 if result.left else 0)
        assert all("bad" in text for text in result.left)
        with SqliteSaver(str(tmp_path / "runs.db")) as saver:
            assert saver.count("good") == 1


def test_each_command_is_asked_about_the_others():
    """
    Each command is among those of the fault tests, or there is a reason why not.
    """
    assert not_asked() == set()
