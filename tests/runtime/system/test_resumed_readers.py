"""Readers who come back: after a crash, a takeover, a drain, or events that could not be stored."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, InMemorySaver, SlowReaderError, StorageError
from actorgraph.runtime.system import stored_reader as stored_readers
from actorgraph.runtime.system.stored_reader import POLL_S, RemoteRun, StoredReader
from actorgraph.values.commits import CommitOutcome, Refused, Request
from actorgraph.values.systems import EventPage, EventRow, ReadEvents, RunEvent, StoreEvents
from tests.support.every_saver import Store
from tests.support.gates import PATIENCE_S, Turnstile, settled
from tests.support.graphs import in_a_row, writer
from tests.support.systems import kinds, place, system_of

__all__ = ["place"]


DRAIN_S = 0.1


class Forgetful(InMemorySaver):
    """A saver that stores runs and checkpoints, and no events while `loses` is true."""

    loses = False

    def commit_now(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        lost = [self.loses and isinstance(request, StoreEvents) for request in batch]
        kept = [request for request, gone in zip(batch, lost, strict=True) if not gone]
        outcomes = iter(super().commit_now(kept))
        error = StorageError("the disk is full", do="make room")
        return [Refused(error) if gone else next(outcomes) for gone in lost]


class Lives:
    """The lives of a run of three nodes, over one store; each waits at one of them.

    Args:
        saver: makes the saver of a life.
    """

    def __init__(self, saver: Callable[[], Any]) -> None:
        self._saver = saver
        self.slow = Turnstile()

    @asynccontextmanager
    async def system(self, stands_at: str = "") -> AsyncIterator[ActorSystem]:
        """The next life."""
        nodes: dict[str, Any] = {name: writer(name) for name in "abc"}
        if stands_at:
            self.slow = nodes[stands_at] = Turnstile({"bar": [stands_at]})
        graphs = {"g": in_a_row(nodes)}
        with anyio.fail_after(PATIENCE_S):
            async with ActorSystem(graphs, saver=self._saver(), drain_timeout_s=DRAIN_S) as made:
                yield made

    async def crashed(self, system: ActorSystem) -> None:
        """Wait for the place where the life waits, and end the run's lease."""
        await self.slow.entered.wait()
        await system._drop_lease(system._host)  # noqa: SLF001 - as when it is dead for long enough


async def following(events: Any, count: int) -> list[RunEvent]:
    """The next so many events."""
    return [await anext(events) for _ in range(count)]


class TestTakenUp:
    @pytest.mark.one_loop
    @pytest.mark.promise("E9")
    @pytest.mark.parametrize("resumable", [True, False])
    async def test_a_reader_that_came_before_the_run_sees_it_live(self, place: Store, resumable):
        """
        A reader of a dead process's run that is not yet taken over gets the gap, and all that
        happens from the moment at which it is taken up.
        """
        lives = Lives(place.again)
        async with lives.system("b") as first:
            run = await first.start("g", "t", {"bar": []}, resumable=resumable)
            await lives.crashed(first)
            before = await following(run.events(), 4)
            async with lives.system("b") as second:
                events = (await second.run(run.id)).events(after=before[-1].offset)
                told: list[RunEvent] = []

                async def read() -> None:
                    told.extend(await following(events, 3))

                async with anyio.create_task_group() as group:
                    group.start_soon(read)
                    await settled()
                    assert told == []
                    await second.recover()
                early = [event.kind for event in told]  # the run stands
                lives.slow.out.set()
                told += [event async for event in events]

        assert early == ["gap", "values", "metadata"]
        assert told[1].data["bar"] == ["a"]
        assert told[-1].kind == "end"
        offsets = [event.offset for event in (*before, *told)]
        assert not resumable or offsets == list(range(1, len(offsets) + 1))

    async def test_a_reader_keeps_its_policy(self, place: Store):
        """
        "close" closes it also where it has gone over to the run's new life.
        """
        lives = Lives(place.again)
        async with lives.system("b") as first:
            run = await first.start("g", "t", {"bar": []})
            await lives.crashed(first)
            async with lives.system() as second:
                events = (await second.run(run.id)).events(buffer=1, when_full="close")
                (again,) = await second.recover()
                await again.result()
                with pytest.raises(SlowReaderError):
                    await kinds(events)

    async def test_readers_of_another_process_run_are_notified_of_a_drain(self, place: Store):
        """
        A system that drains lets go of those who read what another one does.
        """
        lives = Lives(place.again)
        async with lives.system("b") as owner:
            run = await owner.start("g", "t", {"bar": []}, resumable=True)
            slow = lives.slow
            await slow.entered.wait()
            async with lives.system() as other:
                events = (await other.run(run.id)).events()
                await following(events, 4)
                await other.drain()
                rest = [event async for event in events]
            slow.out.set()

        assert [(event.kind, event.offset) for event in rest] == [("drain", 4)]


class TestWhoHasLostIt:
    async def test_readers_are_sent_on(self, place: Store):
        """
        A system whose run was taken over asks its readers to reconnect, and sends them no end;
        and who comes back gets it from where it went on.
        """
        lives = Lives(place.again)
        async with lives.system("b") as first:
            run = await first.start("g", "t", {"bar": []}, resumable=True)
            slow = lives.slow
            await lives.crashed(first)
            events = run.events()
            last = (await following(events, 4))[-1].offset
            async with lives.system() as second:
                (again,) = await second.recover()
                await again.result()
                slow.out.set()
                rest = [event async for event in events]
                found = await first.run(run.id)
                told = await kinds(found.events(after=rest[-1].offset))
                (listed,) = await first.runs(thread_id="t")

        assert rest[-1].kind == "drain"
        assert {event.offset for event in rest} == {last}
        assert (told[:3], told[-1]) == (["gap", "values", "metadata"], "end")
        assert (found.status, listed.status) == ("success", "success")


class TestUnstored:
    async def test_unstored_events_have_no_offset_of_their_own(self):
        """
        Events that could not be stored are reported, with the offset of the last one that was: a
        reader that reconnects in the run's next life gets the gap.
        """
        saver = Forgetful()
        lives = Lives(lambda: saver)
        async with lives.system("c") as first:
            run = await first.start("g", "t", {"bar": []}, resumable=True)
            await lives.slow.entered.wait()
            stored = (await following(run.events(), 6))[-1].offset
        async with lives.system("c") as second:
            saver.loses = True
            (again,) = await second.recover()
            events = again.events(after=stored)
            await lives.crashed(second)
            told = await following(events, 2)
            saver.loses = False
            async with lives.system() as third:
                (last,) = await third.recover()
                after = [event async for event in last.events(after=told[-1].offset)]

        assert [event.kind for event in told] == ["drain", "metadata"]
        assert told[-1].offset == told[0].offset
        assert [event.kind for event in after[:3]] == ["gap", "values", "metadata"]
        assert after[0].offset == told[-1].offset + 1

    @pytest.mark.parametrize("before", ["nothing", "a drain"])
    async def test_a_life_that_stored_no_event_is_a_gap(self, before):
        """
        It is reported although the newest event that is stored is none, or the drain of an earlier
        life that was left in order.
        """
        saver = Forgetful()
        lives = Lives(lambda: saver)
        if before == "a drain":
            async with lives.system("a") as first:
                await first.start("g", "t", {"bar": []}, resumable=True)
                await lives.slow.entered.wait()
        saver.loses = True
        async with lives.system("c") as second:
            if before == "nothing":
                await second.start("g", "t", {"bar": []}, resumable=True)
            else:
                await second.recover()
            await lives.crashed(second)
            saver.loses = False
            async with lives.system() as third:
                (run,) = await third.recover()
                events = [event async for event in run.events()]

        told = [event.kind for event in events if event.kind in ("gap", "metadata")]
        gap = next(number for number, event in enumerate(events) if event.kind == "gap")
        assert told[-2:] == ["gap", "metadata"]
        assert events[gap + 1].data["bar"] == ["a", "b"]

    async def test_a_drain_whose_events_were_not_stored_is_a_gap(self):
        """
        Its row does not say that the run was left in order, whatever the drain before it said.
        """
        saver = Forgetful()
        lives = Lives(lambda: saver)
        async with lives.system("a") as first:
            await first.start("g", "t", {"bar": []}, resumable=True)
            await lives.slow.entered.wait()
        saver.loses = True
        async with lives.system("b") as second:
            await second.recover()
            await lives.slow.entered.wait()
        saver.loses = False
        async with lives.system() as third:
            (run,) = await third.recover()
            told = await kinds(run.events())

        assert told.count("drain") == 1
        assert told.count("gap") == 1


class TestTheEndElsewhere:
    """Readers of a run in another process, whose row says first how it has left."""

    @pytest.fixture(autouse=True)
    def often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Look for the end every hundredth of a second."""
        monkeypatch.setattr(stored_readers, "POLL_S", 0.01)

    def reader(self, stored: list[RunEvent], *, alive: bool, comes: bool) -> StoredReader:
        looks = 0

        async def page(after: int) -> EventPage[RunEvent]:
            nonlocal looks
            looks += 1
            if comes and looks == 5:
                stored.append(RunEvent(2, "end", {"status": "success", "reason": ""}))
            return EventPage(event for event in stored if event.offset > after)

        async def values() -> Any:
            return {}

        async def is_over() -> bool:
            return True

        elsewhere = RemoteRun(
            page=page,
            is_over=is_over,
            is_alive=lambda: alive,
            left=lambda: {"status": "success", "reason": ""},
            values=values,
            live=lambda _: None,
            draining=lambda: None,
            pause=partial(anyio.sleep, POLL_S),
        )
        return StoredReader(elsewhere, 0)

    @pytest.mark.one_loop
    @pytest.mark.parametrize("alive", [True, False])
    @pytest.mark.parametrize("comes", [True, False])
    async def test_the_last_events_of_a_run_that_lives_are_waited_for(self, alive, comes):
        """
        A gap is sent only where they don't come any more.
        """
        stored = [RunEvent(1, "metadata", {})]
        told = await kinds(self.reader(stored, alive=alive, comes=comes))

        missing = ["metadata", "gap", "values", "end"]
        assert told == (["metadata", "end"] if alive and comes else missing)


class TestTheEndOfBoth:
    """Readers that got the end of a run whose events aren't stored from another process."""

    @pytest.mark.parametrize("fails", [False, True])
    async def test_nothing_comes_again(self, place: Store, fails):
        """
        With the offset of the state before that end the process that had the run sends what is
        left, and with that of the end nothing.
        """

        def say(state: Any) -> Any:
            if fails:
                raise ValueError("no")
            return {"bar": ["a"]}

        async with system_of(place, in_a_row({"a": say})) as owner:
            run = await owner.start("g", "t", {"bar": []})
            await run.wait()
            async with system_of(place, in_a_row({"a": say})) as other:
                elsewhere = await other.run(run.id)
                told = [event async for event in elsewhere.events(after=2)]
            left = [
                [(event.kind, event.offset) async for event in run.events(after=event.offset)]
                for event in (told[1], told[-1])
            ]

        assert [event.kind for event in told[:2]] == ["gap", "values"]
        assert left == [[(event.kind, event.offset) for event in told[2:]], []]
        assert [kind for kind, _ in left[0]] == ["error"] * fails + ["end"]


class TestLooks:
    """How often a reader of a run in another process reads its events and its row."""

    @pytest.fixture(autouse=True)
    def nothing(self) -> None:
        """Nothing was stored, read or waited for yet."""
        self.stored = [RunEvent(1, "metadata", {})]
        self.asked: list[str] = []
        self.is_full = False
        self.coming = [RunEvent(2, "updates", {}), RunEvent(3, "end", {})]

    def reader(self, is_over: Any) -> StoredReader:
        async def page(after: int) -> EventPage[RunEvent]:
            self.asked.append("page")
            found = EventPage(event for event in self.stored if event.offset > after)
            found.is_full = self.is_full
            self.is_full = False
            return found

        async def over() -> bool:
            self.asked.append("row")
            return is_over()

        async def pause() -> None:
            self.asked.append("pause")
            self.stored.append(self.coming.pop(0))

        async def values() -> Any:
            return {}

        elsewhere = RemoteRun(
            page=page,
            is_over=over,
            is_alive=lambda: False,
            left=lambda: {"status": "success", "reason": ""},
            values=values,
            live=lambda _: None,
            draining=lambda: None,
            pause=pause,
        )
        return StoredReader(elsewhere, 0)

    async def test_a_reader_reads_once_for_each_news(self):
        """
        After events it waits for news at once; it reads the row when the run has ended.
        """
        told = await kinds(self.reader(lambda: False))

        assert told == ["metadata", "updates", "end"]
        assert self.asked == ["page", "pause", "page", "pause", "page", "row"]

    async def test_a_reader_reads_on_after_a_full_page(self):
        """
        After a page that ended at its bounds it doesn't wait for news: more may be stored.
        """
        self.is_full = True
        told = await kinds(self.reader(lambda: False))

        assert told == ["metadata", "updates", "end"]
        assert self.asked[:3] == ["page", "page", "row"]

    def test_a_page_ends_at_its_bytes(self):
        """
        The event that reaches the bytes is the last one; one event may be of any size.
        """
        rows = [EventRow(n, n, b"x" * 10) for n in range(1, 10)]

        def cut(limit: int, bytes_max: int | None):
            page = ReadEvents(b"", "t", 0, limit, bytes_max=bytes_max).cut(rows)
            return len(page), page.is_full

        assert cut(20, 20) == (2, True)
        assert cut(20, 1) == (1, True)
        assert cut(3, None) == (3, True)
        assert cut(20, 1000) == (9, False)

    async def test_events_stored_just_before_the_end_are_read(self):
        """
        Events that were stored after an empty page, and before the row said that the run is over,
        are not missing.
        """
        self.stored, self.coming = [], [RunEvent(1, "updates", {}), RunEvent(2, "end", {})]

        def is_over() -> bool:
            self.stored += self.coming
            self.coming = []
            return True

        assert await kinds(self.reader(is_over)) == ["updates", "end"]
