"""Environments of the measured libraries under `.bench/`, each made at its first use.

LangGraph has one, the other libraries share one: their dependencies are not ours, and import
time and memory of a library must not be charged with our packages.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".bench"
LANGGRAPH = [
    "langgraph==1.2.24",
    "langgraph-checkpoint-sqlite==3.1.2",
    "langgraph-checkpoint-postgres==3.2.0",
    "psycopg[binary]==3.3.9",
]
WEB = [*LANGGRAPH[:2], "fastapi==0.165.0", "uvicorn==0.54.0"]
DEV = ["langgraph-cli[inmem]"]
OTHERS = [
    "apache-burr==0.42.0",
    "aiosqlite==0.22.1",
    "pydantic-graph==2.68.0",
    "llama-index-workflows==2.26.1",
    "dbos==3.4.0",
]
INSTALL_SECONDS_MAX = 600


def make_folder() -> Path:
    """`.bench/` itself, which git ignores by its own file."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n", encoding="utf-8")
    return FOLDER


class RivalMissing(Exception):
    """A library could not be installed; the text says why."""


def ensure() -> Path:
    """The interpreter of LangGraph's environment.

    Raises: RivalMissing, if pip can't install it, for example without a network.
    """
    return _ensure("langgraph", LANGGRAPH)


def ensure_others() -> Path:
    """The interpreter of the environment that the other libraries share.

    Raises: RivalMissing, if pip can't install them.
    """
    return _ensure("others", OTHERS)


def ensure_web() -> Path:
    """The interpreter of an environment of LangGraph with FastAPI and uvicorn.

    Raises: RivalMissing, if pip can't install them.
    """
    return _ensure("langgraph-web", WEB)


def ensure_dev() -> Path:
    """The interpreter of the environment of `langgraph dev`.

    Raises: RivalMissing, if pip can't install it.
    """
    return _ensure("langgraph-dev", DEV)


def _ensure(name: str, requirements: list[str]) -> Path:
    """Make an environment if it is missing or outdated.

    The stamp is written last, so that an install that was interrupted is started over.
    """
    environment = make_folder() / name
    python = environment / "bin" / "python"
    stamp = environment / "installed.json"
    wanted = json.dumps([sys.version, *requirements])
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"making {environment.relative_to(ROOT)} ...", file=sys.stderr)
    shutil.rmtree(environment, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(environment)])
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    # Twice quiet: errors only.
    _run([*pip, "--quiet", "--quiet", *requirements])
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _run(command: list[str]) -> None:
    """Run a command of the set-up within its time limit."""
    try:
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=INSTALL_SECONDS_MAX)
    except (subprocess.SubprocessError, OSError) as error:
        raise RivalMissing(str(error)) from error
