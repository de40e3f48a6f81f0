"""Plain functions of nodes in worker threads: one hop for a node and its routers."""

import math
import threading
from contextvars import ContextVar
from functools import partial
from typing import Any, TypedDict

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
import sniffio
from anyio._core._eventloop import threadlocals

from actorgraph import END, START, StateGraph
from actorgraph.plan.plan import CallDuration
from actorgraph.runtime import worker_threads
from actorgraph.runtime.task import hops
from actorgraph.runtime.task.calling import abandoned, thread_limiter
from tests.support.gates import PATIENCE_S


class State(TypedDict, total=False):
    n: int
    seen: list[str]


SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


def graph(node, router=None):
    """One node, and a router that needs a thread: it is declared to be slow."""
    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    if router is None:
        return builder.add_edge("node", END).compile()
    builder.add_conditional_edges("node", router, ["node", END], inline=False)
    return builder.compile()


@pytest.fixture(params=["ours", "ours, all quick", "anyio's"])
def threads_of(request, monkeypatch):
    """The threads of the library, and those of an anyio that lacks the names that they need.

    The loop's thread waits a moment for quick nodes; here for each one in turn, and for none.
    """
    monkeypatch.setattr(hops, "QUICK_S", math.inf if "all quick" in request.param else -1.0)
    monkeypatch.setattr(hops, "WAIT_MAX_S", 0.01)
    if request.param == "anyio's":
        monkeypatch.setattr(hops, "threadlocals", None)
    return request.param


@pytest.mark.usefixtures("threads_of")
class TestThread:
    async def test_a_node_and_its_router_share_a_thread_and_a_context(self):
        """
        A router sees the context variable that its node has set; the caller doesn't.
        """
        places = []

        def node(_):
            places.append(threading.get_ident())
            SEEN.set("node")
            return {"n": 1}

        def router(_):
            places.append(threading.get_ident())
            places.append(SEEN.get())
            return END

        await graph(node, router).ainvoke({})

        assert places == [places[0], places[0], "node"]
        assert places[0] != threading.get_ident()
        assert SEEN.get() == "nothing"

    async def test_a_function_may_call_its_event_loop(self, anyio_backend_name):
        """
        `from_thread` reaches the loop of the run, and no loop seems to run in the thread.
        """

        async def in_loop():
            return sniffio.current_async_library(), threading.get_ident()

        def node(_):
            with pytest.raises(sniffio.AsyncLibraryNotFoundError):
                sniffio.current_async_library()
            anyio.from_thread.check_cancelled()
            return {"seen": [repr(anyio.from_thread.run(in_loop))]}

        result = await graph(node).ainvoke({})

        assert result["seen"] == [repr((anyio_backend_name, threading.get_ident()))]

    async def test_a_cancelled_function_is_abandoned_and_can_notice(self):
        """
        The run ends at once; the function's thread learns of it from `check_cancelled`.
        """
        began, goes_on, noticed = anyio.Event(), threading.Event(), threading.Event()

        def node(_):
            anyio.from_thread.run_sync(began.set)
            assert goes_on.wait(PATIENCE_S)
            try:
                anyio.from_thread.check_cancelled()
            except BaseException:
                noticed.set()
                raise
            return {}

        async with anyio.create_task_group() as group:
            group.start_soon(graph(node).ainvoke, {})
            await began.wait()
            group.cancel_scope.cancel()

        assert abandoned() == ["node"]
        goes_on.set()
        assert noticed.wait(PATIENCE_S)

    @pytest.mark.parametrize("anyio_backend", ["asyncio"])  # anyio's on trio has no scope for it
    async def test_a_coroutine_that_a_function_runs_in_its_loop_is_cancelled_with_the_run(self):
        """
        A coroutine that a thread has given to the loop belongs to the scope of its run.
        """
        began, ended = anyio.Event(), threading.Event()

        async def forever():
            began.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()

        async with anyio.create_task_group() as group:
            group.start_soon(graph(lambda _: anyio.from_thread.run(forever)).ainvoke, {})
            await began.wait()
            group.cancel_scope.cancel()

        with anyio.fail_after(PATIENCE_S):
            while not ended.is_set():
                await anyio.lowlevel.checkpoint()

    @pytest.mark.parametrize("error", [StopIteration(), GeneratorExit(), KeyError("k")], ids=repr)
    async def test_errors_reach_the_caller(self, error):
        """
        Each error of a node is raised, those that mean something to coroutines too.
        """

        def node(_):
            raise error

        with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
            await graph(node).ainvoke({})

    async def test_an_awaitable_is_awaited_in_the_loop(self):
        """
        A plain function may return a coroutine, and so may a router.
        """

        async def later():
            await anyio.lowlevel.checkpoint()
            return {"n": threading.get_ident()}

        async def end():
            return END

        result = await graph(lambda _: later(), lambda _: end()).ainvoke({})

        assert result == {"n": threading.get_ident()}


async def test_a_function_that_has_not_begun_when_its_run_is_cancelled_never_begins(
    anyio_backend_name, monkeypatch
):
    """
    A thread that gets its turn after the end of the run calls nothing.
    """
    late, began = [], []
    place = "actorgraph.runtime.worker_threads.start"
    if anyio_backend_name == "trio":
        place = "trio._threads.start_thread_soon"
    monkeypatch.setattr(place, lambda work, *_: late.append(work))

    async with anyio.create_task_group() as group:
        group.start_soon(graph(began.append).ainvoke, {})
        with anyio.fail_after(PATIENCE_S):
            while not late:
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    for work in late:
        work()

    assert len(late) == 1
    assert began == []


async def test_idle_threads_work_again(anyio_backend_name):
    """
    Calls one after the other share a thread: it is idle before its caller learns of the end.
    """
    places = set()

    def node(state):
        places.add(threading.get_ident())
        return {"n": state.get("n", 0) + 1}

    await graph(node, lambda state: END if state["n"] >= 20 else "node").ainvoke({})

    assert len(places) == 1 if anyio_backend_name == "asyncio" else len(places) < 10


class TestQuickFunctions:
    """Hops of a function whose last call was quick: the loop's thread waits for a moment."""

    async def test_the_loop_takes_no_turn(self, anyio_backend_name, monkeypatch):
        """
        A hop that ends in time returns before anything else of the loop runs.
        """
        monkeypatch.setattr(hops, "WAIT_MAX_S", PATIENCE_S)
        duration, turns = quick(), []

        async def other():
            turns.append(1)

        async with anyio.create_task_group() as group:
            group.start_soon(other)
            place = await hops.hop(threading.get_ident, thread_limiter(), duration)
            taken = len(turns)

        assert place != threading.get_ident()
        assert taken == (0 if anyio_backend_name == "asyncio" else 1)

    async def test_one_that_needs_the_loop_gets_it(self, anyio_backend_name):
        """
        The wait is bounded: a function that was quick may call its loop, and counts as slow then.
        """
        duration = quick()

        def work():
            return anyio.from_thread.run_sync(threading.get_ident)

        assert await hops.hop(work, thread_limiter(), duration) == threading.get_ident()
        if anyio_backend_name == "asyncio":
            assert hops.QUICK_S < duration.seconds < 10

    async def test_the_first_call_is_not_waited_for(self, anyio_backend_name):
        """
        Nothing is known of a new function: the loop runs on; then its duration is known.
        """
        duration, turns = CallDuration(), []

        async def other():
            turns.append(1)

        async with anyio.create_task_group() as group:
            group.start_soon(other)
            await hops.hop(threading.get_ident, thread_limiter(), duration)
            taken = len(turns)

        assert taken == 1
        assert math.isfinite(duration.seconds) == (anyio_backend_name == "asyncio")

    async def test_no_end_is_missed_when_the_wait_is_over(self, monkeypatch):
        """
        Each call ends once, whether its thread ends before, while or after the loop gives up.
        """
        for wait_s in (0.0, 1e-6, 1e-5):
            monkeypatch.setattr(hops, "WAIT_MAX_S", wait_s)
            with anyio.fail_after(PATIENCE_S):
                for n in range(200):
                    assert await hops.hop(partial(abs, -n), thread_limiter(), quick()) == n
        assert thread_limiter().borrowed_tokens == 0

    @pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the hop is anyio's on trio
    async def test_an_end_between_the_wait_and_its_last_look_counts(self, monkeypatch):
        """
        A thread that reports just after the loop gave up, and before it can be woken, is heard.
        """
        monkeypatch.setattr(hops, "WAIT_MAX_S", 0.0)
        goes_on = threading.Event()
        call: Any = vars(hops)["_Call"](goes_on.wait, None, *vars(hops)["_names"]())
        assert not call.ends_soon()

        goes_on.set()
        done: threading.Lock = getattr(call, "_done")  # noqa: B009 - private
        assert done.acquire(timeout=PATIENCE_S)
        done.release()

        with anyio.fail_after(PATIENCE_S):
            assert await call.end()

    async def test_the_runs_of_a_graph_learn_from_each_other(self, anyio_backend_name):
        """
        The duration belongs to the compiled graph: a second run knows it from its first step on.
        """
        compiled = graph(lambda _: {"n": 1})
        duration = compiled.plan.nodes["node"].duration
        assert duration.seconds == math.inf

        await compiled.ainvoke({})

        assert math.isfinite(duration.seconds) == (anyio_backend_name == "asyncio")


def quick() -> CallDuration:
    """The duration of a function that was quick."""
    duration = CallDuration()
    duration.seconds = 0.0
    return duration


class TestThreadsGoOn:
    @pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio the thread is anyio's
    async def test_a_function_that_removes_the_token_of_its_thread_ends_normally(self):
        """
        A node that uses its thread for another event loop, and so removes anyio's token, returns.
        """

        def node(_state):
            vars(threadlocals).clear()
            return {"n": 1}

        with anyio.fail_after(PATIENCE_S):
            assert await graph(node).ainvoke({"n": 0}) == {"n": 1}

    def test_a_report_that_fails_ends_no_thread(self, monkeypatch):
        """
        A thread whose report raises does the work that it gets next.
        """
        told, second = [], threading.Event()
        reported = threading.Event()
        monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_type))

        def fail():
            worker_threads.start(second.set)
            raise OSError

        def work():
            reported.set()
            return fail

        worker_threads.start(work)

        assert reported.wait(PATIENCE_S)
        assert second.wait(PATIENCE_S)
        assert told == [OSError]


class TestFairness:
    @pytest.mark.usefixtures("threads_of")
    async def test_quick_plain_nodes_let_other_tasks_run(self):
        """
        While quick plain nodes follow each other, the loop's other tasks get a turn every few.
        """
        turns, most = [0], [0]

        def node(state):
            most[0] = max(most[0], state["n"] - turns[-1])
            return {"n": state["n"] + 1}

        async def beside():
            while True:
                await anyio.lowlevel.checkpoint()
                turns.append(state_now[0])

        state_now = [0]

        def route(state):
            state_now[0] = state["n"]
            return "node" if state["n"] < 200 else END

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(beside)
            await graph(node, route).ainvoke({"n": 0}, {"recursion_limit": 300})
            tasks.cancel_scope.cancel()

        assert most[0] <= 16
