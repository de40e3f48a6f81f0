"""What a checkpoint says of itself, on every saver."""

from datetime import datetime

from actorgraph.codec.records import decode_record, encode_record
from actorgraph.values.commits import ListCheckpoints
from tests.graphs import ab, at, in_a_row, writer


class TestWhatEachSays:
    async def test_its_thread(self, saver):
        """
        Every checkpoint of a run says the thread that the caller named. Promise: S025.
        """
        await ab(saver).ainvoke({}, at("mine"))
        found = [c async for c in saver.alist(at("mine"))]

        assert {c.config["configurable"]["thread_id"] for c in found} == {"mine"}
        assert len(found) == 4

    async def test_its_namespace(self, saver):
        """
        The root's namespace is empty, that of a graph in a node is named after the node.
        Promise: S026.
        """
        inner = in_a_row({"a": writer("a")})
        await in_a_row({"child": inner}, checkpointer=saver).ainvoke({}, at())
        found = [c async for c in saver.alist(at())]
        names = {c.config["configurable"]["checkpoint_ns"].split(":")[0] for c in found}

        assert names == {"", "child"}

    async def test_its_moment(self, saver):
        """
        Each has its time with a zone, and none is before its parent's. Promise: S029.
        """
        await ab(saver).ainvoke({}, at())
        found = [c async for c in saver.alist(at())]
        moments = [datetime.fromisoformat(c.checkpoint["ts"]) for c in reversed(found)]

        assert all(moment.tzinfo is not None for moment in moments)
        assert moments == sorted(moments)

    async def test_its_values(self, store):
        """
        A new process reads of each checkpoint the values that the run had there. Promise: S030.
        """
        async with store.saver() as saver:
            await ab(saver).ainvoke({"foo": "in"}, at())
        async with store.again() as saver:
            found = [c async for c in saver.alist(at())]
        foos = [c.checkpoint["channel_values"].get("foo") for c in reversed(found)]

        assert foos == [None, "in", "a", "b"]

    async def test_what_changed(self, saver):
        """
        It names the channels that its superstep has changed, sorted. Promise: S033.
        """
        await ab(saver).ainvoke({}, at())
        found = [c async for c in saver.alist(at())]
        changed = found[1].checkpoint["updated_channels"]

        assert changed == sorted(changed)
        assert {"foo", "bar"} <= {*changed}

    async def test_one_without_a_run(self, saver):
        """
        A checkpoint that no run has made has no run id, and loads. Promise: S042.
        """
        graph = ab(saver)
        await graph.aupdate_state(at(), {"foo": "x"}, as_node="b")
        state = await graph.aget_state(at())

        assert state.values["foo"] == "x"
        assert state.metadata["run_id"] is None


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
