"""Run a program over the layer: `python -m actorgraph.compat [--report] PROGRAM.py [ARGS]`.

`-m MODULE [ARGS]` runs a module, `-m pytest ...` too. With --report, standard error gets the names
of `langgraph` that the program asked for and that are missing; exit code 3 then, if the program
itself ended well. Processes that the program starts with this Python are answered too.
"""

import os
import pkgutil
import runpy
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from actorgraph.compat import install, report
from actorgraph.compat.report import text_of

_USAGE = "usage: python -m actorgraph.compat [--report] (PROGRAM.py | -m MODULE) [ARGS]\n"
_MISSING = 3
_CHILDREN = str(Path(__file__).resolve().parent / "children")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wanted = "--report" in given[:1]
    given = given[1:] if wanted else given
    as_module = given[:1] == ["-m"]
    given = given[1:] if as_module else given
    if not given or given[0].startswith("-"):
        sys.stderr.write(_USAGE)
        return 2
    install()
    _answer_children()
    sys.argv = given
    try:
        if as_module:
            runpy.run_module(given[0], run_name="__main__", alter_sys=True)
        elif _is_source(given[0]):
            _run_program(given[0])
        else:
            sys.path[0] = str(Path(given[0]).resolve().parent)
            runpy.run_path(given[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = _code_of(end)
    finally:
        if wanted:
            sys.stderr.write(text_of(report()) + "\n")
    missing = wanted and any(asked.missing for asked in report())
    return _MISSING if missing and not code else code


class _Program(SourceFileLoader):
    """Reads a program's file, and neither reads nor writes compiled code beside it."""

    def path_stats(self, path: str) -> Mapping[str, Any]:
        """Refuse: without a date Python keeps no compiled code."""
        raise OSError(path)


def _is_source(path: str) -> bool:
    """Whether a path is a file of source text, and not a folder, an archive or compiled."""
    place = Path(path)
    return place.is_file() and place.suffix != ".pyc" and pkgutil.get_importer(path) is None


def _run_program(path: str) -> None:
    """Run a file as `python PATH` does.

    It stays `sys.modules["__main__"]` when its code ends: threads and functions of atexit may
    still pickle its classes.
    """
    file = str(Path(path).absolute())
    sys.path[0] = str(Path(path).resolve().parent)
    module = ModuleType("__main__")
    loader = _Program("__main__", file)
    vars(module).update(__file__=file, __loader__=loader, __cached__=None, __package__=None)
    sys.modules["__main__"] = module
    loader.exec_module(module)


def _answer_children() -> None:
    """Let each Python that inherits this environment install the layer when it starts."""
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    if _CHILDREN not in places:
        os.environ["PYTHONPATH"] = os.pathsep.join([_CHILDREN, *places])


def _code_of(end: SystemExit) -> int:
    """The exit code of a program that has ended itself, as Python would make it."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
