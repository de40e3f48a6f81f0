"""The programs of examples/from_langgraph/ give here what they gave under LangGraph 1.2.22.

The expected results were written by `make differential ARGS=--record`, which ran them there.
"""

import importlib.util
import json
import re

import pytest

from actorgraph.cli import codemod
from tests.differential.programs import EXPECTED, PROGRAMS, for_langgraph


def load(path):
    """The module of a program, made anew: no test sees what another one left."""
    spec = importlib.util.spec_from_file_location(f"from_langgraph_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected(program):
    return json.loads((EXPECTED / f"{program.stem}.json").read_text("utf-8"))


HERE = [p for p in PROGRAMS if p.stem != "pipeline" or codemod.exists("actorgraph.entrypoint")]


@pytest.mark.parametrize("program", HERE, ids=lambda program: program.stem)
class TestPrograms:
    async def test_it_gives_what_it_gave_there(self, program):
        """
        The program's result is LangGraph's, on either event loop.
        """
        result = await load(program).main()

        assert json.loads(json.dumps(result)) == expected(program)

    async def test_the_codemod_moves_it(self, program, tmp_path):
        """
        Written with LangGraph's imports and moved by the codemod, it runs here with that result.
        """
        moved = tmp_path / program.name
        moved.write_text(for_langgraph(program.read_text("utf-8")), "utf-8")

        assert codemod.main([str(moved), "--write"]) == 0
        assert not re.search(r"^(from|import) lang", moved.read_text("utf-8"), re.MULTILINE)
        assert json.loads(json.dumps(await load(moved).main())) == expected(program)


def test_there_are_ten():
    """
    Each program has its expectation, and there are ten.
    """
    assert len(PROGRAMS) == 10
    assert {p.stem for p in PROGRAMS} == {e.stem for e in EXPECTED.glob("*.json")}
