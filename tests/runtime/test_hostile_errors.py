"""Errors that no sane program raises: the caller gets them, siblings keep their work, all ends."""

import asyncio
from typing import Annotated, TypedDict

import anyio
import anyio.from_thread
import pytest

from actorgraph import END, START, ActorSystem, Command, InMemorySaver, RetryPolicy, StateGraph
from tests.support.gates import PATIENCE_S
from tests.support.graphs import AB, at, compiled, in_a_row, side_by_side, writer

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Speechless(Exception):
    """Its texts can't be had."""

    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


class Noteless(Exception):
    """It takes no notes."""

    def add_note(self, _):
        raise RuntimeError


class Base(BaseException):
    """A BaseException outside of every known hierarchy."""


ERRORS = [Speechless, Noteless, Base, GeneratorExit, SystemExit, KeyboardInterrupt]


class Once:
    """Raises at its first call."""

    def __init__(self, kind):
        self.kind = kind
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls == 1:
            raise self.kind


async def write_a(state):
    """A node."""
    return {"bar": ["a"]}


async def caught(call, *args, **options):
    """The error of a call that fails soon."""
    with anyio.fail_after(PATIENCE_S):
        try:
            await call(*args, **options)
        except BaseException as error:  # noqa: BLE001 - that is what it is for
            return error
    return None


@pytest.mark.parametrize("kind", ERRORS)
class TestNodes:
    @pytest.mark.parametrize("is_async", [True, False])
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_the_caller_gets_it_and_the_sibling_is_kept(self, kind, is_async, durability):
        """
        Any error of a node comes out as it is; the thread goes on, and no sibling runs again.
        """
        log: list[str] = []
        fails, ready = Once(kind), anyio.Event()

        async def good(state):
            log.append("good")
            ready.set()
            return {"bar": ["good"]}

        async def bad(state):
            await ready.wait()
            fails()
            return {"bar": ["bad"]}

        def bad_in_thread(state):
            anyio.from_thread.run(ready.wait)
            fails()
            return {"bar": ["bad"]}

        nodes = {"good": good, "bad": bad if is_async else bad_in_thread}
        graph = side_by_side(nodes, checkpointer=InMemorySaver())

        error = await caught(graph.ainvoke, {}, at(), durability=durability)
        result = await graph.ainvoke(None, at())

        assert type(error) is kind
        assert (sorted(result["bar"]), log, fails.calls) == (["bad", "good"], ["good"], 2)

    async def test_a_stream_ends_with_it(self, kind):
        """
        The reader of a stream gets it too, whatever it reads.
        """
        fails = Once(kind)

        async def bad(state):
            fails()

        graph = in_a_row({"a": writer("a"), "bad": bad}, checkpointer=InMemorySaver())

        async def read():
            modes = ["values", "updates", "tasks", "debug"]
            return [chunk async for chunk in graph.astream({}, at(), stream_mode=modes)]

        assert type(await caught(read)) is kind

    async def test_a_system_lives_on(self, kind):
        """
        In an ActorSystem the run has failed, by Ctrl-C it is cancelled, and the others know
        nothing of it.
        """
        fails = Once(kind)
        status = "cancelled" if kind is KeyboardInterrupt else "error"

        async def bad(state):
            fails()
            return {"bar": ["b"]}

        async with ActorSystem({"g": in_a_row({"bad": bad})}) as system:
            run = await system.start("g", "one", {})
            error = await caught(run.result)
            other = await (await system.start("g", "two", {})).result()

        assert (type(error), run.status) == (kind, status)
        assert run.reason.startswith(kind.__name__)
        assert other["bar"] == ["b"]


@pytest.mark.parametrize("kind", [ValueError, *ERRORS])
class TestOtherFunctions:
    async def test_a_reducer(self, kind):
        """
        The error of a reducer ends the run, and its superstep is folded by the next one.
        """
        fails = Once(kind)

        def fold(before: list[str], new: list[str]) -> list[str]:
            if new == ["a"]:
                fails()
            return before + new

        class Folded(TypedDict):
            bar: Annotated[list[str], fold]

        graph = in_a_row({"a": write_a}, schema=Folded, checkpointer=InMemorySaver())

        error = await caught(graph.ainvoke, {"bar": []}, at())

        assert type(error) is kind
        assert (await graph.ainvoke(None, at()))["bar"] == ["a"]

    async def test_an_error_of_retry_on_is_the_tasks_error(self, kind):
        """
        The error of `retry_on` is the task's error.
        """

        async def bad(state):
            raise LookupError

        def retry_on(error):
            raise kind

        builder = StateGraph(AB)
        builder.add_node("bad", bad, retry_policy=RetryPolicy(retry_on=retry_on))
        builder.add_edge(START, "bad")

        assert type(await caught(builder.compile().ainvoke, {})) is kind


@only_asyncio
class TestStrayCancellations:
    async def test_a_node_that_returns_after_it_has_cancelled_its_task(self):
        """
        A cancellation that was not requested from outside, and that comes late, ends no run.
        """

        async def stray(state):
            if not state["bar"]:
                own_task().cancel()
            return {"bar": ["a"]}

        async def other(state):
            await anyio.wait_all_tasks_blocked()
            again = len(state["bar"]) < 3
            return Command(update={"bar": ["b"]}, goto="stray" if again else END)

        graph = compiled({"stray": stray, "other": other}, [(START, "stray"), ("stray", "other")])

        with anyio.fail_after(PATIENCE_S):
            result = await graph.ainvoke({"bar": []})

        assert result["bar"] == ["a", "b", "a", "b"]

    async def test_it_ends_the_wait_for_a_retry(self):
        """
        A task whose retry is cancelled so has failed; the run is not taken for cancelled.
        """

        async def stray(state):
            own_task().cancel()
            raise ConnectionError

        builder = StateGraph(AB)
        builder.add_node("stray", stray, retry_policy=RetryPolicy(initial_interval=60.0))
        builder.add_edge(START, "stray")

        assert type(await caught(builder.compile().ainvoke, {})) is ConnectionError

    async def test_task_groups_of_later_calls_work(self):
        """
        After a stray cancellation asyncio's own bookkeeping in the actor's task is right again.
        """

        async def fail():
            raise ValueError

        async def stray(state):
            if not state["bar"]:
                own_task().cancel()
                return {"bar": ["a"]}
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await anyio.sleep_forever()
            raise AssertionError

        async def other(state):
            await anyio.wait_all_tasks_blocked()
            return Command(goto="stray")

        graph = compiled({"stray": stray, "other": other}, [(START, "stray"), ("stray", "other")])

        assert isinstance(await caught(graph.ainvoke, {"bar": []}), ExceptionGroup)


def own_task() -> asyncio.Task:
    """The task that runs this."""
    task = asyncio.current_task()
    assert task is not None
    return task
