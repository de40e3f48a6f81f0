"""Plain routers on the event loop, by proof or by declaration; the others in worker threads."""

import threading
import warnings
from contextvars import ContextVar
from typing import TypedDict

import pytest

from actorgraph import END, START, StateGraph
from actorgraph.errors import SlowRouterWarning

CLOCK = "actorgraph.runtime.task.calling.perf_counter"
NAME: ContextVar[str] = ContextVar("name", default="")


class State(TypedDict):
    x: str


def here(seen):
    """A router that notes its thread, which a proof can't accept."""

    def route(state: State) -> str:
        seen.append(threading.get_ident())
        return END

    return route


def exclaims(state: State):
    """A plain node."""
    return {"x": state["x"] + "!"}


def graph(router, inline=None, node=None):
    async def plain(state: State):
        return {"x": state["x"] + "!"}

    builder = StateGraph(State).add_node("a", node or plain).add_edge(START, "a")
    return builder.add_conditional_edges("a", router, [END], inline=inline).compile()


class TestThread:
    @pytest.mark.parametrize(("inline", "same"), [(True, True), (False, False), (None, False)])
    async def test_a_router_runs_where_it_was_declared(self, inline, same):
        """
        `inline=True` calls the router on the loop, `inline=False` in a worker thread, and without
        a proof the thread is the default.
        """
        seen: list[int] = []

        await graph(here(seen), inline).ainvoke({"x": "a"})

        assert [thread == threading.get_ident() for thread in seen] == [same]

    async def test_a_proven_router_needs_no_thread(self, monkeypatch):
        """
        A router that only reads the state starts no worker thread.
        """

        def route(state: State):
            return END if state["x"].endswith("!") else "a"

        def refuse(*given, **named):
            raise AssertionError("a worker thread was used")

        compiled = graph(route)
        monkeypatch.setattr("anyio.to_thread.run_sync", refuse)

        assert await compiled.ainvoke({"x": "a"}) == {"x": "a!"}

    async def test_an_update_asks_a_router_there_too(self):
        """
        The conditional edges of an update are called in the same way as those of a run.
        """
        from actorgraph import MemorySaver

        seen: list[int] = []
        builder = StateGraph(State).add_node("a", lambda state: None).add_edge(START, "a")
        builder.add_conditional_edges("a", here(seen), [END], inline=True)
        async with MemorySaver() as saver:
            compiled = builder.compile(saver)
            await compiled.aupdate_state("t", {"x": "b"}, as_node="a")

        assert seen == [threading.get_ident()]


@pytest.mark.parametrize("inline", [True, False])
class TestSameInBothWays:
    async def test_the_router_sees_what_its_node_set(self, inline):
        """
        A contextvar that the node sets is seen by its router, and not by the caller.
        """
        seen: list[str] = []

        async def node(state: State):
            NAME.set("set by the node")

        def route(state: State):
            seen.append(NAME.get())
            return END

        await graph(route, inline, node).ainvoke({"x": "a"})

        assert seen == ["set by the node"]
        assert NAME.get() == ""

    async def test_an_awaitable_answer_is_awaited(self, inline):
        """
        A plain router may return an awaitable of its answer.
        """

        async def later(state):
            return END

        def route(state: State):
            return later(state)

        assert await graph(route, inline).ainvoke({"x": "a"}) == {"x": "a!"}

    @pytest.mark.parametrize("error", [ValueError, StopIteration, GeneratorExit])
    async def test_an_error_of_the_router_fails_the_run(self, inline, error):
        """
        An error of a router ends the run with that error, or with one that it caused, whatever
        it means to coroutines.
        """

        def route(state: State):
            raise error("broken")

        with pytest.raises(BaseException) as caught:  # noqa: PT011
            await graph(route, inline).ainvoke({"x": "a"})

        raised = caught.value
        expected = RuntimeError if error is StopIteration else error
        assert type(raised) is expected
        chain = [raised, raised.__cause__, raised.__context__]
        assert any(type(link) is error and "broken" in str(link) for link in chain)

    async def test_the_runtime_fills_in_its_parameters(self, inline):
        """
        Injected parameters reach the router in both ways.
        """

        def route(state: State, config):
            return config["configurable"]["target"]

        config = {"configurable": {"target": END}}

        assert await graph(route, inline).ainvoke({"x": "a"}, config) == {"x": "a!"}


class TestSlowRouters:
    @pytest.fixture(autouse=True)
    def _forget(self, monkeypatch):
        monkeypatch.setattr("actorgraph.runtime.task.calling._warned", set())

    async def test_a_slow_one_is_named_once(self, monkeypatch):
        """
        A router that holds up the loop for more than 50 ms is reported once, with the way out;
        where it is called doesn't change.
        """
        clock = iter([0.0, 0.2, 1.0, 1.3])
        monkeypatch.setattr(CLOCK, lambda: next(clock))
        seen: list[int] = []
        compiled = graph(here(seen), inline=True)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SlowRouterWarning)
            await compiled.ainvoke({"x": "a"})
            await compiled.ainvoke({"x": "a"})

        (warning,) = caught
        assert warning.category is SlowRouterWarning
        text = str(warning.message)
        assert "'route'" in text
        assert "node 'a'" in text
        assert "200 ms" in text
        assert "inline=False" in text
        assert seen == [threading.get_ident()] * 2

    async def test_a_router_in_a_thread_is_not_timed(self, monkeypatch):
        """
        In a worker thread a router may take its time.
        """
        clock = iter([0.0, 0.2])
        monkeypatch.setattr(CLOCK, lambda: next(clock))

        await graph(here([]), inline=False).ainvoke({"x": "a"})

        assert list(clock) == [0.0, 0.2]

    def test_in_a_blocking_call_it_holds_up_no_loop(self, monkeypatch):
        """
        In the calling thread a declared router may take its time too: nothing else runs there.
        """
        clock = iter([0.0, 0.2])
        monkeypatch.setattr(CLOCK, lambda: next(clock))
        seen: list[int] = []

        result = graph(here(seen), inline=True, node=exclaims).invoke({"x": "a"})

        assert (result, list(clock)) == ({"x": "a!"}, [])
        assert seen == [threading.get_ident()]

    async def test_in_its_node_s_thread_it_holds_up_no_loop(self, monkeypatch):
        """
        Nor does one that is called with its plain node, in one worker thread.
        """
        clock = iter([0.0, 0.2])
        monkeypatch.setattr(CLOCK, lambda: next(clock))
        seen: list[int] = []

        result = await graph(here(seen), inline=True, node=exclaims).ainvoke({"x": "a"})

        assert (result, list(clock)) == ({"x": "a!"}, [])
        assert threading.get_ident() not in seen
