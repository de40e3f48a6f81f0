"""Edits of a thread's state behind nodes that route by a Command or a Send."""

import warnings
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import END, Command, Send, StateGraph, StateUpdate, interrupt
from actorgraph.errors import NothingToRunWarning
from tests.support.graphs import at, history
from tests.support.subgraphs import asked


class Log(TypedDict, total=False):
    x: int
    log: Annotated[list[str], add]


def router(returned: Any, **options: Any) -> StateGraph:
    """`a` returns a value that leads somewhere; `b` and `c` write their names."""

    async def a(state: Log) -> Any:
        return returned

    async def b(state: Log) -> dict[str, Any]:
        return {"log": [f"b{state.get('x', 0)}"]}

    async def c(state: Log) -> dict[str, Any]:
        return {"log": [f"c{state.get('x', 0)}"]}

    graph = StateGraph(Log)
    graph.add_node("a", a, **options)
    for name, node in {"b": b, "c": c}.items():
        graph.add_node(name, node)
    return graph.add_edge("__start__", "a")


DECLARED = {"destinations": ("b", "c")}

ROUTES = {
    "a goto": (Command(goto="b"), ("b",), ["b5"]),
    "a goto and an update": (Command(goto="b", update={"log": ["a"]}), ("b",), ["a", "b5"]),
    "two gotos": (Command(goto=["b", "c"]), ("b", "c"), ["b5", "c5"]),
    "a goto by Send": (Command(goto=Send("b", {"x": 7})), ("b",), ["b7"]),
    "Sends": ([Send("b", {"x": 7}), Send("b", {"x": 8})], ("b", "b"), ["b7", "b8"]),
    "both": (Command(goto=["c", Send("b", {"x": 7})]), ("b", "c"), ["c5", "b7"]),
}


class TestKeptRoutes:
    @pytest.mark.parametrize("as_node", [None, "a"])
    @pytest.mark.parametrize("case", ROUTES)
    async def test_an_edit_keeps_where_the_node_went(self, saver, case, as_node):
        """
        An edit behind a node that routes by itself keeps its targets, whether the node is named or
        not, and they see the edited state.
        """
        returned, following, log = ROUTES[case]
        graph = _compiled(router(returned, **DECLARED), saver)
        await graph.ainvoke({"log": []}, at())

        await graph.aupdate_state(at(), {"x": 5}, as_node=as_node)
        state = await graph.aget_state(at())

        assert state.next == following
        assert (await graph.ainvoke(None, at(), interrupt_before=()))["log"] == log

    @pytest.mark.every_saver
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_several_edits(self, saver, durability):
        """
        Edits on top of each other keep it too, in every durability.
        """
        graph = _compiled(router(Command(goto=["c", Send("b", {"x": 7})]), **DECLARED), saver)
        await graph.ainvoke({"log": []}, at(), durability=durability)

        for number in range(3):
            await graph.aupdate_state(at(), {"x": number})

        assert (await graph.aget_state(at())).next == ("b", "c")
        assert (await graph.ainvoke(None, at(), interrupt_before=()))["log"] == ["c2", "b7"]

    async def test_an_edit_at_a_question(self, saver):
        """
        A node that asks, and was reached by a Command, asks again after an edit.
        """

        async def ask(state: Log) -> dict[str, Any]:
            return {"log": [f"{interrupt('q')}{state['x']}"]}

        graph = router(Command(goto="ask", update={"x": 1}), destinations=("ask", "b", "c"))
        graph = graph.add_node("ask", ask).compile(checkpointer=saver)
        await graph.ainvoke({"log": []}, at())

        await graph.aupdate_state(at(), {"x": 5})
        again = await graph.ainvoke(None, at())

        assert asked(again) == ["q"]
        assert (await graph.ainvoke(Command(resume="yes"), at()))["log"] == ["yes5"]

    async def test_an_edit_beside_an_edge(self, saver):
        """
        The node's edges lead on as well, each target once.
        """
        graph = _compiled(router(Command(goto="b"), **DECLARED).add_edge("a", "c"), saver)
        await graph.ainvoke({"log": []}, at())

        await graph.aupdate_state(at(), {"x": 5})

        assert (await graph.aget_state(at())).next == ("b", "c")
        assert (await graph.ainvoke(None, at(), interrupt_before=()))["log"] == ["b5", "c5"]

    async def test_conditional_edges_decide_anew(self, saver):
        """
        Targets of conditional edges are not kept: the edges see the edited state.
        """

        def route(state: Log) -> Any:
            return "c" if state.get("x") == 5 else "b"

        ends = {"b": "b", "c": "c"}
        graph = _compiled(router({"log": []}).add_conditional_edges("a", route, ends), saver)
        await graph.ainvoke({"log": []}, at())

        await graph.aupdate_state(at(), {"x": 5})

        assert (await graph.aget_state(at())).next == ("c",)

    @pytest.mark.parametrize("goto", ["c", END, Send("c", {"x": 1})])
    async def test_an_edit_with_a_route_of_its_own(self, saver, goto):
        """
        A Command as the values goes where it says, and ends the thread without a warning.
        """
        graph = _compiled(router(Command(goto="b"), **DECLARED), saver)
        await graph.ainvoke({"log": []}, at())

        await graph.aupdate_state(at(), Command(update={"x": 5}, goto=goto))

        assert (await graph.aget_state(at())).next == (() if goto == END else ("c",))

    async def test_an_edit_of_a_copy(self, saver):
        """
        The targets are kept on another thread, and on a branch.
        """
        graph = _compiled(router(Command(goto="b"), **DECLARED), saver)
        await graph.ainvoke({"log": []}, at())
        copy = await graph.afork_state(at(), "copy")
        (old, *_) = await history(graph, at())

        await graph.aupdate_state("copy", {"x": 5})
        branch = await graph.aupdate_state(old.config, {"x": 6})

        assert copy
        assert (await graph.aget_state("copy")).next == ("b",)
        assert (await graph.aget_state(branch)).next == ("b",)

    async def test_edits_in_bulk(self, saver):
        """
        Supersteps of edits keep them, each on top of the one before.
        """
        graph = _compiled(router(Command(goto="b"), **DECLARED), saver)
        await graph.ainvoke({"log": []}, at())

        steps = [[StateUpdate({"x": 5}, "a")], [StateUpdate({"x": 6}, "a")]]
        await graph.abulk_update_state(at(), steps)

        assert (await graph.aget_state(at())).next == ("b",)

    async def test_an_edit_behind_a_callers_command(self, saver):
        """
        Where a caller's Command has led a new thread is kept.
        """
        graph = _compiled(router(Command(goto="b"), **DECLARED), saver)
        await graph.ainvoke(Command(goto="c", update={"log": ["in"]}), at())

        await graph.aupdate_state(at(), {"x": 5})

        assert (await graph.aget_state(at())).next == ("c",)
        assert (await graph.ainvoke(None, at(), interrupt_before=()))["log"] == ["in", "c5"]

    async def test_an_edit_in_a_subgraph(self, saver):
        """
        A graph inside of a graph is edited as one of its own.
        """
        inner = router(Command(goto="b"), **DECLARED).compile(interrupt_before=["b"])
        outer = StateGraph(Log).add_node("inner", inner).add_edge("__start__", "inner")
        graph = outer.compile(checkpointer=saver)
        await graph.ainvoke({"log": []}, at())
        below = (await graph.aget_state(at(), subgraphs=True)).tasks[0].state

        edited = await graph.aupdate_state(below.config, {"x": 5})

        assert (await graph.aget_state(edited)).next == ("b",)
        assert (await graph.ainvoke(None, at()))["log"] == ["b5"]


def _compiled(graph: StateGraph, saver: Any) -> Any:
    return graph.compile(checkpointer=saver, interrupt_before=["b", "c"])


class TestNothingToRun:
    async def test_an_edit_that_ends_a_thread_says_so(self, saver):
        """
        An edit as a node that leads nowhere, while another one waits, warns of it.
        """
        graph = _compiled(router(Command(goto="b"), **DECLARED), saver)
        await graph.ainvoke({"log": []}, at())

        with pytest.warns(NothingToRunWarning, match="as node 'c' leaves thread 't' with nothing"):
            await graph.aupdate_state(at(), {"x": 5}, as_node="c")

        assert (await graph.aget_state(at())).next == ()

    async def test_an_edit_as_a_node_that_leads_on(self, saver):
        """
        So does one as a node with declared targets, if the values name none.
        """
        graph = _compiled(router(Command(goto=END), **DECLARED), saver)
        await graph.ainvoke({"log": []}, at())

        with pytest.warns(NothingToRunWarning, match="as node 'a'"):
            await graph.aupdate_state(at(), {"x": 5}, as_node="a")

        assert (await graph.aget_state(at())).next == ()

    @pytest.mark.parametrize("as_node", [None, "b"])
    async def test_an_edit_where_a_thread_ends_anyway(self, saver, as_node):
        """
        An edit of a finished thread, or as the last node of a graph, doesn't warn.
        """
        graph = _compiled(router(Command(goto="b"), **DECLARED), saver)
        await graph.ainvoke({"log": []}, at())
        if as_node is None:
            await graph.ainvoke(None, at(), interrupt_before=())

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            await graph.aupdate_state(at(), {"x": 5}, as_node=as_node)

        assert (await graph.aget_state(at())).next == ()
