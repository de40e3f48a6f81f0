"""Start programs under either library, with the interpreter that has the ecosystem."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.source_files import ROOT

NATIVE = "LangGraph"
LAYER = "actorgraph"
LIBRARIES = (NATIVE, LAYER)
SECONDS_MAX = 300.0


def command(python: str, library: str, module: str, *arguments: str) -> list[str]:
    """The command that runs a module over a library."""
    layer = ["-m", "actorgraph.compat"] if library == LAYER else []
    return [python, *layer, "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The environment of a program: actorgraph and the programs from this tree, no tracing."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LANGCHAIN_", "LANGSMITH_"))}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "NO_DOCKER": "true"}


def start(words: list[str], folder: Path = ROOT) -> subprocess.Popen[str]:
    """Start a command; its errors are in its output."""
    return subprocess.Popen(
        words,
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str], seconds: float = SECONDS_MAX) -> str:
    """Wait for a command; returns its standard output, shows the end of its errors if it failed."""
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        errors += f"\nkilled after {seconds:.0f} s"
    if process.returncode:
        sys.stdout.write(f"{process.args!r} ended with {process.returncode}:\n{errors[-2000:]}\n")
    return out
