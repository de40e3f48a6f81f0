"""Updates as no node in particular, as the end, the input or a copy; updates of one task."""

import pytest

from actorgraph import END, START, Command, Runtime, StateGraph, get_config, interrupt
from actorgraph.errors import InvalidUpdateError, MissingNodeError
from tests.support.graphs import AB, ab, at, chain, compiled, count, history, in_a_row, writer


async def ask(state):
    return {"bar": [interrupt("?")]}


def beside(saver, log=None):
    """`a` and a question at once, then `z` after `a`."""

    async def a(state):
        return {"bar": ["a"]}

    async def z(state):
        return {"bar": ["z"]}

    edges = [(START, "a"), (START, "ask"), ("a", "z")]
    return compiled({"a": a, "ask": ask, "z": z}, edges, checkpointer=saver)


class TestTheEnd:
    @pytest.mark.langgraph("F-G14", "L76")
    async def test_as_the_end_it_drops_what_is_due(self, saver):
        """
        `as_node=END` with None leaves nothing due; the thread can take a new input.
        """
        graph = in_a_row({"a": writer("a"), "ask": ask, "z": writer("z")}, checkpointer=saver)
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), None, END)
        state = await graph.aget_state(at())

        assert (state.next, state.interrupts, state.metadata["source"]) == ((), (), "update")
        assert await graph.ainvoke(None, at()) == state.values == {"foo": "a", "bar": ["a"]}

    @pytest.mark.langgraph("F-G14", "L76")
    async def test_finished_tasks_are_folded_in_first(self, saver):
        """
        The results of a sibling of the dropped task stay, and its successors are due.
        """
        graph = beside(saver)
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), None, END)
        state = await graph.aget_state(at())

        assert (state.values["bar"], state.next) == (["a"], ("z",))

    @pytest.mark.promise("S150")
    @pytest.mark.langgraph("F-G14")
    @pytest.mark.every_saver
    async def test_with_values_it_counts_as_no_node(self, saver):
        """
        No update can be written as the end.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        with pytest.raises(MissingNodeError, match="__end__"):
            await graph.aupdate_state(at(), {"foo": "x"}, END)
        assert await count(graph, at()) == 4


class TestTheInput:
    @pytest.mark.langgraph("F-G15", "L76")
    async def test_as_the_input_nothing_is_dropped(self, saver):
        """
        The input's node is due beside what was due before.
        """
        graph = in_a_row({"a": writer("a"), "ask": ask, "z": writer("z")}, checkpointer=saver)
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), {"bar": ["in"]}, "__input__")
        state = await graph.aget_state(at())

        assert (state.next, state.metadata["source"]) == ((START, "ask"), "input")

    @pytest.mark.langgraph("F-G15", "L13")
    async def test_a_thread_may_begin_so(self, saver):
        """
        On a new thread it is the input's checkpoint, and None goes on from it.
        """
        graph = ab(saver)

        await graph.aupdate_state(at(), {"bar": ["in"]}, "__input__")
        first = await graph.aget_state(at())
        result = await graph.ainvoke(None, at())

        assert (first.metadata["step"], first.parent_config, first.next) == (-1, None, (START,))
        assert result["bar"] == ["in", "a", "b"]

    @pytest.mark.langgraph("F-G15")
    async def test_none_can_not_be_an_input(self, saver):
        """
        An input update without values is refused, and nothing is written.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        with pytest.raises(InvalidUpdateError, match="no input"):
            await graph.aupdate_state(at(), None, "__input__")
        assert await count(graph, at()) == 4


class TestACopy:
    @pytest.mark.langgraph("F-G16", "L76")
    async def test_it_is_a_sibling_without_the_tasks_work(self, saver):
        """
        The same state and parent under a new id; a waiting question is asked anew.
        """
        graph = in_a_row({"a": writer("a"), "ask": ask}, checkpointer=saver)
        await graph.ainvoke({}, at())
        base = await graph.aget_state(at())

        await graph.aupdate_state(at(), None, "__copy__")
        copied = await graph.aget_state(at())

        assert (copied.values, copied.next) == (base.values, base.next)
        assert copied.parent_config == base.parent_config
        assert copied.config != base.config
        assert (copied.metadata["source"], copied.interrupts) == ("fork", ())
        assert copied.metadata["step"] == base.metadata["step"] + 1

    @pytest.mark.langgraph("F-G16", "L76", "L77")
    async def test_updates_may_follow_at_once(self, saver):
        """
        A list of updates is applied to the copy, as the results of its tasks.
        """
        graph = in_a_row({"a": writer("a"), "ask": ask, "z": writer("z")}, checkpointer=saver)
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), [({"bar": ["edit"]}, "ask")], "__copy__")
        newest, copied, base, *_ = await history(graph, at())

        assert (newest.next, newest.values["bar"]) == (("z",), ["a", "edit"])
        assert newest.parent_config == copied.config
        assert [t.result for t in copied.tasks] == [{"bar": ["edit"]}]
        assert [t.result for t in base.tasks] == [None]

    @pytest.mark.langgraph("F-G16")
    async def test_nothing_can_be_copied_from_a_thread_without_checkpoints(self, saver):
        """
        A copy needs something to copy.
        """
        with pytest.raises(InvalidUpdateError, match="non-existent checkpoint"):
            await ab(saver).aupdate_state(at(), None, "__copy__")


class TestWhoseItIs:
    @pytest.mark.promise("S146")
    @pytest.mark.langgraph("F-G12", "L77", "L78")
    @pytest.mark.every_saver
    async def test_it_is_the_result_of_the_task_that_was_due(self, saver):
        """
        The base's history shows the update as the result of its node's task, which is not run.
        """
        log: list[str] = []
        graph = ab(saver, log, interrupt_before=["b"])
        await graph.ainvoke({}, at())
        (task,) = (await graph.aget_state(at())).tasks

        await graph.aupdate_state(at(), {"bar": ["instead"]}, "b", task.id)
        newest, base, *_ = await history(graph, at())
        result = await graph.ainvoke(None, at())

        assert (log, result["bar"]) == (["a"], ["a", "instead"])
        assert [(t.id, t.result) for t in base.tasks] == [(task.id, {"bar": ["instead"]})]
        assert newest.metadata["writes"] == {"b": {"bar": ["instead"]}}

    @pytest.mark.promise("S146")
    @pytest.mark.langgraph("F-G13")
    @pytest.mark.every_saver
    async def test_a_tasks_id_says_the_node(self, saver):
        """
        With `task_id` alone the update is that pending task's.
        """
        graph = beside(saver)
        await graph.ainvoke({}, at())
        waiting = next(t for t in (await graph.aget_state(at())).tasks if t.name == "ask")

        await graph.aupdate_state(at(), {"bar": ["edit"]}, task_id=waiting.id)
        state = await graph.aget_state(at())

        assert (state.metadata["as_node"], state.next) == ("ask", ())

    @pytest.mark.promise("S146")
    @pytest.mark.every_saver
    async def test_a_task_id_must_be_one(self, saver):
        """
        A value that can't be the id of a task is refused.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        with pytest.raises(InvalidUpdateError, match="must be the id of a task, got 'nonsense'"):
            await graph.aupdate_state(at(), {"foo": "x"}, "b", "nonsense")

    @pytest.mark.promise("S154")
    @pytest.mark.langgraph("F-G11", "L78")
    @pytest.mark.every_saver
    async def test_an_old_checkpoints_history_is_not_touched(self, saver):
        """
        An update of a checkpoint with other children leaves no result beside it.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, at()) if s.next == ("b",))

        await graph.aupdate_state(old.config, {"bar": ["edit"]}, "b")

        assert await graph.aget_state(old.config) == old

    @pytest.mark.langgraph("F-G12", "L74")
    async def test_tasks_of_other_nodes_are_dropped(self, saver):
        """
        The updated node's edges alone decide what is due; finished siblings are not applied.
        """
        graph = beside(saver)
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), {"bar": ["edit"]}, "ask")
        state = await graph.aget_state(at())

        assert (state.next, state.values["bar"]) == ((), ["edit"])

    @pytest.mark.promise("S151")
    @pytest.mark.langgraph("F-G12")
    @pytest.mark.every_saver
    async def test_none_writes_nothing_and_routes(self, saver):
        """
        As a node without values only the node's edges count.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), None, "a")
        state = await graph.aget_state(at())

        assert (state.next, state.values["bar"]) == (("b",), ["a", "b", "c"])

    @pytest.mark.langgraph("F-G13")
    async def test_before_anything_ran_it_is_the_inputs(self, saver):
        """
        On a new thread an update leads to the first node.
        """
        graph = ab(saver)

        await graph.aupdate_state(at(), {"bar": ["seed"]})

        assert (await graph.aget_state(at())).next == ("a",)

    @pytest.mark.promise("C6")
    @pytest.mark.langgraph("F-G13", "L75")
    async def test_strict_refuses_what_is_ambiguous(self, saver):
        """
        When no single node wrote the base, `strict=True` wants a name.
        """
        graph = beside(saver)
        await graph.ainvoke({}, at())
        before = await count(graph, at())

        with pytest.raises(InvalidUpdateError, match="Ambiguous update, specify as_node"):
            await graph.aupdate_state(at(), {"foo": "x"}, strict=True)
        assert await count(graph, at()) == before
        await graph.aupdate_state(at(), {"foo": "x"})
        assert (await graph.aget_state(at())).next == ("a", "ask")


class TestEdges:
    @pytest.mark.promise("S151")
    @pytest.mark.langgraph("F-G12", "F-A6")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("is_async", [True, False])
    async def test_an_updates_edges_get_what_a_runs_edges_get(self, saver, is_async):
        """
        A router with `config` and `runtime` works for updates too.
        """

        def route(state, config: dict, runtime: Runtime):
            assert get_config()["configurable"]["thread_id"] == "t"
            assert runtime.store is None
            return config["configurable"]["way"]

        async def aroute(state, config: dict, runtime: Runtime):
            return route(state, config, runtime)

        builder = StateGraph(AB).add_node("a", writer("a")).add_node("b", writer("b"))
        builder.add_edge(START, "a")
        builder.add_conditional_edges("a", aroute if is_async else route, ["b", END])
        graph = builder.compile(checkpointer=saver)
        await graph.ainvoke({}, at(way=END))

        await graph.aupdate_state(at(way="b"), {"foo": "x"}, "a")

        assert (await graph.aget_state(at())).next == ("b",)


class TestAStuckThread:
    @pytest.mark.langgraph("L20", "L117", "F-G12")
    async def test_an_update_gets_a_thread_out_whose_writes_cannot_be_folded(self, saver):
        """
        Two nodes wrote one key: a retry fails in the same way, reading says why, and an update
        as one of them goes on.
        """
        nodes = {"a": writer("a"), "b": writer("b"), "z": lambda s: {"bar": ["z"]}}
        edges = [(START, "a"), (START, "b"), (["a", "b"], "z"), ("a", "z")]
        graph = compiled(nodes, edges, checkpointer=saver)
        for given in ({}, None):
            with pytest.raises(InvalidUpdateError, match="'foo'"):
                await graph.ainvoke(given, at())
        stuck = await graph.aget_state(at())

        await graph.aupdate_state(at(), {"foo": "mine"}, "a")
        result = await graph.ainvoke(None, at())

        assert stuck.next == ("a", "b")
        assert "'foo'" in stuck.tasks[0].error
        assert (result["foo"], result["bar"]) == ("mine", ["z"])

    @pytest.mark.promise("E2")
    @pytest.mark.langgraph("L20", "L117")
    async def test_a_retry_runs_all_of_it_again(self, saver):
        """
        Nothing of what can't be folded is handed back: a node that has been mended may fit.
        """
        mended: list[str] = []

        async def a(state):
            return {"bar": ["a"]} if mended else {"foo": "a"}

        edges = [(START, "a"), (START, "b")]
        graph = compiled({"a": a, "b": writer("b")}, edges, checkpointer=saver)
        with pytest.raises(InvalidUpdateError):
            await graph.ainvoke({}, at())
        stuck = await graph.aget_state(at())
        with pytest.raises(InvalidUpdateError):
            await graph.aretry("t")
        mended.append("yes")

        result = await graph.aretry("t")
        after = await graph.aget_state(at())

        assert (stuck.is_stuck, stuck.failed_node, after.is_stuck) == (True, "a", False)
        assert "'foo'" in stuck.error
        assert result == {"foo": "b", "bar": ["a", "b"]}

    @pytest.mark.langgraph("L20", "F-F14", "L50")
    async def test_a_new_input_gets_it_out_too(self, saver):
        """
        An input discards what can't be folded.
        """
        rounds = iter(["x", "y", "x"])

        async def a(state):
            return {"foo": "a"} if next(rounds) == "x" else {}

        graph = compiled(
            {"a": a, "b": writer("b")}, [(START, "a"), (START, "b")], checkpointer=saver
        )
        with pytest.raises(InvalidUpdateError):
            await graph.ainvoke({}, at())

        assert (await graph.ainvoke({"bar": ["new"]}, at()))["bar"] == ["new", "b"]


class TestUpdatesOfPausedThreads:
    @pytest.mark.promise("S152", "S172")
    @pytest.mark.every_saver
    async def test_an_edit_then_an_answer(self, saver):
        """
        An update that keeps what is due asks the question again on the edited state.
        """
        graph = in_a_row({"ask": ask, "z": writer("z")}, checkpointer=saver)
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), {"bar": ["edited"]})
        paused = await graph.ainvoke(None, at())
        result = await graph.ainvoke(Command(resume="yes"), at())

        assert [i.value for i in paused["__interrupt__"]] == ["?"]
        assert result["bar"] == ["edited", "yes", "z"]
