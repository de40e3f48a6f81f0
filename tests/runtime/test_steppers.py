"""Blocking calls in their own thread: nesting, resources, and what tools of programmers see."""

import asyncio
import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, TypedDict, cast

import anyio
import pytest

from actorgraph import GraphRecursionError, task
from actorgraph.runtime import worker_threads
from actorgraph.runtime.mailbox import Mailbox, pause
from actorgraph.runtime.run.node_actor import NodeActor
from actorgraph.runtime.signals import HeldSignals
from actorgraph.runtime.stepper import Stepper, in_portal, run_together
from tests.support.gates import PATIENCE_S
from tests.support.graphs import in_a_row, side_by_side

FILES = Path("/proc/self/fd")
DEEP = 90
"""Below the limit of runs inside each other, which is 100."""


class Count(TypedDict):
    n: int


def recursive() -> Any:
    """A graph whose node calls it until `n` is 0."""

    def down(state: Count) -> dict[str, int]:
        return {"n": graph.invoke({"n": state["n"] - 1})["n"] + 1 if state["n"] else 0}

    graph = in_a_row({"down": down}, schema=Count)
    return graph


class TestNesting:
    def test_a_graph_may_call_itself_up_to_the_limit(self):
        """
        Ninety runs inside each other end, without a RecursionError of Python's.
        """
        assert recursive().invoke({"n": DEEP}) == {"n": DEEP}

    def test_beyond_it_the_limit_is_named(self):
        """
        A graph that calls itself for ever fails with the library's own error.
        """
        with pytest.raises(GraphRecursionError):
            recursive().invoke({"n": 10 * DEEP})


class TestResources:
    @pytest.mark.skipif(not FILES.exists(), reason="needs /proc")
    def test_a_call_opens_no_file(self):
        """
        Hundreds of calls at once need no file descriptor each.
        """
        seen: list[int] = []
        before = len([*FILES.iterdir()])
        in_a_row({"a": lambda _: seen.append(len([*FILES.iterdir()]))}).invoke({})

        assert seen == [before]


class TestTurns:
    def test_between_two_items_the_thread_is_the_readers(self):
        """
        The reader of a stream finds its own hooks, and may run an event loop, between two items.
        """

        async def program() -> str:
            return "ran"

        graph = in_a_row({"a": lambda _: None, "b": lambda _: None, "c": lambda _: None})
        before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=ignore, finalizer=ignore)
        try:
            seen = [(asyncio.run(program()), sys.get_asyncgen_hooks()) for _ in graph.stream({})]
        finally:
            sys.set_asyncgen_hooks(*before)

        assert seen == [("ran", (ignore, ignore))] * 3


class TestTools:
    def test_tracers_see_each_function_return(self):
        """
        Under `sys.settrace`, as of coverage, every call that begins in a blocking call ends in it.
        """
        open_calls = [0]

        def trace(_frame: Any, event: str, _arg: Any) -> Any:
            open_calls[0] += {"call": 1, "return": -1}.get(event, 0)
            return trace

        graph = in_a_row({"a": lambda _: {"bar": ["a"]}, "b": lambda _: None})
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            graph.invoke({})
        finally:
            sys.settrace(before)

        assert open_calls == [0]


@task
def add(number: int) -> int:
    return number + 1


TOOLS = {"add": add}


def test_tasks_in_a_container_run_beside_their_caller():
    """
    A thread that a function starts may wait for the result of a `@task` of a table of tools.
    """

    def node(_: Count) -> dict[str, int]:
        called = TOOLS["add"](1)
        with ThreadPoolExecutor(1) as pool:
            return {"n": pool.submit(called.result).result(PATIENCE_S)}

    assert in_a_row({"a": node}, schema=Count).invoke({"n": 0}) == {"n": 2}


def ignore(_: object) -> None:
    pass


class Held(dict):
    """An input that can be referenced weakly."""


class TestEndedRuns:
    @pytest.mark.parametrize("way", ["to its end", "closed"])
    def test_nothing_holds_the_input_of_a_stream_that_has_ended(self, way):
        """
        When a blocking stream has ended, its input is freed.
        """
        graph = in_a_row({"node": lambda state: {"n": state["n"] + 1}}, schema=Count)
        graph.invoke({"n": 0})
        given = Held(n=1)
        freed = weakref.ref(given)
        chunks = graph.stream(given)
        del given
        assert next(chunks) == {"node": {"n": 2}}
        if way == "closed":
            chunks.close()
        assert list(chunks) == []
        del chunks

        gc.collect()

        assert freed() is None

    def test_a_call_leaves_no_cycle(self):
        """
        What a call holds for its signals is freed at its end, without the garbage collector.
        """
        graph = in_a_row({"a": lambda _: {"n": 1}}, schema=Count)
        gc.collect()
        gc.disable()
        try:
            graph.invoke({"n": 0})
            graph.invoke({"n": 0}, stream_mode="updates")
            left = [found for found in gc.get_objects() if isinstance(found, HeldSignals)]
        finally:
            gc.enable()

        assert left == []


class TestCancellation:
    def test_one_that_comes_before_the_first_step_leaves_the_work_undone(self):
        """
        A coroutine whose stepper is cancelled before it begins never begins.
        """
        seen: list[str] = []

        async def work() -> None:
            seen.append("began")

        stepper = Stepper(work())
        stepper.cancel()
        with pytest.raises(asyncio.CancelledError):
            stepper.run()

        assert seen == []

    def test_it_marks_the_stepper_until_it_has_been_handled(self):
        """
        A cancelled stepper is marked, with those inside of it; `uncancel` takes the mark away.
        """
        outer, inner = Stepper(pause(0)), Stepper(pause(0))
        outer.inner = inner
        outer.cancel()
        marks = [outer.cancelled, inner.cancelled]
        outer.uncancel()
        outer.run()
        with pytest.raises(asyncio.CancelledError):
            inner.run()

        assert (marks, outer.cancelled) == ([True, True], False)

    @pytest.mark.parametrize("first", ["waits", "fails"])
    def test_it_reaches_an_awaitable_that_a_plain_function_returns(self, first):
        """
        When a sibling fails, what a function has returned to be awaited is cancelled, and awaited.
        """
        began, cancelled = Event(), Event()

        async def forever() -> None:
            try:
                began.set()
                await anyio.sleep_forever()
            finally:
                cancelled.set()

        def fails(_: Any) -> None:
            began.wait(PATIENCE_S)
            raise ValueError("of the sibling")

        nodes = {"waits": lambda _: forever(), "fails": fails}
        with pytest.raises(ValueError, match="of the sibling"):
            side_by_side({first: nodes.pop(first), **nodes}).invoke({})

        assert cancelled.wait(PATIENCE_S)

    @pytest.mark.parametrize("way", ["invoke", "batch", "stream"])
    def test_it_reaches_an_async_run_below(self, way):
        """
        When a sibling fails, what a function has called that runs in the portal is cancelled too.
        """
        began, cancelled = Event(), Event()

        async def forever(*_: Any) -> None:
            try:
                began.set()
                await anyio.sleep_forever()
            finally:
                cancelled.set()

        def fails(_: Any) -> None:
            began.wait(PATIENCE_S)
            raise ValueError("of the sibling")

        below = in_a_row({"a": forever})
        calls: dict[str, Any] = {
            "invoke": lambda _: below.invoke({}),
            "batch": lambda _: below.batch([{}, {}]),
            "stream": lambda _: list(below.stream({})),
        }
        with pytest.raises(ValueError, match="of the sibling"):
            side_by_side({"waits": calls[way], "fails": fails}).invoke({})

        assert cancelled.wait(PATIENCE_S)

    def test_an_actor_takes_that_of_where_its_task_runs(self):
        """
        An actor that is made inside of a function's trio program works in a stepper too.
        """
        node, unused = in_a_row({"a": lambda _: None}).plan.nodes["a"], cast("Any", None)

        async def make() -> NodeActor:
            return NodeActor(node, unused)

        actor = anyio.run(make, backend="trio")

        assert actor._cancellation is asyncio.CancelledError  # noqa: SLF001


class TestInPortal:
    def test_a_thread_without_a_stepper_gets_the_result_or_the_error(self):
        """
        Outside of any blocking call `in_portal` runs an async function with its arguments.
        """

        async def halve(number: int) -> int:
            await asyncio.sleep(0)
            if number % 2:
                raise ValueError(number)
            return number // 2

        assert in_portal(halve, 8) == 4
        with pytest.raises(ValueError, match="7"):
            in_portal(halve, 7)


@pytest.fixture
def no_threads(monkeypatch) -> None:
    """The system has no more threads."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(worker_threads, "start", refuse)


SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


@pytest.mark.usefixtures("no_threads")
class TestTogetherWithoutThreads:
    def test_functions_that_wait_run_one_after_the_other(self):
        """
        Each waits as often as it likes, gets what it waits for, and has a context of its own.
        """
        seen: list[str] = []
        boxes: list[Mailbox[str]] = [Mailbox(), Mailbox()]

        async def work(box: Mailbox[str]) -> None:
            before = SEEN.get()
            for _ in range(2):
                SEEN.set(await box.get())
                await pause(0.001)
            seen.append(f"{before} {SEEN.get()}")

        for box, names in zip(boxes, ("ab", "cd"), strict=True):
            for name in names:
                box.put(name)
        Stepper(run_together([partial(work, box) for box in boxes])).run()

        assert seen == ["nothing b", "nothing d"]

    def test_a_cancellation_reaches_the_one_that_waits(self):
        """
        It is raised where that function waits, which may wait again before it ends; the function
        behind it isn't called.
        """
        seen: list[str] = []
        stepper: list[Stepper[None]] = []

        async def waits() -> None:
            try:
                stepper[0].cancel()
                await pause(PATIENCE_S)
            except asyncio.CancelledError:
                await pause(0.001)
                seen.append("cancelled")
                raise

        async def behind() -> None:
            seen.append("behind")

        stepper.append(Stepper(run_together([waits, behind])))
        with pytest.raises(asyncio.CancelledError):
            stepper[0].run()

        assert seen == ["cancelled"]
