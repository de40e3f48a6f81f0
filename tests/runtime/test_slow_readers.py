"""A reader that is slower than its run: the buffer is bounded, and its policy decides."""

import threading
import tracemalloc

import anyio
import anyio.lowlevel
import pytest

from actorgraph import SlowReaderError, get_stream_writer
from actorgraph.runtime import broadcast as broadcasts
from actorgraph.runtime.broadcast import Broadcast
from tests.support.gates import patient_group, settled
from tests.support.graphs import in_a_row

BUFFER = 4


def numbers(count: int, written: list[int]):
    """An async node that writes numbers and pauses after each, as one that reads a model does."""

    async def node(state):
        write = get_stream_writer()
        for n in range(count):
            write(n)
            written.append(n)
            await anyio.lowlevel.checkpoint()

    return in_a_row({"node": node})


class TestBlock:
    @pytest.mark.promise("S187")
    @pytest.mark.langgraph("F-D4")
    async def test_an_async_node_waits_at_its_next_await(self):
        """
        A node that writes with a plain writer gets no more than a buffer ahead of its reader.
        """
        written: list[int] = []
        stream = numbers(100, written).astream({}, stream_mode="custom", buffer=BUFFER)
        async with patient_group(), stream:
            assert await anext(stream) == 0
            await settled()
            paused_at = len(written)
            rest = [n async for n in stream]

        assert paused_at <= BUFFER + 1
        assert rest == list(range(1, 100))

    async def test_an_awaited_write_waits_for_room(self):
        """
        `await writer.asend(x)` returns once the reader has room for it.
        """
        written: list[int] = []

        async def node(state):
            for n in range(50):
                await get_stream_writer().asend(n)
                written.append(n)

        stream = in_a_row({"node": node}).astream({}, stream_mode="custom", buffer=BUFFER)
        async with patient_group(), stream:
            first = await anext(stream)
            await settled()
            paused_at = len(written)
            rest = [n async for n in stream]

        assert paused_at <= BUFFER + 1
        assert [first, *rest] == list(range(50))

    async def test_the_result_of_an_await_is_kept_while_the_node_waits(self):
        """
        A node that is held goes on with the result that it awaited.
        """

        async def node(state):
            write = get_stream_writer()
            sender, receiver = anyio.create_memory_object_stream[int](10)
            async with sender, receiver:
                for n in range(20):
                    await sender.send(n)
                    write(await receiver.receive())

        stream = in_a_row({"node": node}).astream({}, stream_mode="custom", buffer=1)

        assert [n async for n in stream] == list(range(20))

    async def test_a_burst_without_an_await_has_an_end(self, monkeypatch):
        """
        A node that never waits can't fill the memory: its writer raises and says what to do.
        """
        monkeypatch.setattr(broadcasts, "BURST_MAX", 50)

        async def node(state):
            for n in range(1000):
                get_stream_writer()(n)

        stream = in_a_row({"node": node}).astream({}, stream_mode="custom", buffer=BUFFER)
        with pytest.raises(SlowReaderError, match="asend"):
            [n async for n in stream]

    async def test_a_thread_of_the_nodes_own_has_the_same_bound(self, monkeypatch):
        """
        A thread without a running loop gets the error too.
        """
        monkeypatch.setattr(broadcasts, "BURST_MAX", 50)
        raised: list[Exception] = []

        def write_on(write) -> None:
            try:
                for n in range(1000):
                    write(n)
            except SlowReaderError as error:
                raised.append(error)

        def node(state):
            thread = threading.Thread(target=write_on, args=(get_stream_writer(),))
            thread.start()
            thread.join()

        stream = in_a_row({"node": node}).astream({}, stream_mode="custom", buffer=BUFFER)
        async with patient_group(), stream:
            first = await anext(stream)
            while not raised:
                await anyio.lowlevel.checkpoint()
            rest = [n async for n in stream]

        assert [first, *rest] == list(range(len(rest) + 1))
        assert len(rest) < 1000

    async def test_leaving_lets_a_waiting_node_go(self):
        """
        A node that is held by a reader is let go when the reader leaves.
        """
        written: list[int] = []
        with anyio.fail_after(5):
            async with numbers(1000, written).astream(
                {}, stream_mode="custom", buffer=BUFFER
            ) as stream:
                await anext(stream)

        assert len(written) < 1000


class TestMemory:
    @pytest.mark.one_loop
    @pytest.mark.parametrize("when_full", ["block", "drop_oldest"])
    async def test_a_paused_reader_costs_a_buffer(self, when_full):
        """
        However much a node writes, what waits for its reader is bounded.
        """
        pieces = 20_000

        async def node(state):
            write = get_stream_writer()
            for n in range(pieces):
                write(f"{n:01000d}")
                await anyio.lowlevel.checkpoint()

        stream = in_a_row({"node": node}).astream({}, stream_mode="custom", when_full=when_full)
        async with patient_group(), stream:
            await anext(stream)
            tracemalloc.start()
            try:
                await settled(1000)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

        assert peak < 2 * 256 * 1100


class TestDropOldest:
    async def test_the_newest_chunks_stay(self):
        """
        The run never waits; the reader misses the chunks that waited longest.
        """
        written: list[int] = []
        stream = numbers(100, written).astream(
            {}, stream_mode="custom", buffer=BUFFER, when_full="drop_oldest"
        )
        async with patient_group(), stream:
            first = await anext(stream)
            await settled(300)
            assert len(written) == 100
            rest = [n async for n in stream]

        assert first == 0
        assert rest == list(range(100 - BUFFER, 100))

    def test_dropped_chunks_are_counted(self):
        """
        The statistics say how many chunks a slow reader has missed.
        """
        channel = Broadcast(frozenset({"custom"}), 2, when_full="drop_oldest")
        for n in range(5):
            channel.try_publish((((), "custom", n),))

        assert channel.statistics().dropped == 3
        assert channel.statistics().waiting == 2

    async def test_a_late_writer_can_not_drop_the_end(self):
        """
        Chunks written after the run's end are dropped; the reader gets the end.
        """
        channel = Broadcast(frozenset({"custom"}), 1, when_full="drop_oldest")
        channel.end()
        channel.offer(((), "custom", "late"))

        with anyio.fail_after(5):
            assert await channel.get() is None

    async def test_a_chunk_that_is_dropped_while_it_is_taken_is_not_the_end(self):
        """
        A thread that drops the only chunk as the reader takes it lets the reader wait on.
        """
        channel = Broadcast(frozenset({"custom"}), 1, when_full="drop_oldest")
        channel.offer(((), "custom", 1))
        parts = vars(channel)

        class Overtaken:
            """The channel's lock, which a writer has had just before."""

            inner, first = parts["_lock"], True

            def __enter__(self) -> None:
                if self.first:
                    self.first = False
                    parts["_chunks"].get_nowait()
                self.inner.acquire()

            def __exit__(self, *_: object) -> None:
                self.inner.release()

        got: list[object] = []

        async def read() -> None:
            got.append(await channel.get())

        parts["_lock"] = Overtaken()
        async with patient_group() as group:
            group.start_soon(read)
            await settled()
            channel.offer(((), "custom", 2))

        assert got == [((), "custom", 2)]


class TestClose:
    async def test_the_stream_ends_with_an_error_after_what_was_buffered(self):
        """
        A reader that may not be waited for gets an error, and its run is ended.
        """
        written: list[int] = []
        got: list[int] = []
        stream = numbers(1000, written).astream(
            {}, stream_mode="custom", buffer=BUFFER, when_full="close"
        )
        async with patient_group(), stream:
            got.append(await anext(stream))
            await settled(300)
            with pytest.raises(SlowReaderError, match="4 chunks behind"):
                got.extend([n async for n in stream])

        assert len(written) < 1000
