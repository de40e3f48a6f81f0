"""A saver with three methods over each of ours."""

import msgspec
import pytest

from actorgraph import (
    CheckpointConfig,
    CheckpointSource,
    InMemorySaver,
    SimpleCheckpoint,
    SimpleSaver,
)
from actorgraph.errors import CheckpointNotFoundError
from tests.support.graphs import ab, at


class TestSimpleSaver:
    @pytest.mark.promise("S018", "C24")
    @pytest.mark.every_saver
    async def test_put_get_list(self, saver, monkeypatch):
        """
        A stored checkpoint is loaded by its id, and the newest without one; a listing has no
        values.
        """
        simple = SimpleSaver(saver)

        first = await simple.aput(SimpleCheckpoint("t", {"n": 1}, metadata={"who": "ada"}))
        second = await simple.aput(SimpleCheckpoint("t", {"n": (2, 3)}))

        assert (await simple.aget("t")).values == {"n": (2, 3)}
        found = await simple.aget("t", first)
        assert (found.values, found.metadata, found.parent_id) == ({"n": 1}, {"who": "ada"}, None)
        assert (await simple.aget("t", second)).parent_id == first
        assert await simple.aget("unknown") is None
        monkeypatch.setattr(saver.codec, "decode", None)
        assert [row.checkpoint_id for row in await simple.alist("t")] == [second, first]
        assert await simple.alist("unknown") == []

    async def test_a_branch(self, saver):
        """
        A state after an older one is a branch: each keeps its values.
        """
        simple = SimpleSaver(saver)
        first = await simple.aput(SimpleCheckpoint("t", {"n": 1}))
        second = await simple.aput(SimpleCheckpoint("t", {"n": 2}))

        third = await simple.aput(SimpleCheckpoint("t", {"n": 3}, parent_id=first))

        states = [(await simple.aget("t", point)).values["n"] for point in (first, second, third)]
        assert states == [1, 2, 3]
        assert (await simple.aget("t")).checkpoint_id == third
        unknown = third[:-1] + ("1" if third.endswith("0") else "0")
        with pytest.raises(CheckpointNotFoundError, match="thread 't' has no checkpoint"):
            await simple.aput(SimpleCheckpoint("t", {}, parent_id=unknown))

    async def test_states_of_graphs(self, saver):
        """
        A graph's thread is read, and added to, by the same methods.
        """
        await ab(saver).ainvoke({"bar": ["x"]}, at())
        simple = SimpleSaver(saver)

        found = await simple.aget("t")
        assert found.values["bar"] == ["x", "a", "b"]
        assert found.source is CheckpointSource.LOOP
        await simple.aput(SimpleCheckpoint("t", {"bar": ["mine"]}))

        assert (await ab(saver).aget_state(at())).values["bar"] == ["mine"]

    def test_blocking(self):
        """
        Each method has a blocking twin.
        """
        simple = SimpleSaver(InMemorySaver())

        point = simple.put(SimpleCheckpoint("t", {"n": 1}))

        assert simple.get("t", point).values == {"n": 1}
        assert len(simple.list("t")) == 1


class TestSources:
    @pytest.mark.promise("S021")
    def test_their_words(self):
        """
        A source prints, parses and is stored as its lower-case word.
        """
        assert str(CheckpointSource.LOOP) == "loop"
        assert CheckpointSource.parse("fork") is CheckpointSource.FORK
        assert CheckpointSource.parse("x") is None
        assert msgspec.json.encode([*CheckpointSource]) == b'["input","loop","update","fork"]'

    @pytest.mark.promise("S019")
    @pytest.mark.every_saver
    async def test_the_latest(self, saver):
        """
        The latest of a thread is the newest of its own graph, though a nested one's is younger.
        """
        simple = SimpleSaver(saver)
        root = await simple.aput(SimpleCheckpoint("t", {"n": 1}))
        await simple.aput(SimpleCheckpoint("t", {"n": 2}, namespace="child"))

        latest = await saver.aget_tuple(CheckpointConfig.latest("t").config)

        assert latest.checkpoint["id"] == root
        named = CheckpointConfig("t", root)
        assert (await saver.aget_tuple(named.config)).checkpoint == latest.checkpoint
