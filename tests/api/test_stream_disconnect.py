"""Leaving a stream early: nothing of its run lives on, and what it did is stored.

Plain `async for` with `break`, `async with`, a cancelled reader, and a reader whose body raises:
all four on both event loops, in each durability mode.
"""

import asyncio
import gc
import threading
from functools import partial
from typing import Any

import anyio
import pytest
import trio

from actorgraph import START, InMemorySaver, get_stream_writer
from actorgraph.errors import OtherLoopError, TwoReadersError
from actorgraph.runtime.broadcast import BUFFER_MAX
from tests.support.gates import PATIENCE_S, Turnstile, patient_group, settled
from tests.support.graphs import ab, at, compiled, in_a_row, writer

pytestmark = pytest.mark.every_case


def tasks() -> int:
    """How many tasks the running event loop has."""
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:
        return trio.lowlevel.current_statistics().tasks_living


async def by_break(graph, **options) -> None:
    async for _ in graph.astream({}, at(), **options):
        break


async def by_context(graph, **options) -> None:
    async with graph.astream({}, at(), **options) as stream:
        async for _ in stream:
            break


async def by_error(graph, **options) -> None:
    async def read() -> None:
        async for _ in graph.astream({}, at(), **options):
            raise KeyError("reader")

    with pytest.raises(KeyError, match="reader"):
        await read()


async def by_closing(graph, **options) -> None:
    stream = graph.astream({}, at(), **options)
    await anext(stream)
    await stream.aclose()


async def by_cancelling(graph, **options) -> None:
    first = anyio.Event()

    async def read() -> None:
        async for _ in graph.astream({}, at(), **options):
            first.set()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await first.wait()
        await settled()
        group.cancel_scope.cancel()


WAYS = [by_break, by_context, by_error, by_closing, by_cancelling]
every_way = pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)


async def wait_until(condition) -> None:
    """Give other tasks turns until a condition holds."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            for _ in range(50):  # many turns before what costs as much as all of them
                await anyio.lowlevel.checkpoint()
            gc.collect()


class TestLeaving:
    @every_way
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_nothing_lives_on(self, leave, durability):
        """
        However a stream is left, its node's `finally` has run and no task is left.
        """
        slow = Turnstile({"bar": ["slow"]})
        graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=InMemorySaver())
        before = tasks()

        await leave(graph, durability=durability)
        await wait_until(lambda: tasks() <= before)

        assert slow.closed == slow.calls

    @every_way
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_the_thread_can_be_used_at_once(self, saver, leave, durability):
        """
        The next call on the thread waits for what the left run still stores, and goes on.
        """
        slow = Turnstile({"bar": ["slow"]})
        graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=saver)

        await leave(graph, durability=durability)
        state = await graph.aget_state(at())
        slow.out.set()
        result = await graph.ainvoke(None, at())

        assert state.values["bar"] == ["a"]
        assert state.next == ("slow",)
        assert result["bar"] == ["a", "slow"]

    async def test_a_break_without_a_saver_ends_the_run_too(self):
        """
        A run without a saver is ended in the same way.
        """
        slow = Turnstile()
        before = tasks()

        async for _ in in_a_row({"a": writer("a"), "slow": slow}).astream({}):
            break
        await wait_until(lambda: tasks() <= before)

        assert slow.closed == slow.calls

    async def test_a_stream_that_was_never_read_runs_nothing(self):
        """
        Making a stream starts nothing.
        """
        log: list[str] = []

        stream = ab(None, log).astream({})
        await settled()
        await stream.aclose()

        assert log == []
        assert [chunk async for chunk in stream] == []

    async def test_async_with_starts_the_run_and_waits_for_its_end(self):
        """
        `async with` runs before the first read, and is left only when the run has left.
        """
        slow = Turnstile()
        graph = in_a_row({"slow": slow})

        async with graph.astream({}) as stream:
            await slow.entered.wait()
            assert stream.statistics().running == 1

        assert slow.closed == 1
        assert [chunk async for chunk in stream] == []

    async def test_a_node_that_cleans_up_slowly_is_waited_for(self):
        """
        Closing a stream waits for a shielded clean-up in a node, and stores its run's end.
        """
        cleaned: list[str] = []
        entered = anyio.Event()

        async def node(state):
            try:
                entered.set()
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.lowlevel.checkpoint()
                    cleaned.append("done")

        async with in_a_row({"node": node}).astream({}) as stream:
            await entered.wait()
            await stream.aclose()
            closed = list(cleaned)

        assert closed == ["done"]

    async def test_a_cancel_scope_around_a_read_ends_the_run(self):
        """
        A reader that gives up waiting for a chunk ends the run before it goes on.
        """
        slow = Turnstile()
        graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=InMemorySaver())
        stream = graph.astream({}, at())
        await anext(stream)
        await slow.entered.wait()
        with anyio.move_on_after(0):
            await anext(stream)

        assert slow.closed == 1
        assert (await graph.aget_state(at())).next == ("slow",)

    async def test_streams_side_by_side_are_left_alone(self):
        """
        Leaving one stream doesn't disturb another of the same graph.
        """
        graph = in_a_row({n: writer(n) for n in "abc"}, checkpointer=InMemorySaver())
        kept = graph.astream({}, at("kept"))
        first = await anext(kept)

        await by_break(graph)
        rest = [chunk async for chunk in kept]

        assert [next(iter(c)) for c in [first, *rest]] == ["a", "b", "c"]


class TestSlowReaders:
    async def test_a_sync_node_waits_for_a_paused_reader(self):
        """
        A sync node that writes 10,000 custom chunks fills a bounded buffer, no more.
        """
        written = 0
        stuck = threading.Event()

        def chatty(state):
            nonlocal written
            write = get_stream_writer()
            for n in range(10_000):
                written = n
                if n == BUFFER_MAX:
                    stuck.set()
                write(n)

        async with patient_group():
            stream = in_a_row({"chatty": chatty}).astream({}, stream_mode="custom")
            first = await anext(stream)
            await anyio.to_thread.run_sync(stuck.wait, PATIENCE_S)
            await settled()
            paused_at = written
            rest = [chunk async for chunk in stream]

        assert paused_at <= BUFFER_MAX + 1
        assert [first, *rest] == list(range(10_000))

    async def test_steps_wait_for_a_paused_reader(self):
        """
        A run doesn't get ahead of its reader by more than the buffer.
        """
        steps = 0

        async def count(state):
            nonlocal steps
            steps += 1
            return {"foo": str(steps)}

        graph = compiled({"count": count}, [(START, "count"), ("count", "count")])
        async with graph.astream({}, {"recursion_limit": 2_000}) as stream:
            await anext(stream)
            await settled(3_000)
            paused_at = steps

        assert paused_at <= BUFFER_MAX + 3

    async def test_leaving_lets_a_stuck_sync_node_go_on(self):
        """
        A sync node that waits for room is let go when its reader leaves.
        """
        ended = threading.Event()
        stuck = threading.Event()

        def chatty(state):
            write = get_stream_writer()
            try:
                for n in range(1_000):
                    if n == BUFFER_MAX - 1:
                        stuck.set()
                    write(n)
            finally:
                ended.set()

        async with patient_group():
            async with in_a_row({"chatty": chatty}).astream({}, stream_mode="custom"):
                await anyio.to_thread.run_sync(stuck.wait, PATIENCE_S)
            let_go = await anyio.to_thread.run_sync(ended.wait, PATIENCE_S)

        assert let_go


class TestTheLoopEnds:
    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_a_break_as_the_last_thing_a_program_does(self, store, backend, durability):
        """
        A loop that ends right after a `break` still stores what the run did.
        """
        entered: list[bool] = []

        async def slow(state):
            entered.append(True)
            await anyio.sleep_forever()

        async def main(graph) -> None:
            async for _ in graph.astream({}, at(), durability=durability):
                break

        with store.saver() as saver:
            graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=saver)
            anyio.run(main, graph, backend=backend)
            state = graph.get_state(at())
            graph.update_state(at(), {"foo": "free"})

        assert (state.values["bar"], state.next) == (["a"], ("slow",))

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_a_stream_does_not_end_silently_with_its_loop(self, backend):
        """
        A reader that continues in another loop gets what was buffered, then an error that says why.
        """

        async def begin(graph) -> Any:
            stream = graph.astream({}, stream_mode="updates")
            await anext(stream)
            return stream

        async def go_on(stream) -> None:
            with pytest.raises(OtherLoopError, match="was closed, which ended its run"):
                await anext(stream)

        stream = anyio.run(begin, in_a_row({"a": writer("a"), "b": Turnstile()}), backend=backend)
        anyio.run(go_on, stream, backend=backend)

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    async def test_a_stream_is_not_waited_for_in_another_loop(self, backend):
        """
        While its run goes on in one loop it is refused in another one, and left unharmed.
        """
        slow = Turnstile({"foo": "end"})
        stream = in_a_row({"a": writer("a"), "slow": slow}).astream({}, stream_mode="updates")

        async def elsewhere() -> None:
            with pytest.raises(OtherLoopError, match="read in another event loop"):
                await anext(stream)

        async with patient_group():
            await anext(stream)
            await slow.entered.wait()
            await anyio.to_thread.run_sync(partial(anyio.run, elsewhere, backend=backend))
            slow.out.set()
            assert [chunk async for chunk in stream] == [{"slow": {"foo": "end"}}]

    async def test_a_second_reader_is_refused_while_one_waits(self):
        """
        Two tasks that read one stream would lose each other's wake-ups; the first is unharmed.
        """
        slow = Turnstile({"foo": "end"})
        stream = in_a_row({"slow": slow}).astream({}, stream_mode="updates")
        read: list[Any] = []

        async def reader() -> None:
            read.extend([chunk async for chunk in stream])

        async with patient_group() as group:
            group.start_soon(reader)
            await slow.entered.wait()
            with pytest.raises(TwoReadersError, match="two tasks read one stream"):
                await anext(stream)
            slow.out.set()

        assert read == [{"slow": {"foo": "end"}}]
