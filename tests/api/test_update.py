"""Changing a thread from outside, forking it, and going on from an old checkpoint."""

import pytest

from actorgraph import END, START, ConflictError, StateGraph
from actorgraph.errors import InvalidUpdateError, MissingNodeError
from tests.support.gates import Turnstile, patient_group
from tests.support.graphs import AB, ab, at, chain, compiled, count, history, in_a_row, writer


class TestUpdate:
    @pytest.mark.promise("S147", "S148", "S149")
    @pytest.mark.langgraph("F-G12")
    @pytest.mark.every_saver
    async def test_an_update_goes_through_the_reducers(self, saver):
        """
        {foo: 1, bar: [a]} + {foo: 2, bar: [b]} = {foo: 2, bar: [a, b]}.
        """
        graph = in_a_row({"n": lambda state: None}, checkpointer=saver)
        await graph.ainvoke({"foo": "1", "bar": ["a"]}, at())
        before = await graph.aget_state(at())

        config = await graph.aupdate_state(at(), {"foo": "2", "bar": ["b"]})
        after = await graph.aget_state(at())

        assert after.values == {"foo": "2", "bar": ["a", "b"]}
        assert after.config == config
        assert after.metadata["source"] == "update"
        assert after.parent_config == before.config
        assert (await graph.aget_state(before.config)).values == before.values

    @pytest.mark.promise("S151")
    @pytest.mark.langgraph("F-G12", "L74")
    @pytest.mark.every_saver
    async def test_as_node_routes_as_that_node(self, saver):
        """
        After an update as a node, its successors are due.
        """
        graph = ab(saver)

        config = await graph.aupdate_state(at(), {"bar": ["x"]}, as_node="a")
        state = await graph.aget_state(at())
        result = await graph.ainvoke(None, config)

        assert state.next == ("b",)
        assert result["bar"] == ["x", "b"]

    @pytest.mark.promise("S151", "C6")
    @pytest.mark.every_saver
    async def test_as_node_asks_its_conditional_edges(self, saver):
        """
        A router sees the edited state.
        """
        builder = StateGraph(AB).add_node("a", writer("a")).add_node("b", writer("b"))
        builder.add_edge(START, "a")
        builder.add_conditional_edges("a", lambda s: "b" if s["foo"] == "go" else END, ["b", END])
        graph = builder.compile(checkpointer=saver)
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), {"foo": "go"}, as_node="a")
        there = (await graph.aget_state(at())).next
        await graph.aupdate_state(at(), {"foo": "stay"}, as_node="a")
        nowhere = (await graph.aget_state(at())).next

        assert (there, nowhere) == (("b",), ())

    @pytest.mark.promise("S153", "C6")
    @pytest.mark.langgraph("F-G13", "L75")
    @pytest.mark.every_saver
    async def test_the_last_updater_is_inferred(self, saver):
        """
        Without as_node the update counts as the node's that wrote last.
        """
        graph = ab(saver, interrupt_after=["a"])
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), {"foo": "edited"})
        state = await graph.aget_state(at())

        assert state.next == ("b",)
        assert state.metadata["as_node"] == "a"
        assert state.metadata["as_node_inferred"] is True

    @pytest.mark.promise("S152", "C6")
    @pytest.mark.langgraph("F-G13", "L75")
    @pytest.mark.every_saver
    async def test_an_unclear_updater_leaves_what_is_due(self, saver):
        """
        After a parallel step no node alone is the last updater: due tasks stay due.
        """
        edges = [(START, "a"), (START, "b"), (["a", "b"], "c")]
        nodes = {
            "a": lambda s: {"bar": ["a"]},
            "b": lambda s: {"bar": ["b"]},
            "c": lambda s: {"bar": ["c"]},
        }
        graph = compiled(nodes, edges, checkpointer=saver, interrupt_before=["c"])
        await graph.ainvoke({}, at())

        await graph.aupdate_state(at(), {"foo": "edited"})
        state = await graph.aget_state(at())
        result = await graph.ainvoke(None, at())

        assert (state.next, state.metadata["as_node"]) == (("c",), None)
        assert result == {"foo": "edited", "bar": ["a", "b", "c"]}

    @pytest.mark.promise("S150")
    @pytest.mark.every_saver
    async def test_an_unknown_node_is_refused(self, saver):
        """
        `as_node` must name a node; nothing is written otherwise.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        with pytest.raises(MissingNodeError, match="nope"):
            await graph.aupdate_state(at(), {"foo": "x"}, as_node="nope")

        assert await count(graph, at()) == 4

    async def test_an_unknown_key_is_refused(self, saver):
        """
        An update of a key without a channel is refused, and nothing is written.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        with pytest.raises(InvalidUpdateError, match="fooo"):
            await graph.aupdate_state(at(), {"fooo": "x"})

        assert await count(graph, at()) == 4

    async def test_an_update_starts_a_thread(self, saver):
        """
        A thread may begin with an update; a first run then goes on from it.
        """
        graph = ab(saver)

        await graph.aupdate_state(at(), {"bar": ["seed"]})
        state = await graph.aget_state(at())
        result = await graph.ainvoke({}, at())

        assert (state.values, state.parent_config) == ({"bar": ["seed"]}, None)
        assert result["bar"] == ["seed", "a", "b"]

    @pytest.mark.promise("S172")
    @pytest.mark.every_saver
    async def test_inspect_edit_and_resume(self, saver):
        """
        Pause, get_state, update_state, resume: the node sees the edit.
        """
        seen: list[str] = []

        async def review(state):
            seen.append(state["foo"])
            return {"bar": ["reviewed"]}

        graph = in_a_row(
            {"draft": writer("draft"), "review": review},
            checkpointer=saver,
            interrupt_before=["review"],
        )
        await graph.ainvoke({}, at())
        config = await graph.aupdate_state(at(), {"foo": "edited"})

        result = await graph.ainvoke(None, config)

        assert seen == ["edited"]
        assert result["bar"] == ["draft", "reviewed"]

    @pytest.mark.promise("S068")
    @pytest.mark.every_saver
    async def test_an_update_during_a_run_loses_or_the_run_does(self, saver):
        """
        Of an update and a run at once on a thread one conflicts; none is lost in silence.
        """
        slow = Turnstile({"bar": ["slow"]})
        graph = in_a_row({"slow": slow}, checkpointer=saver)
        await graph.aupdate_state(at(), {"bar": ["seed"]})
        outcomes: list[str] = []

        async def run() -> None:
            try:
                await graph.ainvoke({}, at())
                outcomes.append("run")
            except ConflictError:
                pass

        async with patient_group() as group:
            group.start_soon(run)
            await slow.entered.wait()
            try:
                await graph.aupdate_state(at(), {"bar": ["update"]})
                outcomes.append("update")
            except ConflictError:
                pass
            slow.out.set()
        bar = (await graph.aget_state(at())).values["bar"]

        assert len(outcomes) == 1
        assert bar == ["seed", {"run": "slow", "update": "update"}[outcomes[0]]]


class TestForks:
    @pytest.mark.promise("S162", "S163", "S164", "S167")
    @pytest.mark.langgraph("F-G7")
    @pytest.mark.every_saver
    async def test_going_on_from_an_old_checkpoint(self, saver):
        """
        From history[k] exactly the nodes after k run, on a branch.
        """
        log: list[str] = []
        graph = chain("abcd", log, checkpointer=saver)
        await graph.ainvoke({}, at())
        found = await history(graph, at())
        after_b = next(s for s in found if s.next == ("c",))
        log.clear()

        result = await graph.ainvoke(None, after_b.config)
        newest = await history(graph, at())

        assert log == ["c", "d"]
        assert result["bar"] == list("abcd")
        assert len(newest) == len(found) + 3
        marker = newest[2]
        assert (marker.metadata["source"], marker.parent_config) == ("fork", after_b.config)
        assert newest[3:] == found

    @pytest.mark.promise("S003", "S154", "S155", "C9")
    @pytest.mark.langgraph("F-G11")
    @pytest.mark.every_saver
    async def test_updating_an_old_checkpoint_branches(self, saver):
        """
        An update with a checkpoint_id makes a child of it, which is then the latest.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({}, at())
        after_a = next(s for s in await history(graph, at()) if s.next == ("b",))

        config = await graph.aupdate_state(after_a.config, {"bar": ["edit"]})
        latest = await graph.aget_state(at())
        result = await graph.ainvoke(None, config)

        assert latest.config == config
        assert latest.parent_config == after_a.config
        assert latest.next == ("b",)
        assert result["bar"] == ["a", "edit", "b", "c"]

    async def test_both_branches_of_a_long_list_are_right(self, saver):
        """
        A list forked in the middle grows differently on each branch, and both load right.
        """
        graph = chain([f"n{i:02}" for i in range(60)], checkpointer=saver)
        await graph.ainvoke({}, at())
        found = await history(graph, at())
        middle = next(s for s in found if s.metadata["step"] == 30)

        fork = await graph.aupdate_state(middle.config, {"bar": ["branch"]}, as_node="n29")
        branch = await graph.ainvoke(None, fork)
        trunk = await graph.aget_state(found[0].config)
        second = await graph.aupdate_state(middle.config, {"bar": ["other"]}, as_node="n58")
        other = await graph.ainvoke(None, second)

        names = [f"n{i:02}" for i in range(60)]
        assert trunk.values["bar"] == names
        assert branch["bar"] == [*names[:30], "branch", *names[30:]]
        assert other["bar"] == [*names[:30], "other", "n59"]
        for snapshot in found:
            assert await graph.aget_state(snapshot.config) == snapshot

    @pytest.mark.promise("C18")
    async def test_a_fork_that_lost_its_head_conflicts(self, saver):
        """
        A fork fails, too, when the thread moves on between its load and its claim.
        """
        slow = Turnstile({"bar": ["slow"]})
        graph = in_a_row({"slow": slow}, checkpointer=saver)
        async with patient_group() as group:
            group.start_soon(graph.ainvoke, {}, at())
            await slow.entered.wait()
            first = (await history(graph, at()))[-1]
            with pytest.raises(ConflictError):
                await graph.ainvoke(None, first.config)
            slow.out.set()

        assert (await graph.aget_state(at())).values["bar"] == ["slow"]
