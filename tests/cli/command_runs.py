"""Calls of the command in this process, and the places where its threads are."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from actorgraph.cli.command_line import main

APP = str(Path(__file__).with_name("travel_app.py"))
GRAPH = f"{APP}:graph"
SNAPSHOTS = Path(__file__).with_name("snapshots")

_CHANGING = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "C" * 36),
    (re.compile(r"\b[0-9a-f]{32}\b"), "Q" * 32),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-01-02 03:04:05"),
    (re.compile(r"^ +\d+\.\d\d  ", re.MULTILINE), "   0.00  "),
    (re.compile(r"\d+\.\d\d s\b"), "0.00 s"),
    (re.compile(r"\b\d+ s(?= ago|   \d)"), "0 s"),
    (re.compile(r"^\d\d:\d\d:\d\d", re.MULTILINE), "03:04:05"),
    (re.compile(r"^(\d+ +\d+ +)\d\.\d(?= +-)", re.MULTILINE), r"\g<1>0.0"),
    (re.compile(r" +$", re.MULTILINE), ""),
]


@dataclass(frozen=True)
class Ran:
    """An ended call: its exit code and both outputs."""

    code: int
    out: str
    err: str

    def json(self, kind: Any) -> Any:
        """The output, held against a result's schema: no key may be unknown or missing."""
        found = msgspec.json.decode(self.out, type=kind)
        assert msgspec.json.decode(self.out) == msgspec.json.decode(msgspec.json.encode(found))
        return found


def settled(text: str) -> str:
    """A text without ids, times and folders."""
    for pattern, shown in _CHANGING:
        text = pattern.sub(shown, text)
    return text.replace(APP, "app.py")


def caller(capsys: Any, db: str) -> Any:
    """Make a function that calls the command on a database."""

    def call(*words: str) -> Ran:
        capsys.readouterr()
        code = main([*words, "--db", db] if "graph" not in words[:1] else [*words])
        found = capsys.readouterr()
        return Ran(code, found.out, found.err)

    return call


def hold_snapshot(name: str, text: str, *, renew: bool) -> None:
    """Compare a text with the file of that name."""
    file = SNAPSHOTS / name
    if renew:
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8"), f"{name} has changed: see tests/cli/test_snapshots.py"
