"""A person answers at the moment at which a question is due: through one system, or another's."""

import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread

from actorgraph import ActorSystem
from tests.faults.alarm_kills import lines_of, start
from tests.faults.alarm_worker import ONE_ROUND, YES, answered, system_over
from tests.faults.timed_graph import OWN_ANSWER, InFile
from tests.support.graphs import at

AT_ONCE = 20
EARLIEST_US = -20_000
LATEST_US = (10_000, 50_000, 500_000)
"""Microseconds after the question's time in which a person answers. A system has to read, and to
start a run, before its own answer is there, which takes a busy computer long."""
JUDGED = ("wrong", "answered twice", "went on twice")
PATIENCE_S = 120.0


class Elsewhere:
    """Another process with a system over the same database, which answers what it is told to."""

    def __init__(self, backend: str, place: str, told: Path) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = start(backend, "answer", place, told, [], **pipes)

    async def __aenter__(self) -> Self:
        line = await anyio.to_thread.run_sync(self._process.stdout.readline)
        assert line == "open\n"
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._process.communicate)

    async def answer(self, thread: str, question: str, due: int) -> None:
        """Let it answer at a time."""
        self._process.stdin.write(f"{thread} {question} {due}\n")
        self._process.stdin.flush()

    async def outcomes(self, number: int) -> dict[str, str]:
        """What came of the next answers, by thread."""
        found: dict[str, str] = {}
        while len(found) < number:
            line = await anyio.to_thread.run_sync(self._process.stdout.readline)
            assert line, "it has ended"
            thread, outcome = line.rstrip("\n").split("\t")
            found[thread] = outcome
        return found


async def race_often(backend: str, place: str, told: Path, races: int) -> Counter[str]:
    """So many races, half of them against an answer through another process's system."""
    chance, seen = random.Random(f"{backend} {races}"), Counter[str]()
    async with (
        system_over("answer", place, InFile(str(told)), ONE_ROUND) as system,
        Elsewhere(backend, place, told) as elsewhere,
    ):
        for first in range(0, 100 * races, AT_ONCE):
            threads = [
                f"t{first + number}" for number in range(min(AT_ONCE, races - seen["races"]))
            ]
            if not threads:
                break
            with anyio.fail_after(PATIENCE_S):
                outcomes = await race(system, elsewhere, threads, chance)
                seen += await judged(system, outcomes)
    lines = lines_of(told)
    for what, twice in (("answered", "answered twice"), ("ends", "went on twice")):
        times = Counter(words[1] for words in lines if words[0] == what)
        seen[twice] = times.total() - len(times)
    return seen


async def race(
    system: ActorSystem, elsewhere: Elsewhere, threads: list[str], chance: random.Random
) -> dict[str, str]:
    """Let questions of some threads be due, and a person answer them; what came of the answers.

    On a busy computer a question may be due before all have been asked; it has no answer then.
    """
    graph, outcomes, there = system.graphs["g"], dict[str, str](), 0

    async def here(thread: str, question: str, due: int) -> None:
        outcomes[thread] = await answered(system, thread, question, due)

    runs = [await system.start("g", thread, {"log": []}) for thread in threads]
    for run in runs:
        await run.wait()
    async with anyio.create_task_group() as group:
        for number, thread in enumerate(threads):
            for question in (await graph.aget_state(at(thread))).interrupts:
                moment = question.timing.due + chance.randint(EARLIEST_US, chance.choice(LATEST_US))
                if number % 2:
                    await elsewhere.answer(thread, question.id, moment)
                    there += 1
                else:
                    group.start_soon(here, thread, question.id, moment)
    return outcomes | await elsewhere.outcomes(there)


async def judged(system: ActorSystem, outcomes: dict[str, str]) -> Counter[str]:
    """Wait until the threads have ended, and compare their state with what the person was told."""
    graph, seen = system.graphs["g"], Counter[str]()
    for thread, outcome in outcomes.items():
        while (state := await graph.aget_state(at(thread))).next:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        answer = YES if outcome == "won" else OWN_ANSWER
        right = state.values["log"] == ["slept", f"asked {answer}", "ended"]
        seen["races"] += 1
        seen["won by the person" if outcome == "won" else f"lost, {outcome}"] += 1
        seen["wrong"] += not right
        if not right:
            print(thread, outcome, state.values)
    return seen
