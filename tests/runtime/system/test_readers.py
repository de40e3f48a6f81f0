"""Readers of a system's runs: slow ones, late ones, those in another process."""

from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, InMemorySaver, SlowReaderError, get_stream_writer
from actorgraph.runtime.system.journal import HELD_S_MAX, EventReader, Journal
from tests.support.abandoned_iterators import ours
from tests.support.every_saver import Store
from tests.support.gates import Turnstile, settled
from tests.support.graphs import ab, chain, in_a_row, writer
from tests.support.systems import kinds, place, system_of
from tests.support.virtual_time import in_virtual_time

pytestmark = pytest.mark.every_saver

__all__ = ["place"]


class TestReaders:
    async def test_a_gap_is_sent_with_the_state(self, place: Store):
        """
        A reader for which events are gone gets a gap and the full values, then goes on.
        """
        async with system_of(place, chain("abcdef"), keep_events_in_memory=3) as system:
            run = await system.start("g", "t", {"bar": []})
            await run.result()
            events = [event async for event in run.events(after=1)]

        assert [e.kind for e in events[:2]] == ["gap", "values"]
        assert events[0].data == {"from": 2, "to": events[2].offset - 1}
        assert events[1].data["bar"] == list("abcdef")
        assert [e.offset for e in events[2:]] == list(
            range(events[2].offset, events[-1].offset + 1)
        )
        assert events[-1].kind == "end"

    async def test_a_run_waits_for_a_reader_that_blocks(self, place: Store):
        """
        "block" lets no event be lost: the run goes on when the reader has caught up.
        """
        log, slow = [], Turnstile({"bar": ["s"]})
        graph = in_a_row({"s": slow, **{name: writer(name, log) for name in "abcdef"}})
        async with system_of(place, graph, keep_events_in_memory=4) as system:
            run = await system.start("g", "t", {"bar": []})
            await slow.entered.wait()
            reader = run.events(buffer=2, when_full="block")
            slow.out.set()
            await settled()
            assert log != list("abcdef")
            assert "gap" not in await kinds(reader)

        assert log == list("abcdef")

    async def test_a_cancelled_task_that_is_kept_holds_no_run(self, place: Store):
        """
        Its frames hold the reader that it was cancelled in; the run goes on all the same.
        """
        slow, kept = Turnstile({"bar": ["s"]}), []
        graph = in_a_row({"s": slow, **{name: writer(name) for name in "abcdef"}})

        async def read(run: Any) -> None:
            try:
                async for _ in run.events(buffer=1, when_full="block"):
                    pass
            except anyio.get_cancelled_exc_class() as error:
                kept.append(error)
                raise

        async with system_of(place, graph) as system:
            run = await system.start("g", "t", {"bar": []})
            async with anyio.create_task_group() as group:
                group.start_soon(read, run)
                await slow.entered.wait()
                await settled()
                group.cancel_scope.cancel()
            slow.out.set()
            assert await run.wait() == "success"

        assert len(kept) == 1
        kept.clear()

    async def test_five_thousand_left_readers_leave_nothing(self, place: Store):
        """
        Readers and followers that were left by `break` are gone while their run goes on.
        """
        slow = Turnstile({"bar": ["s"]})
        async with system_of(place, in_a_row({"s": slow})) as system:
            run = await system.start("g", "t", {"bar": []})
            await slow.entered.wait()
            before = ours()
            for number in range(5000):
                async for _ in run.events(when_full="block" if number % 2 else "drop_oldest"):
                    break
            for _ in range(500):
                async for _ in system.follow("t"):
                    break
            grown = ours() - before
            slow.out.set()
            await run.result()

        assert {kind: count for kind, count in grown.items() if count > 50} == {}

    async def test_a_slow_reader_may_be_closed(self, place: Store):
        """
        "close" ends the reader, not the run.
        """
        async with system_of(place, chain("abcdef")) as system:
            run = await system.start("g", "t", {"bar": []})
            reader = run.events(buffer=2, when_full="close")
            await run.result()
            with pytest.raises(SlowReaderError):
                await kinds(reader)

        assert run.status == "success"

    @pytest.mark.promise("E9")
    async def test_a_resumable_run_has_all_its_events(self, place: Store):
        """
        They come out of the store where memory has them no more, each once.
        """
        async with system_of(place, chain("abcdef"), keep_events_in_memory=1) as system:
            run = await system.start("g", "t", {"bar": []}, resumable=True)
            await run.result()
            events = [event async for event in run.events(after=2)]

        assert "gap" not in [event.kind for event in events]
        assert [e.offset for e in events] == list(range(3, events[-1].offset + 1))

    async def test_events_of_a_run_that_has_ended_elsewhere(self, tmp_path):
        """
        Another system on the saver reads the same events, status and result.
        """
        place = Store("sqlite", tmp_path)
        async with system_of(place, ab()) as system:
            run = await system.start("g", "t", {"bar": []}, resumable=True, metadata={"k": 1})
            await run.result()
            events = [event async for event in run.events()]
        async with system_of(place, ab()) as system:
            found = await system.run(run.id)
            again = [event async for event in found.events()]
            result = await found.result()

        assert again == events
        assert (found.status, found.metadata, found.thread_id) == ("success", {"k": 1}, "t")
        assert result["bar"] == ["a", "b"]

    async def test_stored_events_are_bounded(self, place: Store):
        """
        The store keeps the newest events of a run; what is older becomes a gap.
        """
        options = {"keep_events_in_memory": 1, "keep_events": 4}
        async with system_of(place, chain("abcdef"), **options) as system:
            run = await system.start("g", "t", {"bar": []}, resumable=True)
            await run.result()
            events = [event async for event in run.events()]

        assert [e.kind for e in events[:2]] == ["gap", "values"]
        assert len(events) == 2 + 4

    async def test_a_run_waits_for_the_store_as_long_as_that_takes(self, place: Store, monkeypatch):
        """
        While more events wait to be stored than may, the run does, also without a reader.
        """
        monkeypatch.setattr("actorgraph.runtime.system.stored_events.WAITING_MAX", 4)

        async def flood(state: Any) -> dict[str, Any]:
            write = get_stream_writer()
            for number in range(50):
                await write.asend(number)
            return {"bar": ["a"]}

        async with system_of(place, in_a_row({"a": flood})) as system:
            run = await system.start("g", "t", {"bar": []}, resumable=True, stream_mode=["custom"])
            assert (await run.result())["bar"] == ["a"]
            told = await kinds(run.events())

        assert told == ["metadata", *["custom"] * 50, "end"]


def test_a_reader_goes_on_in_another_loop():
    """
    A reader that waited in one event loop waits in the next one, as blocking programs have them.
    """
    journal = Journal(frozenset({"custom"}))
    reader = EventReader(journal, 0, buffer=10)

    async def read() -> list[int]:
        batches: list[int] = []

        async def one() -> None:
            batches.extend(event.data for event in await reader.batch())

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            await settled()
            journal.add("custom", 1)
        return batches

    assert [anyio.run(read), anyio.run(read)] == [[1], [1]]


class TestBatches:
    @pytest.mark.parametrize("resumable", [False, True])
    async def test_batches_are_the_events(self, place: Store, resumable):
        """
        Batches of any size have the events that a loop over them has, in their order.
        """
        async with system_of(place, chain("abcdef")) as system:
            run = await system.start("g", "t", {"bar": []}, resumable=resumable)
            await run.result()
            events = [event async for event in run.events()]
            for most in (1, 3, 64):
                reader, taken = run.events(), []
                while batch := await reader.batch(most):
                    assert len(batch) <= most
                    assert reader.offset == batch[-1].offset
                    taken += batch
                assert taken == events
                assert await reader.batch() == []

        assert events[-1].kind == "end"

    async def test_a_batch_has_all_that_is_there(self, place: Store):
        """
        Events that came while the reader was busy are one batch; then it waits for the next one.
        """
        slow = Turnstile({"bar": ["s"]})
        async with system_of(place, in_a_row({"a": writer("a"), "s": slow})) as system:
            run = await system.start("g", "t", {"bar": []}, stream_mode="updates")
            await slow.entered.wait()
            await settled()
            reader = run.events()
            assert [e.kind for e in await reader.batch()] == ["metadata", "updates"]
            slow.out.set()
            assert (await reader.batch())[0].kind == "updates"

    async def test_batches_of_a_run_that_has_ended_elsewhere(self, tmp_path):
        """
        A reader in another process gets the stored events in batches, and then none.
        """
        store = Store("sqlite", tmp_path)
        async with system_of(store, chain("abcdef")) as system:
            run = await system.start("g", "t", {"bar": []}, resumable=True)
            await run.result()
            events = [event async for event in run.events()]
        async with system_of(store, chain("abcdef")) as system:
            reader = (await system.run(run.id)).events(after=2)
            first = await reader.batch(4)
            assert (first, reader.offset) == (events[2:6], events[5].offset)
            assert await reader.batch() == events[6:]
            assert await reader.batch() == []

    async def test_a_run_waits_for_a_reader_of_batches(self, place: Store):
        """
        "block" holds the run until a batch is taken, and no event is lost.
        """
        log, slow = [], Turnstile({"bar": ["s"]})
        graph = in_a_row({"s": slow, **{name: writer(name, log) for name in "abcdef"}})
        async with system_of(place, graph, keep_events_in_memory=4) as system:
            run = await system.start("g", "t", {"bar": []})
            await slow.entered.wait()
            reader = run.events(buffer=2, when_full="block")
            slow.out.set()
            await settled()
            assert log != list("abcdef")
            read = []
            while batch := await reader.batch():
                read += [event.kind for event in batch]

        assert "gap" not in read
        assert log == list("abcdef")


class TestPatience:
    """In a loop whose time passes when all wait."""

    def test_a_reader_that_takes_nothing_holds_its_run_for_a_while(self):
        """
        A reader that is kept and not read any more is let go; read again, it goes on.
        """

        async def main() -> None:
            graph = chain("abcdef")
            async with ActorSystem({"g": graph}, saver=InMemorySaver(), lease_s=3600) as system:
                run = await system.start("g", "t", {"bar": []})
                reader = run.events(buffer=1, when_full="block")
                await run.result()
                assert HELD_S_MAX <= anyio.current_time() < 2 * HELD_S_MAX
                events = [event async for event in reader]
            assert [event.offset for event in events] == list(range(1, len(events) + 1))

        in_virtual_time(main)

    def test_a_slow_reader_holds_its_run_as_long_as_it_reads(self):
        """
        Each event that it takes gives it the time anew, so that it misses none.
        """

        async def flood(_: Any) -> dict[str, Any]:
            write = get_stream_writer()
            for number in range(5):  # no await between them: the run is ahead by all of them
                write(number)
            return {"bar": ["a"]}

        async def main() -> None:
            graph, seen = in_a_row(dict.fromkeys("abc", flood)), []
            async with ActorSystem(
                {"g": graph}, saver=InMemorySaver(), keep_events_in_memory=6, lease_s=3600
            ) as system:
                run = await system.start("g", "t", {"bar": []}, stream_mode=["custom"])
                async for event in run.events(buffer=1, when_full="block"):
                    seen.append(event.kind)
                    await anyio.sleep(HELD_S_MAX * 0.9)
            assert seen == ["metadata", *["custom"] * 15, "end"]

        in_virtual_time(main)


class TestOtherLives:
    async def test_a_reader_with_a_number_that_no_event_has(self, place: Store):
        """
        Who comes with an offset above all events gets a gap of unknown size, and all that is there.
        """
        async with system_of(place, ab()) as system:
            run = await system.start("g", "t", {"bar": []})
            await run.result()
            told = [event async for event in run.events(after=99)]

        assert [event.kind for event in told[:3]] == ["gap", "values", "metadata"]
        assert told[0].data == {"from": told[2].offset, "to": None}
        assert told[-1].kind == "end"

    async def test_a_run_that_ended_before_and_stored_nothing(self, tmp_path):
        """
        A reader of a run whose events are gone with their process gets a gap, the state and
        the end; one that has the end gets nothing.
        """
        place = Store("sqlite", tmp_path)
        async with system_of(place, ab()) as system:
            lost = await system.start("g", "lost", {"bar": []})
            await lost.result()
            kept = await system.start("g", "kept", {"bar": []}, resumable=True)
            await kept.result()
            last = [event.offset async for event in kept.events()][-1]
        async with system_of(place, ab()) as system:
            told = [event async for event in (await system.run(lost.id)).events(after=2)]
            rest = await kinds((await system.run(kept.id)).events(after=last))

        assert [event.kind for event in told] == ["gap", "values", "end"]
        assert told[0].data == {"from": 3, "to": None}
        assert told[1].data["bar"] == ["a", "b"]
        assert told[2].data == {"status": "success", "reason": ""}
        assert rest == []

    async def test_offsets_of_another_life_are_other_offsets(self, tmp_path):
        """
        A run that stores no events and is taken up by another system counts on from far above:
        a returning reader gets a gap, however many events the second life has sent.
        """
        place, slow = Store("sqlite", tmp_path), Turnstile({"bar": ["a"]})
        async with system_of(place, in_a_row({"a": slow, "b": writer("b")})) as system:
            run = await system.start("g", "t", {"bar": []})
            await slow.entered.wait()
            run_id = run.id
            slow.out.set()
            await system.drain()
        async with system_of(place, in_a_row({"a": writer("a"), "b": writer("b")})) as system:
            (again,) = await system.recover()
            await again.result()
            told = [event async for event in again.events(after=1)]

        assert again.id == run_id
        assert [event.kind for event in told[:3]] == ["gap", "values", "metadata"]
        assert told[0].data == {"from": 2, "to": told[2].offset - 1}
        assert told[-1].kind == "end"


class TestFollowing:
    async def test_runs_of_a_thread_one_after_the_other(self, place: Store):
        """
        A follower of a thread gets the run that goes on, then each that is started, until a drain.
        """
        slow = Turnstile({"bar": ["a"]})
        async with system_of(place, in_a_row({"a": slow, "b": writer("b")})) as system:
            first = await system.start("g", "t", {"bar": []})
            following = system.follow("t")
            await system.start("g", "other", {"bar": []})
            slow.out.set()
            await first.result()
            second = await system.start("g", "t", {"bar": []})
            seen = [(await anext(following)).id, (await anext(following)).id]
            await system.drain()
            with pytest.raises(StopAsyncIteration):
                await anext(following)

        assert seen == [first.id, second.id]

    async def test_left_readers_are_forgotten(self, place: Store):
        """
        Nothing is kept for a reader that has gone.
        """
        async with system_of(place, ab()) as system:
            following = system.follow("t")
            following.close()
            await (await system.start("g", "t", {"bar": []})).result()
            with pytest.raises(StopAsyncIteration):
                await anext(following)

    async def test_a_follower_that_is_too_slow_gets_an_error(self, place: Store, monkeypatch):
        """
        Runs wait for a follower up to a bound; beyond it the follower has to begin again.
        """
        monkeypatch.setattr("actorgraph.api.system.run_feed.WAITING_MAX", 1)
        async with system_of(place, ab()) as system:
            following = system.follow("t")
            for _ in range(2):
                await (await system.start("g", "t", {"bar": []})).result()
            await anext(following)
            with pytest.raises(SlowReaderError, match="follow the thread again"):
                await anext(following)
