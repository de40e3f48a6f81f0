"""Which checkpoints a run leaves behind, on every saver and both event loops."""

import pytest

from actorgraph import END, START
from actorgraph.values.ids import as_text
from tests.support.graphs import ab, at, chain, count, history

FOUR = [
    ({"bar": []}, (START,), "input", -1),
    ({"bar": []}, ("a",), "loop", 0),
    ({"foo": "a", "bar": ["a"]}, ("b",), "loop", 1),
    ({"foo": "b", "bar": ["a", "b"]}, (), "loop", 2),
]


class TestTheFourCheckpoints:
    @pytest.mark.promise("S002", "S034", "S043", "S143", "S144", "D7")
    @pytest.mark.langgraph("F-E1", "F-C1")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("durability", ["sync", "async"])
    async def test_two_nodes_leave_exactly_four(self, saver, durability):
        """
        START -> a -> b -> END stores the empty state, the input, a's output and b's output.
        """
        graph = ab(saver)

        await graph.ainvoke({"foo": ""}, at(), durability=durability)
        found = [
            (s.values, s.next, s.metadata["source"], s.metadata["step"])
            for s in reversed(await history(graph, at()))
        ]

        first, second, *rest = FOUR
        assert found[0] == first
        assert found[1] == ({"foo": "", **second[0]}, *second[1:])
        assert found[2:] == rest

    @pytest.mark.promise("S002")
    @pytest.mark.every_saver
    async def test_a_chain_of_n_nodes_leaves_n_plus_two(self, saver):
        """
        Each superstep stores one checkpoint, the input and START one each.
        """
        graph = chain("abcdefg", checkpointer=saver)

        await graph.ainvoke({}, at())

        assert await count(graph, at()) == 9

    @pytest.mark.promise("S039", "S138")
    @pytest.mark.every_saver
    async def test_each_is_the_child_of_the_one_before(self, saver):
        """
        Walking the parents from the newest checkpoint reaches the root.
        """
        graph = ab(saver)

        await graph.ainvoke({}, at())
        found = await history(graph, at())

        assert [s.parent_config for s in found[:-1]] == [s.config for s in found[1:]]
        assert found[-1].parent_config is None

    @pytest.mark.promise("S028")
    @pytest.mark.every_saver
    async def test_one_run_stamps_all_of_them(self, saver):
        """
        The checkpoints of one call share a run id, and a second call has its own.
        """
        graph = ab(saver)

        await graph.ainvoke({}, at())
        first = {s.metadata["run_id"] for s in await history(graph, at())}
        await graph.ainvoke({}, at())
        both = {s.metadata["run_id"] for s in await history(graph, at())}

        assert len(first) == 1
        assert len(both) == 2
        assert first < both

    @pytest.mark.promise("S044")
    @pytest.mark.every_saver
    async def test_metadata_names_what_each_node_wrote(self, saver):
        """
        `writes` beside source and step is what the superstep's nodes returned.
        """
        graph = ab(saver)

        await graph.ainvoke({"foo": "x"}, at())
        writes = [s.metadata["writes"] for s in await history(graph, at())]

        assert writes[:2] == [
            {"b": {"foo": "b", "bar": ["b"]}},
            {"a": {"foo": "a", "bar": ["a"]}},
        ]

    @pytest.mark.langgraph("F-E3")
    async def test_the_callers_metadata_is_on_each(self, saver):
        """
        `config["metadata"]` is stored with every checkpoint and can be filtered by.
        """
        graph = ab(saver)
        config = {**at(), "metadata": {"user": "ada"}}

        await graph.ainvoke({}, config)

        assert len(await history(graph, at(), filter={"user": "ada"})) == 4
        assert await history(graph, at(), filter={"user": "bob"}) == []


@pytest.mark.every_saver
class TestThreads:
    @pytest.mark.promise("S003", "S009", "D11")
    async def test_a_second_run_goes_on_from_the_first(self, saver):
        """
        Invoking a thread again starts from its stored state.
        """
        graph = ab(saver)

        await graph.ainvoke({"bar": ["1"]}, at())
        result = await graph.ainvoke({"bar": ["2"]}, at())

        assert result["bar"] == ["1", "a", "b", "2", "a", "b"]

    @pytest.mark.promise("S005", "S009")
    async def test_threads_do_not_see_each_other(self, saver):
        """
        Two threads on one saver share no value, no checkpoint, no writes.
        """
        graph = ab(saver)

        await graph.ainvoke({"bar": ["1"]}, at("one"))
        result = await graph.ainvoke({"bar": ["2"]}, at("two"))
        second = await history(graph, at("two"))
        await saver.aput_writes(second[0].config, [("foo", "?")], as_text(b"a" * 16))
        found = {c.checkpoint["id"]: c async for c in saver.alist(at("one"))}
        (there, *_) = [c async for c in saver.alist(at("two"))]

        assert result["bar"] == ["2", "a", "b"]
        assert (await graph.aget_state(at("one"))).values["bar"] == ["1", "a", "b"]
        assert len(found) == len(second) == 4
        assert not {s.config["configurable"]["checkpoint_id"] for s in second} & {*found}
        assert (await saver.aget_tuple(at("one"))).pending_writes == []
        assert [write[1:] for write in there.pending_writes] == [("foo", "?")]

    async def test_a_run_without_a_saver_keeps_nothing(self):
        """
        A graph without a checkpointer runs the same and needs no thread id.
        """
        graph = ab()

        assert await graph.ainvoke({"bar": ["1"]}) == {"foo": "b", "bar": ["1", "a", "b"]}
        assert await graph.ainvoke({"bar": ["2"]}) == {"foo": "b", "bar": ["2", "a", "b"]}

    def test_end_and_start_are_langgraphs(self):
        """
        The names of the graph's ends are stored in checkpoints, so they stay what they are.
        """
        assert (START, END) == ("__start__", "__end__")
