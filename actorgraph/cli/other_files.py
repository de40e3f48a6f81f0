"""Files beside the programs that name LangGraph: requirements, projects, deployments, notebooks."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from actorgraph.cli.findings import Remark

_REQUIREMENT = re.compile(
    r"""^\s*["']?(langgraph(?:-checkpoint(?:-sqlite|-postgres)?|-prebuilt|-cli|-api)?)"""
    r"""(?![\w./-])(?!\s*:\s*$)"""
)
_EXTRAS = {
    "langgraph-checkpoint-postgres": "actorgraph[postgres]",
    "langgraph-checkpoint-sqlite": "actorgraph, which has its savers for SQLite",
    "langgraph-cli": "nothing: serve the graphs with actorgraph.web",
    "langgraph-api": "nothing: serve the graphs with actorgraph.web",
}
_IMPORT = re.compile(r"^\s*(from|import)\s+langgraph\b", re.MULTILINE)

NAMES = ("pyproject.toml", "setup.cfg", "setup.py", "Pipfile", "langgraph.json")
PATTERNS = ("requirements*.txt", "requirements*.in", "environment*.y*ml", "*.ipynb")


def is_known(path: Path) -> bool:
    """Whether the file may name LangGraph in a form that is known here."""
    return path.name in NAMES or any(path.match(pattern) for pattern in PATTERNS)


def remarks_in(path: Path, text: str) -> Iterator[Remark]:
    """Iterate over the places of a file that name LangGraph."""
    if path.name == "langgraph.json":
        yield Remark(
            1,
            "a deployment of LangGraph's platform",
            "serve the graphs with actorgraph.web (docs/web.md); its `graphs` name the objects",
        )
    elif path.suffix == ".ipynb":
        yield from _in_notebook(text)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if (found := _REQUIREMENT.match(line)) is not None:
                package = found.group(1)
                new = _EXTRAS.get(package, "actorgraph")
                yield Remark(number, f"requires {package}", f"require {new}")


def _in_notebook(text: str) -> Iterator[Remark]:
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        return
    importing = [number for number, source in enumerate(sources, 1) if _IMPORT.search(source)]
    if importing:
        places = ", ".join(map(str, importing))
        yield Remark(
            1,
            f"code cells {places} of the notebook import langgraph",
            "export it with `jupyter nbconvert --to script`, and run the codemod over that",
        )
