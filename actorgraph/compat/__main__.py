"""Run a program over the layer: `python -m actorgraph.compat [--report] PROGRAM.py [ARGS]`.

`-m MODULE [ARGS]` runs a module, `-m pytest ...` too. With --report, standard error gets the names
of `langgraph` that the program asked for and that are missing; exit code 3 then, if the program
itself ended well. Processes that the program starts with this Python are answered too.
"""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

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
    if not as_module:
        sys.path[0] = given[0].rpartition("/")[0] or "."
    try:
        if as_module:
            runpy.run_module(given[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(given[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = _code_of(end)
    finally:
        if wanted:
            sys.stderr.write(text_of(report()) + "\n")
    missing = wanted and any(asked.missing for asked in report())
    return _MISSING if missing and not code else code


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
