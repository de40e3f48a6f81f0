"""Runs of now and of later on the same threads, in two processes over one database, with kills.

Each node says in one file when it begins and when it ends. A run that begins while another one of
its thread has not ended, in whatever process, is seen there; so is one that overtakes a run that a
killed process had begun.
"""

import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.faults import delayed_worker
from tests.faults.crashes import report, row
from tests.support.graphs import at
from tests.support.source_files import ROOT

THREADS, RUNS, KILLS = 6, 5, 4
PATIENCE_S = 120.0


def process(loop: str, place: str, said: Path, name: str) -> Any:
    """A process that starts runs and takes up what is left."""
    words = [sys.executable, "-m", "tests.faults.delayed_worker", loop, place, str(said), name]
    return subprocess.Popen([*words, str(THREADS), str(RUNS)], cwd=ROOT)


def read(said: Path) -> list[list[str]]:
    """The lines that were written, without a torn last one."""
    return [line.split() for line in said.read_text().splitlines(keepends=True) if line[-1] == "\n"]


def overlaps(lines: list[list[str]]) -> list[list[str]]:
    """The begins of runs while another run of their thread was not over."""
    inside: dict[str, str] = {}
    found: list[list[str]] = []
    for what, thread, *rest in lines:
        if what == "begin":
            if inside.setdefault(thread, rest[0]) != rest[0]:
                found.append([thread, *rest])
            inside[thread] = rest[0]
        elif what == "end" and rest[1] == delayed_worker.NODES[-1]:
            inside.pop(thread, None)
    return found


async def settle(place: str, said: Path) -> dict[str, Any]:
    """Take up all that is left, here; the values of the threads."""
    file = os.open(said, os.O_WRONLY | os.O_APPEND)
    try:
        with anyio.fail_after(PATIENCE_S):
            async with delayed_worker.system_over(place, file) as system:
                await delayed_worker.recover(system)
                assert {run.status for run in await system.runs()} == {"success"}
                graph = system.graphs["g"]
                names = [f"t{number}" for number in range(THREADS)]
                return {one: (await graph.aget_state(at(one))).values["bar"] for one in names}
    finally:
        os.close(file)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_runs_of_a_thread_go_one_at_a_time(kind, tmp_path, request, anyio_backend_name):
    """
    No two runs of a thread overlap, none overtakes one that was cut off, and each ends once.
    """
    place, said = str(tmp_path / "runs.db"), tmp_path / "said"
    if kind == "postgres":
        postgres = request.getfixturevalue("postgres")
        place = f"{postgres.url}#{postgres.new_schema('delayed')}"
    chance, killed = random.Random(anyio_backend_name + kind), 0
    with ExitStack() as stack:
        alive: list[tuple[str, Any]] = []

        def begin(name: str) -> None:
            made = process(anyio_backend_name, place, said, name)
            stack.callback(made.wait)
            stack.callback(made.kill)
            alive.append((name, made))

        begin("one")
        begin("two")
        for number in range(KILLS):
            name, doomed = alive.pop(chance.randrange(2))
            with anyio.fail_after(PATIENCE_S):
                while not said.exists() or f" {name}." not in said.read_text():  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            await anyio.sleep(chance.uniform(0.1, 2.0))
            doomed.kill()
            killed += doomed.wait() != 0
            begin(f"next{number}")
        for _, each in alive:
            await anyio.to_thread.run_sync(each.wait, PATIENCE_S)
    values = await settle(place, said)

    lines = read(said)
    accepted = {(words[1], words[2]) for words in lines if words[0] == "accepted"}
    for thread, bar in values.items():
        counts = Counter(step.rstrip(delayed_worker.NODES) for step in bar)
        assert set(counts.values()) <= {len(delayed_worker.NODES)}, (thread, bar)
        assert {run for name, run in accepted if name == thread} <= counts.keys()
    begun = Counter(tuple(words[1:]) for words in lines if words[0] == "begin")
    figures = f"{killed} kills, {len(accepted)} runs acknowledged, {begun.total()} nodes begun, "
    figures += f"{begun.total() - len(begun)} of them again after a kill, "
    figures += f"overlaps: {len(overlaps(lines))}"
    report(request.config, "delayed runs", row(kind, anyio_backend_name, figures))
    assert overlaps(lines) == []
    assert killed
