"""Which thread is meant: a config or its id; and which of its checkpoints a listing shows."""

import pytest

from actorgraph import InMemorySaver, Latest, SaverRequiredError, SqliteSaver, StateGraph
from actorgraph.api.system.run_arguments import config_with_thread
from actorgraph.errors import CheckpointNotFoundError, EmptyInputError, InvalidConfigError
from tests.support.graphs import AB, ab, at, chain, history, in_a_row

pytestmark = pytest.mark.every_saver

UNKNOWN = "1f0a0000-0000-6000-8000-000000000000"


class TestGetState:
    @pytest.mark.promise("S126", "S127", "S007", "C13")
    async def test_an_id_is_as_good_as_a_config(self, saver):
        """
        The forms give the same snapshot.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())
        snapshot = await graph.aget_state(at())
        checkpoint = snapshot.config["configurable"]["checkpoint_id"]

        for same in (
            await graph.aget_state("t"),
            await graph.aget_state(thread_id="t"),
            await graph.aget_state("t", checkpoint),
            await graph.aget_state(thread_id="t", checkpoint_id=checkpoint),
            await graph.aget_state(config=snapshot.config),
            await graph.aget_state(at(), checkpoint),
        ):
            assert same == snapshot

    @pytest.mark.promise("S126", "C28")
    async def test_an_id_of_nothing_gives_none(self, saver):
        """
        By id an unknown thread or checkpoint is None; by config a thread is empty and a
        checkpoint an error.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        assert await graph.aget_state("nobody") is None
        assert await graph.aget_state("t", UNKNOWN) is None
        assert (await graph.aget_state(at("nobody"))).created_at is None
        with pytest.raises(CheckpointNotFoundError):
            await graph.aget_state(at("t", checkpoint_id=UNKNOWN))

    @pytest.mark.promise("S126", "S135")
    async def test_an_old_checkpoint_by_id(self, saver):
        """
        The second argument names any checkpoint of the thread.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        past = await history(graph, "t")
        assert len(past) == 4
        for found in past:
            text = found.config["configurable"]["checkpoint_id"]
            assert await graph.aget_state("t", text) == found

    async def test_a_thread_is_named_once(self, saver):
        """
        No thread, or a config and an id, is refused.
        """
        graph = ab(saver)

        with pytest.raises(ValueError, match="no thread id was given"):
            await graph.aget_state()
        with pytest.raises(ValueError, match="in config and as thread_id"):
            await graph.aget_state(at(), thread_id="t")

    @pytest.mark.promise("S125")
    async def test_every_method_needs_a_checkpointer(self):
        """
        All methods that read or change threads say so without one.
        """
        graph = ab()

        for call in (
            lambda: graph.aget_state("t"),
            lambda: history(graph, "t"),
            lambda: graph.aupdate_state("t", {}),
            lambda: graph.abulk_update_state("t", [({}, "a")]),
            lambda: graph.afork_state("t", "u"),
            lambda: graph.aretry("t"),
        ):
            with pytest.raises(SaverRequiredError, match=r"checkpointer= to compile\(\)"):
                await call()


class TestUpdateState:
    @pytest.mark.promise("S146", "S154", "C13")
    async def test_an_id_and_a_checkpoint(self, saver):
        """
        `update_state(thread, values, checkpoint_id=)` branches as the config form does.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, "t") if s.next == ("b",))
        text = old.config["configurable"]["checkpoint_id"]

        await graph.aupdate_state("t", {"foo": "x"}, checkpoint_id=text)
        latest = await graph.aget_state("t")

        assert latest.parent_config == old.config
        assert latest.values["foo"] == "x"
        await graph.aupdate_state("t", {"foo": "y"})
        assert (await graph.aget_state("t")).parent_config == latest.config

    @pytest.mark.promise("S156", "C13")
    async def test_bulk_by_id(self, saver):
        """
        `bulk_update_state` takes a thread's id too.
        """
        graph = ab(saver)

        await graph.abulk_update_state("t", [({"foo": "x"}, "a")])

        assert (await graph.aget_state("t")).values == {"foo": "x", "bar": []}


class TestHistory:
    async def branched(self, saver):
        """
        A thread with two branches after its second node, and the history's snapshots.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({}, at())
        middle = next(s for s in await history(graph, at()) if s.next == ("b",))
        await graph.ainvoke(None, middle.config)
        return graph, await history(graph, at())

    @pytest.mark.promise("S130", "C5")
    @pytest.mark.langgraph("F-G6")
    async def test_by_default_it_has_all_branches(self, saver):
        """
        Newest first, the abandoned branch too.
        """
        _, found = await self.branched(saver)

        assert [s.metadata["source"] for s in found] == [
            *("loop", "loop", "fork"),
            *("loop", "loop", "loop", "loop", "input"),
        ]

    @pytest.mark.promise("S129", "C5")
    async def test_lineage_leaves_other_branches_out(self, saver):
        """
        From the newest checkpoint, or the one that the config names, by parents to the root.
        """
        graph, found = await self.branched(saver)

        ours = await history(graph, "t", lineage=True)
        theirs = await history(graph, found[3].config, lineage=True)

        assert ours == [*found[:3], *found[5:]]
        assert theirs == found[3:]
        assert [s.parent_config for s in ours[:-1]] == [s.config for s in ours[1:]]

    @pytest.mark.promise("S128", "S131", "S132")
    @pytest.mark.langgraph("F-G6")
    @pytest.mark.parametrize("lineage", [False, True])
    async def test_its_arguments_combine(self, saver, lineage):
        """
        `before`, `limit` and `filter`, alone and together, on the thread and on its lineage.
        """
        graph, found = await self.branched(saver)
        whole = [*found[:3], *found[5:]] if lineage else found
        third = found[2].config
        options = {"lineage": lineage}

        assert await history(graph, "t", limit=2, **options) == whole[:2]
        assert await history(graph, "t", limit=0, **options) == []
        assert await history(graph, "t", before=third, **options) == whole[3:]
        by_id = third["configurable"]["checkpoint_id"]
        assert await history(graph, "t", before=by_id, **options) == whole[3:]
        loops = [s for s in whole if s.metadata["source"] == "loop"]
        assert await history(graph, "t", filter={"source": "loop"}, **options) == loops
        assert await history(graph, "t", filter={"step": 3}, **options) == [
            s for s in whole if s.metadata["step"] == 3
        ]
        assert (
            await history(graph, "t", filter={"source": "loop"}, before=third, limit=1, **options)
            == [s for s in whole[3:] if s.metadata["source"] == "loop"][:1]
        )

    @pytest.mark.langgraph("F-G6")
    async def test_a_config_of_a_checkpoint_lists_that_one(self, saver):
        """
        As LangGraph's: an address with a checkpoint id has one entry, or none where it doesn't
        fit.
        """
        graph, found = await self.branched(saver)

        assert await history(graph, found[3].config) == [found[3]]
        assert await history(graph, found[3].config, limit=0) == []
        assert await history(graph, found[3].config, filter={"source": "input"}) == []
        assert await history(graph, found[3].config, before=found[2].config) == [found[3]]

    @pytest.mark.promise("S129")
    async def test_a_long_lineage_is_read_in_pages(self, saver):
        """
        A lineage longer than a page comes whole and in order.
        """
        graph = chain([f"n{i:03}" for i in range(120)], checkpointer=saver)
        await graph.ainvoke({}, at())

        steps = [s.metadata["step"] for s in await history(graph, "t", lineage=True)]

        assert steps == list(range(120, -2, -1))


class TestBlockingTwins:
    @pytest.mark.promise("C13")
    def test_each_takes_what_its_twin_takes(self):
        """
        The methods without the `a` read, change, fork, resume and retry threads.
        """
        graph = ab(InMemorySaver(), interrupt_before=["b"])
        graph.invoke({}, at())

        assert graph.get_state("t").next == ("b",)
        assert graph.get_state("nobody") is None
        assert len(list(graph.get_state_history("t", lineage=True, limit=2))) == 2
        graph.update_state("t", {"foo": "x"})
        graph.bulk_update_state("t", [({"foo": "y"}, "a")])
        graph.fork_state("t", "u")
        assert graph.resume("t")["bar"] == ["a", "b"]
        assert graph.resume_from("u", Latest)["bar"] == ["a", "b"]
        with pytest.raises(EmptyInputError, match="nothing to retry"):
            graph.retry("t")


@pytest.mark.promise("C13")
def test_a_graph_of_one_value_is_read_by_id(tmp_path):
    """
    A bare state, too, has the forms by id.
    """
    with SqliteSaver(tmp_path / "one.db") as saver:
        builder = StateGraph(AB).add_node("a", lambda s: {"foo": "a"}).add_edge("__start__", "a")
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"foo": "x"}, at())
        assert graph.get_state("t").values["foo"] == "a"


class TestKeysBesideConfigurable:
    @pytest.mark.parametrize("more", [{}, {"configurable": {"user": "ada"}}])
    async def test_a_thread_id_may_be_there(self, saver, more):
        """
        A key that is not one of a config's own belongs to `configurable`, for every method.
        """
        graph, loose = ab(saver), {"thread_id": "t", **more}
        await graph.ainvoke({}, loose)
        [_ async for _ in graph.astream({}, loose)]
        await graph.aupdate_state(loose, {"foo": "x"})

        found = await graph.aget_state(loose)
        assert found.values["foo"] == "x"
        assert found.values["bar"] == ["a", "b", "a", "b"]
        assert (await graph.aget_state(at())).config == found.config
        assert len(await history(graph, loose)) == len(await history(graph, "t")) == 9

    async def test_nodes_see_it_in_configurable(self):
        """
        The config that a node gets has the key where the others are; empty values are dropped.
        """
        seen: list = []

        def node(state, config):
            seen.append(config)

        given = {"user": "ada", "tags": ["x"], "none": None, "empty": []}
        await in_a_row({"node": node}).ainvoke({}, given)

        assert seen[0]["configurable"]["user"] == "ada"
        assert seen[0]["tags"] == ["x"]
        assert seen[0]["configurable"].keys().isdisjoint({"tags", "none", "empty"})
        assert "user" not in seen[0]
        assert given["user"] == "ada"

    async def test_a_bound_one_is_below_that_of_a_call(self, saver):
        """
        `with_config` takes it in either form, and a call's own wins in either form.
        """
        graph = ab(saver).with_config({"thread_id": "bound"})
        entries = ab(saver).with_config(thread_id="entries")

        await graph.ainvoke({})
        await graph.ainvoke({}, {"thread_id": "loose"})
        await graph.ainvoke({}, at("own"))
        await entries.ainvoke({})

        for name in ("bound", "loose", "own", "entries"):
            assert (await graph.aget_state(at(name))).values["bar"] == ["a", "b"]

    async def test_another_thread_in_a_node_is_another_thread(self, saver):
        """
        A node that calls a graph with such a config starts a run of its own on that thread.
        """
        inner = ab(saver)

        async def node(state):
            await inner.ainvoke({}, {"thread_id": "other"})

        await in_a_row({"node": node}, checkpointer=saver).ainvoke({}, at())

        assert (await inner.aget_state("other")).values["bar"] == ["a", "b"]

    async def test_configurable_must_be_a_dict(self):
        """
        Anything else there is refused as without such a key.
        """
        with pytest.raises(InvalidConfigError, match="must be a dict"):
            await ab(None).ainvoke({}, {"configurable": ["t"], "thread_id": "t"})

    def test_a_system_takes_them_too(self):
        """
        The config of a run of an ActorSystem has its keys in `configurable`, beside the thread.
        """
        made = config_with_thread({"user": "ada", "tags": ["x"]}, "t")

        assert made == {"tags": ["x"], "configurable": {"user": "ada", "thread_id": "t"}}
