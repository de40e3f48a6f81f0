"""Crash points of systems with alarms: fail at the k-th operation, go on with a new system, judge.

Time is a clock that the test moves, so that days pass; what is stored is in memory. One thread
answers itself, a person answers the question of another one between its reminders.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.errors import ActorGraphError
from actorgraph.testing import FaultPlan, FaultySaver, ManualClock
from actorgraph.values.alarms import ListAlarms
from actorgraph.values.commits import Query
from actorgraph.values.systems import DropOwner, ListOwners
from tests.faults.crashes import WHENS
from tests.faults.stores import numbers
from tests.faults.timed_graph import ROUND, InMemory, Times, timed_graph, told_early
from tests.support.graphs import at

HOUR = timedelta(hours=1)
TIMES = Times(HOUR, (4 * HOUR, 24 * HOUR), 72 * HOUR)
ALONE, ASKED = "alone", "asked"
"""The thread that nobody answers, and the one that a person does."""
YES = "yes"
ENDS = {ALONE: [*ROUND], ASKED: ["slept", f"asked {YES}", "ended"]}
JUDGED = ("lost", "answered twice", "early", "reminders lost", "reminded too often", "alarms left")
"""Counters that must be 0 at every point."""


class Saver(FaultySaver):
    """A saver of systems with alarms that fails at a commit, and then at all that is asked of it.

    Queries before that aren't counted: a crash at one leaves what a crash before the next commit
    leaves.
    """

    keeps_runs = True
    keeps_alarms = True

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        return await (super() if self.plan.fired else self.saver).query(queries)


class Lives:
    """A program over one store, which may crash and is started again.

    Attributes:
        told: what its nodes did, in all lives.
    """

    def __init__(self) -> None:
        self.told = InMemory()
        self._store = InMemorySaver()
        self._clock = ManualClock()

    async def live(self, plan: FaultPlan | None = None) -> None:
        """Go on until both threads have ended, or the store fails.

        Raises:
            ActorGraphError: the store has failed.
        """
        saver = Saver(self._store, plan, immediate=False)
        # A store that has failed answers nothing, which need not be waited for.
        patience_s = 5.0 if plan is None else 0.3
        self._clock = ManualClock(saver, start=self._clock.now, patience_s=patience_s)
        graph = timed_graph(self.told, TIMES, lambda: self._now)
        system = ActorSystem({"g": graph}, saver=saver, attempts_max=10**6)
        async with system:
            for name in ENDS:
                state = await system.graphs["g"].aget_state(at(name))
                if state.created_at is None and not await system.runs(thread_id=name):
                    await system.start("g", name, {"log": []})
            await system.recover()
            for _ in range(60):
                await self._clock.advance(3 * HOUR)
                if not await self._wait(system):
                    return
                await self._answer(system)
        raise AssertionError("it never ends")

    @property
    def _now(self) -> int:
        return int(self._clock.now.timestamp() * 1_000_000)

    async def _wait(self, system: ActorSystem) -> bool:
        states = [await system.graphs["g"].aget_state(at(name)) for name in ENDS]
        return any(state.next or state.created_at is None for state in states)

    async def _answer(self, system: ActorSystem) -> None:
        """A person answers once the question has reminded."""
        state = await system.graphs["g"].aget_state(at(ASKED))
        reminded = any(words[:2] == ["reminds", ASKED] for words in self.told.lines)
        if "asked" in state.next and state.interrupts and reminded:
            run = await system.resume("g", ASKED, answers={state.interrupts[0].id: YES})
            await run.wait()

    async def stored(self) -> dict[str, list[str] | None]:
        """The log of each thread; None if it has not ended."""
        graph = timed_graph(self.told, TIMES, lambda: 0)
        async with Saver(self._store) as saver, ActorSystem({"g": graph}, saver=saver) as system:
            states = {name: await system.graphs["g"].aget_state(at(name)) for name in ENDS}
        return {name: None if s.next else s.values.get("log") for name, s in states.items()}

    def alarms(self) -> int:
        """How many threads have an alarm."""
        (rows,) = self._store.query_now([ListAlarms(("g", "LangGraph"), 99)])
        return len(rows)

    def bury(self) -> None:
        """End the leases of systems that have died, as their time does."""
        (rows,) = self._store.query_now([ListOwners()])
        self._store.commit_now([DropOwner(row.owner) for row in rows])


async def crash_everywhere(part: tuple[int, int] = (0, 1)) -> Counter[str]:
    """Every crash point, before and after; or only a part of them.

    Returns: how many points, and how many of each of `JUDGED`.
    """
    seen: Counter[str] = Counter()
    for when in WHENS:
        for k in numbers(part):
            plan = FaultPlan(k, when)
            found = await crash_at(plan)
            if not plan.fired:
                break
            bad = {name: found[name] for name in JUDGED if found[name]}
            if bad:
                print(f"{when} operation {k} {plan.operations[k - 1]}: {bad}")
            seen += found
    return seen


async def crash_at(plan: FaultPlan) -> Counter[str]:
    """One crash, and what came of it."""
    lives = Lives()
    with suppress(ActorGraphError):
        await lives.live(plan)
    lives.bury()
    await lives.live()
    seen = judged(lives.told.lines, await lives.stored())
    seen["alarms left"] = lives.alarms()
    return seen + Counter({"points": int(plan.fired)})


def judged(lines: list[list[str]], stored: dict[str, list[str] | None]) -> Counter[str]:
    """Compare what is stored with what happened."""
    seen: Counter[str] = Counter(early=told_early(lines, TIMES))
    for name, log in ENDS.items():
        seen["lost"] += stored[name] != log
        answers = {words[3] for words in lines if words[:2] == ["answered", name]}
        seen["answered twice"] += len(answers) != 1
        calls = Counter(words[3] for words in lines if words[:2] == ["reminds", name])
        wanted = 2 if name == ALONE else 1
        seen["reminders lost"] += sum(str(n) not in calls for n in range(1, wanted + 1))
        again = calls.total() - len(calls)
        seen["reminded again"] += again
        seen["reminded too often"] += max(again - 1, 0) + max(len(calls) - wanted, 0)
    return seen
