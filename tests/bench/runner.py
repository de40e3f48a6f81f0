"""Runs each measure in fresh processes, the sides in alternation, and takes medians.

One repetition is: the subject, the floor on the database that it just left, LangGraph. So a
machine that gets slower in the meantime slows all of them. A side that fails is reported and
not tried again; the other sides go on.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import probe, rival
from tests.bench.catalogue import (
    BARE,
    FLOOR,
    PEERS,
    RAW,
    RIVAL,
    SUBJECT,
    WAITING,
    Against,
    Measure,
    Unit,
)
from tests.bench.server import Server, ServerMissing

WORKER_SECONDS_MAX = 900
NO_TIMES = {Unit.MULTIPLE, Unit.SHARE}
"""Units of figures that do not measure time."""


@dataclass
class Outcome:
    """The result of one measure: every repetition's figures, by side."""

    measure: Measure
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    failures: dict[str, str] = field(default_factory=dict)

    def figure(self, side: str) -> float | None:
        """The median of a side in the measure's unit, if it was measured."""
        figures = [figure_of(run, self.measure.unit) for run in self.runs.get(side, [])]
        return statistics.median(figures) if figures else None

    def cpu_us(self, side: str) -> float | None:
        """The median CPU time of a side for one step, task or call, in microseconds.

        It is the part of a figure that a busy machine leaves alone; absent where a figure does
        not measure time, and where another process does the work.
        """
        runs = self.runs.get(side, [])
        if not runs or "cpu_seconds" not in runs[0] or self.measure.unit in NO_TIMES:
            return None
        return statistics.median(run["cpu_seconds"] / run["units"] * 1e6 for run in runs)

    def fsync_us(self, side: str) -> float | None:
        """The median fsync probe beside a side's runs, if it touches the disk."""
        probes = [run["fsync_us"] for run in self.runs.get(side, []) if "fsync_us" in run]
        return statistics.median(probes) if probes else None


def figure_of(run: dict[str, Any], unit: Unit) -> float:
    """One run's figure in a unit."""
    match unit:
        case Unit.STEPS | Unit.TASKS | Unit.TURNS | Unit.CALLS:
            return run["units"] / run["seconds"]
        case Unit.MICROSECONDS:
            return run["seconds"] / run["units"] * 1e6
        case Unit.MILLISECONDS:
            return run["seconds"] / run["units"] * 1e3
        case Unit.SECONDS:
            return run["seconds"]
        case Unit.MULTIPLE:
            return run["disk_bytes"] / run["state_bytes"]
        case Unit.SHARE:
            return run["share"] * 100


class WorkerFailed(Exception):
    """A worker ended with an error or ran out of time; the text is its last words."""


@dataclass
class Bench:
    """How to reach each side, and what was learnt about them on the way.

    Attributes:
        pythons: side -> interpreter; a side that is missing is not measured.
        subject: the library in the subject's place.
        server: the PostgreSQL server, which starts when a measure needs it.
    """

    pythons: dict[str, str]
    subject: str
    backend: str
    repetitions: int | None
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    collectors: set[tuple[int, ...]] = field(default_factory=set)
    server: Server = field(default_factory=Server)

    def measure(self, measure: Measure) -> Outcome:
        """All repetitions of one measure."""
        outcome = Outcome(measure)
        for repetition in range(self.repetitions or measure.repetitions):
            for side in measure.sides:
                if side in (RAW, BARE) or side in self.pythons:
                    self._attempt(outcome, side, repetition)
        return outcome

    def _attempt(self, outcome: Outcome, side: str, repetition: int) -> None:
        """One side's part of a repetition, with its floor; failures go into the outcome."""
        folder = rival.make_folder() / f"runs-{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            run = self._run(outcome, side, folder / "run.db", repetition)
            if run and side == SUBJECT and outcome.measure.floor:
                self._run(outcome, FLOOR, folder / "run.db", repetition)
                if _compares_waiting(outcome.measure):
                    self._run(outcome, WAITING, folder / "run.db", repetition)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, outcome: Outcome, side: str, path: Path, repetition: int) -> bool:
        """One worker; whether it succeeded."""
        measure = outcome.measure
        if side in outcome.failures:
            return False
        fsync = {"fsync_us": probe.fsync_us(path.parent)} if measure.disk else {}
        try:
            figures = self.run_worker(side, self._request(outcome, side, path))
        except (WorkerFailed, ServerMissing) as failure:
            outcome.failures[side] = str(failure)
            print(f"{measure.name} {side}: FAILED: {failure}", file=sys.stderr)
            return False
        outcome.runs[side].append({**figures, **fsync})
        self.collectors.add(tuple(figures["gc"]))
        self.versions.setdefault(side, figures.get("versions", {}))
        shown = f"{figure_of(figures, measure.unit):,.6g} {measure.unit.value}"
        print(f"{measure.name} {side} {repetition + 1}: {shown}", file=sys.stderr, flush=True)
        return True

    def _request(self, outcome: Outcome, side: str, path: Path) -> dict[str, Any]:
        """The request to the worker."""
        measure = outcome.measure
        only_asyncio = side == RIVAL or side in PEERS or measure.asyncio_only
        request = {
            "kind": "mailbox" if side == RAW else "workload",
            "library": self.subject if side in (SUBJECT, BARE) else side,
            "name": measure.workload,
            "path": str(path),
            "backend": "asyncio" if only_asyncio else self.backend,
            "arguments": measure.arguments,
        }
        if side == BARE:
            request["name"] = measure.workload.replace("blocking.", "bare.")
        if measure.server:
            request["arguments"] = {**measure.arguments, "url": self.server.new_database()}
        if side in PEERS:
            request |= {"kind": "peer", "name": measure.peer_workload}
            request["arguments"] = {key: measure.arguments[key] for key in ("steps", "saver")}
        if side == FLOOR:
            request["kind"] = "floor"
            request["arguments"] = _floor_arguments(measure, outcome.runs[SUBJECT][-1])
        if side == WAITING:
            request["kind"] = WAITING
            request["arguments"] = {"units": outcome.runs[SUBJECT][-1]["units"]}
        return request

    def run_worker(self, side: str, request: dict[str, Any]) -> dict[str, Any]:
        """Run one request in a fresh process.

        Raises: WorkerFailed.
        """
        python = self.pythons.get(side, self.pythons[SUBJECT])
        command = [python, "-m", "tests.bench.worker", json.dumps(request)]
        # Tracing would send each run over the network, if the user's environment asks for it.
        quiet = {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}
        environment = {**os.environ, **quiet, "PYTHONHASHSEED": "0"}
        try:
            done = subprocess.run(
                command,
                check=False,
                cwd=rival.ROOT,
                env=environment,
                text=True,
                capture_output=True,
                timeout=WORKER_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            raise WorkerFailed(f"no answer within {WORKER_SECONDS_MAX} s") from None
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            # The frame around an exception group says nothing.
            lines = [line.strip(" |+-") for line in done.stderr.splitlines()]
            raise WorkerFailed(next(filter(None, reversed(lines)), f"exit {done.returncode}"))
        return json.loads(done.stdout.splitlines()[-1])


def _compares_waiting(measure: Measure) -> bool:
    return any(each.against is Against.SHARE_OF_WAITING for each in measure.comparisons)


def _floor_arguments(measure: Measure, run: dict[str, Any]) -> dict[str, Any]:
    """How the floor cuts a run's rows into transactions.

    `single_commits`: one transaction per superstep, however many the library needed.
    `group_commit`: as many as the library made, so both have the same mean batch.
    """
    units = run["units"]
    if measure.floor == "single_commits":
        return {"transactions": units, "per": "superstep", "units": units}
    batches = run.get("batches")
    commits = batches["commits"] if batches else None
    return {"transactions": commits, "per": "mean batch of the run", "units": units}
