"""Savers that a program writes itself, on our base class; the shapes that they handle."""

import warnings
from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest

from actorgraph import (
    BaseCheckpointSaver,
    CheckpointTuple,
    Codec,
    Command,
    InMemorySaver,
    SerializationError,
    SerializerProtocol,
    create_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    interrupt,
    uuid6,
)
from actorgraph.errors import EmptyChannelError, ForeignSaverWarning
from tests.support.graphs import AB, ab, at, in_a_row

pytestmark = pytest.mark.every_saver


class Listed(BaseCheckpointSaver):
    """A saver of primitives: `get`, `list`, `put`, `put_writes`, over its serializer's bytes."""

    def __init__(self, *, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self.rows: list[tuple[str, str, Any, Any, Any]] = []
        self.writes: list[tuple[str, str, str, Any]] = []

    def get(self, config):
        place = config["configurable"]
        found = [*self.list({"configurable": {"checkpoint_ns": "", **place}})]
        wanted = get_checkpoint_id(config)
        return next((f.checkpoint for f in found if wanted in (None, f.checkpoint["id"])), None)

    def list(self, config, *, filter=None, before=None, limit=None):
        place = config["configurable"] if config else {}
        for thread, namespace, point, metadata, parent in reversed(self.rows):
            if place.get("thread_id") not in (None, thread):
                continue
            if place.get("checkpoint_ns", namespace) == namespace:
                yield self._tuple(thread, namespace, point, metadata, parent)

    def _tuple(self, thread, namespace, point, metadata, parent):
        checkpoint = self.serde.loads_typed(point)
        own = [
            (task, *self.serde.loads_typed(write))
            for t, i, task, write in self.writes
            if (t, i) == (thread, checkpoint["id"])
        ]
        place = {"thread_id": thread, "checkpoint_ns": namespace}
        config = {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}
        above = {"configurable": {**place, "checkpoint_id": parent}} if parent else None
        return CheckpointTuple(config, checkpoint, metadata, above, own)

    def put(self, config, checkpoint, metadata, new_versions):
        place = config["configurable"]
        where = (place["thread_id"], place.get("checkpoint_ns", ""))
        stored = self.serde.dumps_typed(checkpoint)
        self.rows.append((*where, stored, metadata, get_checkpoint_id(config)))

    def put_writes(self, config, writes, task_id, task_path=""):
        where = (config["configurable"]["thread_id"], get_checkpoint_id(config))
        for write in writes:
            self.writes.append((*where, task_id, self.serde.dumps_typed(write)))


class Vault:
    """A serializer that takes anything but functions: the bytes say where it is kept."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def dumps_typed(self, obj):
        if any(callable(value) for value in (obj.values() if isinstance(obj, dict) else [obj])):
            raise TypeError("a function")
        self.kept.append(deepcopy(obj))
        return "vault", str(len(self.kept) - 1).encode()

    def loads_typed(self, data):
        assert data[0] == "vault"
        return deepcopy(self.kept[int(data[1])])


class Odd:
    """A type that our codec doesn't take."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Odd) and other.n == self.n

    __hash__ = None


@pytest.fixture
def listed():
    saver = Listed(serde=Vault())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForeignSaverWarning)
        ab(saver)
    return saver


class TestPrimitives:
    @pytest.mark.promise("S016", "S017", "S189", "S190")
    @pytest.mark.langgraph("F-E4")
    async def test_a_graph_runs_and_resumes_on_it(self, listed):
        """
        A class with get, list, put and put_writes is a checkpointer: its tuples are made of them.
        """
        graph = in_a_row(
            {"a": lambda _: {"bar": [interrupt("?")]}, "b": lambda _: {"foo": "end"}},
            schema=AB,
            checkpointer=listed,
        )

        await graph.ainvoke({"bar": ["in"]}, at())
        result = await graph.ainvoke(Command(resume="yes"), at())

        assert result == {"foo": "end", "bar": ["in", "yes"]}
        found = await listed.aget_tuple(at())
        assert found._fields == (
            *("config", "checkpoint", "metadata", "parent_config", "pending_writes"),
        )
        assert found.checkpoint["channel_values"]["bar"] == ["in", "yes"]
        assert found.parent_config is not None
        named = await listed.aget_tuple(found.parent_config)
        assert named.config == found.parent_config
        assert await listed.aget_tuple(at("unknown")) is None

    @pytest.mark.promise("S022")
    async def test_its_serializer_decides_what_is_stored(self, listed):
        """
        A saver with a serializer of the user's keeps a type that our codec refuses.
        """
        graph = in_a_row({"a": lambda _: {"foo": Odd(1)}}, checkpointer=listed)

        await graph.ainvoke({"bar": []}, at())

        assert (await graph.aget_state(at())).values["foo"] == Odd(1)


class TestSerializers:
    @pytest.mark.promise("S022")
    async def test_our_savers_take_one(self, store):
        """
        A saver of ours stores what a serializer of the user's makes of values.
        """
        async with store.saver(codec=Vault()) as saver:
            graph = in_a_row({"a": lambda _: {"foo": Odd(1), "bar": [Odd(2)]}}, checkpointer=saver)

            await graph.ainvoke({"bar": []}, at())

            assert (await graph.aget_state(at())).values == {"foo": Odd(1), "bar": [Odd(2)]}
        with pytest.raises(SerializationError, match="Odd"):
            await in_a_row({"a": lambda _: {"foo": Odd(1)}}, checkpointer=InMemorySaver()).ainvoke(
                {}, at()
            )

    async def test_a_value_that_the_serializer_refuses_ends_the_run(self):
        """
        A value that the serializer refuses ends the run, and its path is named.
        """
        graph = in_a_row(
            {"a": lambda _: {"foo": lambda: None}}, checkpointer=InMemorySaver(codec=Vault())
        )

        with pytest.raises(SerializationError, match=r"state\['foo'\]|writes of a.*Vault"):
            await graph.ainvoke({}, at())

    @pytest.mark.langgraph("F-E18")
    def test_a_codec_is_one(self):
        """
        Our codec keeps LangGraph's protocol of serializers, and reads no other form.
        """
        codec = Codec()

        assert isinstance(codec, SerializerProtocol)
        assert codec.loads_typed(codec.dumps_typed({"a": (1, {2})})) == {"a": (1, {2})}
        with pytest.raises(SerializationError, match="msgpack"):
            codec.loads_typed(("msgpack", b""))


class Cell:
    def __init__(self, value=None):
        self.value = value

    def checkpoint(self):
        if self.value is None:
            raise EmptyChannelError("empty", do="-")
        return self.value


class TestShapes:
    @pytest.mark.promise("S046", "S047")
    @pytest.mark.langgraph("F-E1", "F-E9")
    def test_an_empty_checkpoint(self):
        """
        It has the seven keys of LangGraph's record, and its id says step -2.
        """
        point = empty_checkpoint()

        assert sorted(point) == sorted(
            [
                *("v", "id", "ts", "channel_values", "channel_versions", "versions_seen"),
                "updated_channels",
            ]
        )
        assert point["updated_channels"] is None
        assert UUID(point["id"]).clock_seq == -2 & 0x3FFF

    def test_the_next_one(self):
        """
        It has what the channels hold; a channel without a version, or empty, is left out.
        """
        last = {**empty_checkpoint(), "channel_versions": {"a": 1, "empty": 1}}
        channels = {"a": Cell(1), "empty": Cell(), "new": Cell(2)}

        made = create_checkpoint(last, channels, 3)
        same = create_checkpoint({**last, "channel_values": {"a": 0}}, None, 3, id="x")

        assert made["channel_values"] == {"a": 1}
        assert made["id"] > last["id"]
        assert (same["id"], same["channel_values"]) == ("x", {"a": 0})

    @pytest.mark.promise("S047")
    @pytest.mark.langgraph("F-E9")
    def test_ids(self):
        """
        Ids are UUIDv6, rise, and carry a step and a node.
        """
        ids = [uuid6(clock_seq=step) for step in range(100)]

        assert [i.version for i in ids] == [6] * 100
        assert [i.clock_seq for i in ids] == list(range(100))
        assert sorted(map(str, ids)) == list(map(str, ids))
        assert uuid6(node=7).node == 7
