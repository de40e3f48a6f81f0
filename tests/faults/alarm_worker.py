"""A program with alarms to kill: threads that sleep and ask, over one database.

    python -m tests.faults.alarm_worker BACKEND JOB PLACE TOLD SECONDS_AHEAD THREAD...

PLACE is as `worker.saver_of` takes it; TOLD is the file of what happened, which several processes
may add to. The process's clocks are so many seconds ahead of the machine's. The jobs:

sleep    start the threads that don't exist yet, and go on until all have ended
share    the same, beside other processes; with leases as long as they usually are
charge   the same, with the charging graph, whose steps have `doubt=`; "charge again": without it
answer   start nothing; answer a question at a time, for each line "THREAD INTERRUPT TIME" of the
         standard input, and write what came of it
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from actorgraph import ActorSystem
from actorgraph.api.system import alarm_work
from actorgraph.errors import AlreadyResumedError, ThreadBusyError
from actorgraph.runtime.system import alarm_actor
from tests.faults.timed_graph import InFile, Times, charging_graph, timed_graph
from tests.faults.worker import saver_of
from tests.support.graphs import at

ALIVE = {"share", "answer"}
"""Jobs of processes that nobody kills."""
LONG_S = 60.0
LEASE_S = 2.0
ALARM_LEASE_S = 1.0
"""In place of a minute, so that a kill costs a second."""
MS = timedelta(milliseconds=1)
TIMES = Times(100 * MS, (100 * MS, 200 * MS), 400 * MS, rounds=4)
ONE_ROUND = Times(0 * MS, (), 2500 * MS)
"""Of threads whose questions a person may answer in time."""
YES = "yes"

real_now = time.time_ns


def now() -> int:
    """The machine's time, in microseconds since 1970-01-01 UTC."""
    return real_now() // 1000


@contextmanager
def short_leases() -> Iterator[None]:
    """Let alarms that a dead process has taken be taken again soon, in this process."""
    long = alarm_actor.LEASE_S
    alarm_actor.LEASE_S = alarm_work.LEASE_S = ALARM_LEASE_S
    try:
        yield
    finally:
        alarm_actor.LEASE_S = alarm_work.LEASE_S = long


def shift_clocks(ahead_s: float) -> None:
    """Set this process's clocks wrong."""
    wall, nanoseconds = time.time, time.time_ns
    time.time = lambda: wall() + ahead_s
    time.time_ns = lambda: nanoseconds() + int(ahead_s * 1e9)


def system_over(job: str, place: str, told: InFile, times: Times = TIMES) -> ActorSystem:
    """A system that runs the graph of a job."""
    if job.startswith("charge"):
        graph = charging_graph(told, doubts=job == "charge")
    else:
        graph = timed_graph(told, times, now)
    lease_s = LONG_S if job in ALIVE else LEASE_S
    return ActorSystem({"g": graph}, saver=saver_of(place), lease_s=lease_s, attempts_max=10**6)


async def go_on(system: ActorSystem, names: list[str]) -> None:
    """Start the threads that don't exist, take up what is left, until all have ended."""
    graph = system.graphs["g"]
    for name in names:
        if not await system.runs(thread_id=name):
            await system.start("g", name, {"log": []}, durability="sync")
    while True:
        await system.recover()
        states = [await graph.aget_state(at(name)) for name in names]
        if all(state.created_at is not None and not state.next for state in states):
            return
        await anyio.sleep(0.1)


async def answered(system: ActorSystem, thread: str, question: str, due: int) -> str:
    """Answer at a time, as a person; returns "won", or why not."""
    await anyio.sleep(max(due - now(), 0) / 1e6)
    try:
        run = await system.resume("g", thread, answers={question: YES})
    except (AlreadyResumedError, ThreadBusyError) as error:
        return type(error).__name__
    status = await run.wait()
    return "won" if status == "success" else f"{status} {run.reason.partition(':')[0]}"


async def answer_lines(system: ActorSystem) -> None:
    """Answer as the lines of the standard input say, until it ends."""

    async def one(thread: str, question: str, due: str) -> None:
        outcome = await answered(system, thread, question, int(due))
        print(thread, outcome, sep="\t", flush=True)

    async with anyio.create_task_group() as group:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            group.start_soon(one, *line.split())


async def main(job: str, place: str, path: str, names: list[str]) -> None:
    """See the module's docstring."""
    told = InFile(path)
    told.say("lives")
    work: Callable[[ActorSystem], Any] = partial(go_on, names=names)
    with nullcontext() if job in ALIVE else short_leases():
        times = ONE_ROUND if job == "answer" else TIMES
        async with system_over(job, place, told, times) as system:
            print("open", flush=True)
            await (answer_lines if job == "answer" else work)(system)


if __name__ == "__main__":
    backend, job, place, path, ahead, *names = sys.argv[1:]
    shift_clocks(float(ahead))
    anyio.run(main, job, place, path, names, backend=backend)
