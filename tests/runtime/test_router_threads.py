"""Plain routers of async nodes: a thread calls those that wait, and the event loop never waits."""

import threading
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any, TypedDict

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

from actorgraph import END, START, StateGraph
from actorgraph.plan.plan import BranchPlan
from actorgraph.runtime import worker_threads
from actorgraph.runtime.task import hops, router_threads
from actorgraph.runtime.task.calling import abandoned, thread_limiter
from actorgraph.runtime.task.router_threads import SLOW_CALLS, RouterThreads
from tests.faults.cancels import tasks_alive
from tests.runtime.bad_routers import Everything, Gate, corpus
from tests.support.gates import PATIENCE_S

THREADS_MAX = 1_000
BEATS = 5
WAITING_MIN = 250
"""Routers of the corpus that wait at its gate; others fail, or return, before they ask anything."""


class State(TypedDict, total=False):
    n: int


async def adds(state: State) -> State:
    return {"n": state.get("n", 0) + 1}


def graph(router: Callable[..., Any]) -> Any:
    """An async node and a plain router."""
    builder = StateGraph(State).add_node("node", adds).add_edge(START, "node")
    return builder.add_conditional_edges("node", router, ["node", END]).compile()


def branch(router: Callable[..., Any]) -> BranchPlan:
    return BranchPlan(
        *("router", router),
        is_async=False,
        inject=(),
        ends=None,
        reads=(),
        coerce=None,
    )


@asynccontextmanager
async def heartbeat():
    """Count the turns of a task beside; they are more at the end."""
    beats = [0]

    async def beat():
        while True:
            beats[0] += 1
            await anyio.sleep(0.001)

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        yield beats
        group.cancel_scope.cancel()


async def until(condition: Callable[[], Any]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - of threads
            await anyio.sleep(0.001)


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.open()


@pytest.fixture
def no_looks(monkeypatch):
    """No thread is found to be slow."""
    monkeypatch.setattr(router_threads, "LOOK_S", PATIENCE_S)


class TestBadRouters:
    async def test_no_router_blocks_the_loop(self, gate):
        """
        However routers wait, hundreds of them at once, the loop's thread calls none of them, its
        other tasks go on, and each of the routers begins.
        """
        threads, ended = RouterThreads(anyio.CapacityLimiter(THREADS_MAX)), []
        routers = dict(corpus(gate))

        async def call(name, router):
            try:
                answer = await threads.call(branch(router), Everything(gate), {})
                getattr(answer, "close", bool)()  # a coroutine that isn't awaited
            except BaseException as error:
                if isinstance(error, anyio.get_cancelled_exc_class()):
                    raise
            ended.append(name)

        async with heartbeat() as beats, anyio.create_task_group() as group:
            for name, router in routers.items():
                group.start_soon(call, name, router)
            await until(lambda: gate.waiting.keys() | set(ended) == routers.keys())
            before = beats[0]
            await until(lambda: beats[0] > before + BEATS)
            waiting = len(routers) - len(ended)
            gate.open()

        assert waiting >= WAITING_MIN
        assert threading.get_ident() not in gate.waiting.values()
        assert sorted(ended) == sorted(routers)
        await until(lambda: threads.limiter.borrowed_tokens == 0)

    async def test_one_that_waits_only_sometimes_delays_no_run(self, gate):
        """
        A router that was quick a thousand times and then waits for the loop doesn't stop it:
        other runs go on, and it gets its answer.
        """
        calls = [0]

        def sometimes(state):
            calls[0] += 1
            if state["n"] == 1_000:
                anyio.from_thread.run_sync(gate.open)
                gate.named("sometimes", lambda _: gate.wait())({})
                return END
            return "node"

        other = graph(lambda state: "node" if state["n"] < 20 else END)
        async with heartbeat(), anyio.create_task_group() as group:
            group.start_soon(graph(sometimes).ainvoke, {"n": 0}, {"recursion_limit": 2_000})
            for _ in range(5):
                assert await other.ainvoke({}) == {"n": 20}

        assert calls == [1_000]

    async def test_routers_that_wait_for_each_other_end(self):
        """
        One that waits for another one, which came later or earlier, delays neither.
        """
        meet = threading.Barrier(8)

        def router(state):
            meet.wait(PATIENCE_S)
            return END

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(graph(router).ainvoke, {})

        assert not meet.broken

    async def test_a_quick_one_behind_it_is_answered(self, gate):
        """
        While a router waits, one that was called before it and those that come after it return.
        """
        slow = gate.named("slow", lambda _: gate.wait())
        threads, answers = RouterThreads(anyio.CapacityLimiter(2)), []

        async def call(router):
            answers.append(await threads.call(branch(router), {}, {}))

        async with anyio.create_task_group() as group:
            for router in (lambda _: 1, slow, lambda _: 2):
                group.start_soon(call, router)
            await until(lambda: len(answers) == 2)
            for n in (3, 4):
                assert await threads.call(branch(lambda _, n=n: n), {}, {}) == n
            gate.open()

        assert sorted(answers[:2]) == [1, 2]
        assert answers[2:] == [None]


class TestBatches:
    @pytest.mark.usefixtures("no_looks")
    async def test_those_that_wait_share_a_thread(self):
        """
        A hundred routers at once need one thread, and each sees the context of its own run.
        """
        places = set()

        def router(state):
            places.add(threading.get_ident())
            return END

        compiled = graph(router)
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(compiled.ainvoke, {})

        assert len(places) == 1
        assert threading.get_ident() not in places

    @pytest.mark.usefixtures("no_looks")
    async def test_a_router_that_was_slow_three_times_hops_alone(self, gate):
        """
        It neither waits for the others' thread nor keeps it.
        """
        slow = gate.named("slow", lambda _: gate.wait())
        alone = branch(lambda _: "alone")
        alone.duration.slow_calls = SLOW_CALLS
        threads = RouterThreads(anyio.CapacityLimiter(2))

        async with anyio.create_task_group() as group:
            group.start_soon(threads.call, branch(slow), {}, {})
            await until(lambda: gate.waiting)
            assert await threads.call(alone, {}, {}) == "alone"
            gate.open()

        assert alone.duration.slow_calls == 0

    async def test_without_a_free_thread_they_wait_for_one(self, gate):
        """
        A limit of one thread holds: a router behind one that waits is called after it.
        """
        order, threads = [], RouterThreads(anyio.CapacityLimiter(1))
        slow = gate.named("slow", lambda _: (gate.wait(), order.append("slow")))

        async with anyio.create_task_group() as group:
            group.start_soon(threads.call, branch(slow), {}, {})
            await until(lambda: gate.waiting)
            for n in range(3):
                group.start_soon(threads.call, branch(lambda _, n=n: order.append(n)), {}, {})
            await until(lambda: threads.limiter.statistics().tasks_waiting == 3)
            gate.open()

        assert order[0] == "slow"
        assert sorted(order[1:]) == [0, 1, 2]
        await until(lambda: threads.limiter.borrowed_tokens == 0)

    async def test_a_thread_that_can_not_be_started_is_the_run_s_error(self, monkeypatch):
        """
        Nothing hangs when the operating system refuses a thread.
        """

        def refuse(work):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(worker_threads, "start", refuse)
        monkeypatch.setattr("trio._threads.start_thread_soon", lambda work, *_: refuse(work))

        with pytest.raises(RuntimeError, match="can't start new thread"):
            await graph(lambda _: END).ainvoke({})

        assert thread_limiter().borrowed_tokens == 0

    async def test_with_another_anyio_each_call_hops(self, monkeypatch):
        """
        Without the names that the threads need, routers are called in anyio's.
        """
        monkeypatch.setattr(hops, "threadlocals", None)
        places = []

        def router(state):
            places.append(threading.get_ident())
            return END

        assert await graph(router).ainvoke({}) == {"n": 1}
        assert places != [threading.get_ident()]


class TestCancellation:
    @pytest.mark.usefixtures("no_looks")
    async def test_one_that_has_not_begun_never_begins(self, gate):
        """
        A router that waits for the thread when its run is cancelled is not called.
        """
        slow, called = gate.named("slow", lambda _: gate.wait()), []
        threads = RouterThreads(anyio.CapacityLimiter(1))

        async with anyio.create_task_group() as outer:
            outer.start_soon(threads.call, branch(slow), {}, {})
            await until(lambda: gate.waiting)
            async with anyio.create_task_group() as inner:
                inner.start_soon(threads.call, branch(called.append), {}, {})
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
                inner.cancel_scope.cancel()
            gate.open()

        await until(lambda: threads.limiter.borrowed_tokens == 0)
        assert called == []

    async def test_one_that_has_begun_is_abandoned_and_can_notice(self, gate):
        """
        The run ends at once; `check_cancelled` raises in the router's thread.
        """
        noticed = threading.Event()

        def router(state):
            gate.wait()
            try:
                anyio.from_thread.check_cancelled()
            except BaseException:
                noticed.set()
                raise

        async with anyio.create_task_group() as group:
            group.start_soon(graph(gate.named("router", router)).ainvoke, {})
            await until(lambda: gate.waiting)
            group.cancel_scope.cancel()

        assert abandoned() == ["node"]
        gate.open()
        assert noticed.wait(PATIENCE_S)

    async def test_no_task_of_the_loop_is_left(self, gate):
        """
        A run that is cancelled while a thread has its router leaves no task where it ran.
        """
        before = tasks_alive()
        async with anyio.create_task_group() as group:
            group.start_soon(graph(gate.named("router", lambda _: gate.wait())).ainvoke, {})
            await until(lambda: gate.waiting)
            group.cancel_scope.cancel()

        assert tasks_alive() == before
        gate.open()

    def test_one_that_outlives_its_loop_ends_quietly(self, monkeypatch, gate):
        """
        An answer that comes after the end of the loop is dropped, on asyncio and on trio.
        """
        told = []
        monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_value))

        async def main():
            async with anyio.create_task_group() as group:
                group.start_soon(graph(gate.named("router", lambda _: gate.wait())).ainvoke, {})
                await until(lambda: gate.waiting)
                group.cancel_scope.cancel()

        for backend in ("asyncio", "trio"):
            anyio.run(main, backend=backend)
            gate.waiting.clear()
        gate.open()
        ended = threading.Event()
        worker_threads.start(ended.set)

        assert ended.wait(PATIENCE_S)
        assert told == []


class TestFromThread:
    async def test_a_router_may_call_its_loop(self, anyio_backend_name):
        """
        `from_thread`, anyio's and trio's own, reach the loop of the run.
        """
        places = []

        def router(state):
            places.append(anyio.from_thread.run_sync(threading.get_ident))
            if anyio_backend_name == "trio":
                import trio

                places.append(trio.from_thread.run_sync(threading.get_ident))
                trio.from_thread.check_cancelled()
            anyio.from_thread.check_cancelled()
            return END

        await graph(router).ainvoke({})

        assert set(places) == {threading.get_ident()}

    async def test_the_thread_forgets_the_loop(self):
        """
        After its work the thread seems to belong to no loop any more.
        """
        seen, ended = [], threading.Event()
        await graph(lambda _: seen.append(threading.get_ident()) or END).ainvoke({})

        def look():
            with pytest.raises(anyio.NoEventLoopError):
                anyio.from_thread.run_sync(int)
            seen.append(threading.get_ident())
            ended.set()

        worker_threads.start(look)

        assert ended.wait(PATIENCE_S)
