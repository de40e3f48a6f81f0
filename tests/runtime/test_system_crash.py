"""Processes that die or stand still in the middle of their runs, and the one that goes on."""

import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from actorgraph import ActorSystem, SqliteSaver
from tests.graphs import at, count
from tests.standing import stop
from tests.system_worker import NODES, steps

RUNS = 20
LEASE_S = 1.0
ALL = list(NODES)


@contextmanager
def worker(path: Path, runs: int, pause_s: float) -> Iterator[Any]:
    """A process that runs them."""
    words = [sys.executable, "-m", "tests.system_worker", str(path), str(runs)]
    process = subprocess.Popen(
        [*words, str(pause_s), str(LEASE_S)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def lines_until(process: Any, acks: int) -> list[list[str]]:
    """What it has said once so many updates were acknowledged."""
    said: list[list[str]] = []
    while sum(words[0] == "ack" for words in said) < acks:
        said.append(process.stdout.readline().split())
    return said


def stop_outside_of_a_commit(process: Any, path: Path) -> None:
    """Stop a process where it holds no lock of the database: else nobody could go on."""
    while True:
        stop(process)
        connection = sqlite3.connect(path, timeout=0.2, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            process.send_signal(signal.SIGCONT)
            continue
        finally:
            connection.close()
        return


async def take_over(path: Path, runs: int) -> tuple[list[list[str]], Any]:
    """Recover until every run of the other process has ended here; their results, by thread."""
    results: dict[str, list[str]] = {}
    async with ActorSystem({"g": steps(0.0)}, saver=SqliteSaver(path)) as system:
        with anyio.fail_after(30):
            while len(await system.runs(statuses=["success"])) < runs:
                for run in await system.recover():
                    await run.result()
                await anyio.sleep(0.1)
        for number in range(runs):
            state = await system.graphs["g"].aget_state(at(f"t{number}"))
            results[f"t{number}"] = state.values["bar"]
        points = {t: await count(system.graphs["g"], at(t)) for t in results}
        events = {
            run.thread_id: [event async for event in run.events()] for run in await system.runs()
        }
    return [results[f"t{n}"] for n in range(runs)], (points, events)


@pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
class TestTwoProcesses:
    async def test_what_a_killed_process_left_is_ended_by_another(self, tmp_path, capfd):
        """
        Every run ends in the other process, and no acknowledged task runs again.
        Promise: E10.
        """
        path = tmp_path / "runs.db"
        with worker(path, RUNS, 0.05) as process:
            said = await anyio.to_thread.run_sync(lines_until, process, RUNS * 2)
            process.send_signal(signal.SIGKILL)
            said += [line.split() for line in process.stdout]
        capfd.readouterr()
        results, (_, events) = await take_over(path, RUNS)
        again = [line.split() for line in capfd.readouterr().out.splitlines()]

        acknowledged = {tuple(words[1:]) for words in said if words[0] == "ack"}
        reran = {tuple(words[1:]) for words in again if words[0] == "ran"}
        assert results == [ALL] * RUNS
        assert len(acknowledged) < RUNS * len(NODES)
        assert acknowledged & reran == set()
        for told in events.values():
            assert [event.offset for event in told] == list(range(1, len(told) + 1))
            assert told[-1].kind == "end"

    async def test_runs_of_a_process_that_stood_still_are_not_lost(self, tmp_path, capfd):
        """
        A process whose lease is over ends its runs, and leaves them to whoever takes them up.
        """
        path = tmp_path / "runs.db"
        with worker(path, 4, 0.3) as process:
            await anyio.to_thread.run_sync(lines_until, process, 4)
            await anyio.to_thread.run_sync(stop_outside_of_a_commit, process, path)
            await anyio.sleep(LEASE_S * 1.2)
            process.send_signal(signal.SIGCONT)
            rest = await anyio.to_thread.run_sync(process.stdout.read)
            code = process.wait()
        results, _ = await take_over(path, 4)
        capfd.readouterr()

        left = [line.split()[2] for line in rest.splitlines() if line.startswith("left")]
        assert (code, left) == (0, ["pending"] * 4)
        assert results == [ALL] * 4

    async def test_what_a_process_writes_past_its_lease_is_refused(self, tmp_path, capfd):
        """
        A process that stood still for longer than its lease changes nothing afterwards.
        """
        path = tmp_path / "runs.db"
        with worker(path, 4, 0.2) as process:
            await anyio.to_thread.run_sync(lines_until, process, 4)
            await anyio.to_thread.run_sync(stop_outside_of_a_commit, process, path)
            results, (points, _) = await take_over(path, 4)
            process.send_signal(signal.SIGCONT)
            rest = await anyio.to_thread.run_sync(process.stdout.read)
            code = process.wait()
        again, (after, _) = await take_over(path, 4)
        capfd.readouterr()

        left = Counter(line.split()[2] for line in rest.splitlines() if line.startswith("left"))
        assert results == again == [ALL] * 4
        assert points == after
        assert code == 0
        assert left["success"] == 0
