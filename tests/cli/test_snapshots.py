"""The text of commands at 80 and 140 columns, and the completion scripts, as committed files.

RENEW_SNAPSHOTS=1 writes the files again: read their diff before you commit it.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from actorgraph.cli.command_line import main
from tests.cli.command_runs import GRAPH, hold_snapshot, settled
from tests.support.source_files import ROOT

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
    *("top", "prune", "export", "import", "backup", "migrate", "codemod"),
    *("serve", "studio", "doctor", "check"),
]
BASH = shutil.which("bash")
AT_TAB = """
eval "$(_ACTORGRAPH_COMPLETE=source_bash actorgraph)"
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    "$(complete -p actorgraph | sed 's/.*-F \\([^ ]*\\).*/\\1/')" actorgraph
    printf '%s\\n' "${COMPREPLY[@]}"
}
complete_words actorgraph thr
complete_words actorgraph show ro
"""
"""Calls the function that `complete` names, as a terminal does at Tab."""
KEPT = [
    ("top", "--once"),
    ("prune", "--older-than", "0s", "--dry-run"),
    ("graph", GRAPH, "--mermaid"),
    ("show", "t1", "--checkpoint", "0"),
    ("threads", "--status", "idle"),
]


class TestText:
    @pytest.mark.parametrize("columns", [80, 140])
    def test_a_tour_looks_as_committed(self, columns, call, monkeypatch):
        """
        The outputs of a tour are those of the file, at both widths.
        """
        monkeypatch.setenv("COLUMNS", str(columns))

        text = "".join(_shown(call, words) for words in TOUR)

        assert max(map(len, text.splitlines())) < 200
        hold_snapshot(f"tour-{columns}.txt", text, renew=RENEW)

    @pytest.mark.parametrize("columns", [80, 140])
    def test_figures_and_a_dry_run_look_as_committed(self, columns, call, monkeypatch):
        """
        So do the outputs that a tour has no place for: figures, a dry run, an older checkpoint.
        """
        call(*TOUR[0])
        monkeypatch.setenv("COLUMNS", str(columns))

        text = "".join(_shown(call, words) for words in KEPT)

        assert max(map(len, text.splitlines())) <= columns
        hold_snapshot(f"kept-{columns}.txt", text, renew=RENEW)

    @pytest.mark.parametrize("columns", [80, 140])
    def test_the_list_of_commands_looks_as_committed(self, columns):
        """
        The help of the command itself lists all commands, in an order of its own.
        """
        width = {"COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns)}
        command = [sys.executable, "-m", "actorgraph", "--help"]
        # In a new process: the order is that in which the files of commands are imported.
        done = subprocess.run(
            command, env={**os.environ, **width}, capture_output=True, text=True, check=True
        )

        text = settled(done.stdout)
        listed = {line.split()[1] for line in text.splitlines() if line.startswith("│ ")}
        assert listed >= set(COMMANDS)
        hold_snapshot(f"commands-{columns}.txt", text, renew=RENEW)

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

    @pytest.mark.long
    @pytest.mark.skipif(BASH is None, reason="needs bash")
    def test_bash_completes_a_command_and_a_thread(self, call, tmp_path):
        """
        A real bash that has read the script completes `thr` to `threads`, and an id after `show`.
        """
        call("run", GRAPH, "--input", '{"text": "Rome"}', "--thread", "rome-1")
        command = tmp_path / "actorgraph"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m actorgraph "$@"\n', "utf-8")
        command.chmod(0o755)

        ended = subprocess.run(
            [BASH, "--noprofile", "--norc", "-c", AT_TAB],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            env={
                **os.environ,
                "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "ACTORGRAPH_DB": str(tmp_path / "runs.db"),
            },
        )

        assert ended.stdout.splitlines() == ["threads", "rome-1"]


def _shown(call, words) -> str:
    """A command with its outputs and its exit code, the same on each machine."""
    ran = call(*words)
    shown = " ".join(words).replace(GRAPH, "app.py:graph")
    text = settled(f"$ actorgraph {shown}\n{ran.out}{ran.err}[exit {ran.code}]\n\n")
    return re.sub(r"^/\S+/runs\.db$", "runs.db", _without_folder(text), flags=re.MULTILINE)


def _without_folder(text: str) -> str:
    """A text whose database is `runs.db`, wherever the test has put it."""
    return re.sub(r"--db \S+", "--db runs.db", text)
