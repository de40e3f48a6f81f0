"""Start a worker, kill it at a moment, and judge what it left."""

import random
import subprocess
import time
from collections import Counter
from pathlib import Path

from actorgraph.testing import FaultySaver
from tests.faults.oracle import Oracle
from tests.faults.stores import recorded
from tests.faults.worker import build, expected, finish, names, read, saver_of
from tests.support.source_files import ROOT
from tests.support.warm_processes import popen

POLL_SECONDS = 0.0005
DELAY_SECONDS_MAX = 0.004
RUN_SECONDS_MAX = 60.0
JSON_LINES = "json lines"
"""The address of a server, where the databases are folders of JSON lines."""


def database_of(folder: Path, url: str) -> str:
    """The worker's database: in the folder, or a schema that has the folder's name."""
    if url == JSON_LINES:
        return str(folder / "store.jsonl")
    return f"{url}#{folder.name}" if url else str(folder / "store.db")


def start(folder: Path, backend: str, mode: str, url: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    place = [database_of(folder, url), str(folder / "oracle")]
    return popen(["-m", "tests.faults.worker", *place, backend, mode], cwd=ROOT)


def lines_of(folder: Path) -> int:
    path = folder / "oracle"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_after(
    folder: Path, backend: str, mode: str, *, url: str, lines: int, delay: float
) -> bool:
    """Kill the worker soon after its oracle has so many lines; False if it had ended."""
    with start(folder, backend, mode, url) as process:
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while lines_of(folder) < lines and process.poll() is None:
            assert time.monotonic() < deadline, f"no {lines} lines"
            time.sleep(POLL_SECONDS)
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            process.kill()
            return True
    return False


def left_in(folder: Path, oracle: Oracle) -> Counter[str]:
    """Read the oracle file of a killed worker."""
    read(folder / "oracle", oracle)
    oracle.crash()
    return Counter({"acknowledged": len(oracle.acknowledged)})


def lost(oracle: Oracle, thread: str, text: str) -> int:
    """How many acknowledged labels of a thread are not stored."""
    mine = [label for label in oracle.acknowledged if label.startswith(f"{thread}.")]
    return sum(label not in text for label in mine)


async def judge(folder: Path, mode: str, url: str) -> Counter[str]:
    """Reopen what a killed worker left, finish it, and compare."""
    oracle = Oracle()
    seen = left_in(folder, oracle)
    saver = FaultySaver(saver_of(database_of(folder, url)), on_stored=oracle.stored)
    async with saver:
        graph = build(oracle).compile(checkpointer=saver)
        for thread in names():
            text = await recorded(saver, {"configurable": {"thread_id": thread}})
            seen["lost"] += lost(oracle, thread, text)
            log = await finish(graph, thread, mode, oracle)
            seen["wrong"] += log != expected(thread)
    seen["run again"] = len(oracle.run_again())
    return seen


async def kill_often(
    folder: Path, backend: str, mode: str, kills: int, url: str = ""
) -> Counter[str]:
    """Kill the worker at so many seeded moments, each in a folder of its own.

    Args:
        url: the PostgreSQL server where the databases are, or JSON_LINES; "" for SQLite files.
    """
    chance = random.Random(f"{backend} {mode}")
    with start(folder / f"whole-{backend}-{mode}", backend, mode, url) as process:
        assert process.wait(timeout=RUN_SECONDS_MAX) == 0
    whole = lines_of(folder / f"whole-{backend}-{mode}")
    seen: Counter[str] = Counter()
    for attempt in range(3 * kills):
        place = folder / f"{backend}-{mode}-{attempt}"
        lines, delay = chance.randrange(whole), chance.uniform(0, DELAY_SECONDS_MAX)
        if kill_after(place, backend, mode, url=url, lines=lines, delay=delay):
            seen["kills"] += 1
            seen += await judge(place, mode, url)
        if seen["kills"] == kills:
            return seen
    raise AssertionError("the worker ends before it can be killed")
