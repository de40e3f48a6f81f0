"""The text of commands at 80 and 140 columns, and the completion scripts, as committed files.

RENEW_SNAPSHOTS=1 writes the files again: read their diff before you commit it.
"""

import os

import pytest

from actorgraph.cli.command_line import main
from tests.cli.command_runs import GRAPH, hold_snapshot, settled

RENEW = bool(os.environ.get("RENEW_SNAPSHOTS"))
TOUR = [
    ("run", GRAPH, "--input", '{"text": "Rome"}', "--thread", "t1"),
    ("threads",),
    ("show", "t1"),
    ("history", "t1"),
    ("diff", "t1", "0", "1"),
    ("graph", GRAPH),
    ("update", "t1", '{"text": "Bari"}', "--as-node", "draft"),
    ("resume", "t1"),
    ("resume", "t1", "--answer", "true"),
    ("tail", "t1"),
]
COMMANDS = [
    *("run", "resume", "threads", "show", "history", "diff"),
    *("tail", "graph", "fork", "update", "cancel"),
]


class TestText:
    @pytest.mark.parametrize("columns", [80, 140])
    def test_a_tour_looks_as_committed(self, columns, call, monkeypatch):
        """
        The outputs of a tour are those of the file, at both widths.
        """
        monkeypatch.setenv("COLUMNS", str(columns))
        parts: list[str] = []
        for words in TOUR:
            ran = call(*words)
            shown = " ".join(word for word in words).replace(GRAPH, "app.py:graph")
            text = settled(f"$ actorgraph {shown}\n{ran.out}{ran.err}[exit {ran.code}]\n\n")
            parts.append(_without_folder(text))

        text = "".join(parts)

        assert max(map(len, text.splitlines())) < 200
        hold_snapshot(f"tour-{columns}.txt", text, renew=RENEW)

    @pytest.mark.parametrize("columns", [80, 140])
    def test_the_help_looks_as_committed(self, columns, monkeypatch, capsys):
        """
        Each command's help fits, and has an example.
        """
        monkeypatch.setenv("COLUMNS", str(columns))
        parts: list[str] = []
        for name in COMMANDS:
            assert main([name, "--help"]) == 0
            parts.append(settled(capsys.readouterr().out))
            assert "Example: actorgraph" in parts[-1].replace("\n", " ")

        hold_snapshot(f"help-{columns}.txt", "".join(parts), renew=RENEW)


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_a_script_is_made_for_the_shell(self, shell, monkeypatch, capsys):
        """
        The shell's script asks the command itself for completions.
        """
        monkeypatch.setenv("_ACTORGRAPH_COMPLETE", f"source_{shell}")

        with pytest.raises(SystemExit) as ended:
            main([])

        script = capsys.readouterr().out
        assert ended.value.code == 0
        assert f"_ACTORGRAPH_COMPLETE=complete_{shell}" in script

    def test_ids_of_threads_are_completed(self, call, tmp_path, monkeypatch, capsys):
        """
        After `show` the ids of the database's threads that begin with the typed text are offered.
        """
        call("run", GRAPH, "--input", '{"text": "Rome"}', "--thread", "rome-1")
        call("run", GRAPH, "--input", '{"text": "Bari"}', "--thread", "bari-1")
        monkeypatch.setenv("ACTORGRAPH_DB", str(tmp_path / "runs.db"))
        monkeypatch.setenv("_ACTORGRAPH_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "actorgraph show ro")
        monkeypatch.setenv("COMP_CWORD", "2")
        capsys.readouterr()

        with pytest.raises(SystemExit):
            main([])

        assert capsys.readouterr().out.split() == ["rome-1"]


def _without_folder(text: str) -> str:
    """A text whose database is `runs.db`, wherever the test has put it."""
    import re

    return re.sub(r"--db \S+", "--db runs.db", text)
