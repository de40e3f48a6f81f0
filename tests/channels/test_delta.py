"""Storage of a DeltaChannel: its rows, its whole values, and what tools see of it."""

from collections.abc import Sequence
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import END, START, Command, Migration, Overwrite, StateGraph
from actorgraph.channels import EMPTY, DeltaChannel, LastValue
from actorgraph.errors import (
    InvalidUpdateError,
    OtherGraphWarning,
    SchemaError,
    SchemaMismatchError,
    SerializationError,
)
from actorgraph.messages import AIMessage, HumanMessage, RemoveMessage, messages_delta_reducer
from tests.support.delta_histories import joined
from tests.support.graphs import at, history

pytestmark = pytest.mark.every_saver

Counters = dict[str, tuple[int, int]]


def graph(checkpointer: Any, names: str, rule: Any, first: Any = "x", *, loop: bool = False) -> Any:
    """Nodes in a row that write their names under `rule`; `_` writes another key, `O` replaces."""

    class Schema(TypedDict, total=False):
        log: Annotated[list[str], rule]
        other: str

    def node(name: str) -> Any:
        async def call(_: Any) -> dict[str, Any]:
            if "_" in name:
                return {"other": name}
            return {"log": Overwrite([name]) if "O" in name else [name]}

        return call

    builder = StateGraph(Schema)
    stops = [f"{place}{name}" for place, name in enumerate(names)]
    for name in stops:
        builder.add_node(name, node(name))
    for start, end in zip([START, *stops], [*stops, END], strict=True):
        builder.add_edge(start, end)
    return builder.compile(checkpointer=checkpointer)


def every(count: int) -> Any:
    return DeltaChannel(joined, snapshot_frequency=count)


async def held(saver: Any) -> list[Any]:
    """The part of the log that each checkpoint itself holds, oldest first; None for nothing."""
    found = [point async for point in saver.alist(at())]
    return [point.checkpoint["channel_values"].get("log") for point in reversed(found)]


async def counters(saver: Any) -> list[Counters]:
    found = [point async for point in saver.alist(at())]
    return [p.metadata.get("counters_since_delta_snapshot", {}) for p in reversed(found)]


class TestRule:
    @pytest.mark.langgraph("F-B13")
    def test_one_call_per_superstep(self):
        """
        The reducer gets all writes of a superstep at once, and a first value of the annotated type.
        """
        calls: list[Any] = []

        def noted(value: list[str], writes: Sequence[list[str]]) -> list[str]:
            calls.append(list(writes))
            return joined(value, writes)

        rule = DeltaChannel(noted)

        assert rule.fold("log", EMPTY, [["a"], ["b"]]) == ["a", "b"]
        assert calls == [[["a"], ["b"]]]
        assert rule.annotated(dict[str, int]).initial() == {}
        assert rule.same_rule(rule.annotated(list[str]))

    @pytest.mark.langgraph("F-B10", "L21")
    def test_overwrite(self):
        """
        An Overwrite drops the other writes, None empties, two are refused.
        """
        rule = DeltaChannel(joined)

        assert rule.fold("log", ["a"], [["b"], Overwrite(["c"]), ["d"]]) == ["c"]
        assert rule.fold("log", ["a"], [{"__overwrite__": None}]) == []
        with pytest.raises(InvalidUpdateError, match="only one Overwrite"):
            rule.fold("log", ["a"], [Overwrite([]), Overwrite([])])

    @pytest.mark.parametrize("bad", [{"snapshot_frequency": 0}, {"supersteps_max": -1}])
    def test_numbers_are_positive(self, bad):
        """
        A frequency of zero is refused where it is written.
        """
        with pytest.raises(SchemaError, match="must be a positive int"):
            DeltaChannel(joined, **bad)


class TestStorage:
    @pytest.mark.langgraph("F-B13", "F-B14", "L87", "L89")
    async def test_checkpoints_hold_nothing_but_snapshots(self, saver):
        """
        A checkpoint holds the whole value at every third write of it, and is folded otherwise;
        the counters say how far it is from one.
        """
        await graph(saver, "abcd", every(3)).ainvoke({"log": ["in"]}, at())

        whole = ["in", "0a", "1b"]
        assert await held(saver) == [None, None, None, whole, None, None]
        counts = [c.get("log") for c in await counters(saver)]
        assert [c and tuple(c) for c in counts] == [None, (1, 1), (2, 2), None, (1, 1), (2, 2)]

    @pytest.mark.langgraph("F-B14", "L90")
    async def test_a_channel_that_rests_is_stored_too(self, saver):
        """
        A value without further writes is stored after `supersteps_max` checkpoints, and
        that runs no node again.
        """
        rule = DeltaChannel(joined, supersteps_max=3)

        result = await graph(saver, "____", rule).ainvoke({"log": ["in"]}, at())

        assert result == {"log": ["in"], "other": "3_"}
        assert await held(saver) == [None, None, None, ["in"], ["in"], ["in"]]
        assert len({s.next for s in await history(graph(saver, "____", rule), at())}) == 6

    async def test_forks_may_store_a_resting_channel_twice(self, saver):
        """
        Two branches that reach the same point without a write each store the value.
        """
        g = graph(saver, "a__", DeltaChannel(joined, supersteps_max=4))
        await g.ainvoke({"log": ["in"]}, at())
        base = (await history(g, at()))[1].config

        for _ in range(2):
            await g.ainvoke(None, base)

        assert (await g.aget_state(at())).values["log"] == ["in", "0a"]
        result = await g.ainvoke({"log": ["more"]}, at())
        assert result["log"] == ["in", "0a", "more", "0a"]

    @pytest.mark.langgraph("F-B15", "L91")
    async def test_an_overwrite_is_stored_whole(self, saver):
        """
        The checkpoint after an Overwrite holds the value.
        """
        g = graph(saver, "aOb", every(100))

        result = await g.ainvoke({"log": ["in"]}, at())

        assert result["log"] == ["1O", "2b"]
        assert await held(saver) == [None, None, None, ["1O"], None]

    @pytest.mark.langgraph("F-B15")
    async def test_an_update_from_outside_is_stored_whole(self, saver):
        """
        Of a new thread and of an old one: no ledger has what update_state wrote.
        """
        g = graph(saver, "ab", every(100))

        await g.aupdate_state(at(), {"log": ["first"]}, as_node="0a")
        await g.ainvoke(None, at())
        await g.aupdate_state(at(), {"log": ["then"]}, as_node="1b")

        assert await held(saver) == [["first"], None, ["first", "1b", "then"]]

    @pytest.mark.langgraph("F-B15", "L92")
    async def test_a_branch_has_its_own_writes_only(self, saver):
        """
        The writes of the first child's tasks beside a checkpoint are not in its second child.
        """
        g = graph(saver, "ab", every(100))
        await g.ainvoke({"log": ["in"]}, at())
        before = (await history(g, at()))[1]

        await g.aupdate_state(before.config, {"log": ["other"]}, as_node="1b")

        assert (await g.aget_state(at())).values["log"] == ["in", "0a", "other"]
        assert (await g.aget_state(before.config)).values["log"] == ["in", "0a"]

    @pytest.mark.langgraph("L93")
    async def test_an_input_is_folded_from_its_own_checkpoint(self, saver):
        """
        An input's writes are beside the checkpoint that the input made, on a new thread and on
        an old one, so none has to be stored whole.
        """
        g = graph(saver, "a", every(100))
        await g.ainvoke({"log": ["one"]}, at())
        await g.ainvoke({"log": ["two"]}, at())

        assert await held(saver) == [None] * 6
        assert (await g.aget_state(at())).values["log"] == ["one", "0a", "two", "0a"]

    @pytest.mark.langgraph("L87")
    async def test_a_commands_writes_are_folded_before_the_tasks(self, saver):
        """
        A Command's update is beside the checkpoint that the run paused at, with what the
        tasks wrote then; it comes first.
        """
        g = graph(saver, "ab", every(100))
        await g.ainvoke({"log": ["in"]}, at(), interrupt_before=["1b"])

        await g.ainvoke(Command(update={"log": ["said"]}), at())

        assert await held(saver) == [None] * 4
        assert (await g.aget_state(at())).values["log"] == ["in", "0a", "said", "1b"]

    @pytest.mark.langgraph("F-B17", "L82", "L86")
    async def test_exit_mode_stores_whole(self, saver):
        """
        A run in exit mode leaves no ledger of its supersteps: its one checkpoint holds the value.
        """
        g = graph(saver, "ab", every(100))

        await g.ainvoke({"log": ["in"]}, at(), durability="exit")
        await g.ainvoke({"other": "y"}, at(), durability="exit")

        assert await held(saver) == [["in", "0a", "1b"], ["in", "0a", "1b", "0a", "1b"]]

    async def test_a_run_in_exit_mode_may_leave_it_alone(self, saver):
        """
        A run in exit mode that doesn't write the channel has the value that it began with.
        """
        await graph(saver, "a", every(100)).ainvoke({"log": ["in"]}, at())
        g = graph(saver, "_", every(100))

        with pytest.warns(OtherGraphWarning):
            await g.ainvoke({"other": "y"}, at(), durability="exit")

        assert (await held(saver))[-1] is None
        assert (await g.aget_state(at())).values["log"] == ["in", "0a"]

    @pytest.mark.langgraph("L88")
    async def test_writes_of_committed_supersteps_stay(self, saver):
        """
        The ledger that a fold needs is there for good: every checkpoint of the past is read right.
        """
        g = graph(saver, "abcdefgh", every(100))
        await g.ainvoke({"log": []}, at())

        lengths = [len(s.values["log"]) for s in await history(g, at())]

        assert lengths == [8, 7, 6, 5, 4, 3, 2, 1, 0, 0]

    async def test_finished_work_of_a_node_that_is_gone_is_not_folded(self, saver):
        """
        Rows of a task that the changed graph has dropped, on purpose, are in no value.
        """

        class Log(TypedDict):
            log: Annotated[list[str], every(100)]

        async def works(_: Log) -> dict[str, Any]:
            return {"log": ["done"]}

        async def breaks(_: Log) -> None:
            raise OSError("broken")

        async def mended(_: Log) -> dict[str, Any]:
            return {"log": ["mended"]}

        def built(**nodes: Any) -> Any:
            builder = StateGraph(Log)
            for name, action in nodes.items():
                builder.add_node(name, action).add_edge(START, name)
            dropped = [] if "a" in nodes else [Migration(nodes={"a": None})]
            return builder.compile(checkpointer=saver, migrations=dropped)

        with pytest.raises(OSError, match="broken"):
            await built(a=works, b=breaks).ainvoke({"log": []}, at())
        changed = built(b=mended)

        result = await changed.ainvoke(None, at())

        assert result["log"] == (await changed.aget_state(at())).values["log"] == ["mended"]


class TestMigration:
    @pytest.mark.langgraph("F-B16")
    async def test_a_plain_channel_becomes_a_delta_and_back(self, saver):
        """
        The stored plain value is where the folding begins; a reducer folds a delta's writes one
        at a time, and then stores the value.
        """
        await graph(saver, "a", add).ainvoke({"log": ["one"]}, at())
        await graph(saver, "a", every(100)).ainvoke({"log": ["two"]}, at())
        plain = graph(saver, "a", add)

        before = (await plain.aget_state(at())).values["log"]
        after = await plain.ainvoke({"other": "x"}, at())

        assert before == ["one", "0a", "two", "0a"]
        assert after["log"] == [*before, "0a"]
        assert (await held(saver))[-1] == after["log"]

    async def test_a_rule_that_folds_nothing_is_refused(self, saver):
        """
        A key that keeps its last value can't be made of a delta's writes, and says so.
        """
        await graph(saver, "a", every(100)).ainvoke({"log": ["one"]}, at())

        with pytest.raises(SerializationError, match="was stored by a DeltaChannel"):
            await graph(saver, "a", LastValue(list)).aget_state(at())

    async def test_an_omitted_key_is_reported(self, saver):
        """
        A graph without the key doesn't go on with the thread, and the key's value stays.
        """
        g = graph(saver, "a", every(100))
        await g.ainvoke({"log": ["one"]}, at())

        class Less(TypedDict):
            other: str

        builder = StateGraph(Less)
        builder.add_node("0a", lambda _: {"other": "y"}).add_edge(START, "0a")

        with pytest.raises(SchemaMismatchError, match="channel 'log'"):
            await builder.compile(checkpointer=saver).ainvoke({"other": "x"}, at())

        assert (await g.aget_state(at())).values["log"] == ["one", "0a"]


class TestTools:
    @pytest.mark.langgraph("F-E26")
    async def test_the_history_of_a_channel(self, saver):
        """
        The writes from the last whole value on, oldest first, without those beside the checkpoint
        itself and without another branch's.
        """
        g = graph(saver, "aObc", every(100))
        await g.ainvoke({"log": ["in"]}, at())
        points = await history(g, at())
        await g.aupdate_state(points[1].config, {"other": "branch"}, as_node="3c")

        found = await saver.aget_delta_channel_history(config=at(), channels=["log", "none"])
        first = await saver.aget_delta_channel_history(config=points[-2].config, channels=["log"])

        assert found["log"]["seed"] == ["1O"]
        assert [value for _, _, value in found["log"]["writes"]] == [["2b"]]
        assert found["none"] == {"writes": []}
        assert [value for _, _, value in first["log"]["writes"]] == [["in"]]
        assert "seed" not in first["log"]

    @pytest.mark.langgraph("L96")
    async def test_a_copy_needs_the_whole_chain(self, saver):
        """
        A checkpoint that was copied without its ancestors is refused rather than read as less;
        with them and their writes it has its value.
        """
        g = graph(saver, "a", every(100))
        await g.ainvoke({"log": ["one"]}, at())
        points = [point async for point in saver.alist(at())]

        await saver.aput(at("lost"), points[0].checkpoint, points[0].metadata, {})
        place = at("copy")
        for point in reversed(points):
            place = await saver.aput(place, point.checkpoint, point.metadata, {})
            for task, channel, value in point.pending_writes or ():
                await saver.aput_writes(place, [(channel, value)], task)

        with pytest.raises(SerializationError, match="lacks rows of channel 'log'"):
            await g.aget_state(at("lost"))
        assert (await g.aget_state(at("copy"))).values["log"] == ["one", "0a"]


class TestMessages:
    @pytest.mark.langgraph("F-B19")
    def test_merging_in_one_pass(self):
        """
        Known ids replace, removed ones go, however the writes are cut.
        """
        old = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
        writes = [[AIMessage("B", id="2"), ("ai", "c")], RemoveMessage("1"), RemoveMessage("?")]

        at_once = messages_delta_reducer(old, writes)
        cut = messages_delta_reducer(messages_delta_reducer(old, writes[:1]), writes[1:])

        assert [m.content for m in at_once] == ["B", "c"] == [m.content for m in cut]

    @pytest.mark.langgraph("F-B19", "L95")
    async def test_ids_are_the_same_at_every_reading(self, saver):
        """
        Messages get their ids before they are stored, so each fold finds them again.
        """

        class Talk(TypedDict):
            messages: Annotated[list[Any], DeltaChannel(messages_delta_reducer)]

        builder = StateGraph(Talk).add_node("says", lambda _: {"messages": [AIMessage("hi")]})
        g = builder.add_edge(START, "says").compile(checkpointer=saver)

        result = await g.ainvoke({"messages": "hello"}, at())
        read = [(await g.aget_state(at())).values["messages"] for _ in "12"]

        ids = [m.id for m in result["messages"]]
        assert None not in ids
        assert [[m.id for m in messages] for messages in read] == [ids, ids]
