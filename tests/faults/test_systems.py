"""Two processes with ActorSystems on one database: one is killed, or is stopped past its lease.

`tests.support.system_worker` is the program. Its standard output up to its death is the
acknowledged part: an update is written after it was delivered.
"""

import random
import signal
import time
from collections import Counter
from functools import partial
from typing import Any

import anyio.to_thread
import pytest

from tests.faults.crashes import report, row
from tests.support.graphs import at
from tests.support.system_processes import (
    ALL,
    acked,
    come_second,
    kill,
    left,
    lines_until,
    only_renamed,
    ran,
    stop,
    stored,
    take_over,
    worker,
)
from tests.support.system_worker import NODES, RENAMED, system_over

RUNS = 40
ROUNDS = 6
KILLS = 2
"""Rounds of so many kills, one process after the other on the same runs."""
STOPS = 3
LEASE_S = 0.5
threaded = anyio.to_thread.run_sync


def database_of(kind: str, request: pytest.FixtureRequest, folder: Any, number: int) -> str:
    """A new database: see `system_over`."""
    if kind != "postgres":
        return str(folder / f"runs{number}") + ("/" if kind == "jsonl" else ".db")
    postgres = request.getfixturevalue("postgres")
    return f"{postgres.url}#{postgres.new_schema('systems')}"


def said_by(capfd: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The output of the runs of this process."""
    return [line.split() for line in capfd.readouterr().out.splitlines()]


async def killed_often(loop: str, database: str, chance: random.Random, capfd: Any) -> Counter[str]:
    """Kill process after process on the same runs, then end them here."""
    seen: Counter[str] = Counter()
    done: set[tuple[str, ...]] = set()
    again: set[tuple[str, ...]] = set()
    for number in range(KILLS):
        job = "recover" if number else "g"
        with worker(loop, job, database, RUNS, lease_s=LEASE_S) as process:
            acks = chance.randrange(1, RUNS * len(ALL) // KILLS)
            said = await threaded(partial(lines_until, process, acks, started=not number))
            seen["kills"] += process.poll() is None
            said += await threaded(kill, process)
        again |= done & ran(said)
        done |= acked(said)
    moment = time.monotonic()
    capfd.readouterr()
    values = await take_over(database, RUNS)
    seconds = time.monotonic() - moment
    again |= done & ran(said_by(capfd))
    seen["lost"] = sum(node not in values[thread] for thread, node in done)
    seen["wrong"] = sum(bar != ALL for bar in values.values())
    seen["acknowledged"], seen["run again"], seen["ms"] = len(done), len(again), int(seconds * 1000)
    return seen


@pytest.mark.promise("E10")
@pytest.mark.parametrize("kind", ["sqlite", "jsonl", "postgres"])
async def test_runs_of_killed_processes_are_ended_by_another(
    kind, tmp_path, request, anyio_backend, capfd
):
    """
    After kill -9 of one process after the other in the middle of 40 runs all of them end, as if
    nothing had been, and no acknowledged task runs again.
    """
    chance = random.Random(f"{kind} {anyio_backend}")
    seen: Counter[str] = Counter()
    slowest = 0
    for number in range(ROUNDS):
        database = database_of(kind, request, tmp_path, number)
        figures = await killed_often(anyio_backend, database, chance, capfd)
        slowest = max(slowest, figures.pop("ms"))
        seen += figures

    names = ("acknowledged", "lost", "run again", "wrong")
    figures = (seen["kills"], RUNS * ROUNDS, *(seen[name] for name in names))
    report(
        request.config,
        "systems killed",
        row(kind, anyio_backend, *figures, f"at most {slowest / 1000:.1f}"),
    )
    assert (seen["lost"], seen["run again"], seen["wrong"]) == (0, 0, 0)
    assert seen["kills"] >= 10


@pytest.mark.promise("E10")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_writes_of_a_stopped_process_past_its_lease_are_refused(
    kind, tmp_path, request, anyio_backend, capfd
):
    """
    A process that was stopped while another one took its runs over ends none of them and changes
    nothing that is stored, at whatever moment it was stopped.
    """
    chance = random.Random(f"stop {kind} {anyio_backend}")
    seen: Counter[str] = Counter()
    for number in range(STOPS):
        database = database_of(kind, request, tmp_path, number)
        with worker(anyio_backend, "g", database, RUNS, lease_s=LEASE_S) as process:
            acks = chance.randrange(1, RUNS * len(ALL) // 2)
            said = await threaded(partial(lines_until, process, acks, started=True))
            await threaded(stop, process, database)
            values = await take_over(database, RUNS)
            before = await stored(database, RUNS)
            process.send_signal(signal.SIGCONT)
            rest = await threaded(lines_until, process, RUNS * len(ALL) * 2)
            assert await threaded(process.wait) == 0
        after = await stored(database, RUNS)
        seen["stops"] += 1
        seen["elsewhere"] += sum(attempt > 1 for attempt, *_ in before)
        seen["wrong"] += sum(bar != ALL for bar in values.values())
        seen["stale"] += sum(one != other for one, other in zip(before, after, strict=True))
        seen["told"] += sum(left([*said, *rest]).values())

    figures = [seen["stops"], RUNS * STOPS, seen["elsewhere"], seen["wrong"], seen["stale"]]
    report(request.config, "systems stopped", row(kind, anyio_backend, *figures))
    assert (seen["wrong"], seen["stale"]) == (0, 0)
    assert seen["told"] == RUNS * STOPS
    assert seen["elsewhere"] > 0


@pytest.mark.parametrize("fate", ["lives", "killed", "stopped"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_runs_on_threads_of_another_process_are_run_or_refused(
    kind, fate, tmp_path, request, anyio_backend
):
    """
    Runs that come second to 40 threads of another process, by each policy: what is accepted ends
    well, what is refused leaves nothing, whatever becomes of that process.
    """
    seen: Counter[str] = Counter()
    for number in range(STOPS):
        database = database_of(kind, request, tmp_path, number)
        pause_s = 0.3
        with worker(
            anyio_backend, "g", database, RUNS, pause_s=pause_s, lease_s=LEASE_S
        ) as process:
            await threaded(partial(lines_until, process, 1, started=True))
            if fate == "killed":
                await threaded(kill, process)
            if fate == "stopped":
                await threaded(stop, process, database)
            seen += await come_second(database, RUNS, lease_s=LEASE_S)
            before = await stored_values(database)
            if fate != "killed":
                process.send_signal(signal.SIGCONT)
                await threaded(lines_until, process, RUNS * len(ALL) * 2)
                assert await threaded(process.wait) == 0
        seen["stale"] += before != await stored_values(database)

    names = ("refused", "success", "wrong", "stale")
    figures = [RUNS * STOPS, *(seen[name] for name in names)]
    report(request.config, "runs that come second", row(kind, anyio_backend, fate, *figures))
    assert (seen["wrong"], seen["stale"]) == (0, 0)
    assert seen["refused"] + seen["success"] == RUNS * STOPS
    assert seen["refused"] > 0


async def stored_values(database: str) -> list[Any]:
    """The stored values of the threads."""
    async with system_over(database, 0.0, 15.0, 1000) as system:
        graph = system.graphs["g"]
        return [(await graph.aget_state(at(f"t{n}"))).values for n in range(RUNS)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_runs_of_an_old_version_wait_for_it(kind, tmp_path, request, anyio_backend):
    """
    A process is killed, and only a version with a renamed node comes back: it parks nothing,
    counts what it can't run, and a process of the old version ends it all.
    """
    database = database_of(kind, request, tmp_path, 0)
    with worker(anyio_backend, "g", database, RUNS, pause_s=0.3, lease_s=LEASE_S) as process:
        said = await threaded(partial(lines_until, process, RUNS * 2, started=True))
        said += await threaded(kill, process)
    statuses, misfits = await only_renamed(database, lease_s=LEASE_S)
    values = await take_over(database, RUNS, lease_s=LEASE_S)
    rows = await stored(database, RUNS)

    waited = statuses["pending"] + statuses["running"]
    report(request.config, "rolling deploys", row(kind, anyio_backend, RUNS, waited, misfits))
    assert statuses["parked"] == statuses["error"] == 0
    assert (misfits, misfits > 0) == (waited, True)
    assert {status for _, status, *_ in rows} == {"success"}
    assert {"".join(bar) for bar in values.values()} <= {NODES, RENAMED}
