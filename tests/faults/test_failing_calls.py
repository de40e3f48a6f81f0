"""Failing system calls: each of a saver's writes, syncs, names and truncations, one at a time."""

import errno
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from actorgraph import JsonlSaver, SqliteSaver
from actorgraph.errors import ActorGraphError
from tests.faults.crashes import report, row
from tests.faults.power_program import Program, failures, judged
from tests.support.power_cuts import Recorder, recording
from tests.support.sqlite_files import layer, recording_sqlite

SECONDS_MAX = 120
POINTS = 400
_SQLITE_CODES = {"open": 14, "write": 778, "truncate": 1546, "sync": 1034, "delete": 2570}
_FULL = 13

pytestmark = [
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.filterwarnings("ignore"),
]


def never(_: str) -> None:
    """No call of `os` fails."""


class Failing:
    """Fails the k-th operation; after it all go on.

    Attributes:
        at: which, from 1; 0 for none.
        kind: EIO, ENOSPC, EMFILE, or "short" for a write of half of its bytes.
    """

    def __init__(self, at: int, kind: str) -> None:
        self.at, self.kind = at, kind
        self.count = 0

    def _now(self) -> bool:
        self.count += 1
        return self.count == self.at

    def os_error(self, operation: str) -> OSError | None:
        """The error of a call of `os`; one without a number is a short write."""
        if not self._now() or (self.kind == "short" and operation != "write"):
            return None
        if self.kind == "short":
            return OSError()
        return OSError(getattr(errno, self.kind), os.strerror(getattr(errno, self.kind)))

    def sqlite_code(self, operation: str) -> int:
        """SQLite's code of a call of its layer of files."""
        if not self._now():
            return 0
        full = self.kind == "ENOSPC" and operation == "write"
        return _FULL if full else _SQLITE_CODES[operation]


def opened(kind: str, folder: Path) -> Any:
    """A saver over a folder."""
    return JsonlSaver(folder) if kind == "jsonl" else SqliteSaver(folder / "runs.db")


async def failed_at(kind: str, folder: Path, failing: Failing) -> tuple[Recorder, str]:
    """Run the program; return what it did, and the type of its error."""
    told, before = "", failing.os_error if kind == "jsonl" else never
    with recording(folder, before) as recorder, recording_sqlite(recorder, failing.sqlite_code):
        try:
            with anyio.fail_after(SECONDS_MAX):
                async with opened(kind, folder) as saver:
                    await Program(saver, recorder, 1).run()
        except* ActorGraphError:
            told = "ours"
        except* Exception as error:  # noqa: BLE001 - of any kind
            told = repr(error.exceptions)
    return recorder, told


async def fail_everywhere(kind: str, points: int, folder: Path) -> Counter[str]:
    """Fail so many of a program's calls, one in each run of it; count how the runs ended."""
    if layer() is None:
        pytest.skip("this Python's SQLite shows no functions of its files")
    whole = Failing(0, "EIO")
    (folder / "whole").mkdir()
    await failed_at(kind, folder / "whole", whole)
    seen = Counter[str]()
    kinds = ("EIO", "ENOSPC", "EMFILE", "short")
    for number in range(1, whole.count + 1, max(1, whole.count // points)):
        failing = Failing(number, kinds[number % len(kinds)])
        there = folder / "calls"
        there.mkdir()
        recorder, told = await failed_at(kind, there, failing)
        notes = [op.note for op in recorder.ops if op.kind == "note"]
        found = failures(await judged(opened(kind, there), notes, goes_on=True))
        shutil.rmtree(there)
        seen["points"] += 1
        seen[told or "went on"] += 1
        if found:
            seen["wrong"] += 1
            seen[f"{failing.kind} at {number}: {found}"] += 1
    return seen


async def fail_openings(kind: str, points: int, folder: Path) -> int:
    """Fail so many calls of opening a saver, and open it after each; count the refusals."""
    if layer() is None:
        pytest.skip("this Python's SQLite shows no functions of its files")
    whole, refused = Failing(0, "EMFILE"), 0
    assert await opening(kind, folder, whole)
    assert whole.count
    for number in range(1, min(points, whole.count) + 1):
        refused += not await opening(kind, folder, Failing(number, "EMFILE"))
        assert await opening(kind, folder, Failing(0, "EMFILE")), number
    return refused


@pytest.mark.promise("B1", "B2", "B3", "B5")
@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_no_failing_call_loses_what_was_acknowledged(kind, tmp_path, request):
    """
    Whichever call fails, by EIO, ENOSPC, EMFILE, in the middle of a write or with half of it
    written, the program gets an error of the library's own or goes on; opened again, each
    acknowledged step and accepted run is there, once, and all threads go on.
    """
    seen = await fail_everywhere(kind, POINTS, tmp_path)

    figures = f"{kind}: {dict(seen)}"
    report(request.config, "many at once", row("failing calls", "asyncio", figures))
    assert set(seen) <= {"points", "ours", "went on"}


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_a_failed_opening_leaves_nothing_locked(kind, tmp_path):
    """
    Whichever call of opening a saver fails, the same program opens it afterwards.
    """
    assert await fail_openings(kind, POINTS, tmp_path)


async def opening(kind: str, folder: Path, failing: Failing) -> bool:
    """Whether a saver opens."""
    before = failing.os_error if kind == "jsonl" else never
    with recording(folder, before) as recorder, recording_sqlite(recorder, failing.sqlite_code):
        try:
            async with opened(kind, folder):
                return True
        except ActorGraphError:
            return False
