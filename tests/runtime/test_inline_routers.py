"""Plain routers on the event loop, by declaration; the others in worker threads."""

import threading
import warnings
from contextvars import ContextVar
from functools import partial, wraps
from typing import TypedDict

import pytest

from actorgraph import END, START, StateGraph
from actorgraph.errors import GraphBuildError, SlowRouterWarning
from actorgraph.prebuilt import create_react_agent, tools_condition

CLOCK = "actorgraph.runtime.task.calling.perf_counter"
NAME: ContextVar[str] = ContextVar("name", default="")


class State(TypedDict):
    x: str


def here(seen):
    """A router that notes its thread."""

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
        `inline=True` calls the router on the loop, `inline=False` in a worker thread, which is
        the default.
        """
        seen: list[int] = []

        await graph(here(seen), inline).ainvoke({"x": "a"})

        assert [thread == threading.get_ident() for thread in seen] == [same]

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


class TestPlan:
    def test_the_plan_holds_what_was_declared(self):
        """
        The topology names for each router the place of its calls, and why it is that.
        """

        def quick(state):
            return state["x"]

        def slow(state):
            return input(state["x"])

        async def later(state):
            return END

        builder = StateGraph(dict).add_node("a", quick).add_node("b", quick)
        builder.add_conditional_edges("a", quick, ["b", END])
        builder.add_conditional_edges("b", later, [END])
        builder.add_conditional_edges("b", partial(quick), [END], inline=False)
        builder.set_conditional_entry_point(slow, ["a"], inline=True)

        found = {
            (row["node"], row["name"]): (row["called_on"], row["why"])
            for row in builder.compile().topology()["routers"]
        }

        assert found == {
            (START, "slow"): ("event loop", "declared by inline=True"),
            ("a", "quick"): ("worker thread", "a plain function"),
            ("b", "later"): ("event loop", "async"),
            ("b", "quick"): ("worker thread", "declared by inline=False"),
        }

    @pytest.mark.parametrize("inline", ["yes", [], 2])
    def test_a_wrong_declaration_is_refused(self, inline):
        """
        `inline` is a bool or None; the error names the router, its node and the value.
        """
        builder = StateGraph(dict).add_node("a", lambda state: state)

        with pytest.raises(GraphBuildError) as caught:
            builder.add_conditional_edges("a", here([]), [END], inline=inline)

        assert caught.value.what == (
            f"inline of 'route' behind node 'a' must be True, False or None, got {inline!r}"
        )

    def test_our_own_routers_are_called_on_the_loop(self):
        """
        `tools_condition` and the routers of agents only read messages: they need no thread. A
        program's wrapper of one may do more.
        """

        def tool(x: str) -> str:
            """Return it."""
            return x

        def hook(state):
            return {}

        @wraps(tools_condition)
        def wrapper(state):
            return tools_condition(state)

        agents = [
            create_react_agent(print, [tool]),
            create_react_agent(print, [tool], version="v1", post_model_hook=hook),
        ]
        rows = [row for agent in agents for row in agent.topology()["routers"]]
        others = [graph(each).topology()["routers"][0] for each in (tools_condition, wrapper)]

        assert len(rows) >= 2
        assert [row["why"] for row in rows if row["called_on"] != "event loop"] == []
        assert [row["called_on"] for row in others] == ["event loop", "worker thread"]


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
