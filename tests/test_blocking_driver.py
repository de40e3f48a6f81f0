"""Tests under the blocking driver: their functions, their calls, and the table of others."""

import asyncio
import contextvars
from typing import Any

import anyio
import pytest

from actorgraph import START, InMemorySaver, StateGraph, entrypoint, task
from actorgraph.loops import in_event_loop
from tests.support import blocking_driver, blocking_plugin, gates
from tests.support.blocking_driver import COUNTS, NotApplicableError, installed, needs_loop
from tests.support.gates import Turnstile
from tests.support.graphs import AB, at, in_a_row, writer

SEEN: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")


@pytest.fixture
def blocking():
    """Graphs made and called in the test are blocking ones."""
    COUNTS.clear()
    with installed():
        yield


async def says_where(state: Any) -> Any:
    """A node that says whether it sees an event loop, and a context variable of the caller's."""
    return {"bar": [str(in_event_loop()), SEEN.get()]}


async def opened(turnstile: Turnstile) -> None:
    """Let a node out as soon as it is in."""
    await turnstile.entered.wait()
    turnstile.out.set()


class TestFunctions:
    def test_an_async_node_sees_no_event_loop(self, blocking):
        """
        Its run takes a caller's loop, from which functions are hidden, in the caller's context.
        """

        async def main() -> Any:
            SEEN.set("the caller's")
            return await in_a_row({"a": says_where}).ainvoke({})

        assert asyncio.run(main())["bar"] == ["False", "the caller's"]
        assert COUNTS == {"runs": 1, "caller": 1}

    def test_a_node_waits_for_the_test(self, blocking):
        """
        A gate that the test opens lets the plain function go on, whose thread is blocked meanwhile.
        """

        async def main() -> Any:
            slow = Turnstile({"bar": ["out"]})
            graph = in_a_row({"slow": slow})
            result, _ = await asyncio.gather(graph.ainvoke({}), opened(slow))
            return result

        assert asyncio.run(main())["bar"] == ["out"]

    def test_a_subgraph_is_called_in_the_node_s_thread(self, blocking):
        """
        A graph that a waiting function awaits is a child of its task: its checkpoint has a parent.
        """
        inner = in_a_row({"x": writer("x")}, checkpointer=True)

        async def calls(state: Any) -> Any:
            await asyncio.sleep(0)
            return {"bar": (await inner.ainvoke({}))["bar"]}

        async def main() -> Any:
            graph = in_a_row({"calls": calls}, checkpointer=InMemorySaver())
            result = await graph.ainvoke({}, at())
            return result, await graph.aget_state(at(checkpoint_ns="calls"))

        result, state = asyncio.run(main())
        assert (result["bar"], state.values["bar"]) == (["x"], ["x"])
        assert COUNTS == {"runs": 1, "caller": 1}

    def test_a_task_that_is_awaited(self, blocking):
        """
        An async `@task` runs in a thread, and the plain entrypoint waits for its result.
        """

        @task
        async def double(number: int) -> tuple[int, bool]:
            return 2 * number, in_event_loop()

        @entrypoint()
        async def program(number: int) -> list[Any]:
            return [await double(number), await double(number + 1)]

        assert asyncio.run(program.ainvoke(1)) == [(2, False), (4, False)]

    def test_which_functions_need_the_loop(self):
        """
        Those that mention events or event loops, themselves or in helpers that they call.
        """
        turnstile = Turnstile()

        async def waits(state: Any) -> Any:
            return await turnstile(state)

        assert needs_loop(waits)
        assert needs_loop(turnstile)
        assert not needs_loop(says_where)

    def test_a_time_limit_is_not_applicable(self, blocking):
        """
        Only async nodes may have one.
        """
        builder = StateGraph(AB).add_node("a", says_where, timeout=1).add_edge(START, "a")

        with pytest.raises(NotApplicableError, match="only of async ones"):
            builder.compile()


class TestCalls:
    def test_a_stream_is_read_chunk_by_chunk(self, blocking):
        """
        A blocking stream runs only while it is read: after the first chunk one node has run.
        """
        log: list[str] = []

        async def main() -> Any:
            async with in_a_row({n: writer(n, log) for n in "ab"}).astream({}) as stream:
                return await anext(stream), list(log)

        assert asyncio.run(main()) == ({"a": {"foo": "a", "bar": ["a"]}}, ["a"])
        assert COUNTS == {"runs": 1, "caller": 1}

    def test_a_cancelled_test_cancels_its_call(self, blocking):
        """
        As Ctrl-C does: the function that waits is interrupted, and finished work is stored.
        """

        async def main() -> Any:
            slow = Turnstile()
            graph = in_a_row({"a": writer("a"), "slow": slow}, checkpointer=InMemorySaver())
            call = asyncio.ensure_future(graph.ainvoke({}, at()))
            await slow.entered.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            return slow.closed, await graph.aget_state(at())

        closed, state = asyncio.run(main())
        assert (closed, state.values["bar"], state.next) == (1, ["a"], ("slow",))

    def test_settled_waits_for_the_threads_of_calls(self, blocking):
        """
        It returns when the call has gone as far as it can: to a function that waits for the test.
        """
        log: list[int] = []

        async def busy(state: Any) -> Any:
            log.append(sum(range(3_000_000)))
            return {"bar": ["busy"]}

        async def main() -> list[int]:
            slow = Turnstile()
            call = asyncio.ensure_future(in_a_row({"busy": busy, "slow": slow}).ainvoke({}))
            await gates.settled()
            reached = [len(log), slow.calls]
            slow.out.set()
            await call
            return reached

        assert asyncio.run(main()) == [1, 1]

    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_a_loop_that_the_test_runs_is_the_one_that_functions_wait_in(self, blocking, backend):
        """
        A test without a marker may run asyncio or trio itself, and open gates there.
        """

        async def main() -> Any:
            slow = Turnstile({"bar": ["out"]})
            async with anyio.create_task_group() as group:
                group.start_soon(opened, slow)
                return await in_a_row({"slow": slow}).ainvoke({})

        assert anyio.run(main, backend=backend)["bar"] == ["out"]

    def test_a_call_that_never_ends_is_given_up(self, blocking, monkeypatch):
        """
        It fails the test with an error, which says so.
        """
        monkeypatch.setattr(blocking_driver, "PATIENCE_S", 0.05)

        async def main() -> None:
            await in_a_row({"slow": Turnstile()}).ainvoke({})

        with pytest.raises(TimeoutError, match="a blocking call has not ended"):
            asyncio.run(main())

    def test_afterwards_graphs_are_as_before(self):
        """
        Outside of `installed()` an async node runs in its caller's event loop.
        """
        with installed():
            pass

        assert asyncio.run(in_a_row({"a": says_where}).ainvoke({}))["bar"][0] == "True"


class TestTable:
    def test_it_names_tests_that_exist(self):
        """
        Each entry is a folder, a file, or a class or test in it.
        """
        for tests in blocking_plugin.table().values():
            for entry in tests:
                file, *names = entry.split("::")
                path = blocking_plugin.ROOT / file
                assert path.exists(), entry
                text = path.read_text("utf-8") if names else ""
                assert all(f" {name}(" in text or f" {name}:" in text for name in names), entry

    def test_an_entry_counts_for_the_tests_inside_it(self):
        """
        A test is left out by its own name, its class, its file or its folder.
        """
        table = {"why": ["tests/x", "tests/y.py::TestZ"]}

        found = [
            blocking_plugin.reason_of(test, table)
            for test in ("tests/x/a.py::test_b[c]", "tests/y.py::TestZ::test_a", "tests/y.py::test")
        ]

        assert found == ["why", "why", None]
