"""Run programs over `actorgraph.compat`, each in a process of its own.

The process of the tests may have imported the real LangGraph, and the layer refuses that.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from textwrap import dedent

from tests.support.source_files import ROOT

INSTALLED = "import actorgraph.compat\nactorgraph.compat.install()\n"
SECONDS_MAX = 120.0
IMPORTS = """
from importlib import import_module
from importlib.util import find_spec
for name in ("langchain_core.runnables", "langchain_core.tools", "langgraph_sdk", "httpx"):
    if find_spec(name.partition(".")[0]):
        import_module(name)
"""
"""Imports of most programs that import nothing of LangGraph themselves."""


def environment() -> dict[str, str]:
    """The variables of a process of the tests that finds this package."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def python(*arguments: str, given: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run Python with arguments, and a program on its standard input."""
    return subprocess.run(
        [sys.executable, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env=environment(),
        check=False,
    )


class WarmPython:
    """A process that has imported its libraries, and runs each program in a fork of itself.

    Args:
        imports: a program that it runs first.
    """

    def __init__(self, imports: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.warm_python", imports],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        atexit.register(self.end)
        assert self._answer() == "ready"

    def end(self) -> None:
        """End it, and close its pipes."""
        with self._process:
            self._process.kill()

    def run(self, program: str) -> list[str]:
        """Run a program; returns the lines that it prints."""
        with tempfile.TemporaryDirectory(prefix="program-") as name:
            paths = {key: str(Path(name) / key) for key in ("program", "output", "errors")}
            Path(paths["program"]).write_text(dedent(program), "utf-8")
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(paths) + "\n")
            self._process.stdin.flush()
            code = self._answer()
            assert code == "0", f"exit code {code}: {Path(paths['errors']).read_text('utf-8')}"
            return Path(paths["output"]).read_text("utf-8").splitlines()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        limit = threading.Timer(SECONDS_MAX, self._process.kill)
        limit.start()
        try:
            return self._process.stdout.readline().strip()
        finally:
            limit.cancel()


@cache
def _warm(first: str) -> WarmPython:
    return WarmPython(first + IMPORTS)


def over_layer(program: str) -> list[str]:
    """Run a program after `install()`; returns the lines that it prints."""
    return _warm(INSTALLED).run(program)


def natively(program: str) -> list[str]:
    """Run a program over the real LangGraph; returns the lines that it prints."""
    return _warm("import langgraph.graph\n").run(program)


def both_ways(program: str) -> tuple[list[str], list[str]]:
    """Run a program over the layer and natively."""
    return over_layer(program), natively(program)
