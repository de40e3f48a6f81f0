"""Loops of calling threads: resources, nesting, and what tools of programmers see of them."""

import asyncio
import gc
import math
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import pytest

from actorgraph import GraphRecursionError, task
from actorgraph.runtime import caller
from actorgraph.runtime.inline import Runner
from tests.support.gates import PATIENCE_S
from tests.support.graphs import in_a_row

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
    def test_threads_leave_nothing_behind(self):
        """
        Greenlets that have called functions in a thread are freed with it.
        """
        graph = in_a_row(
            {"a": lambda _: None, "b": lambda _: recursive().invoke({"n": 2}) and None}
        )
        gc.collect()
        before = runners()
        for _ in range(20):
            thread = threading.Thread(target=graph.invoke, args=({},))
            thread.start()
            thread.join(PATIENCE_S)
        gc.collect()

        assert runners() <= before

    @pytest.mark.skipif(not FILES.exists(), reason="needs /proc")
    def test_a_call_opens_no_file(self):
        """
        Hundreds of calls at once need no file descriptor each.
        """
        seen: list[int] = []
        opened = [caller.take() for _ in range(20)]  # no idle one is left for the call

        before = len([*FILES.iterdir()])
        in_a_row({"a": lambda _: seen.append(len([*FILES.iterdir()]))}).invoke({})
        for loop in opened:
            caller.give_back(loop)

        assert seen == [before]

    def test_connections_in_a_loop_work(self):
        """
        A cache's client may connect in the loop of a call, which other threads still wake.
        """

        async def talk() -> bytes:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(await reader.readline())
                writer.close()

            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            async with server:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                writer.write(await asyncio.to_thread(lambda: b"hello\n"))
                said = await reader.readline()
                writer.close()
                return said

        assert caller.run(talk) == b"hello\n"

    def test_timers_come_due_beside_callbacks_that_are_ready(self):
        """
        A loop that always has something to do looks for its timers too.
        """

        async def busy() -> bool:
            due = asyncio.Event()
            asyncio.get_running_loop().call_later(0, due.set)
            for _ in range(100):
                await asyncio.sleep(0)
            return due.is_set()

        assert caller.run(busy)


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

    def test_debug_mode_accepts_functions_that_last(self):
        """
        The debug mode of asyncio does not complain of a function that blocks here.
        """
        in_a_row({"a": lambda _: None}).invoke({})

        assert {loop.slow_callback_duration for loop in caller.idle_loops()} == {math.inf}


@task
def add(number: int) -> int:
    return number + 1


TOOLS = {"add": add}


def test_tasks_in_a_container_run_beside_their_caller():
    """
    A `@task` of a table of tools is found before the run: a thread may wait for its result.
    """

    def node(_: Count) -> dict[str, int]:
        called = TOOLS["add"](1)
        with ThreadPoolExecutor(1) as pool:
            return {"n": pool.submit(called.result).result(PATIENCE_S)}

    assert in_a_row({"a": node}, schema=Count).invoke({"n": 0}) == {"n": 2}


def ignore(_: object) -> None:
    pass


def runners() -> int:
    """How many greenlets there are that call functions."""
    return sum(type(found) is Runner for found in gc.get_objects())


class Held(dict):
    """An input that can be referenced weakly."""


class TestEndedRuns:
    @pytest.mark.parametrize("way", ["to its end", "closed"])
    def test_an_idle_loop_holds_nothing_of_the_stream_before(self, way):
        """
        When a blocking stream has ended, its input is freed although the loop is kept.
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
        assert caller.idle_loops()
