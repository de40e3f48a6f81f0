"""Start the program that makes blocking calls, kill it at a moment, and judge what it left."""

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from actorgraph.testing import FaultySaver
from tests.faults import plain_worker
from tests.faults.kills import (
    DELAY_SECONDS_MAX,
    POLL_SECONDS,
    RUN_SECONDS_MAX,
    database_of,
    left_in,
    lines_of,
    lost,
)
from tests.faults.plain_scenarios import PlainOracle
from tests.faults.stores import recorded_blocking
from tests.faults.worker import expected, names, saver_of
from tests.support.source_files import ROOT

BLOCKING = "blocking"


class Workers:
    """Starts one `plain_worker` after the other; use it with `with`."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.faults.plain_worker"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, cwd=ROOT, bufsize=0, **pipes)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def start(self, folder: Path, mode: str, url: str) -> int:
        """Start one. Returns the id of its process."""
        folder.mkdir(parents=True, exist_ok=True)
        line = f"{database_of(folder, url)} {folder / 'oracle'} {mode}\n"
        cast("IO[bytes]", self._process.stdin).write(line.encode())
        return self._number()

    def has_ended(self, within_s: float) -> bool:
        """Whether the one that was started last ends within a time."""
        return bool(select.select([self._process.stdout], [], [], within_s)[0])

    def status(self) -> int:
        """Wait for the end of the one that was started last; its status, as `os.waitpid` has it."""
        assert self.has_ended(RUN_SECONDS_MAX), "it does not end"
        return self._number()

    def _number(self) -> int:
        return int(cast("IO[bytes]", self._process.stdout).readline())


def kill_blocking(
    folder: Path, mode: str, kills: int, url: str = "", by: signal.Signals = signal.SIGKILL
) -> Counter[str]:
    """Kill the program at so many seeded moments, each in a folder of its own.

    Args:
        url: as in `kills.kill_often`.
        by: the signal that ends it.
    """
    chance = random.Random(f"blocking {mode} {by}")
    seen: Counter[str] = Counter()
    with Workers() as workers:
        workers.start(folder / f"whole-{mode}", mode, "")
        assert workers.status() == 0
        whole = lines_of(folder / f"whole-{mode}")
        for attempt in range(3 * kills):
            place = folder / f"{mode}-{by.name.lower()}-{attempt}"
            process = workers.start(place, mode, url)
            if kill_after(workers, process, place, lines=chance.randrange(whole), by=by):
                seen["kills"] += 1
                seen += judge(place, mode, url)
            if seen["kills"] == kills:
                return seen
    raise AssertionError("the program ends before it can be killed")


def kill_after(
    workers: Workers, process: int, folder: Path, *, lines: int, by: signal.Signals
) -> bool:
    """Kill a process soon after its oracle has so many lines; False if it had ended."""
    delay = random.Random(f"{folder.name} {lines}").uniform(0, DELAY_SECONDS_MAX)
    deadline = time.monotonic() + RUN_SECONDS_MAX
    while lines_of(folder) < lines and not workers.has_ended(POLL_SECONDS):
        assert time.monotonic() < deadline, f"no {lines} lines"
    if not workers.has_ended(delay):
        os.kill(process, by)
    return workers.status() == by


def judge(folder: Path, mode: str, url: str) -> Counter[str]:
    """Reopen what a killed program left, finish it by blocking calls, and compare."""
    oracle = PlainOracle()
    seen = left_in(folder, oracle)
    saver = FaultySaver(saver_of(database_of(folder, url)), on_stored=oracle.stored)
    with saver:
        graph = plain_worker.build(oracle).compile(checkpointer=saver)
        for thread in names():
            text = recorded_blocking(saver, {"configurable": {"thread_id": thread}})
            seen["lost"] += lost(oracle, thread, text)
            log = plain_worker.finish(graph, thread, mode, oracle)
            seen["wrong"] += log != expected(thread)
    seen["run again"] = len(oracle.run_again())
    return seen
