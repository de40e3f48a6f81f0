"""Run programs over `actorgraph.compat`, each in a process of its own.

The process of the tests may have imported the real LangGraph, and the layer refuses that.
"""

import os
import subprocess
import sys
from textwrap import dedent

from tests.support.source_files import ROOT

INSTALLED = "import actorgraph.compat\nactorgraph.compat.install()\n"


def python(*arguments: str, given: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run Python with arguments, and a program on its standard input."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )


def over_layer(program: str) -> list[str]:
    """Run a program after `install()`; returns the lines that it prints."""
    done = python("-", given=INSTALLED + dedent(program))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def natively(program: str) -> list[str]:
    """Run a program over the real LangGraph; returns the lines that it prints."""
    done = python("-", given=dedent(program))
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def both_ways(program: str) -> tuple[list[str], list[str]]:
    """Run a program over the layer and natively."""
    return over_layer(program), natively(program)
