"""Start `tests.support.system_worker`, kill or stop it, and read what it left behind."""

import signal
import sqlite3
import subprocess
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from actorgraph import ThreadBusyError
from actorgraph.values.ids import as_bytes
from actorgraph.values.systems import DropOwner
from tests.support import stopped_processes
from tests.support.graphs import at
from tests.support.source_files import ROOT
from tests.support.system_worker import NODES, RENAMED, recover, system_over
from tests.support.warm_processes import popen

PATIENCE_S = 60.0
ALL = list(NODES)


@contextmanager
def worker(
    loop: str, job: str, place: str, runs: int, *, pause_s: float = 0.05, lease_s: float = 1.0
) -> Iterator[Any]:
    """A process that does a job; ended with the block."""
    words = ["-m", "tests.support.system_worker", loop, job, place, runs, pause_s, lease_s]
    process = popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def lines_until(process: Any, acks: int, *, started: bool = False) -> list[list[str]]:
    """Its output once so many updates were acknowledged, or once it has ended.

    Args:
        started: whether also all runs must have been accepted.
    """
    limit = threading.Timer(PATIENCE_S, process.kill)  # else one that hangs is waited for forever
    limit.start()
    try:
        return _lines_until(process, acks, started=started)
    finally:
        limit.cancel()


def _lines_until(process: Any, acks: int, *, started: bool) -> list[list[str]]:
    said: list[list[str]] = []
    while sum(words[0] == "ack" for words in said) < acks or (started and ["started"] not in said):
        line = process.stdout.readline()
        if not line:
            break
        said.append(line.split())
    return said


def kill(process: Any) -> list[list[str]]:
    """Kill -9; its output that was not read yet."""
    process.send_signal(signal.SIGKILL)
    return [line.split() for line in process.stdout if line.endswith("\n")]


def stop(process: Any, place: str) -> None:
    """Stop a process; on SQLite where it holds no lock of the file: else all others would wait."""
    while True:
        stopped_processes.stop(process)
        if "#" in place:
            return
        connection = sqlite3.connect(place, timeout=0.2, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            process.send_signal(signal.SIGCONT)
            continue
        finally:
            connection.close()
        return


def acked(said: list[list[str]]) -> set[tuple[str, ...]]:
    """The tasks that were acknowledged."""
    return {tuple(words[1:]) for words in said if words[0] == "ack"}


def ran(said: list[list[str]]) -> set[tuple[str, ...]]:
    """The tasks that began."""
    return {tuple(words[1:]) for words in said if words[0] == "ran"}


def left(said: list[list[str]]) -> Counter[str]:
    """How the runs have left there."""
    return Counter(words[2] for words in said if words[0] == "left")


async def take_over(place: str, runs: int, *, lease_s: float = 15.0) -> dict[str, list[str]]:
    """Take up all runs of other processes here, until each has ended; the threads' values."""
    with anyio.fail_after(PATIENCE_S):
        async with system_over(place, 0.0, lease_s, 1000) as system:
            await recover(system)
            graph = system.graphs["g"]
            threads = [f"t{number}" for number in range(runs)]
            return {t: (await graph.aget_state(at(t))).values.get("bar", []) for t in threads}


POLICIES = ("reject", "enqueue", "interrupt", "rollback")
MARK = "-"
"""The input of the runs that come second."""


async def come_second(place: str, runs: int, *, lease_s: float = 15.0) -> Counter[str]:
    """Start a run on each thread that a run of another process has, each policy in turn.

    Returns: how many were refused, how many ended how, and how many threads have what no order of
        runs explains ("wrong").
    """
    seen: Counter[str] = Counter()
    with anyio.fail_after(PATIENCE_S):
        async with system_over(place, 0.0, lease_s, 1000) as system:
            started: dict[str, Any] = {}
            for number in range(runs):
                thread, policy = f"t{number}", POLICIES[number % len(POLICIES)]
                given = {"name": thread, "bar": [MARK]}
                try:
                    started[thread] = await system.start("g", thread, given, if_busy=policy)
                except ThreadBusyError:
                    seen["refused"] += 1
            for run in started.values():
                await run.wait()
            await recover(system)  # those of a lease that this process has lost, too
            for run in started.values():
                seen[await (await system.run(run.id)).wait()] += 1
            for number in range(runs):
                thread, policy = f"t{number}", POLICIES[number % len(POLICIES)]
                bar = (await system.graphs["g"].aget_state(at(thread))).values["bar"]
                seen["wrong"] += not explained(bar, policy if thread in started else "")
    return seen


def explained(bar: list[str], policy: str) -> bool:
    """Whether a thread has what two runs leave there, the second one by a policy; "" for none."""
    if policy in ("", "reject"):  # one that was not refused came after the first one's end
        return bar in (ALL, [*ALL, MARK, *ALL])
    if policy == "rollback":
        return bar in ([MARK, *ALL], [*ALL, MARK, *ALL])
    before, _, after = "".join(bar).partition(MARK)
    first = NODES.startswith(before) if policy == "interrupt" else before == NODES
    return first and after == NODES


async def only_renamed(place: str, *, lease_s: float) -> tuple[Counter[str], int]:
    """Try to take runs up with another version of the program, for two leases.

    Returns: how many runs have which status then, and how many it has counted as misfits.
    """
    async with system_over(place, 0.0, lease_s, 1000, RENAMED) as system:
        for _ in range(8):
            await system.recover()
            await anyio.sleep(lease_s / 4)
        runs = await system.runs()
        return Counter(run.status for run in runs), system.statistics().misfits


async def expire_leases(place: str) -> None:
    """End the leases of dead processes, as their time does."""
    async with system_over(place, 0.0, 15.0, 1000) as system:
        for owner in await system.owners():
            if not owner.is_this:
                await system._host.writer.store(DropOwner(as_bytes(owner.id)))  # noqa: SLF001


async def stored(place: str, runs: int) -> list[Any]:
    """The stored data of each run: its row, offsets and kinds of events, checkpoints.

    Events of a run that the first process has ended itself are left out: the last of them are
    stored after the run has left, by the system that has ended it.
    """
    async with system_over(place, 0.0, 15.0, 1000) as system:
        graph, found = system.graphs["g"], list[Any]()
        for run in await system.runs():
            events = run.events() if run.attempt > 1 else _none()
            told = [(event.offset, event.kind) async for event in events]
            history = graph.aget_state_history(at(run.thread_id))
            points = [point.config["configurable"]["checkpoint_id"] async for point in history]
            found.append((run.attempt, run.status, run.reason, points, told))
        assert len(found) == runs
        return found


async def _none() -> AsyncIterator[Any]:
    for event in ():
        yield event
