"""The codemod as a command, on programs as people write them, and its table of names."""

import json
import re
import runpy
from textwrap import dedent

import pytest

from actorgraph.cli import codemod
from actorgraph.cli.name_map import NAMES
from tests.cli.pending import PENDING

PROGRAM = dedent(
    """\
    \"\"\"An agent that draws a random number.\"\"\"
    from __future__ import annotations

    import operator
    from typing import Annotated
    from typing_extensions import TypedDict
    import langgraph.types as lt
    from langgraph.checkpoint.memory import MemorySaver
    from langgraph.graph import (
        END,
        START,
        StateGraph as Graph,  # shorter
    )


    class State(TypedDict):
        numbers: Annotated[list[int], operator.add]


    def draw(state: State) -> lt.Command:
        return lt.Command(update={"numbers": [4]}, goto=END)


    app = Graph(State).add_node(draw).add_edge(START, "draw").compile(MemorySaver())
    result = app.invoke({"numbers": []}, {"configurable": {"thread_id": "1"}})
    """
)


class TestCommand:
    def test_a_program_runs_after_the_move(self, tmp_path):
        """
        With --write a folder's programs are changed in place, and run here with the same result.
        """
        file = tmp_path / "app.py"
        file.write_text(PROGRAM, "utf-8")

        assert codemod.main([str(tmp_path), "--write"]) == 0

        assert not re.search(r"^\s*(from|import) langgraph", file.read_text("utf-8"), re.MULTILINE)
        assert runpy.run_path(str(file))["result"] == {"numbers": [4]}

    def test_without_write_it_only_shows(self, tmp_path, capsys):
        """
        The default is a dry run: a diff on stdout, and the file as it was.
        """
        file = tmp_path / "app.py"
        file.write_text(PROGRAM, "utf-8")

        assert codemod.main([str(file)]) == 0

        shown = capsys.readouterr()
        assert "-from langgraph.checkpoint.memory import MemorySaver\n" in shown.out
        assert "+from actorgraph import MemorySaver\n" in shown.out
        assert "would change 1 files; 0 places" in shown.err
        assert file.read_text("utf-8") == PROGRAM

    def test_remaining_imports_fail_the_command(self, tmp_path, capsys):
        """
        Names without a home, broken files and wrong paths are listed, and the exit code is 1.
        """
        (tmp_path / "a.py").write_text("from langgraph.graph import MessageGraph\n", "utf-8")
        (tmp_path / "b.py").write_text("def\n", "utf-8")

        assert codemod.main([str(tmp_path), str(tmp_path / "gone"), "--write"]) == 1

        told = capsys.readouterr().err
        assert f"{tmp_path / 'a.py'}:1: 'MessageGraph' of langgraph.graph has no equivalent" in told
        assert f"{tmp_path / 'b.py'}: not changed" in told
        assert "gone: no such file or folder" in told

    def test_only_programs_are_touched(self, tmp_path):
        """
        Hidden folders, virtual environments and other files are left out; encodings are kept.
        """
        text = "from langgraph.graph import START\n"
        for name in (".hidden/a.py", "venv/lib/a.py", "notes.txt"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / "venv" / "pyvenv.cfg").touch()
        latin = f"# coding: latin-1\nx = 'é'\n{text}".encode("latin-1")
        (tmp_path / "old.py").write_bytes(latin)

        assert codemod.main([str(tmp_path), "--write"]) == 0

        assert (tmp_path / "old.py").read_bytes() == latin.replace(
            b"langgraph.graph", b"actorgraph"
        )
        for name in (".hidden/a.py", "venv/lib/a.py", "notes.txt"):
            assert (tmp_path / name).read_text("utf-8") == text


HOMES = sorted({home for names in NAMES.values() for home in names.values()})


class TestNames:
    @pytest.mark.parametrize("home", [home for home in HOMES if home not in PENDING])
    def test_every_home_has_its_name(self, home):
        """
        Each entry of the table can be imported from where it points.
        """
        assert codemod.exists(home)

    def test_nothing_waits_that_is_there(self):
        """
        A name that has come is no longer listed as awaited.
        """
        assert {home for home in PENDING if codemod.exists(home)} == set()


class TestReport:
    def test_check_changes_nothing_and_fails_if_it_would(self, tmp_path, capsys):
        """
        --check prints the report alone, and its exit code says whether a file would change.
        """
        file = tmp_path / "app.py"
        file.write_text(PROGRAM, "utf-8")

        assert codemod.main([str(tmp_path), "--check"]) == 1
        assert capsys.readouterr().out == ""
        assert file.read_text("utf-8") == PROGRAM
        assert codemod.main([str(tmp_path), "--write"]) == 0
        assert codemod.main([str(tmp_path), "--check"]) == 0

    def test_the_report_as_json_lines(self, tmp_path):
        """
        --report writes file, line, what and what to do of each place; notes are marked.
        """
        (tmp_path / "app.py").write_text(
            "from langgraph.graph import MessageGraph\n"
            "from langgraph.checkpoint.mongodb import MongoDBSaver\n",
            "utf-8",
        )
        out = tmp_path / "out" / "report.jsonl"
        out.parent.mkdir()

        assert codemod.main([str(tmp_path / "app.py"), "--check", "--report", str(out)]) == 1

        first, second = map(json.loads, out.read_text("utf-8").splitlines())
        assert first == {
            "file": str(tmp_path / "app.py"),
            "line": 1,
            "text": "'MessageGraph' of langgraph.graph has no equivalent in actorgraph",
            "do": "use StateGraph(MessagesState)",
            "is_note": False,
        }
        assert (second["line"], second["is_note"]) == (2, True)

    def test_wrong_arguments(self, capsys):
        """
        The exit code of a command that can't run is 2.
        """
        with pytest.raises(SystemExit) as ended:
            codemod.main(["x", "--write", "--check"])

        assert ended.value.code == 2

    def test_a_graph_of_another_file(self, tmp_path, capsys):
        """
        An async function that calls a graph which it imports from the program is reported.
        """
        (tmp_path / "bot.py").write_text(
            "from langgraph.graph import StateGraph\n"
            "graph = StateGraph(dict).compile()\n"
            "def make():\n    return graph\n",
            "utf-8",
        )
        (tmp_path / "web.py").write_text(
            "from .bot import graph as app, make\n"
            "async def view():\n    return app.invoke({})\n"
            "async def other():\n    mine = make()\n    return mine.invoke({})\n",
            "utf-8",
        )

        assert codemod.main([str(tmp_path), "--check"]) == 1

        told = capsys.readouterr().err
        assert f"{tmp_path / 'web.py'}:3: app.invoke() blocks the event loop" in told
        assert f"{tmp_path / 'web.py'}:6: mine.invoke() blocks the event loop" in told

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("requirements.txt", "x==1\nlanggraph>=1.0\n", ":2: requires langgraph"),
            ("requirements-dev.txt", "langgraph-checkpoint-postgres\n", ":1: requires langgraph-"),
            ("pyproject.toml", 'd = [\n  "langgraph[x]~=1",\n]\n', ":2: requires langgraph"),
            ("langgraph.json", '{"graphs": {}}', ":1: a deployment of LangGraph's platform"),
            (
                "a.ipynb",
                '{"cells": [{"cell_type": "code", "source": ["import langgraph\\n"]}]}',
                ":1: code cells 1 of the notebook import langgraph",
            ),
        ],
    )
    def test_other_files(self, tmp_path, capsys, name, text, said):
        """
        Requirements, deployments and notebooks are reported, and not changed.
        """
        (tmp_path / name).write_text(text, "utf-8")

        assert codemod.main([str(tmp_path), "--write"]) == 1

        assert f"{tmp_path / name}{said}" in capsys.readouterr().err
        assert (tmp_path / name).read_text("utf-8") == text

    def test_files_that_do_not_require_it(self, tmp_path):
        """
        Other packages whose names begin alike, comments and broken notebooks leave nothing to do.
        """
        (tmp_path / "requirements.txt").write_text("langgraph-sdk\n# langgraph\nlanggraphs\n")
        (tmp_path / "a.ipynb").write_text("{")

        assert codemod.main([str(tmp_path), "--check"]) == 0
