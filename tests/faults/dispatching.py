"""Runs that are dispatched to worker processes, while these are killed, stopped and replaced."""

import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from tests.support.dispatch_worker import GRAPH, steps, system_of

PATIENCE_S = 300.0


class Place(msgspec.Struct, frozen=True):
    """A database, and the log of the workers' nodes."""

    url: str
    schema: str
    log: Path
    loop: str
    lease_s: float
    pause_s: float
    max_runs: int


@contextmanager
def worker(place: Place) -> Iterator[subprocess.Popen[str]]:
    """Start a worker; it is killed at the end of the block if it still runs."""
    numbers = map(str, (place.pause_s, place.lease_s, place.max_runs))
    module = [sys.executable, "-m", "tests.support.dispatch_worker"]
    where = [place.loop, place.url, place.schema, str(place.log)]
    process = subprocess.Popen([*module, *where, *numbers], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.communicate()


class Begun(msgspec.Struct, frozen=True):
    """One call of the node."""

    owner: str
    name: str
    step: int
    at: float


def begun(place: Place) -> list[Begun]:
    """The calls of nodes so far, in their order."""
    lines = place.log.read_text().splitlines() if place.log.exists() else []
    return [Begun(o, n, int(s), float(t)) for o, n, s, t in map(str.split, lines)]


class Verdict(msgspec.Struct):
    """The result of a scenario.

    Attributes:
        runs: number of runs.
        lost: runs that did not end with all of their steps, each once.
        repeated: calls of a step beyond its first.
        stale: calls by an owner whose run another owner had taken over before.
        killed: runs that the killed worker had begun and not ended.
        first_s: seconds from the kill to the first of their calls elsewhere.
        last_s: to the last of their first calls elsewhere.
        drained_s: seconds that the drained worker took to end.
        wall_s: seconds in all.
        shares: owner -> runs that it began.
    """

    runs: int
    lost: int = 0
    repeated: int = 0
    stale: int = 0
    killed: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    drained_s: float = 0.0
    wall_s: float = 0.0
    shares: list[int] = []


async def churn(place: Place, runs: int, count: int, workers: int) -> Verdict:
    """Accept runs for workers; meanwhile kill one, stop one past its lease, drain one.

    Args:
        runs: threads, of one run each.
        count: steps of a run.
        workers: at least 3; the drained one is replaced.
    """
    verdict, start = Verdict(runs), time.monotonic()
    thread = anyio.to_thread.run_sync
    with ExitStack() as stack:
        made = [await thread(stack.enter_context, worker(place)) for _ in range(workers)]
        async with system_of(place.url, place.schema, "accept", steps(), lease_s=5.0) as web:
            started = [
                await web.start(
                    GRAPH, f"t{n}", {"name": f"t{n}", "count": count, "done": []}, stream_mode=()
                )
                for n in range(runs)
            ]
            await _some_begun(place, runs // 2)
            killed_at = time.time()
            made[0].kill()
            made[1].send_signal(signal.SIGSTOP)
            await anyio.sleep(place.lease_s * 2.5)
            made[1].send_signal(signal.SIGCONT)
            drain_at = time.monotonic()
            made[2].send_signal(signal.SIGTERM)
            await thread(made[2].wait, 60)
            verdict.drained_s = time.monotonic() - drain_at
            await thread(stack.enter_context, worker(place))
            with anyio.fail_after(PATIENCE_S):
                for run in started:
                    await run.wait()
            values = {run.thread_id: await run.result() for run in started}
    verdict.wall_s = time.monotonic() - start
    verdict.lost = sum(v["done"] != list(range(count)) for v in values.values())
    _judge(verdict, begun(place), killed_at)
    return verdict


async def _some_begun(place: Place, runs: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while len({call.name for call in begun(place)}) < runs:  # noqa: ASYNC110 - in processes
            await anyio.sleep(0.05)


def _judge(verdict: Verdict, calls: list[Begun], killed_at: float) -> None:
    by_name: dict[str, list[Begun]] = defaultdict(list)
    for call in calls:
        by_name[call.name].append(call)
    seen = Counter((call.name, call.step) for call in calls)
    verdict.repeated = sum(count - 1 for count in seen.values())
    verdict.stale = sum(map(_stale, by_name.values()))
    verdict.shares = sorted(Counter(c[0].owner for c in by_name.values()).values())
    last_owner = {}
    gone = _owner_that_ended(calls, killed_at)
    taken = []
    for name, mine in by_name.items():
        before = [c for c in mine if c.at <= killed_at]
        last_owner[name] = before[-1].owner if before else ""
        after = [c.at - killed_at for c in mine if c.at > killed_at and c.owner != gone]
        if last_owner[name] == gone and after:
            taken.append(min(after))
    verdict.killed = len(taken)
    verdict.first_s, verdict.last_s = min(taken, default=0.0), max(taken, default=0.0)


def _owner_that_ended(calls: list[Begun], killed_at: float) -> str:
    """The owner that made no call after the kill, of those that made most before it."""
    before = Counter(c.owner for c in calls if c.at <= killed_at)
    after = {c.owner for c in calls if c.at > killed_at + 0.05}
    gone = [owner for owner, _ in before.most_common() if owner not in after]
    # The stopped worker makes none either for a while, and comes back as another owner.
    return gone[0] if gone else ""


def _stale(calls: list[Begun]) -> int:
    """Count calls of owners that had been followed by another."""
    left: set[str] = set()
    stale, current = 0, ""
    for call in calls:
        if call.owner in left:
            stale += 1
        elif call.owner != current:
            left.add(current)
            current = call.owner
    return stale
