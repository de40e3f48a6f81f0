"""The floor of delays on cores that others use too: how long a bare piece of work takes meanwhile.

A process of its own repeats the same little work. Alone on a core it takes as long as its CPU time;
beside others it waits for its turn, as each process of a test does at each of its turns.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.warm_processes import popen

WORK_S = 0.01
"""CPU time of a piece: as much as a process of a run needs for a few events."""
PAUSE_S = 0.09


@contextmanager
def bare_work(log: Path) -> Generator[Callable[[float, float], list[float]]]:
    """Repeat a piece of work in another process.

    Args:
        log: a file that isn't there yet.
    Yields: a function that returns the milliseconds that each piece took beyond its CPU time, of
        those that were begun between two times; sorted.
    """
    process = popen(["-m", "tests.faults.bare_work", log], stdout=subprocess.PIPE, text=True)

    def waits(begin: float, end: float) -> list[float]:
        lines = log.read_text().splitlines()
        pieces = (tuple(map(float, line.split())) for line in lines)
        return sorted((took - cpu) * 1000 for begun, took, cpu in pieces if begin <= begun < end)

    try:
        yield waits
    finally:
        process.kill()
        process.communicate()


def main(path: str) -> None:
    """Work until killed; write when each piece was begun, what it took, and its CPU time."""
    with Path(path).open("a", buffering=1) as log:
        while True:
            begun, cpu, clock = time.time(), time.thread_time(), time.perf_counter()
            while time.thread_time() - cpu < WORK_S:
                pass
            took, used = time.perf_counter() - clock, time.thread_time() - cpu
            log.write(f"{begun!r} {took!r} {used!r}\n")
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
