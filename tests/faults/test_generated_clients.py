"""Clients generated from the OpenAPI document: they type-check, and their calls are understood.

The generators are installed into a folder of the test, from the registries; where that can't be
done the test is skipped with the reason.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from actorgraph.web.openapi import document
from actorgraph.web.routes import ENDPOINTS
from tests.web.apps import application
from tests.web.server import running

PROGRAMS = Path(__file__).parent / "generated"
PYTHON = ["openapi-python-client==0.29.*"]
NODE = ["openapi-typescript@7", "openapi-fetch@0.17", "typescript@5", "@types/node@20"]
LIMIT_S = 300


def done(folder: Path, *words: str | Path) -> str:
    """Run a program in a folder; returns what it printed, and fails with it if it fails."""
    ended = _run(folder, *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def installed(folder: Path, *words: str | Path) -> None:
    """Run an installer; if it fails, skip the test with its last line."""
    ended = _run(folder, *words)
    if ended.returncode != 0:
        lines = (ended.stderr or ended.stdout).strip().splitlines() or ["no reason"]
        pytest.skip(f"the generator can't be installed: {lines[-1]}")


def _run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """The document, in a file."""
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document(ENDPOINTS, version="1")), "utf-8")
    return path


def test_a_python_client_makes_ten_calls(tmp_path: Path, described: Path):
    """
    openapi-python-client makes a client without leaving a schema out; mypy finds no error in it,
    nor in a program that uses it, and the program's calls are answered as it expects.
    """
    own = tmp_path / "venv"
    installed(tmp_path, sys.executable, "-m", "venv", own)
    installed(tmp_path, own / "bin" / "python", "-m", "pip", "install", "-q", *PYTHON)
    made = done(
        tmp_path,
        *(own / "bin" / "openapi-python-client", "generate", "--meta", "none"),
        *("--path", described, "--output-path", tmp_path / "actorgraph_client"),
    )
    program = shutil.copy(PROGRAMS / "ten_calls.py", tmp_path)

    assert "removal" not in made
    assert made.lower().count("parsing ") == 1, made
    assert "graph.svg" in made
    checker = ["-m", "mypy", "--no-incremental", "--python-executable", own / "bin" / "python"]
    done(tmp_path, sys.executable, *checker, "actorgraph_client", program)
    with running(application(tmp_path / "runs.db")) as url:
        done(tmp_path, own / "bin" / "python", program, url)


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node and npm")
def test_a_typescript_client_makes_ten_calls(tmp_path: Path, described: Path):
    """
    openapi-typescript makes types of the document; a strict program over openapi-fetch compiles
    with them, and its calls are answered as it expects.
    """
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}', "utf-8")
    installed(tmp_path, "npm", "install", "--silent", "--no-audit", "--no-fund", *NODE)
    commands = tmp_path / "node_modules" / ".bin"
    done(tmp_path, commands / "openapi-typescript", described, "-o", "api.d.ts")
    shutil.copy(PROGRAMS / "ten_calls.mts", tmp_path)

    target = ["--target", "es2022", "--module", "nodenext", "--types", "node"]
    done(tmp_path, commands / "tsc", "--strict", *target, "ten_calls.mts", "api.d.ts")
    with running(application(tmp_path / "runs.db")) as url:
        done(tmp_path, "node", "ten_calls.mjs", url)
