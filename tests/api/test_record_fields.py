"""Fields of a checkpoint's record, on every saver."""

from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from actorgraph.api.savers.base_saver import uuid6
from actorgraph.codec.records import decode_record, encode_record
from actorgraph.values.commits import ListCheckpoints
from actorgraph.values.constants import CHECKPOINT_FORMAT
from tests.support.graphs import ab, at, in_a_row, writer

SEVEN = {
    *("v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels"),
}


async def oldest_first(saver, thread: str = "t"):
    """The stored tuples of a thread."""
    return [c async for c in saver.alist(at(thread))][::-1]


@pytest.mark.every_saver
class TestWhatEachSays:
    @pytest.mark.promise("S023", "S025", "S046", "S047")
    async def test_its_shape_its_thread_and_its_step(self, saver):
        """
        Every checkpoint of a run has the seven keys, says the format and the thread that the
        caller named, and its time-ordered id carries its step.
        """
        await ab(saver).ainvoke({}, at("mine"))
        found = await oldest_first(saver, "mine")

        assert {c.config["configurable"]["thread_id"] for c in found} == {"mine"}
        assert [set(c.checkpoint) for c in found] == [SEVEN] * 4
        assert [c.checkpoint["v"] for c in found] == [CHECKPOINT_FORMAT] * 4
        ids = [UUID(c.checkpoint["id"]) for c in found]
        assert [i.version for i in ids] == [6] * 4
        assert [i.clock_seq for i in ids] == [step & 0x3FFF for step in (-1, 0, 1, 2)]
        assert ids == sorted(ids)

    @pytest.mark.promise("S026", "S043")
    async def test_its_namespace(self, saver):
        """
        The root's namespace is empty, that of a graph in a node is named after the node; `parents`
        names the checkpoint of the root that it ran on.
        """
        inner = in_a_row({"a": writer("a")})
        await in_a_row({"child": inner}, checkpointer=saver).ainvoke({}, at())
        found = {"": [], "child": []}
        for point in await oldest_first(saver):
            found[point.config["configurable"]["checkpoint_ns"].partition(":")[0]].append(point)

        above = found[""][1].checkpoint["id"]
        assert [p.metadata["parents"] for p in found[""]] == [{}] * 3
        assert [p.metadata["parents"] for p in found["child"]] == [{"": above}] * 3

    @pytest.mark.promise("S029")
    async def test_its_moment(self, saver):
        """
        Each has its time in UTC, and none is before its parent's.
        """
        await ab(saver).ainvoke({}, at())
        found = await oldest_first(saver)
        moments = [datetime.fromisoformat(c.checkpoint["ts"]) for c in found]

        assert {moment.utcoffset() for moment in moments} == {timedelta(0)}
        assert moments == sorted(moments)

    @pytest.mark.promise("S030")
    async def test_its_values(self, store):
        """
        A new process reads of each checkpoint the values that the run had there.
        """
        async with store.saver() as saver:
            await ab(saver).ainvoke({"foo": "in"}, at())
        async with store.again() as saver:
            found = [c async for c in saver.alist(at())]
        foos = [c.checkpoint["channel_values"].get("foo") for c in reversed(found)]

        assert foos == [None, "in", "a", "b"]

    @pytest.mark.promise("S031", "S033", "S055")
    async def test_updated_channels_are_recorded(self, saver):
        """
        Only channels that its superstep has written, or emptied, have a version above the
        parent's, one step above the highest; those written are named, sorted.
        """
        await ab(saver).ainvoke({"foo": "in"}, at())
        points = [c.checkpoint for c in await oldest_first(saver)]

        assert points[2]["updated_channels"] == ["bar", "branch:to:b", "foo"]
        for before, after in pairwise(points):
            old, new = before["channel_versions"], after["channel_versions"]
            raised = {channel for channel in new if new[channel] != old.get(channel)}
            emptied = set(before["channel_values"]) - set(after["channel_values"])
            assert raised == {*after["updated_channels"], *emptied}
            assert {new[channel] for channel in raised} == {max(old.values()) + 1}
            assert after["updated_channels"] == sorted(after["updated_channels"])

    @pytest.mark.promise("S032", "S058", "S061")
    async def test_seen_versions_are_recorded(self, saver):
        """
        After a node has run, it has seen its trigger; the version at the last pause is there only
        after one, and the node isn't paused again.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at(), interrupt_before=["b"])
        seen = (await saver.aget_tuple(at())).checkpoint["versions_seen"]
        result = await graph.ainvoke(None, at(), interrupt_before=["b"])
        later = (await saver.aget_tuple(at())).checkpoint["versions_seen"]

        assert {name: set(channels) for name, channels in seen.items()} == {
            "__input__": set(),
            "__start__": {"__start__"},
            "a": {"branch:to:a"},
        }
        assert set(later) - set(seen) == {"b", "__interrupt__"}
        assert later["__interrupt__"]["branch:to:b"] == later["b"]["branch:to:b"]
        assert result["bar"] == ["a", "b"]

    @pytest.mark.promise("S028", "S042")
    async def test_one_without_a_run(self, saver):
        """
        A checkpoint that no run has made has no run id, and loads: an update's, and one that a
        program puts without the key.
        """
        graph = ab(saver)
        await graph.aupdate_state(at(), {"foo": "x"}, as_node="b")
        updated = await graph.aget_state(at())
        found = await saver.aget_tuple(at())
        point = {**found.checkpoint, "id": str(uuid6(clock_seq=1))}
        await saver.aput(found.config, point, {"source": "loop", "step": 1}, {})
        put = await graph.aget_state(at())

        assert (updated.values["foo"], updated.metadata["run_id"]) == ("x", None)
        assert (put.values["foo"], put.metadata["run_id"]) == ("x", None)
        assert put.config != updated.config


async def test_a_record_holds_nothing_else(store):
    """
    A record has the documented parts and no other, and reads as it was written.
    """
    async with store.saver() as saver:
        graph = in_a_row({"a": writer("a"), "b": writer("b")}, checkpointer=saver)
        await graph.ainvoke({"foo": "in"}, at(), interrupt_before=["b"])
        (page,) = await saver.query([ListCheckpoints("t", limit=1)])
    known = decode_record(page[0].row.record)
    parts = {name for name in known.__struct_fields__ if getattr(known, name)}

    assert parts <= {
        *("v", "graph", "channel_versions", "versions_seen", "updated_channels", "values"),
        *("lists", "blobs", "shape", "highest", "stands", "parts"),
    }
    assert decode_record(encode_record(known)) == known
