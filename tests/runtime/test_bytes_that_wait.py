"""Readers that are slower than their runs: what waits is bounded by bytes, not by number alone."""

import anyio
import anyio.lowlevel
import pytest

from actorgraph import ActorSystem, InMemorySaver, SlowReaderError, get_stream_writer
from actorgraph.errors import InvalidConfigError
from actorgraph.runtime import broadcast as broadcasts
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.system import journal as journals
from actorgraph.runtime.system.journal import EventReader, Journal
from tests.support.gates import patient_group, settled
from tests.support.graphs import in_a_row

SIZE = 1000
ROOM = 8 * SIZE
"""Bytes of a buffer, and eight chunks."""


def text(n: int) -> str:
    return f"{n:0{SIZE}d}"


def writer(written: list[int], count: int = 60):
    """A graph with an async node that writes texts of `SIZE`."""

    async def node(state):
        for n in range(count):
            get_stream_writer()(text(n))
            written.append(n)
            await anyio.lowlevel.checkpoint()

    return in_a_row({"node": node})


def filled(when_full, count: int, size: int = SIZE, room: int = ROOM) -> Broadcast:
    channel = Broadcast(frozenset({"custom"}), when_full=when_full, buffer_bytes=room)
    for n in range(count):
        channel.offer(((), "custom", f"{n:0{size}d}"))
    return channel


class TestStreams:
    async def test_an_async_node_waits_for_room_in_bytes(self):
        """
        A node of large chunks gets as many bytes ahead as the buffer has; nothing is lost.
        """
        written: list[int] = []
        stream = writer(written).astream({}, stream_mode="custom", buffer_bytes=ROOM)
        async with patient_group(), stream:
            first = await anext(stream)
            await settled(200)
            paused_at = len(written)
            rest = [chunk async for chunk in stream]

        assert 8 <= paused_at <= 12
        assert [first, *rest] == [text(n) for n in range(60)]

    async def test_a_plain_node_waits_in_its_thread(self):
        """
        A plain node of large chunks waits too, and goes on as its reader does.
        """
        written: list[int] = []

        def node(state):
            for n in range(60):
                get_stream_writer()(text(n))
                written.append(n)

        stream = in_a_row({"node": node}).astream({}, stream_mode="custom", buffer_bytes=ROOM)
        ahead: list[int] = []
        async with patient_group(), stream:
            got = []
            async for chunk in stream:
                got.append(chunk)
                await settled(5)
                ahead.append(len(written) - len(got))

        assert got == [text(n) for n in range(60)]
        assert max(ahead) <= 11

    def test_a_blocking_stream_has_the_same_bound(self):
        """
        A blocking reader of an async node is no more than its buffer behind, and gets all.
        """
        written: list[int] = []
        ahead, got = [], []
        for chunk in writer(written).stream({}, stream_mode="custom", buffer_bytes=ROOM):
            got.append(chunk)
            ahead.append(len(written) - len(got))

        assert got == [text(n) for n in range(60)]
        assert max(ahead) <= 11

    async def test_a_chunk_above_the_bound_passes(self):
        """
        A chunk that is larger than the whole buffer is delivered like any other.
        """
        written: list[int] = []
        stream = writer(written, 5).astream({}, stream_mode="custom", buffer_bytes=1)

        with anyio.fail_after(5):
            assert [chunk async for chunk in stream] == [text(n) for n in range(5)]

    async def test_small_chunks_are_bound_by_their_number(self):
        """
        Chunks below their share of the bytes aren't counted: the number is their bound.
        """
        channel = filled("block", 255, size=10, room=256 * 100)

        assert not channel.is_full
        channel.offer(((), "custom", "x"))
        assert channel.is_full

    async def test_the_newest_bytes_stay(self):
        """
        With "drop_oldest" the chunks that waited longest go, until the bytes fit.
        """
        channel = filled("drop_oldest", 60)
        channel.end()
        got = []
        while (chunk := await channel.get()) is not None:
            got.append(chunk[2])

        assert 6 <= len(got) <= 10
        assert got == [text(n) for n in range(60 - len(got), 60)]
        assert channel.statistics().dropped == 60 - len(got)

    async def test_a_reader_that_may_not_be_waited_for_learns_the_bytes(self):
        """
        With "close" the error says how many bytes it was behind, and which option that is.
        """
        channel = filled("close", 60)
        waiting = channel.statistics().waiting - 1  # the last one is the end
        got = [await channel.get() for _ in range(waiting)]

        with pytest.raises(SlowReaderError, match=r"8,000 bytes behind(.|\n)*buffer_bytes="):
            await channel.get()
        assert [chunk[2] for chunk in got if chunk] == [text(n) for n in range(waiting)]

    async def test_a_burst_of_large_chunks_has_an_end(self, monkeypatch):
        """
        A node that never waits can't fill the memory with few large chunks either.
        """
        monkeypatch.setattr(broadcasts, "BURST_BYTES_MAX", 20 * SIZE)

        async def node(state):
            for n in range(1000):
                get_stream_writer()(text(n))

        stream = in_a_row({"node": node}).astream({}, stream_mode="custom", buffer_bytes=ROOM)
        with pytest.raises(SlowReaderError, match="asend"):
            [chunk async for chunk in stream]

    async def test_a_state_that_many_chunks_share_counts_once(self):
        """
        Chunks of one unchanged value don't fill the buffer, however many.
        """
        channel = Broadcast(frozenset({"values"}), buffer_bytes=ROOM)
        document = text(1)
        for n in range(100):
            channel.try_publish((((), "values", {"doc": document, "step": n}),))

        assert not channel.is_full

    async def test_a_buffer_has_a_byte_or_more(self):
        """
        A buffer of no bytes is refused before anything runs.
        """
        with pytest.raises(InvalidConfigError, match="buffer_bytes"):
            await anext(writer([]).astream({}, buffer_bytes=0))


class TestJournals:
    def test_the_ring_keeps_the_newest_bytes(self, monkeypatch):
        """
        A journal holds few large events, and always the newest one; their offsets stay.
        """
        monkeypatch.setattr(journals, "RING_BYTES", ROOM)
        monkeypatch.setattr(journals, "RING_LIGHT", 10)
        journal = Journal(frozenset({"custom"}))
        for n in range(100):
            journal.add("custom", text(n))

        assert 90 < journal.first <= 95
        newest = journal.ready(99, 1)[0]
        assert newest.data == text(99)
        journal.add("custom", "x" * 10 * ROOM)
        assert journal.first == journal.last == 101

    def test_events_of_an_earlier_life_are_in_no_ring(self):
        """
        A journal that begins behind a reader's offset has nothing for it before its first event.
        """
        journal = Journal(frozenset({"custom"}), first=100)
        assert journal.ready(0, 64) == []
        journal.add("custom", "a")
        assert [event.offset for event in journal.ready(99, 64)] == [100]
        assert journal.ready(50, 64) == []

    async def test_a_large_event_comes_alone(self, monkeypatch):
        """
        A batch has the small events that are there, and a large one is a batch of its own.
        """
        monkeypatch.setattr(journals, "RING_LIGHT", 1_000)
        journal = Journal(frozenset({"custom"}))
        for chunk in ("a", "b", "x" * 5_000, "c", "y" * 5_000, "z" * 5_000):
            journal.add("custom", chunk)
        reader = EventReader(journal, 0, buffer=256)
        batches = [[e.data[0] for e in await reader.batch()] for _ in range(5)]

        assert batches == [["a", "b"], ["x"], ["c"], ["y"], ["z"]]

    def test_a_blocking_reader_holds_the_run_by_bytes(self, monkeypatch):
        """
        A run waits for a blocking reader that is too many bytes behind, until it has read on.
        """
        monkeypatch.setattr(journals, "RING_LIGHT", 10)
        journal = Journal(frozenset({"custom"}))
        reader = EventReader(journal, 0, buffer=256, buffer_bytes=ROOM, when_full="block")
        accepted = 0
        while accepted < 100 and journal.try_publish((((), "custom", text(accepted)),)):
            accepted += 1

        assert 7 <= accepted <= 9
        assert journal.is_full
        reader.close()
        assert not journal.is_full

    async def test_a_run_of_a_system_waits_for_the_bytes_of_its_reader(self, monkeypatch):
        """
        A blocking reader of a run gets every event, and the run is never far ahead of it.
        """
        monkeypatch.setattr(journals, "RING_LIGHT", 10)
        written: list[int] = []
        ahead: list[int] = []
        got: list[str] = []
        async with ActorSystem({"g": writer(written)}, saver=InMemorySaver()) as system:
            run = await system.start("g", "t", {}, stream_mode="custom")
            async with patient_group():
                async for event in run.events(when_full="block", buffer_bytes=ROOM):
                    if event.kind == "custom":
                        got.append(event.data)
                        await settled(5)
                        ahead.append(len(written) - len(got))

        assert got == [text(n) for n in range(60)]
        assert max(ahead[10:]) <= 11

    async def test_a_reader_that_may_not_be_waited_for_learns_the_bytes(self, monkeypatch):
        """
        With "close" a reader of a run that is too many bytes behind ends with their number.
        """
        monkeypatch.setattr(journals, "RING_LIGHT", 10)
        journal = Journal(frozenset({"custom"}))
        reader = EventReader(journal, 0, buffer=256, buffer_bytes=ROOM, when_full="close")
        for n in range(20):
            journal.add("custom", text(n))

        with pytest.raises(SlowReaderError, match="8,000 bytes behind"):
            await anext(reader)
