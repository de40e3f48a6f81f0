"""Kill a program with alarms again and again, start it anew, and judge what came of its threads."""

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio.to_thread

from tests.faults.alarm_worker import MS, TIMES, system_over
from tests.faults.timed_graph import ROUND, STEPS, InFile, told_early
from tests.support.graphs import at
from tests.support.source_files import ROOT
from tests.support.warm_processes import popen

THREADS = 6
EACH = 10
"""Kills over one database."""
LIFE_S = {"sleep": 0.7, "charge": 0.12, "charge again": 0.12}
"""Seconds after it has begun in which it is killed: while its threads are at work."""
WHOLE_LIFE_S = 120.0
JUDGED = ("lost", "run again", "early")
"""Counters that must be 0."""


def start(backend: str, job: str, place: str, told: Path, names: list[str], **more: Any) -> Any:
    """Start the program; `ahead_s`, and options of `popen`."""
    words = [backend, job, place, str(told), str(more.pop("ahead_s", 0.0)), *names]
    return popen(["-m", "tests.faults.alarm_worker", *words], cwd=ROOT, **more)


def lines_of(told: Path) -> list[list[str]]:
    """What happened, without a torn last line."""
    if not told.exists():
        return []
    lines = told.read_text().splitlines(keepends=True)
    return [line.split() for line in lines if line.endswith("\n")]


def live(backend: str, job: str, place: str, told: Path, chance: random.Random) -> bool:
    """Start the program and kill it soon after it has begun; False if it had ended."""
    lives = sum(words == ["lives"] for words in lines_of(told))
    with start(backend, job, place, told, names(), stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + WHOLE_LIFE_S
        while sum(words == ["lives"] for words in lines_of(told)) == lives:
            assert time.monotonic() < deadline, "it does not begin"
            assert process.poll() is None, "it fails"
            time.sleep(0.002)
        try:
            process.wait(timeout=chance.uniform(0, LIFE_S[job]))
        except subprocess.TimeoutExpired:
            process.kill()
            return True
        assert process.returncode == 0
    return False


def names() -> list[str]:
    """The threads."""
    return [f"t{number}" for number in range(THREADS)]


async def kill_often(
    folder: Path, backend: str, job: str, kills: int, place: Callable[[int], str]
) -> Counter[str]:
    """Kill the program so often, over several databases, and let it end.

    Args:
        place: makes the place of the n-th database.
    """
    chance = random.Random(f"{backend} {job} {kills}")
    seen: Counter[str] = Counter()
    for number in range(100 * kills):
        if seen["kills"] == kills:
            break
        told, where = folder / f"told{number}", place(number)
        for _ in range(min(EACH, kills - seen["kills"])):
            if not await anyio.to_thread.run_sync(live, backend, job, where, told, chance):
                break
            seen["kills"] += 1
        seen += await judge(backend, job, where, told)
    return seen


async def judge(backend: str, job: str, place: str, told: Path) -> Counter[str]:
    """Let the program end, and compare what is stored with what happened."""
    with start(backend, job, place, told, names(), stdout=subprocess.DEVNULL) as process:
        await anyio.to_thread.run_sync(process.wait, WHOLE_LIFE_S)
        assert process.returncode == 0
    async with system_over(job, place, InFile(str(told))) as system:
        graph = system.graphs["g"]
        states = [await graph.aget_state(at(name)) for name in names()]
    lines = [words for words in lines_of(told) if len(words) > 1]
    seen: Counter[str] = Counter(threads=len(states))
    whole = [f"charged {number}" for number in range(STEPS)]
    whole = whole if job.startswith("charge") else [*ROUND] * TIMES.rounds
    seen["lost"] = sum(bool(s.next) or s.values.get("log") != whole for s in states)
    if job.startswith("charge"):
        charges = Counter(tuple(words) for words in lines)
        seen["charges"], seen["charged again"] = len(charges), charges.total() - len(charges)
        return seen
    seen.update(judged(lines))
    return seen


def judged(lines: list[list[str]]) -> Counter[str]:
    """Compare what happened with what may have happened."""
    seen: Counter[str] = Counter(early=told_early(lines, TIMES))
    newest: Counter[str] = Counter()
    for what, thread, place, *_ in lines:
        if what != "reminds":
            # A node that has begun shows that those before it are stored.
            seen["run again"] += int(place) < newest[thread]
            newest[thread] = max(newest[thread], int(place))
    for name, kinds in (("effects", {"woke", "answered"}), ("reminders", {"reminds"})):
        times = Counter(tuple(words[:-1]) for words in lines if words[0] in kinds)
        seen[name], seen[f"{name} again"] = len(times), times.total() - len(times)
    return seen


def share(
    backend: str, place: str, told: Path, ahead_s: Sequence[float], threads: int
) -> Counter[str]:
    """Let several processes look at the alarms of all their threads; none is killed.

    Args:
        ahead_s: by how much the clocks of each process are ahead.
        threads: of each process.
    """
    with ExitStack() as stack:
        processes, started = list[Any](), list[str]()
        for number, ahead in enumerate(ahead_s):
            own = [f"p{number}t{one}" for one in range(threads)]
            started += own
            more = {"ahead_s": ahead, "stdout": subprocess.DEVNULL}
            process = start(backend, "share", place, told, own, **more)
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        assert [process.wait(WHOLE_LIFE_S) for process in processes] == [0] * len(processes)
    lines = [words for words in lines_of(told) if len(words) > 1]
    seen = judged(lines)
    ends = Counter(words[1] for words in lines if words[0] == "ends")
    seen["lost"] = sum(TIMES.rounds != ends[name] for name in started)
    first = {tuple(words[1:3]): int(words[3]) for words in reversed(lines) if words[0] == "sleeps"}
    woke = [(tuple(words[1:3]), int(words[3])) for words in lines if words[0] == "woke"]
    seen["late ms"] = max(at - first[place] for place, at in woke) // 1000 - TIMES.nap // MS
    return seen
