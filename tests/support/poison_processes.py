"""Two `tests.support.poison_worker` processes over one database: stopped in turn, or started again
whenever the poison has killed one."""

import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from tests.support.poison_worker import POISON, system_at
from tests.support.source_files import ROOT
from tests.support.system_processes import stop
from tests.support.warm_processes import popen

LEASE_S = 0.5
PAUSE_S = 1.5 * LEASE_S
NODE_S = 2 * LEASE_S
"""A node ends between two pauses of its process, and not within one."""
threaded = anyio.to_thread.run_sync


@contextmanager
def _worker(loop: str, place: str, count: int, poison: int, node_s: float) -> Generator[Any]:
    words = ["-m", "tests.support.poison_worker", loop, place, count, poison, LEASE_S, node_s]
    process = popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def paused_in_turn(loop: str, place: str, count: int, pauses: int) -> list[int]:
    """Stop one of two processes after the other for 1.5 leases; return their exit codes."""
    with _worker(loop, place, count, -1, NODE_S) as one:
        assert await threaded(one.stdout.readline) == "started\n"
        with _worker(loop, place, 0, -1, NODE_S) as two:
            assert await threaded(two.stdout.readline) == "started\n"
            for number in range(pauses):
                process = (one, two)[number % 2]
                await threaded(stop, process, place)
                await anyio.sleep(PAUSE_S)
                process.send_signal(signal.SIGCONT)
            return [await threaded(process.wait) for process in (one, two)]


async def until_the_poison_is_found(loop: str, place: str, count: int, rounds: int) -> list[int]:
    """Keep two processes alive until no run is open; return the exit codes of all, sorted.

    Args:
        count: of runs; one of them, in the middle, kills its process.
        rounds: the most processes that are started in each place.
    """
    codes: list[int] = []

    async def serve(runs: int, begun: anyio.Event | None) -> None:
        for _ in range(rounds):
            with _worker(loop, place, runs, runs // 2 or -1, 0.01) as process:
                await threaded(process.stdout.readline)
                if begun is not None:
                    begun.set()
                codes.append(await threaded(process.wait))
            if codes[-1] == 0:
                return
            runs = 0

    async with anyio.create_task_group() as group:
        begun = anyio.Event()
        group.start_soon(partial(serve, count, begun))
        await begun.wait()
        group.start_soon(partial(serve, 0, None))
    return sorted(codes)


async def runs_at(place: str) -> dict[str, tuple[str, int, str]]:
    """Thread -> status, attempts and reason of its run."""
    async with system_at(place, LEASE_S) as system:
        return {run.thread_id: (run.status, run.attempt, run.reason) for run in await system.runs()}


def parked_of(runs: dict[str, tuple[str, int, str]]) -> list[str]:
    """The threads whose runs were parked."""
    return [thread for thread, (status, _, _) in runs.items() if status == "parked"]


__all__ = ["POISON", "parked_of", "paused_in_turn", "runs_at", "until_the_poison_is_found"]
