"""The contract of dispatchers, as checks for an adapter of your own.

    @pytest.mark.parametrize("check", dispatcher_checks(), ids=lambda check: check.__name__)
    async def test_my_dispatcher(check):
        place = DispatchPlace(make_dispatcher, make_saver, again_s=2.0)
        await check(place)

A check raises AssertionError if a dispatcher breaks the contract. Groups:

link     hints and news between two links
systems  runs of whole ActorSystems that use the dispatcher
engine   an engine that goes away, and messages of others in it; only if they are asked for, because
         the place has to offer both: `dispatcher_checks("engine")`
"""

import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import (
    AsyncExitStack,
    asynccontextmanager,
)
from typing import Any, TypedDict

import anyio
import msgspec

from actorgraph.api.system.system import ActorSystem
from actorgraph.graph import StateGraph
from actorgraph.ports import Dispatcher, DispatchLink, Saver
from actorgraph.runtime.mailbox import Mailbox
from actorgraph.testing.dispatch_place import (
    PATIENCE_S,
    DispatchPlace,
    hints,
    linked,
    none_left,
)
from actorgraph.testing.engine_checks import ENGINE_CHECKS
from actorgraph.values.dispatch import Hint, News
from actorgraph.values.ids import as_bytes

DispatcherCheck = Callable[[DispatchPlace], Awaitable[None]]
_GROUPS: dict[str, list[DispatcherCheck]] = {
    "link": [],
    "systems": [],
    "engine": list(ENGINE_CHECKS),
}
_DEFAULT = ("link", "systems")


def dispatcher_checks(*groups: str) -> list[DispatcherCheck]:
    """The checks of these groups; by default of `link` and `systems`."""
    return [check for group in groups or _DEFAULT for check in _GROUPS[group]]


def _in(group: str) -> Callable[[DispatcherCheck], DispatcherCheck]:
    def add(check: DispatcherCheck) -> DispatcherCheck:
        _GROUPS[group].append(check)
        return check

    return add


async def _take(link: DispatchLink, queues: Sequence[str], count: int) -> list[Hint]:
    """Take and settle hints until as many have come."""
    found: list[Hint] = []
    with anyio.fail_after(PATIENCE_S):
        while len(found) < count:
            taken = await link.take(queues, count)
            assert 1 <= len(taken) <= count, f"take(limit={count}) returned {len(taken)} hints"
            await link.settle(taken)
            found += taken
    return found


@_in("link")
async def hints_reach_a_taker_of_their_queue(place: DispatchPlace) -> None:
    """Each announced hint is delivered, whole, to a taker of its queue and to no other."""
    async with linked(place) as one, linked(place) as other:
        sent, elsewhere = hints(20), hints(3, "other@v2!")
        await one.link.announce([*sent, *elsewhere])
        found = await _take(other.link, ["g", "absent"], 20)
        assert {(h.run, h.queue) for h in found} == {(h.run, h.queue) for h in sent}
        assert {h.run for h in await _take(one.link, ["other@v2!"], 3)} == {
            h.run for h in elsewhere
        }


@_in("link")
async def a_waiting_taker_is_woken(place: DispatchPlace) -> None:
    """A hint that is announced while a system waits reaches it."""
    (sent,) = hints(1)
    async with linked(place) as one, linked(place) as other:
        found: list[Hint] = []

        async def take() -> None:
            found.extend(await _take(other.link, ["g"], 1))

        async with anyio.create_task_group() as group:
            group.start_soon(take)
            await anyio.sleep(0.2)
            await one.link.announce([sent])
        assert [h.run for h in found] == [sent.run]


@_in("link")
async def a_settled_hint_does_not_come_again(place: DispatchPlace) -> None:
    """A settled hint is over, also after the time at which unsettled hints come again."""
    async with linked(place) as one:
        await one.link.announce(hints(5))
        await _take(one.link, ["g"], 5)
        await none_left(one.link, ["g"], place.again_s * 1.5)


@_in("link")
async def an_unsettled_hint_comes_again(place: DispatchPlace) -> None:
    """A hint whose taker has gone without settling it is delivered to another system."""
    sent = hints(3)
    async with linked(place) as one:
        async with linked(place) as gone:
            await one.link.announce(sent)
            taken: list[Hint] = []
            with anyio.fail_after(PATIENCE_S):
                while len(taken) < 3:
                    taken += await gone.link.take(["g"], 3)
        found = await _take(one.link, ["g"], 3)
        assert {h.run for h in found} == {h.run for h in sent}


@_in("link")
async def a_released_hint_comes_again_at_once(place: DispatchPlace) -> None:
    """A hint that its taker gives back is delivered to another system, long before `again_s`."""
    sent = hints(3)
    async with linked(place) as one, linked(place) as other:
        await one.link.announce(sent)
        taken: list[Hint] = []
        with anyio.fail_after(PATIENCE_S):
            while len(taken) < 3:
                taken += await other.link.take(["g"], 3)
        await other.link.release(taken)
        with anyio.fail_after(place.again_s):
            found = await _take(one.link, ["g"], 3)
        assert {h.run for h in found} == {h.run for h in sent}


@_in("link")
async def a_run_is_announced_again_after_it_was_settled(place: DispatchPlace) -> None:
    """A run that loses its system gets a hint in another queue, however soon after the first."""
    async with linked(place) as one:
        (sent,) = hints(1)
        await one.link.announce([sent])
        await _take(one.link, ["g"], 1)
        await one.link.announce([msgspec.structs.replace(sent, queue="g!", priority=100)])
        assert [h.run for h in await _take(one.link, ["g!", "g"], 1)] == [sent.run]


@_in("link")
async def a_rescue_has_a_hint_beside_an_old_one(place: DispatchPlace) -> None:
    """A hint that still waits in one queue does not keep the same run's out of another one."""
    async with linked(place) as one:
        (sent,) = hints(1)
        await one.link.announce([sent])
        await one.link.announce([msgspec.structs.replace(sent, queue="g!", priority=100)])
        assert [h.run for h in await _take(one.link, ["g!"], 1)] == [sent.run]


@_in("link")
async def a_settled_run_is_announced_again_in_its_queue(place: DispatchPlace) -> None:
    """A run that had to wait for its thread gets a second hint at once, however soon it is."""
    async with linked(place) as one:
        (sent,) = hints(1)
        for _ in range(3):
            await one.link.announce([sent])
            with anyio.fail_after(place.again_s):
                assert [h.run for h in await _take(one.link, ["g"], 1)] == [sent.run]


@_in("link")
async def a_hint_waits_for_its_time(place: DispatchPlace) -> None:
    """A hint with a time is not delivered before that."""
    async with linked(place) as one:
        due = time.time() + 1.0
        later = Hint(os.urandom(16), "g", due=int(due * 1e6))
        await one.link.announce([later, *hints(1)])
        first, second = await _take(one.link, ["g"], 2)
        assert (first.run != later.run, second.run) == (True, later.run)
        assert time.time() >= due - 0.01, "delivered too early"


@_in("link")
async def a_cancelled_take_loses_no_hint(place: DispatchPlace) -> None:
    """A hint that comes after a cancelled `take` is delivered to the next one."""
    async with linked(place) as one:
        for _ in range(3):
            with anyio.move_on_after(0.05):
                await one.link.take(["g"], 1)
        (sent,) = hints(1)
        await one.link.announce([sent])
        assert [h.run for h in await _take(one.link, ["g"], 1)] == [sent.run]


@_in("link")
async def a_take_cancelled_at_its_answer_loses_no_hint(place: DispatchPlace) -> None:
    """Hints of calls that are cancelled when they come are delivered at once, not by `again_s`."""
    async with linked(place) as one:
        sent, found = hints(30), set[bytes]()
        for number, hint in enumerate(sent):
            await one.link.announce([hint])
            with anyio.move_on_after(0.0004 * number):
                found |= {h.run for h in await one.link.take(["g"], 30)}
        with anyio.fail_after(place.again_s / 2):
            while len(found) < len(sent):
                found |= {h.run for h in await one.link.take(["g"], 30)}


@_in("link")
async def two_takers_share_the_hints(place: DispatchPlace) -> None:
    """Of many hints each is delivered; hardly one twice."""
    async with linked(place) as one, linked(place) as other:
        sent, found = hints(100), Counter[bytes]()

        async def take(link: DispatchLink) -> None:
            while len(found) < len(sent):
                with anyio.move_on_after(0.5):
                    taken = await link.take(["g"], 7)
                    await link.settle(taken)
                    found.update(h.run for h in taken)

        await one.link.announce(sent)
        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(take, one.link)
                group.start_soon(take, other.link)
        assert found.keys() == {h.run for h in sent}
        twice = sum(count > 1 for count in found.values())
        assert twice <= len(sent) // 10, f"{twice} of {len(sent)} hints were delivered twice"


@_in("link")
async def a_take_has_at_most_its_limit(place: DispatchPlace) -> None:
    """A taker gets no more hints than it asks for, however many wait."""
    async with linked(place) as one:
        sent = hints(20)
        await one.link.announce(sent)
        found = [hint.run for _ in range(5) for hint in await _take(one.link, ["g"], 4)]
        assert sorted(found) == sorted(h.run for h in sent)


@_in("link")
async def news_reach_all_systems(place: DispatchPlace) -> None:
    """News reach every link, the publisher's included, with all of their ids."""
    async with linked(place) as one, linked(place) as other:
        stored = tuple(os.urandom(16) for _ in range(1000))
        cancelled = (os.urandom(16),)
        await one.link.publish(News(stored, cancelled))
        for each in (one, other):
            seen: list[tuple[str, bytes]] = []
            with anyio.fail_after(PATIENCE_S):
                while len(seen) < 1001:
                    news = await each.heard.get()
                    seen += [("s", run) for run in news.stored]
                    seen += [("c", run) for run in news.cancelled]
            wanted = [*(("s", run) for run in stored), ("c", cancelled[0])]
            assert sorted(seen) == sorted(wanted)


class _Fed:
    """A dispatcher whose system takes the hints that a check gives it, and no others.

    Attributes:
        given: hints for the next calls of `take`.
    """

    in_commit = False

    def __init__(self, inner: Dispatcher) -> None:
        self._inner = inner
        self.given: Mailbox[Sequence[Hint]] = Mailbox()

    async def open(self, saver: Saver, heard: Callable[[News], None]) -> DispatchLink:
        link = await self._inner.open(saver, heard)
        self.close, self.announce, self.publish = link.close, link.announce, link.publish
        return self

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        return await self.given.get()

    async def settle(self, hints: Sequence[Hint]) -> None:
        pass

    async def release(self, hints: Sequence[Hint]) -> None:
        pass


class _State(TypedDict):
    log: list[str]


class _Workers:
    """ActorSystems over one place: an acceptor and workers, with a record of what they ran.

    Attributes:
        began: each start of a run: the number of its system, and its name.
        active, most: number of a system -> runs in their first node, now and at most.
    """

    def __init__(self, place: DispatchPlace) -> None:
        self._place = place
        self.began: list[tuple[int, str]] = []
        self.active: Counter[int] = Counter()
        self.most: Counter[int] = Counter()

    def _graph(self, number: int) -> Any:
        async def first(state: _State) -> dict[str, Any]:
            self.began.append((number, state["log"][0]))
            self.active[number] += 1
            self.most[number] = max(self.most[number], self.active[number])
            await anyio.sleep(0.01)
            self.active[number] -= 1
            return {"log": [*state["log"], "first"]}

        async def second(state: _State) -> dict[str, Any]:
            return {"log": [*state["log"], "second"]}

        graph = StateGraph(_State)
        graph.add_node("first", first)
        graph.add_node("second", second)
        graph.add_edge("__start__", "first")
        graph.add_edge("first", "second")
        graph.add_edge("second", "__end__")
        return graph.compile()

    @asynccontextmanager
    async def system(
        self, number: int, role: Any, saver: Any = None, **options: Any
    ) -> AsyncGenerator[ActorSystem]:
        """Open a system, over a saver of its own unless one is given."""
        dispatcher = options.pop("dispatcher", None) or self._place.dispatcher()
        saver = saver or self._place.saver()
        graphs = {"g": self._graph(number)}
        async with ActorSystem(
            graphs, saver=saver, dispatcher=dispatcher, role=role, lease_s=6.0, **options
        ) as system:
            yield system


async def _ended(runs: Sequence[Any]) -> None:
    with anyio.fail_after(PATIENCE_S):
        for run in runs:
            assert (await run.result())["log"][1:] == ["first", "second"]


@_in("systems")
async def every_accepted_run_is_run_once(place: DispatchPlace) -> None:
    """Runs that one system accepts are run by the others, each once."""
    made = _Workers(place)
    async with (
        made.system(0, "accept") as web,
        made.system(1, "work"),
        made.system(2, "work"),
    ):
        runs = [await web.start("g", None, {"log": [str(n)]}) for n in range(60)]
        await _ended(runs)
    assert sorted(int(name) for _, name in made.began) == list(range(60))


@_in("systems")
async def workers_that_race_for_a_run_claim_it_once(place: DispatchPlace) -> None:
    """Of workers that get a hint of one run at the same time, one claims it."""
    made, fed = _Workers(place), [_Fed(place.dispatcher()) for _ in range(3)]
    async with made.system(0, "accept") as web, AsyncExitStack() as stack:
        runs = [await web.start("g", None, {"log": [str(n)]}) for n in range(40)]
        one = await stack.enter_async_context(linked(place))
        hints = await _take(one.link, ["g"], len(runs))
        workers = [
            await stack.enter_async_context(made.system(n, "work", dispatcher=dispatcher))
            for n, dispatcher in enumerate(fed, start=1)
        ]
        for start in range(0, len(hints), 5):
            for dispatcher in fed:
                dispatcher.given.put(hints[start : start + 5])
        await _ended(runs)
        claims = sum([(await worker.dispatch_statistics()).claimed for worker in workers])
    twice = [name for name, count in Counter(name for _, name in made.began).items() if count > 1]
    assert not twice, f"runs {twice} were begun twice"
    assert claims == len(runs), f"{len(runs)} runs were claimed {claims} times"


@_in("systems")
async def runs_of_a_thread_are_run_in_order(place: DispatchPlace) -> None:
    """Runs of one thread never overlap, and begin in the order in which they were accepted."""
    made = _Workers(place)
    async with (
        made.system(0, "accept") as web,
        made.system(1, "work"),
        made.system(2, "work"),
    ):
        runs = [
            await web.start("g", f"t{t}", {"log": [f"{t} {n}"]}, if_busy="enqueue")
            for n in range(4)
            for t in range(5)
        ]
        with anyio.fail_after(PATIENCE_S):
            for run in runs:
                assert await run.wait() == "success"
    for t in range(5):
        names = [name for _, name in made.began if name.startswith(f"{t} ")]
        assert names == [f"{t} {n}" for n in range(4)]


@_in("systems")
async def runs_wait_for_a_worker(place: DispatchPlace) -> None:
    """Runs that are accepted while no worker is there are run by one that comes later."""
    made = _Workers(place)
    async with made.system(0, "accept") as web:
        runs = [await web.start("g", None, {"log": [str(n)]}) for n in range(5)]
        async with made.system(1, "work"):
            await _ended(runs)


@_in("systems")
async def workers_keep_the_limit_of_a_graph(place: DispatchPlace) -> None:
    """Workers with a limit give back the hints that they have no room for, and run all runs."""
    made, limit = _Workers(place), {"max_runs_of": {"g": 2}}
    async with (
        made.system(0, "accept") as web,
        made.system(1, "work", **limit),
        made.system(2, "work", **limit),
    ):
        runs = [await web.start("g", None, {"log": [str(n)]}) for n in range(40)]
        await _ended(runs)
    assert sorted(int(name) for _, name in made.began) == list(range(40))
    assert max(made.most.values()) <= 2, f"systems had {made.most} runs of a graph at a time"


@_in("systems")
async def a_closing_worker_hands_its_runs_over(place: DispatchPlace) -> None:
    """The runs that a worker leaves at its end are continued by another one, none begun twice."""
    made = _Workers(place)
    async with made.system(0, "accept") as web:
        async with made.system(1, "work", max_runs=4):
            runs = [await web.start("g", None, {"log": [str(n)]}) for n in range(30)]
        async with made.system(2, "work"):
            await _ended(runs)
    assert max(Counter(name for _, name in made.began).values()) == 1


@_in("systems")
async def a_waiting_run_can_be_cancelled(place: DispatchPlace) -> None:
    """A run that no worker has ends at once when it is cancelled, and is never begun."""
    made = _Workers(place)
    async with made.system(0, "accept") as web:
        run = await web.start("g", None, {"log": ["never"]})
        with anyio.fail_after(PATIENCE_S):
            assert await run.cancel("changed my mind") == "cancelled"
        async with made.system(1, "work"):
            await _ended([await web.start("g", None, {"log": ["other"]})])
    assert [name for _, name in made.began] == ["other"]


@_in("systems")
async def a_system_that_closes_leaves_others_in_order(place: DispatchPlace) -> None:
    """Of two systems on one saver, the one that stays gets the hints of what it accepts sent."""
    made, saver = _Workers(place), place.saver()
    async with made.system(0, "accept", saver) as stays:
        async with made.system(0, "accept", saver):
            pass
        async with linked(place) as other:
            run = await stays.start("g", None, {"log": ["x"]})
            with anyio.fail_after(place.again_s):
                assert [h.run for h in await _take(other.link, ["g"], 1)] == [as_bytes(run.id)]
