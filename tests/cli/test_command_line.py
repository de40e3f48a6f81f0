"""The command `actorgraph`: its help, its errors of one line, its exit codes."""

import subprocess
import sys

import pytest

from actorgraph.cli.command_line import main
from actorgraph.cli.output import without_password
from tests.cli.command_runs import GRAPH

INPUT = '{"text": "Rome"}'


class TestErrors:
    @pytest.mark.parametrize(
        ("given", "code", "text"),
        [
            (["threads"], 2, "actorgraph: no database is named. Do this: add --db runs.db"),
            (["threads", "--db", "gone.db"], 2, "actorgraph: database 'gone.db' doesn't exist."),
            (["thread"], 2, "actorgraph: No such command 'thread'. Did you mean 'threads'?"),
            (["threads", "--limit", "x"], 2, "actorgraph: Invalid value for '--limit'"),
        ],
    )
    def test_an_error_is_one_line_with_a_way_out(self, given, code, text, capsys, monkeypatch):
        """
        Wrong use exits with 2, and the only line on stderr says what to do.
        """
        monkeypatch.delenv("ACTORGRAPH_DB", raising=False)

        assert main(given) == code
        found = capsys.readouterr()
        assert found.out == ""
        assert found.err.startswith(text)
        assert found.err.count("\n") == 1
        assert "Do this: " in found.err

    def test_a_file_that_runs_its_graph_when_it_is_imported(self, tmp_path, capsys):
        """
        The error names the file and says where its own run belongs.
        """
        file = tmp_path / "runs_at_import.py"
        file.write_text(
            "from actorgraph import START, StateGraph\n"
            "graph = StateGraph(dict).add_node('a', lambda s: s).add_edge(START, 'a').compile()\n"
            "graph.invoke({})\n"
        )

        assert main(["run", f"{file}:graph", "--input", "{}", "--thread", "t"]) == 2
        text = capsys.readouterr().err
        assert "runs_at_import.py' runs a graph while it is being imported. Do this: put" in text

    def test_a_reader_that_leaves_early_ends_the_command_quietly(self):
        """
        A pipe whose reader has gone, such as `head`, isn't an error, also in the middle of a run.
        """
        command = [sys.executable, "-m", "actorgraph", "run", GRAPH, "--input", INPUT]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            found = process.stderr.read()

        assert found == b""

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("postgresql://ada:secret@host/db", "postgresql://ada:***@host/db"),
            ("at postgres://:p%40ss@h:5432", "at postgres://:***@h:5432"),
            (
                "postgresql://h/db?user=a&password=secret&x=1",
                "postgresql://h/db?user=a&password=***&x=1",
            ),
            ("password='se cret' host=h", "password=*** host=h"),
            ("postgresql://host/db", "postgresql://host/db"),
        ],
    )
    def test_no_password_is_printed(self, text, shown):
        """
        Passwords of database URLs are replaced wherever a text has them.
        """
        assert without_password(text) == shown
