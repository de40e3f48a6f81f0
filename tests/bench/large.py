"""`--only large`: large values that change, beside LangGraph, as one table.

Each step, each read and each peak is measured in a process of its own, ours and LangGraph's in
turns. LangGraph has no JSON lines: its SQLite stands in that place. Peaks are in sizes of the
value, with the value itself. PostgreSQL's CPU is the client's. The floor is one row in `sqlite3`.
"""

import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import rival
from tests.bench.catalogue import RIVAL, SUBJECT
from tests.bench.runner import Bench, WorkerFailed
from tests.bench.server import ServerMissing

SAVERS = ("memory", "sqlite", "jsonl", "postgres")
KINDS = ("bytes", "messages")
SIZES = (1, 10, 100)
"""Megabytes."""
STEPS = {1: 10, 10: 4, 100: 2}
CPU_TIMES_MAX = 1.2
WRITE_SIZES_MAX, READ_SIZES_MAX = 2.5, 1.5
HEADER = (
    "| saver | value | MB | step CPU ms: ours, theirs, ratio, floor "
    "| read CPU ms: ours, theirs, ratio, floor | write peak: ours, theirs "
    "| read peak: ours, theirs | not reached |"
)


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    saver: str
    kind: str
    megabytes: int


def main(bench: Bench, *, quick: bool) -> int:
    """Measure all cases and print a line for each; returns 1 if something couldn't be measured.

    Args:
        quick: the smallest size, once.
    """
    print(HEADER + "\n" + "|---" * 8 + "|")
    failed = 0
    for size in SIZES[:1] if quick else SIZES:
        floors = {kind: _floor(bench, kind, size) for kind in KINDS}
        for saver in SAVERS:
            for kind in KINDS:
                case = Case(saver, kind, size)
                try:
                    print(_line(case, _measure(bench, case, quick=quick), floors[kind]), flush=True)
                except (WorkerFailed, ServerMissing) as reason:
                    print(f"not measured: {case}: {reason}", file=sys.stderr)
                    failed = 1
    return failed


def _measure(bench: Bench, case: Case, *, quick: bool) -> dict[str, dict[str, float]]:
    """The medians of a case by side, the sides in turns."""
    rounds = bench.repetitions or (1 if quick else 3)
    sides = [side for side in (SUBJECT, RIVAL) if side in bench.pythons]
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            found[side].append(_once(bench, side, case))
    return {
        side: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        for side, runs in found.items()
    }


def _once(bench: Bench, side: str, case: Case) -> dict[str, float]:
    folder = Path(tempfile.mkdtemp(dir=rival.make_folder()))
    try:
        figures: dict[str, Any] = {}
        where = _place(bench, case, folder / "many")
        names = ("step",) if case.saver == "memory" else ("step", "read")
        for name in names:
            figures |= _ask(bench, side, case, name, where)
        return figures | _ask(bench, side, case, "write", _place(bench, case, folder / "x"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _place(bench: Bench, case: Case, path: Path) -> str:
    return bench.server.new_database() if case.saver == "postgres" else str(path)


def _ask(bench: Bench, side: str, case: Case, name: str, where: str) -> dict[str, float]:
    request = {
        "kind": "workload",
        "library": bench.subject if side == SUBJECT else side,
        "name": f"large_values.{name}",
        "path": where,
        "backend": "asyncio" if side == RIVAL else bench.backend,
        "arguments": {
            "saver": case.saver,
            "kind": case.kind,
            "size": case.megabytes * 1_000_000,
            "steps": STEPS[case.megabytes],
            "where": where,
        },
    }
    answer = bench.run_worker(side, request)
    return {key: answer[key] for key in answer if key.endswith(("_ms", "_peak"))}


def _floor(bench: Bench, kind: str, megabytes: int) -> dict[str, float]:
    folder = Path(tempfile.mkdtemp(dir=rival.make_folder()))
    arguments = {"kind": kind, "size": megabytes * 1_000_000, "steps": STEPS[megabytes]}
    request = {
        "kind": "workload",
        "library": SUBJECT,
        "name": "large_values.floor",
        "path": str(folder / "x"),
        "backend": "asyncio",
        "arguments": arguments,
    }
    try:
        return bench.run_worker(SUBJECT, request)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _line(case: Case, found: dict[str, dict[str, float]], floor: dict[str, float]) -> str:
    ours, theirs = found[SUBJECT], found.get(RIVAL, {})
    cells, missed = [case.saver, case.kind, str(case.megabytes)], []
    for name in ("step", "read"):
        key = f"{name}_ms"
        other = theirs.get(key)
        ratio = ours[key] / other if other else None
        shown = "-, -" if ratio is None else f"{other:.2f}, {ratio:.2f}x"
        cells.append(f"{ours[key]:.2f}, {shown}, {floor[key]:.2f}")
        if ratio is not None and ratio > CPU_TIMES_MAX:
            missed.append(name)
    for name, most in (("write", WRITE_SIZES_MAX), ("read", READ_SIZES_MAX)):
        key = f"{name}_peak"
        cells.append(f"{ours[key]:.1f}, " + (f"{theirs[key]:.1f}" if theirs else "-"))
        if ours[key] > most:
            missed.append(key.replace("_", " "))
    return "| " + " | ".join([*cells, ", ".join(missed) or "-"]) + " |"
