"""The programs of examples/from_langgraph/, run under LangGraph: only their import is changed.

`python -m tests.differential.programs FOLDER` runs in LangGraph's environment and prints what each
program there returns, as one JSON object; `langgraph_outputs` makes the folder and starts it.
"""

import ast
import importlib.util
import json
import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.source_files import ROOT

PROGRAMS = sorted((ROOT / "examples" / "from_langgraph").glob("*.py"))
EXPECTED = ROOT / "tests" / "examples" / "from_langgraph"
SECONDS_MAX = 120


def for_langgraph(text: str) -> str:
    """A program with its import of actorgraph made into imports of LangGraph's modules."""
    from actorgraph.cli.name_map import NAMES

    homes = {"actorgraph.RemoveMessage": ("langchain_core.messages", "RemoveMessage")}
    for module, names in NAMES.items():
        for name, home in names.items():
            homes.setdefault(home, (module, name))
    lines = text.splitlines()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("actorgraph"):
            found = [homes[f"{node.module}.{alias.name}"] for alias in node.names]
            made = "; ".join(f"from {module} import {name}" for module, name in found)
            last = node.end_lineno or node.lineno
            lines[node.lineno - 1 : last] = [made, *[""] * (last - node.lineno)]
    return "\n".join(lines) + "\n"


def langgraph_outputs(python: str) -> dict[str, Any]:
    """The result of each program under LangGraph, by file name without its ending."""
    with TemporaryDirectory() as folder:
        for program in PROGRAMS:
            text = for_langgraph(program.read_text("utf-8"))
            (Path(folder) / program.name).write_text(text, "utf-8")
        done = subprocess.run(
            [python, "-m", "tests.differential.programs", folder],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def changed_programs(python: str) -> list[str]:
    """The programs whose outputs under LangGraph are not the committed ones."""
    found = langgraph_outputs(python)
    return [
        name
        for name, output in found.items()
        if output != json.loads((EXPECTED / f"{name}.json").read_text("utf-8"))
    ]


def write_outputs(python: str) -> None:
    """Commit what the programs give under LangGraph now."""
    for name, output in langgraph_outputs(python).items():
        (EXPECTED / f"{name}.json").write_text(json.dumps(output, indent=1) + "\n", "utf-8")


def main() -> None:
    """Run the programs of a folder."""
    import anyio

    warnings.simplefilter("ignore")
    found = {}
    for program in sorted(Path(sys.argv[1]).glob("*.py")):
        spec = importlib.util.spec_from_file_location(program.stem, program)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[program.stem] = module
        spec.loader.exec_module(module)
        found[program.stem] = anyio.run(module.main)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
