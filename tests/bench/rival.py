"""LangGraph's own virtual environment under `.bench/`, made at the first use.

Its own, because its dependencies are not ours, and because its import time and its memory
must not be charged with our packages.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".bench"
ENVIRONMENT = FOLDER / "langgraph"
REQUIREMENTS = ["langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2"]
INSTALL_SECONDS_MAX = 600


def make_folder() -> Path:
    """`.bench/` itself, which git ignores by its own file."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    return FOLDER


class RivalMissing(Exception):
    """LangGraph could not be installed; the text says why."""


def ensure() -> Path:
    """The interpreter of the environment; makes the environment if it is missing or outdated.

    The stamp is written last, so that an install that was interrupted is started over.

    Raises: RivalMissing, if pip can't install LangGraph, for example without a network.
    """
    make_folder()
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "installed.json"
    wanted = json.dumps([sys.version, *REQUIREMENTS])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"making {ENVIRONMENT.relative_to(ROOT)} ...", file=sys.stderr)
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(ENVIRONMENT)])
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    # Twice quiet: errors only.
    _run([*pip, "--quiet", "--quiet", *REQUIREMENTS])
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _run(command: list[str]) -> None:
    """Run a command of the set-up within its time limit."""
    try:
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=INSTALL_SECONDS_MAX)
    except (subprocess.SubprocessError, OSError) as error:
        raise RivalMissing(str(error)) from error
