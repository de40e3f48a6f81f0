"""An environment with the newest versions that the registry has, and how it differs from the pins.

`requirements.txt` has exact versions. Here the same packages are installed without them, in a
virtual environment of their own, so that a new release is tried before it is pinned.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.source_files import ROOT

PINS = Path(__file__).parent / "requirements.txt"
FOLDER = ROOT / ".venv-ecosystem-newest"
OWN = ".[trio,postgres,langchain]"
"""Ours: its dependencies are installed, itself is imported from this tree."""


def pins(text: str) -> dict[str, str]:
    """Read exact requirements: name, with its extras, -> version."""
    found = re.findall(r"^([A-Za-z0-9_.\[\]-]+)==(\S+)", text, re.MULTILINE)
    return dict(found)


def install(folder: Path = FOLDER) -> str:
    """Make the environment anew; returns its interpreter."""
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(pins(PINS.read_text())))
        names.flush()
        subprocess.run([*pip, "install", OWN, "-r", names.name], check=True, cwd=ROOT)
    subprocess.run([*pip, "uninstall", "--yes", "actorgraph"], check=True)
    return python


def versions(python: str) -> dict[str, str]:
    """Package -> version, of an interpreter's environment."""
    words = [python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return {row["name"].lower(): row["version"] for row in json.loads(listed)}


def changes(pinned: dict[str, str], installed: dict[str, str]) -> list[str]:
    """One line for each package whose version isn't the pinned one."""
    lines: list[str] = []
    for name, version in pinned.items():
        now = installed.get(name.partition("[")[0].lower(), "not installed")
        if now != version:
            lines.append(f"  {name}: pinned {version}, newest {now}")
    return lines


def newest() -> str:
    """Make the environment and print how it differs; returns its interpreter."""
    print("== newest: installing", flush=True)
    python = install()
    found = changes(pins(PINS.read_text()), versions(python))
    print("\n".join(found) or "  every version is the pinned one", flush=True)
    return python
