"""`with_config` and `copy`: the same graph with something bound to it."""

import pytest

from actorgraph import GraphRecursionError, InMemorySaver, InvalidConfigError, get_config
from tests.support.graphs import ab, at, history, in_a_row, writer


def seeing(seen, **options):
    """A graph of one node that keeps its config."""

    async def node(state):
        seen.append(get_config())
        return {"foo": "x"}

    return in_a_row({"node": node}, **options)


class TestWithConfig:
    @pytest.mark.langgraph("F-A21", "F-C21")
    async def test_it_lies_under_the_config_of_each_call(self):
        """
        Tags add up, `configurable` and `metadata` merge by key, and of the rest the call's wins.
        """
        seen: list = []
        bound = seeing(seen).with_config(
            {"tags": ["t"], "configurable": {"x": 1}, "metadata": {"m": 1, "n": 1}},
            recursion_limit=50,
            max_concurrency=3,
        )
        call = {"tags": ["u"], "configurable": {"y": 2}, "metadata": {"m": 2}, "max_concurrency": 4}
        await bound.ainvoke({}, call)
        config = seen[0]

        assert config["tags"] == ["t", "u"]
        assert {k: config["metadata"][k] for k in "mn"} == {"m": 2, "n": 1}
        assert (config["recursion_limit"], config["max_concurrency"]) == (50, 4)
        assert {k: config["configurable"][k] for k in "xy"} == {"x": 1, "y": 2}

    @pytest.mark.langgraph("F-A21")
    async def test_the_graph_itself_stays_as_it_is(self):
        """
        `with_config` gives a new graph, and can be called again.
        """
        graph = ab()
        once = graph.with_config(tags=["a"])
        twice = once.with_config({"tags": ["b"]})

        assert (graph.config, once.config, twice.config) == (
            None,
            {"tags": ["a"]},
            {"tags": ["a", "b"]},
        )

    @pytest.mark.langgraph("F-A21")
    async def test_a_thread_may_be_bound(self):
        """
        Runs, reads and updates of state find the bound thread.
        """
        graph = ab(InMemorySaver()).with_config(at("bound"))
        await graph.ainvoke({"bar": ["x"]})
        await graph.aupdate_state({}, {"foo": "new"})

        assert (await graph.aget_state({})).values == {"foo": "new", "bar": ["x", "a", "b"]}
        assert len(await history(graph, {})) == 5
        assert (await graph.aget_state(at("other"))).values == {}

    @pytest.mark.langgraph("F-C21")
    async def test_a_bound_limit_holds_unless_a_call_gives_one(self):
        """
        An explicit recursion limit of a call wins over the bound one.
        """
        graph = ab().with_config(recursion_limit=1)
        with pytest.raises(GraphRecursionError):
            await graph.ainvoke({})

        assert await graph.ainvoke({}, {"recursion_limit": 2})

    async def test_another_type_than_a_config_is_refused(self):
        """
        A list is not a config, bound or given.
        """
        with pytest.raises(InvalidConfigError):
            ab().with_config(["tags"])
        with pytest.raises(InvalidConfigError):
            await ab().with_config(tags=["a"]).ainvoke({}, ["tags"])

    @pytest.mark.langgraph("F-C21")
    async def test_a_nested_graph_has_its_own_under_the_one_from_above(self):
        """
        Tags of both are there once; of one metadata key the value from above wins.
        """
        seen: list = []
        child = seeing(seen).with_config(tags=["child"], metadata={"m": "child"})
        graph = in_a_row({"child": child})
        await graph.ainvoke({"foo": "a"}, {"tags": ["call"], "metadata": {"m": "call", "n": 1}})

        assert sorted(seen[0]["tags"]) == ["call", "child"]
        assert {k: seen[0]["metadata"][k] for k in "mn"} == {"m": "call", "n": 1}

    @pytest.mark.langgraph("F-C21", "F-H4")
    async def test_a_run_on_another_thread_takes_all_but_the_place(self):
        """
        A graph that a node calls with a thread of its own has the tags, metadata and limits of the
        run above, and nothing of its `configurable`.
        """
        seen: list = []
        other = seeing(seen, checkpointer=InMemorySaver())

        async def node(state):
            await other.ainvoke(state, {**at("other"), "tags": ["own"]})

        above = {**at("t", x=5), "tags": ["t"], "metadata": {"m": 1}, "recursion_limit": 33}
        await in_a_row({"node": node}, checkpointer=InMemorySaver()).ainvoke({"foo": "a"}, above)
        config = seen[0]

        assert (config["tags"], config["metadata"]["m"]) == (["t", "own"], 1)
        assert config["recursion_limit"] == 33
        assert config["configurable"]["thread_id"] == "other"
        assert "x" not in config["configurable"]
        assert (await other.aget_state(at("other"))).metadata["m"] == 1


class TestMetadata:
    @pytest.mark.langgraph("L14", "F-E3", "F-G6")
    async def test_only_declared_metadata_is_stored(self):
        """
        Of a config only `metadata` reaches the store: neither `configurable` nor text under the
        name of a secret.
        """
        graph = ab(InMemorySaver())
        config = at("t", user_id="somebody", api_key="canary")
        config["metadata"] = {"tenant": "acme", "password": "canary", "__x": "canary", "step": 99}
        await graph.ainvoke({}, config)
        metadata = (await graph.aget_state(at())).metadata

        assert metadata["tenant"] == "acme"
        assert metadata["step"] == 2
        assert "canary" not in repr(metadata)
        assert "somebody" not in repr(metadata)
        found = [s async for s in graph.aget_state_history(at(), filter={"tenant": "acme"})]
        assert len(found) == 4

    async def test_nodes_see_what_is_not_stored(self):
        """
        The config of a node is the caller's, whole.
        """
        seen: list = []
        await seeing(seen).ainvoke({}, {"metadata": {"password": "p"}, "configurable": {"k": 1}})

        assert seen[0]["metadata"].items() >= {"password": "p"}.items()
        assert seen[0]["configurable"]["k"] == 1


class TestRunId:
    @pytest.mark.langgraph("F-C27", "F-E3")
    async def test_a_declared_run_id_is_shown_and_found(self):
        """
        `metadata["run_id"]` is in the snapshots of that run; others have an id of their own.
        """
        graph = ab(InMemorySaver())
        await graph.ainvoke({}, {**at(), "metadata": {"run_id": "r1"}})
        await graph.ainvoke({}, at())
        found = [s async for s in graph.aget_state_history(at(), filter={"run_id": "r1"})]

        assert [s.metadata["run_id"] for s in found] == ["r1"] * 4
        assert (await graph.aget_state(at())).metadata["run_id"] not in ("r1", None)

    @pytest.mark.langgraph("F-C27", "L48", "L117")
    async def test_an_input_is_never_ignored(self):
        """
        A second call under the same run id with an input is a new turn; None goes on with the
        paused run.
        """
        log: list[str] = []
        graph = in_a_row(
            {"a": writer("a", log), "b": writer("b", log)},
            checkpointer=InMemorySaver(),
            interrupt_before=["b"],
        )
        again = {**at(), "metadata": {"run_id": "r1"}}
        await graph.ainvoke({"bar": ["1"]}, again)
        await graph.ainvoke({"bar": ["2"]}, again)
        values = await graph.ainvoke(None, again)

        assert values["bar"] == ["1", "a", "2", "a", "b"]
        assert log == ["a", "a", "b"]


class TestCopy:
    @pytest.mark.langgraph("F-A21")
    async def test_a_copy_may_have_another_name_or_saver(self):
        """
        The copy is the same graph, so that it goes on with the same threads.
        """
        first, second = InMemorySaver(), InMemorySaver()
        graph = ab(first)
        await graph.ainvoke({}, at())
        twin = graph.copy({"name": "twin"})
        elsewhere = graph.copy({"checkpointer": second})

        assert (twin.name, graph.name) == ("twin", "LangGraph")
        assert (await twin.aget_state(at())).values == (await graph.aget_state(at())).values
        assert (await elsewhere.aget_state(at())).values == {}
        assert await elsewhere.ainvoke({}, at())

    def test_fixed_parts_can_not_be_changed(self):
        """
        Nodes and channels belong to the builder.
        """
        with pytest.raises(InvalidConfigError, match="'nodes'"):
            ab().copy({"nodes": {}})
