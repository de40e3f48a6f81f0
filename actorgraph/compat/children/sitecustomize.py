# No package: PYTHONPATH names the folder.
# ruff: noqa: INP001
"""Answer `import langgraph` from actorgraph in the processes that a program starts.

The runner puts this folder in front of `PYTHONPATH`, and Python imports `sitecustomize` when it
starts. The layer itself is imported at the first `import langgraph`, so that other children pay
nothing for it.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any


class FirstImport(MetaPathFinder):
    """Installs the layer when `langgraph` is asked for, and leaves."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Answer for `langgraph` as the layer does; None for everything else."""
        if fullname != "langgraph":
            return None
        sys.meta_path.remove(self)
        try:
            from actorgraph.compat.finder import FINDER, install
        except ImportError as error:  # another Python, without actorgraph
            warnings.warn(f"LangGraph itself answers in {sys.executable}: {error}", stacklevel=2)
            return None
        install()
        return FINDER.find_spec(fullname, path, target)


def run_the_next() -> None:
    """Run the `sitecustomize` that this one hides, if there is one."""
    here = Path(__file__).resolve().parent
    others = [place for place in sys.path if Path(place).resolve() != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


# First of all, because the one that follows may fail, or import langgraph itself.
sys.meta_path.insert(0, FirstImport())
run_the_next()
