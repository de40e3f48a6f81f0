"""Plain functions of blocking calls: errors, context variables, streams left early, memory."""

import asyncio
import contextvars
import gc
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import anyio
import pytest
import trio

from actorgraph import (
    END,
    START,
    InMemorySaver,
    NodeCancelledError,
    SqliteSaver,
    StateGraph,
    entrypoint,
    interrupt,
)
from actorgraph.errors import RunningLoopError, StepTimeoutError
from tests.support.graphs import AB, at, in_a_row, side_by_side

SEEN: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="caller's")


def says(*texts: object) -> Any:
    """A node that adds texts."""
    return lambda _: {"bar": [str(text) for text in texts]}


def raises(error: BaseException) -> Any:
    """A node that raises an error."""

    def node(state: Any) -> None:
        raise error

    return node


def three(ran: list[str], saver: Any) -> Any:
    """Nodes a, b and c that say when they run."""

    def node(name: str, _: Any) -> Any:
        ran.append(name)
        return {"bar": [name]}

    return in_a_row({name: partial(node, name) for name in "abc"}, checkpointer=saver)


@pytest.fixture(params=["memory", "sqlite"])
def kept(request, tmp_path):
    """A saver in memory, and one in a file."""
    return InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "runs.db")


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (StopIteration("x"), RuntimeError),
            (GeneratorExit(), GeneratorExit),
            (KeyboardInterrupt(), KeyboardInterrupt),
            (SystemExit(3), SystemExit),
            (asyncio.CancelledError(), NodeCancelledError),
        ],
        ids=lambda value: getattr(value, "__name__", type(value).__name__),
    )
    def test_any_exception_ends_the_call(self, error, told, kept):
        """
        Each error of a node comes out of the call, finished work is kept, and a later call works.
        """
        graph = in_a_row({"a": says("a"), "bad": raises(error)}, checkpointer=kept)
        for config, call in ((at("one"), graph.invoke), (at("two"), graph.stream)):
            with pytest.raises(told):
                list(call({"bar": []}, config))

            assert graph.get_state(config).values["bar"] == ["a"]
            assert graph.get_state(config).next == ("bad",)
        assert in_a_row({"a": says("a")}).invoke({})["bar"] == ["a"]

    def test_a_returned_awaitable_is_awaited(self):
        """
        A plain function that returns a coroutine gives what that returns.
        """

        async def later() -> Any:
            await asyncio.sleep(0)
            return {"bar": ["later"]}

        assert in_a_row({"a": lambda _: later()}).invoke({})["bar"] == ["later"]

    def test_a_returned_awaitable_runs_in_the_background_loop_for_any_thread(self):
        """
        An awaitable of a plain node or router is awaited in the background loop, also if the
        blocking call comes from a worker thread of another loop.
        """
        loops = []

        async def later(answer: Any) -> Any:
            loops.append(asyncio.get_running_loop())
            return answer

        builder = StateGraph(AB).add_node("a", lambda _: later({"bar": ["a"]}))
        builder.add_edge(START, "a").add_conditional_edges("a", lambda _: later(END), [END])
        graph = builder.compile()

        async def in_a_thread() -> None:
            loops.append(asyncio.get_running_loop())
            assert await anyio.to_thread.run_sync(graph.invoke, {"bar": []}) == {"bar": ["a"]}

        assert graph.invoke({"bar": []}) == {"bar": ["a"]}
        anyio.run(in_a_thread)
        background, same, callers, *rest = loops
        assert same is background
        assert callers is not background
        assert rest == [background, background]

    def test_a_step_timeout_ends_a_function_that_waits(self):
        """
        The limit of a superstep holds in a blocking call; the function is abandoned.
        """
        graph = in_a_row({"a": lambda _: time.sleep(1)})
        graph.step_timeout = 0.05
        began = time.perf_counter()

        with pytest.raises(StepTimeoutError):
            graph.invoke({})
        assert time.perf_counter() - began < 1

    def test_too_deep_a_stack_is_an_error_of_the_node(self):
        """
        A function that recurses too deeply raises RecursionError; a deep one does not.
        """

        def down(depth: int) -> int:
            return depth and down(depth - 1)

        assert in_a_row({"a": lambda _: {"bar": [str(down(600))]}}).invoke({})["bar"] == ["0"]
        with pytest.raises(RecursionError):
            in_a_row({"a": lambda _: down(100_000)}).invoke({})


class TestCalls:
    def test_graphs_are_nested_to_any_depth(self):
        """
        A node invokes a graph whose node invokes a graph, and so on, each in the run above.
        """

        def node(state: Any) -> Any:
            depth = int(state["bar"][-1])
            below = graph.invoke({"bar": [str(depth - 1)]})["bar"] if depth else []
            return {"bar": below}

        graph = in_a_row({"a": node}, checkpointer=InMemorySaver())

        assert len(graph.invoke({"bar": ["20"]}, at())["bar"]) == 21
        assert len([*graph.get_state_history(at())]) == 3

    def test_a_node_reads_a_stream(self):
        """
        A node iterates over the stream of another graph.
        """
        inner = in_a_row({"x": says("x"), "y": says("y")})
        graph = in_a_row({"a": lambda _: {"bar": [str(chunk) for chunk in inner.stream({})]}})

        assert graph.invoke({})["bar"] == ["{'x': {'bar': ['x']}}", "{'y': {'bar': ['y']}}"]

    def test_a_node_runs_event_loops(self):
        """
        `asyncio.run`, `anyio.run` and `trio.run` work in a node, also with a graph in them.
        """
        inner = in_a_row({"x": says("x")})

        async def here(sleep: Any) -> str:
            await sleep(0)
            return "ran"

        def node(state: Any) -> Any:
            ran = [asyncio.run(here(asyncio.sleep)), anyio.run(here, anyio.sleep)]
            ran += [trio.run(here, trio.sleep), *asyncio.run(inner.ainvoke({}))["bar"]]
            return {"bar": ran}

        assert in_a_row({"a": node}).invoke({})["bar"] == ["ran", "ran", "ran", "x"]

    async def test_it_is_refused_in_an_event_loop(self):
        """
        A blocking call that would block the caller's event loop raises an error.
        """
        with pytest.raises(RunningLoopError):
            in_a_row({"a": says("a")}).invoke({})

    def test_the_state_is_read_inside_of_a_node(self, kept):
        """
        A node that asks the saver sees what its run has stored so far.
        """
        graph = in_a_row(
            {"a": says("a"), "b": lambda _: {"bar": graph.get_state(at()).values["bar"]}},
            checkpointer=kept,
        )

        assert graph.invoke({"bar": []}, at())["bar"] == ["a", "a"]

    def test_calls_leave_nothing_behind(self):
        """
        A thousand calls leave no objects that fifty had not left.
        """
        graph = in_a_row({name: says(name) for name in "abc"})

        def objects(calls: int) -> int:
            for _ in range(calls):
                graph.invoke({})
            gc.collect()
            return len(gc.get_objects())

        before = objects(50)

        assert objects(1_000) - before < 100

    @pytest.mark.parametrize("ends", ["returns", "raises", "asks"])
    def test_a_call_keeps_nothing_that_it_was_given(self, ends):
        """
        The input, the answer, the saver and the error of a thread's first call are freed after it,
        also if the thread lives on.
        """

        class Big(list[str]):
            pass

        class Broken(Exception):
            pass

        def node(given: Big, made: Big, _: Any) -> Any:
            if ends == "raises":
                raise Broken(given, made)
            return {"bar": made if ends == "returns" else interrupt(made)}

        def call() -> list[weakref.ref[Any]]:
            saver, given, made = InMemorySaver(), Big("a"), Big("b")
            graph = in_a_row({"a": partial(node, given, made)}, checkpointer=saver)
            kept: list[Any] = [saver, given, made, graph]
            try:
                graph.invoke({"bar": given}, at())
            except Broken as error:
                kept.append(error)
            return [weakref.ref(value) for value in kept]

        def alive() -> list[Any]:
            kept = call()
            gc.collect()
            return [found for ref in kept if (found := ref()) is not None]

        with ThreadPoolExecutor(1) as thread:  # it has no runner yet
            assert thread.submit(alive).result() == []


class TestContext:
    def test_a_task_has_a_context_of_its_own(self):
        """
        The variable that a node sets is seen by its router, not by other tasks nor by the caller.
        """
        routed: list[str] = []

        def node(name: str, _: Any) -> Any:
            found = SEEN.get()
            SEEN.set(name)
            return {"bar": [found]}

        def route(state: Any) -> str:
            routed.append(SEEN.get())
            return "c"

        builder = StateGraph(AB)
        for name in "abc":
            builder.add_node(name, partial(node, name))
        builder.add_edge(START, "a")
        builder.add_edge(START, "b")
        builder.add_conditional_edges("a", route)

        assert builder.compile().invoke({})["bar"] == ["caller's"] * 3
        assert (routed, SEEN.get()) == (["a"], "caller's")

    def test_a_graph_sees_the_context_that_it_is_called_in(self):
        """
        A nested call inside of `Context.run` sees that context, and the node goes on in its own.
        """
        inner = in_a_row({"x": lambda _: {"bar": [SEEN.get()]}}, checkpointer=True)

        def node(state: Any) -> Any:
            SEEN.set("node's")
            other = contextvars.copy_context()
            other.run(SEEN.set, "other")
            found = other.run(inner.invoke, {})["bar"]
            return {"bar": [*found, SEEN.get()]}

        graph = in_a_row({"a": node}, checkpointer=InMemorySaver())

        assert graph.invoke({}, at())["bar"] == ["other", "node's"]


class TestStreams:
    def test_a_stream_left_early_has_run_one_superstep(self, kept):
        """
        After one chunk and a `break` one node has run; the thread goes on from there.
        """
        ran: list[str] = []
        graph = three(ran, kept)
        for chunk in graph.stream({"bar": []}, at()):
            assert chunk == {"a": {"bar": ["a"]}}
            break

        assert ran == ["a"]
        assert graph.get_state(at()).next == ("b",)
        assert graph.invoke(None, at())["bar"] == ["a", "b", "c"] == ran

    @pytest.mark.parametrize(
        ("modes", "counts"),
        [("updates", [1, 2, 3]), ("values", [0, 1, 2, 3]), (["updates", "custom"], [1, 2, 3])],
    )
    def test_no_node_runs_before_the_chunks_before_it_are_read(self, modes, counts, kept):
        """
        When the chunk of a node arrives, no later node has begun.
        """
        ran: list[str] = []
        stream = three(ran, kept).stream({"bar": []}, at(), stream_mode=modes)

        assert [len(ran) for _ in stream] == counts

    def test_a_stream_of_async_functions_waits_too(self):
        """
        The same holds for graphs with async functions, which run in another thread.
        """
        ran: list[str] = []

        async def node(name: str, _: Any) -> Any:
            ran.append(name)
            return {"bar": [name]}

        stream = in_a_row({name: partial(node, name) for name in "abc"}).stream({})

        assert [(*chunk, [*ran]) for chunk in stream] == [
            ("a", ["a"]),
            ("b", ["a", "b"]),
            ("c", ["a", "b", "c"]),
        ]

    def test_a_flow_that_is_left_early_can_be_called_again(self):
        """
        An entrypoint's stream that was closed at once leaves its thread free.
        """

        @entrypoint(checkpointer=InMemorySaver())
        def flow(given: int) -> int:
            return given + 1

        stream = flow.stream(1, at())
        next(stream)
        stream.close()

        assert flow.invoke(2, at()) == 3

    def test_parallel_nodes_give_their_chunks_as_they_end(self):
        """
        The chunks of one superstep are all there, one per node.
        """
        stream = side_by_side({name: says(name) for name in "abcd"}).stream({})

        assert sorted(name for chunk in stream for name in chunk) == ["a", "b", "c", "d"]
