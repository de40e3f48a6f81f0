"""LangGraph's saver methods over every saver: put, put_writes, get_tuple, list, delete_thread."""

import pytest

from actorgraph import InvalidConfigError
from actorgraph.runtime.clock import IDS
from actorgraph.values.checkpoint import CheckpointTuple
from actorgraph.values.ids import as_text
from tests.support.graphs import ab, at

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


def checkpoint(step: int, values: dict | None = None, *, version: int = 1):
    """A checkpoint in LangGraph's shape."""
    values = {"foo": f"v{step}", "bar": [step]} if values is None else values
    return {
        "v": 4,
        "id": as_text(IDS.checkpoint(step, None)),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, version),
        "versions_seen": {"a": {"foo": version}},
        "updated_channels": sorted(values),
    }


def metadata(step: int, source: str = "loop", **more):
    return {"source": source, "step": step, "parents": {}, **more}


async def put(saver, config, step: int, **more):
    """Store a checkpoint; returns its config."""
    point = checkpoint(step, version=step + 10)
    return await saver.aput(config, point, metadata(step, **more), point["channel_versions"])


FIVE = ("config", "checkpoint", "metadata", "parent_config", "pending_writes")


class TestPutAndGet:
    @pytest.mark.promise("S004", "S011", "S013", "S015")
    @pytest.mark.langgraph("F-E2", "F-E5", "F-E27", "F-E28")
    async def test_a_put_checkpoint_can_be_read(self, saver):
        """
        The returned config addresses an equal checkpoint; a tuple has five parts.
        """
        point = checkpoint(0, {"foo": "x", "bar": [1, (2, b"3")], "n": None, "d": {"k": 1.5}})

        config = await saver.aput(at(), point, metadata(0, user="ada"), point["channel_versions"])
        found = await saver.aget_tuple(config)

        assert isinstance(found, CheckpointTuple)
        assert found._fields == FIVE
        assert found.config == config
        assert found.checkpoint["channel_values"] == point["channel_values"]
        for key in ("id", "v", "channel_versions", "versions_seen", "updated_channels"):
            assert found.checkpoint[key] == point[key]
        assert found.metadata == metadata(0, user="ada")
        assert (found.parent_config, found.pending_writes) == (None, [])

    @pytest.mark.promise("S007", "S011")
    @pytest.mark.langgraph("F-E4")
    async def test_the_latest_and_the_named_one(self, saver):
        """
        Without an id the newest, with one that one, None for what isn't there.
        """
        first = await put(saver, at(), 0)
        second = await put(saver, first, 1)

        latest = await saver.aget_tuple(at())
        older = await saver.aget_tuple(first)

        assert (latest.config, latest.parent_config) == (second, first)
        assert older.checkpoint["channel_values"]["foo"] == "v0"
        assert await saver.aget_tuple(at("unknown")) is None
        unknown = as_text(IDS.checkpoint(0, None))
        assert await saver.aget_tuple(at(checkpoint_id=unknown)) is None
        assert (await saver.aget(at()))["channel_values"]["foo"] == "v1"

    @pytest.mark.promise("S008", "S108", "C22", "D8")
    async def test_namespaces_are_apart(self, saver):
        """
        One id in two namespaces of a thread is two checkpoints, each the latest of its own; what
        is deleted in one is there in the other; without a namespace "" is meant.
        """
        points = {name: checkpoint(0, {"foo": name}) for name in ("", "child:1")}
        points["child:1"]["id"] = points[""]["id"]
        for name, point in points.items():
            where = at(checkpoint_ns=name) if name else at()
            config = await saver.aput(where, point, metadata(0), point["channel_versions"])
            assert config["configurable"]["checkpoint_ns"] == name
        for name, point in points.items():
            for config in ({}, {"checkpoint_id": point["id"]}):
                found = await saver.aget_tuple(at(checkpoint_ns=name, **config))
                assert found.checkpoint["channel_values"] == {"foo": name}

        assert await saver.adelete_checkpoints("t", [points[""]["id"]]) == 1

        assert await saver.aget_tuple(at()) is None
        kept = await saver.aget_tuple(at(checkpoint_ns="child:1"))
        assert kept.checkpoint["channel_values"] == {"foo": "child:1"}

    async def test_a_value_without_a_version_is_refused(self, saver):
        """
        Each value needs its version; nothing is stored otherwise.
        """
        point = {**checkpoint(0), "channel_versions": {}}

        with pytest.raises(InvalidConfigError, match="no version"):
            await saver.aput(at(), point, metadata(0), {})

        assert await saver.aget_tuple(at()) is None

    @pytest.mark.promise("S227")
    async def test_a_put_checkpoint_is_copied(self, saver):
        """
        Changing the passed values later changes nothing.
        """
        point = checkpoint(0)
        config = await saver.aput(at(), point, metadata(0), point["channel_versions"])

        point["channel_values"]["bar"].append("forged")

        assert (await saver.aget_tuple(config)).checkpoint["channel_values"]["bar"] == [0]


class TestWrites:
    @pytest.mark.promise("S014")
    @pytest.mark.langgraph("F-E6", "F-E2")
    async def test_writes_are_stored_beside_their_checkpoint(self, saver):
        """
        A task's writes come back with its id, in order, and once.
        """
        config = await put(saver, at(), 0)
        task, other = as_text(b"a" * 16), as_text(b"b" * 16)

        for _ in range(2):
            await saver.aput_writes(config, [("foo", 1), ("bar", {"x": [2]})], task)
        await saver.aput_writes(config, [("foo", 3)], other)
        found = await saver.aget_tuple(config)

        assert found.pending_writes == [
            (task, "foo", 1),
            (task, "bar", {"x": [2]}),
            (other, "foo", 3),
        ]

    @pytest.mark.promise("S036", "C17")
    async def test_a_later_checkpoint_has_none_of_them(self, saver):
        """
        Pending writes stay with the checkpoint that they were made on.
        """
        first = await put(saver, at(), 0)
        await saver.aput_writes(first, [("foo", 1)], as_text(b"a" * 16))
        await put(saver, first, 1)

        assert (await saver.aget_tuple(at())).pending_writes == []
        assert len((await saver.aget_tuple(first)).pending_writes) == 1

    async def test_they_need_a_checkpoint(self, saver):
        """
        Writes without a checkpoint_id are refused.
        """
        with pytest.raises(InvalidConfigError, match="checkpoint_id"):
            await saver.aput_writes(at(), [("foo", 1)], as_text(b"a" * 16))


class TestList:
    async def listed(self, saver, config, **options) -> list[int]:
        return [t.metadata["step"] async for t in saver.alist(config, **options)]

    @pytest.mark.promise("S012", "S228", "C3")
    @pytest.mark.langgraph("F-E8")
    async def test_newest_first_with_filter_before_and_limit(self, saver):
        """
        Each option alone and combined.
        """
        config = at()
        configs = []
        for step in range(5):
            config = await put(saver, config, step, source="loop" if step % 2 else "update")
            configs.append(config)

        assert await self.listed(saver, at()) == [4, 3, 2, 1, 0]
        assert await self.listed(saver, at(), limit=2) == [4, 3]
        assert await self.listed(saver, at(), before=configs[2]) == [1, 0]
        assert await self.listed(saver, at(), filter={"source": "loop"}) == [3, 1]
        assert await self.listed(saver, at(), filter={"step": 3, "source": "loop"}) == [3]
        assert await self.listed(saver, at(), filter={"source": "loop"}, limit=1) == [3]
        assert await self.listed(saver, at(), filter={"user": "nobody"}) == []
        assert await self.listed(saver, at("unknown")) == []

    async def test_metadata_of_any_kind_can_be_filtered_by(self, saver):
        """
        Text, numbers, booleans and None are compared as they are.
        """
        for step, value in enumerate(["x", 2, 1.5, True, None, "a'b\"c"]):
            await put(saver, at(), step, tag=value)

        for step, value in enumerate(["x", 2, 1.5, True, None, "a'b\"c"]):
            assert await self.listed(saver, at(), filter={"tag": value}) == [step], value

    async def test_all_threads(self, saver):
        """
        Without a config the checkpoints of every thread are listed.
        """
        for thread in ("one", "two"):
            await put(saver, at(thread), 0)

        threads = {t.config["configurable"]["thread_id"] async for t in saver.alist(None)}

        assert threads == {"one", "two"}

    @pytest.mark.langgraph("F-E8")
    async def test_namespaces(self, saver):
        """
        A config without `checkpoint_ns` lists every namespace, one with it that one.
        """
        await put(saver, at(), 0)
        await put(saver, at(checkpoint_ns="child"), 1)

        assert sorted(await self.listed(saver, at())) == [0, 1]
        assert await self.listed(saver, at(checkpoint_ns="")) == [0]
        assert await self.listed(saver, at(checkpoint_ns="child")) == [1]


class TestTogetherWithRuns:
    async def test_a_run_can_be_read(self, saver):
        """
        get_tuple of a thread that a graph ran is its latest checkpoint.
        """
        await ab(saver).ainvoke({"foo": "x"}, at())

        found = await saver.aget_tuple(at())
        steps = [t.metadata["step"] async for t in saver.alist(at())]

        assert found.checkpoint["channel_values"]["bar"] == ["a", "b"]
        assert found.metadata["run_id"]
        assert steps == [2, 1, 0, -1]

    @pytest.mark.promise("S111")
    @pytest.mark.langgraph("F-E22")
    async def test_deleting(self, saver):
        """
        adelete_thread removes every namespace of a thread, and nothing else.
        """
        await put(saver, at(), 0)
        await put(saver, at(checkpoint_ns="child"), 0)
        await put(saver, at("other"), 0)

        await saver.adelete_thread("t")

        assert await saver.aget_tuple(at()) is None
        assert await saver.aget_tuple(at(checkpoint_ns="child")) is None
        assert await saver.aget_tuple(at("other")) is not None

    @pytest.mark.promise("S189")
    def test_blocking_twins(self, store):
        """
        put, put_writes, get, get_tuple, list and delete_thread do the same without a loop.
        """
        point = checkpoint(0)
        with store.saver() as saver:
            config = saver.put(at(), point, metadata(0), point["channel_versions"])
            saver.put_writes(config, [("foo", 1)], as_text(b"a" * 16))
            found = saver.get_tuple(config)
            listed = list(saver.list(at()))
            values = saver.get(at())["channel_values"]
            saver.delete_thread("t")
            gone = saver.get_tuple(config)

        assert found == listed[0]
        assert [w[1:] for w in found.pending_writes] == [("foo", 1)]
        assert values == point["channel_values"]
        assert gone is None

    @pytest.mark.promise("S055", "C20")
    @pytest.mark.langgraph("F-E10")
    def test_versions_count_up(self, store):
        """
        The next version of a channel is one more; the first is 1.
        """
        saver = store.saver()

        assert [saver.get_next_version(v, None) for v in (None, 1, 7)] == [1, 2, 8]
