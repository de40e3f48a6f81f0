"""Several supersteps of updates in one call."""

import pytest

from actorgraph import START, StateUpdate
from actorgraph.errors import InvalidUpdateError, MissingNodeError
from tests.support.graphs import at, chain, compiled, count, history


def fan(saver):
    """P and q at once, then z, then y; each writes its name to `bar`."""
    nodes = {name: lambda s, name=name: {"bar": [name]} for name in "pqzy"}
    edges = [(START, "p"), (START, "q"), (["p", "q"], "z"), ("z", "y")]
    return compiled(nodes, edges, checkpointer=saver)


class TestBulk:
    @pytest.mark.promise("S156", "S157", "C25")
    @pytest.mark.langgraph("F-G17")
    @pytest.mark.every_saver
    async def test_a_superstep_may_have_several_nodes(self, saver):
        """
        One checkpoint per superstep, folded in the order given. A join counts all its nodes, and
        stays open when its own node is updated.
        """
        graph = fan(saver)
        await graph.ainvoke({"bar": ["i"]}, at())
        before = await count(graph, at())

        config = await graph.abulk_update_state(
            at(),
            [
                [StateUpdate({"bar": ["Q"]}, "q"), StateUpdate({"bar": ["P"]}, "p")],
                [StateUpdate({"bar": ["Z"]}, "z")],
            ],
        )
        newest, middle, *_ = await history(graph, at())

        assert await count(graph, at()) == before + 2
        assert newest.config == config
        assert (middle.values["bar"][-2:], middle.next) == (["Q", "P"], ("z",))
        assert (newest.values["bar"][-3:], newest.next) == (["Q", "P", "Z"], ("z", "y"))
        assert [t.result for t in middle.tasks] == [{"bar": ["Z"]}]

    @pytest.mark.langgraph("F-G17", "L77")
    async def test_it_may_replay_a_whole_thread(self, saver):
        """
        Input, START and nodes as updates make the history that a run would have made.
        """
        graph = fan(saver)
        steps = [
            [StateUpdate({"bar": ["i"]}, "__input__")],
            [StateUpdate({"bar": ["i"]}, START)],
            [StateUpdate({"bar": ["P"]}, "p"), StateUpdate({"bar": ["Q"]}, "q")],
        ]

        await graph.abulk_update_state(at(), steps)
        found = await history(graph, at())
        result = await graph.ainvoke(None, at())

        assert [s.next for s in found] == [("z",), ("p", "q"), (START,)]
        assert [t.result for t in found[1].tasks] == [{"bar": ["P"]}, {"bar": ["Q"]}]
        assert result["bar"] == ["i", "P", "Q", "z", "y"]

    @pytest.mark.promise("S158", "C25")
    @pytest.mark.every_saver
    @pytest.mark.parametrize(
        "flat",
        [
            [StateUpdate({"bar": ["1"]}, "a"), StateUpdate({"bar": ["2"]}, "b")],
            [({"bar": ["1"]}, "a"), ({"bar": ["2"]}, "b")],
            ([({"bar": ["1"]}, "a")], [({"bar": ["2"]}, "b", None)]),
        ],
    )
    async def test_a_flat_list_is_one_superstep_each(self, saver, flat):
        """
        Pairs and StateUpdates without inner lists are layered.
        """
        graph = chain("abc", checkpointer=saver)

        await graph.abulk_update_state(at(), flat)
        state = await graph.aget_state(at())

        assert (state.values["bar"], state.next) == (["1", "2"], ("c",))
        assert await count(graph, at()) == 2

    @pytest.mark.promise("S158")
    @pytest.mark.langgraph("F-G17")
    @pytest.mark.every_saver
    @pytest.mark.parametrize("empty", [[], [[]], [[StateUpdate({"bar": ["x"]}, "a")], []]])
    async def test_nothing_to_apply_is_an_error(self, saver, empty):
        """
        An empty list, or an empty superstep, is refused.
        """
        graph = chain("ab", checkpointer=saver)

        with pytest.raises(ValueError, match="provided"):
            await graph.abulk_update_state(at(), empty)
        assert await count(graph, at()) == 0

    @pytest.mark.langgraph("F-G17")
    async def test_several_updates_need_names(self, saver):
        """
        In a superstep of several updates each says whose it is.
        """
        updates = [StateUpdate({"bar": ["x"]}, "a"), StateUpdate({"bar": ["y"]})]

        with pytest.raises(InvalidUpdateError, match="as_node is required"):
            await chain("ab", checkpointer=saver).abulk_update_state(at(), [updates])

    @pytest.mark.langgraph("F-G16", "F-G17")
    async def test_special_updates_can_not_be_combined(self, saver):
        """
        A copy, an input or the end is a superstep of its own.
        """
        updates = [StateUpdate(None, "__copy__"), StateUpdate({"bar": ["y"]}, "a")]

        with pytest.raises(InvalidUpdateError, match="superstep of its own"):
            await chain("ab", checkpointer=saver).abulk_update_state(at(), [updates])

    @pytest.mark.promise("S158")
    @pytest.mark.every_saver
    async def test_all_or_nothing(self, saver):
        """
        When the second superstep is refused, the first is not stored either.
        """
        graph = chain("ab", checkpointer=saver)
        await graph.ainvoke({}, at())

        with pytest.raises(MissingNodeError, match="nope"):
            await graph.abulk_update_state(at(), [({"foo": "x"}, "a"), ({"foo": "y"}, "nope")])
        assert await count(graph, at()) == 4

    @pytest.mark.promise("C25")
    async def test_another_object_than_an_update_is_refused(self, saver):
        """
        An object that isn't an update is named in the error.
        """
        with pytest.raises(ValueError, match="Expected an update, got 3"):
            await chain("ab", checkpointer=saver).abulk_update_state(at(), [[3]])
