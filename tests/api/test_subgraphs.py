"""Graphs that run in nodes of other graphs: results, questions, failures, routes to the parent."""

from typing import Any, TypedDict

import anyio
import pytest

from actorgraph import END, START, Command, Send, StateGraph, interrupt
from actorgraph.errors import InvalidUpdateError, LostPauseWarning
from tests.support.graphs import at, compiled, in_a_row
from tests.support.subgraphs import Log, asked, child, parent, says


class TestResult:
    @pytest.mark.promise("S175")
    @pytest.mark.langgraph("F-A19")
    @pytest.mark.every_saver
    async def test_a_graph_is_a_node(self, saver):
        """
        The result of a graph is an update of the graph that has it as a node.
        """
        graph = parent([], child([]), saver)

        result = await graph.ainvoke({"log": ["in"]}, at())

        assert result["log"] == ["in", "before", "in", "before", "c1", "c2:", "after"]

    async def test_keys_of_a_subgraph_alone_cause_no_warning(self):
        """
        Keys that belong to a subgraph alone cause no warning about the parent graph.
        """

        class Own(TypedDict, total=False):
            log: list[str]
            draft: str

        inner = in_a_row({"own": lambda _: {"log": ["x"], "draft": "d"}}, schema=Own)
        graph = in_a_row({"inner": inner}, schema=Log, strict=True)

        assert (await graph.ainvoke({"log": []})) == {"log": ["x"]}

    @pytest.mark.langgraph("L11")
    async def test_a_node_calls_several_graphs(self, saver):
        """
        Each graph that one task runs has a namespace of its own: the second one ends in `|1`.
        """
        inner = child([])

        async def twice(state: Log) -> dict[str, Any]:
            first = await inner.ainvoke({"log": ["1"]})
            second = await inner.ainvoke({"log": ["2"]})
            return {"log": [*first["log"], *second["log"]]}

        graph = in_a_row({"twice": twice}, schema=Log, checkpointer=saver)
        result = await graph.ainvoke({"log": []}, at())

        spaces = {row.config["configurable"]["checkpoint_ns"] async for row in saver.alist(at())}
        assert result["log"] == ["1", "c1", "c2:", "2", "c1", "c2:"]
        assert len(spaces) == 3
        assert sum(space.endswith("|1") for space in spaces) == 1

    async def test_a_sync_node_invokes_a_graph(self, saver):
        """
        A blocking call in a sync node runs as a child of its run, on the run's own loop.
        """
        inner = child([], "q")

        def node(state: Log) -> dict[str, Any]:
            return {"log": inner.invoke({"log": ["x"]})["log"]}

        graph = in_a_row({"node": node}, schema=Log, checkpointer=saver)
        first = await graph.ainvoke({"log": []}, at())
        second = await graph.ainvoke(Command(resume="yes"), at())

        assert asked(first) == ["q"]
        assert second["log"] == ["x", "c1", "c2:yes"]

    @pytest.mark.langgraph("L64")
    async def test_without_any_saver(self):
        """
        Nested graphs need no saver; a question still stops the run and says what it is.
        """
        with pytest.warns(LostPauseWarning):
            paused = await parent([], child([], "q"), None).ainvoke({"log": []})
        assert asked(paused) == ["q"]


class TestQuestions:
    @pytest.mark.promise("S176")
    @pytest.mark.langgraph("F-F7", "F-H1", "F-H3", "L59")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("mode", [None, True, False])
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_question_below_pauses_and_resumes_the_parent(self, saver, mode, durability):
        """
        Each question of a nested graph surfaces in the parent's result and gets its own answer,
        and only what had not finished runs again.
        """
        seen: list[str] = []
        graph = parent(seen, child(seen, "q1", "q2", checkpointer=mode), saver)

        first = await graph.ainvoke({"log": ["in"]}, at(), durability=durability)
        ran_first, seen[:] = list(seen), []
        second = await graph.ainvoke(Command(resume="A"), at(), durability=durability)
        third = await graph.ainvoke(Command(resume="B"), at(), durability=durability)

        again = ["c1", "c2"] if mode is False else ["c2"]
        assert (asked(first), asked(second)) == (["q1"], ["q2"])
        assert ran_first == ["before", "c1", "c2"]
        assert seen == [*again, *again, "after"]
        assert third["log"] == ["in", "before", "in", "before", "c1", "c2:A+B", "after"]

    @pytest.mark.promise("S176", "S177")
    @pytest.mark.langgraph("L12", "F-E17")
    @pytest.mark.every_saver
    async def test_each_mode_stores_what_it_says(self, saver):
        """
        None stores the child under its task, True under its node, False not at all.
        """
        spaces: dict[Any, set[str]] = {}
        for mode in (None, True, False):
            thread = at(str(mode))
            await parent([], child([], checkpointer=mode), saver).ainvoke({"log": []}, thread)
            rows = [
                row.config["configurable"]["checkpoint_ns"] async for row in saver.alist(thread)
            ]
            spaces[mode] = set(rows)

        assert {space.split(":")[0] for space in spaces[None]} == {"", "child"}
        assert "child" not in spaces[None]
        assert spaces[True] == {"", "child"}
        assert spaces[False] == {""}

    @pytest.mark.langgraph("F-F4", "F-F5")
    async def test_questions_of_parallel_children_are_answered_by_id(self, saver):
        """
        Of two children that wait, an answer by id reaches one; the other one asks again.
        """
        inner = child([], "q")
        graph = compiled(
            {"x": inner, "y": inner},
            [(START, "x"), (START, "y"), ("x", END), ("y", END)],
            schema=Log,
            checkpointer=saver,
        )
        first = await graph.ainvoke({"log": []}, at())
        one, two = first["__interrupt__"]

        second = await graph.ainvoke(Command(resume={two.id: "2"}), at())
        third = await graph.ainvoke(Command(resume={one.id: "1"}), at())

        assert one.id != two.id
        assert [i.id for i in second["__interrupt__"]] == [one.id]
        assert third["log"] == ["c1", "c2:1", "c1", "c2:2"]

    @pytest.mark.langgraph("F-F7")
    async def test_a_question_at_any_depth(self, saver):
        """
        A question three graphs down pauses every level, and its answer finds the way back.
        """
        seen: list[str] = []
        deep = parent(seen, parent(seen, child(seen, "deep?"), None), saver)

        first = await deep.ainvoke({"log": []}, at())
        before, seen[:] = list(seen), []
        second = await deep.ainvoke(Command(resume="yes"), at())

        assert asked(first) == ["deep?"]
        assert before == ["before", "before", "c1", "c2"]
        assert seen == ["c2", "after", "after"]
        assert second["log"].count("c2:yes") == 1

    async def test_own_questions_and_those_below_keep_apart(self, saver):
        """
        A node that asks, runs a graph that asks, and asks again, gets each answer in its place.
        """
        inner = child([], "below")

        async def node(state: Log) -> dict[str, Any]:
            first = interrupt("first")
            result = await inner.ainvoke({"log": []})
            return {"log": [first, *result["log"], interrupt("last")]}

        graph = in_a_row({"node": node}, schema=Log, checkpointer=saver)
        first = await graph.ainvoke({"log": []}, at())
        second = await graph.ainvoke(Command(resume="1"), at())
        third = await graph.ainvoke(Command(resume="2"), at())
        result = await graph.ainvoke(Command(resume="3"), at())

        assert [asked(r) for r in (first, second, third)] == [["first"], ["below"], ["last"]]
        assert result["log"] == ["1", "c1", "c2:2", "3"]

    @pytest.mark.langgraph("F-F6")
    async def test_a_breakpoint_in_the_child(self, saver):
        """
        A child compiled with interrupt_before pauses the parent; None goes on.
        """
        seen: list[str] = []
        nodes = {"c1": says("c1", seen), "c2": says("c2", seen)}
        inner = in_a_row(nodes, schema=Log, interrupt_before=["c2"])
        graph = parent(seen, inner, saver)

        await graph.ainvoke({"log": []}, at())
        paused, seen[:] = list(seen), []
        await graph.ainvoke(None, at())

        assert paused == ["before", "c1"]
        assert seen == ["c2", "after"]


class TestFailure:
    async def test_going_on_after_a_failure_keeps_what_the_child_did(self, saver):
        """
        A child that failed goes on where it failed: its finished nodes don't run again.
        """
        seen: list[str] = []
        broken = [True]

        async def fragile(state: Log) -> dict[str, Any]:
            seen.append("fragile")
            if broken:
                raise OSError(broken.pop())
            return {"log": ["fine"]}

        inner = in_a_row({"c1": says("c1", seen), "fragile": fragile}, schema=Log)
        graph = parent(seen, inner, saver)

        with pytest.raises(OSError, match="True"):
            await graph.ainvoke({"log": []}, at())
        before, seen[:] = list(seen), []
        result = await graph.ainvoke(None, at())

        assert before == ["before", "c1", "fragile"]
        assert seen == ["fragile", "after"]
        assert result["log"][-3:] == ["c1", "fine", "after"]

    async def test_a_cancelled_parent_ends_its_children(self, saver):
        """
        Cancelling the parent cancels the nodes of its children, at any depth.
        """
        started, ended = anyio.Event(), anyio.Event()

        async def waits(state: Log) -> None:
            started.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()

        inner = in_a_row({"waits": waits}, schema=Log)
        graph = parent([], parent([], inner, None), saver)

        async with anyio.create_task_group() as group:
            group.start_soon(graph.ainvoke, {"log": []}, at())
            await started.wait()
            group.cancel_scope.cancel()

        assert ended.is_set()
        assert (await graph.aget_state(at())).next == ("child",)


def routed_by(inner: Any, target: Any, saver: Any):
    """A graph whose `target` only its nested graph leads to."""
    builder = StateGraph(Log).add_node("child", inner, destinations=("target",))
    builder.add_node("target", target).add_edge(START, "child").add_edge("target", END)
    return builder.compile(checkpointer=saver)


class TestRouteToTheParent:
    @pytest.mark.promise("D12")
    @pytest.mark.langgraph("F-C6", "L32")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_command_for_the_parent(self, saver, durability):
        """
        Command(graph=PARENT) ends the child; only its update lands, and its goto is the parent's.
        """
        seen: list[str] = []

        async def leaves(state: Log) -> Command[Any]:
            seen.append("leaves")
            return Command(graph=Command.PARENT, update={"log": ["up"]}, goto="target")

        inner = in_a_row({"c1": says("c1", seen), "leaves": leaves}, schema=Log)
        graph = routed_by(inner, says("target", seen), saver)
        result = await graph.ainvoke({"log": ["in"]}, at(), durability=durability)

        assert seen == ["c1", "leaves", "target"]
        assert result["log"] == ["in", "up", "target"]

    async def test_there_must_be_a_parent(self):
        """
        In a root graph such a Command fails its node, and the error says why.
        """

        async def leaves(state: Log) -> Command[Any]:
            return Command(graph=Command.PARENT, update={"log": ["up"]})

        with pytest.raises(InvalidUpdateError, match="not the subgraph of another"):
            await in_a_row({"leaves": leaves}, schema=Log).ainvoke({"log": []})

    @pytest.mark.langgraph("F-C6")
    async def test_a_send_to_the_parent(self, saver):
        """
        A goto for the parent may hold Sends.
        """

        async def leaves(state: Log) -> Command[Any]:
            sends = [Send("target", {"log": [str(i)]}) for i in range(3)]
            return Command(graph=Command.PARENT, goto=sends)

        async def target(state: Log) -> dict[str, Any]:
            return {"log": state["log"]}

        graph = routed_by(in_a_row({"leaves": leaves}, schema=Log), target, saver)

        assert (await graph.ainvoke({"log": []}, at()))["log"] == ["0", "1", "2"]
