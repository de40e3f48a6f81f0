"""Runs basedpyright and mypy over programs, once each; returns the lines that they refuse."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.source_files import ROOT

HERE = Path(__file__).parent
Refusals = dict[tuple[str, int], str]
"""(file name, line) -> the checker's message."""

_MYPY = re.compile(r"^(.+?):(\d+): error: (.*)$", re.MULTILINE)


def basedpyright(paths: Iterable[Path], folder: Path, mode: str = "strict") -> Refusals:
    """Run basedpyright; `folder` is for its settings."""
    settings = {
        "include": [str(path) for path in paths],
        "extraPaths": [str(ROOT), str(ROOT / "examples"), str(ROOT / "examples" / "agents")],
        "typeCheckingMode": mode,
        "pythonVersion": "3.11",
        # A key that is not required is read in the node after the one that sets it.
        "reportTypedDictNotRequiredAccess": mode == "strict",
        "reportPrivateImportUsage": mode == "strict",
    }
    file = folder / "pyrightconfig.json"
    file.write_text(json.dumps(settings))
    command = ["basedpyright", "-p", file, "--outputjson", "--pythonpath", sys.executable]
    found: list[dict[str, Any]] = json.loads(_output(command))["generalDiagnostics"]
    return {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"]
        for one in found
        if one["severity"] == "error"
    }


def mypy(paths: Iterable[Path], *options: str) -> Refusals:
    """Run mypy; its cache is kept, because reading the package takes it ten seconds."""
    config = ["--config-file", HERE / "mypy.ini", "--cache-dir", ROOT / ".mypy_cache"]
    text = _output(["mypy", *config, "--no-color-output", *options, *paths])
    assert "Found" in text or "Success" in text, text
    return {(Path(path).name, int(line)): said for path, line, said in _MYPY.findall(text)}


def _output(command: list[Any]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout
