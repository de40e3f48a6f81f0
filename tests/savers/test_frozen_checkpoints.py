"""Checkpoints that are stored: they stay as they are, and each has its place in the sequence."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
import msgspec
import pytest

from actorgraph import Command, ConflictError, interrupt
from actorgraph.values.commits import ListCheckpoints
from tests.savers.test_langgraph_methods import checkpoint, metadata, put
from tests.savers.test_thread_operations import ids
from tests.support.every_saver import Store
from tests.support.gates import Box
from tests.support.graphs import at, history, in_a_row, writer

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


async def hashes(saver: Any, thread: str = "t", *, parents: bool = True) -> dict[bytes, str]:
    """Checkpoint id -> a hash of the whole row and of the values, as any reader gets them.

    Args:
        parents: whether the parent counts, which the removal of older ones changes.
    """
    (found,) = await saver.query([ListCheckpoints(thread, "")])
    points = [p async for p in saver.alist(at(thread, checkpoint_ns=""))]
    return {
        stored.row.id: sha256(
            repr((stored.sequence, _row(stored, parents), point.checkpoint)).encode()
        ).hexdigest()
        for stored, point in zip(found, points, strict=True)
    }


def _row(stored: Any, parents: bool) -> Any:
    return stored.row if parents else msgspec.structs.replace(stored.row, parent=None)


@pytest.mark.promise("S065", "S162", "C17")
async def test_nothing_changes_a_stored_checkpoint(saver):
    """
    Replays, updates, forks, resumes, and the removal of others leave every bit of a checkpoint as
    it was stored.
    """

    async def ask(state):
        return {"bar": [interrupt("?")]}

    nodes = {"a": writer("a"), "ask": ask, "b": writer("b")}
    graph = in_a_row(nodes, checkpointer=saver)
    given = {**at(), "metadata": {"user": "ada"}}
    await graph.ainvoke({}, given, durability="exit")
    await graph.ainvoke(Command(resume="yes"), given)
    trunk = await ids(graph, at())
    first = await hashes(saver)

    waiting = (await history(graph, at()))[-1].config
    await graph.ainvoke(None, waiting)
    await graph.aupdate_state(waiting, {"bar": ["x"]}, as_node="a")
    await graph.ainvoke(Command(resume="again"), at(), durability="async")
    await graph.afork_state("t", "elsewhere", checkpoint_id=trunk[-1])
    more = await hashes(saver)
    branches = [i for i in await ids(graph, at()) if i not in trunk]
    assert await saver.adelete_checkpoints("t", branches[-1:]) == 1
    others = await hashes(saver, parents=False)
    assert await saver.aprune("t", keep_last=3) > 0
    left = await hashes(saver, parents=False)

    assert len(more) > len(first) > 2
    assert {key: more[key] for key in first} == first
    assert len(left) == 3 < len(others)
    assert left.items() <= others.items()


async def values_of(saver: Any, config: Any) -> Any:
    return (await saver.aget_tuple(config)).checkpoint["channel_values"]["foo"]


class TestOneIdTwice:
    @pytest.mark.promise("S098", "C11", "C17", "D13")
    async def test_the_newest_of_two_counts(self, saver):
        """
        Of two checkpoints with one id the one that was stored last is read, by its id and as the
        newest; a listing has both, in the order of storing.
        """
        first = checkpoint(0)
        config = await saver.aput(at(), first, metadata(0), {})
        later = await put(saver, config, 1)
        again = await saver.aput(at(), {**first, **_changed("again")}, metadata(2), {})

        assert again == config
        read = [await values_of(saver, c) for c in (config, at(), later)]
        assert read == ["again", "again", "v1"]
        found = await saver.alist_metadata("t")
        assert [(s.step, s.sequence) for s in found] == [(0, 1), (1, 2), (2, 3)]

    @pytest.mark.promise("C17")
    async def test_an_equal_one_is_stored_once(self, saver):
        """
        Putting a checkpoint once more as it is stores nothing; any difference is a new row.
        """
        point = checkpoint(0)
        for _ in range(2):
            config = await saver.aput(at(), point, metadata(0), {})
        await put(saver, config, 1)
        for strict in (False, True):
            assert await saver.aput(at(), point, metadata(0), {}, strict=strict) == config
        assert await saver.acount("t") == 2

        others = [
            (at(), point, metadata(0, user="ada")),
            (at(), point, metadata(1)),
            (at(), {**point, "versions_seen": {}}, metadata(0)),
            (at(), {**point, **_changed("other")}, metadata(0)),
            (config, point, metadata(0)),
        ]
        for number, (place, given, about) in enumerate(others, 3):
            await saver.aput(place, given, about, {})
            assert await saver.acount("t") == number

    @pytest.mark.promise("C17")
    async def test_a_strict_put_refuses_another_one(self, saver):
        """
        An id that another checkpoint has is refused by its name.
        """
        point = checkpoint(0)
        config = await saver.aput(at(), point, metadata(0), {})

        with pytest.raises(ConflictError, match=point["id"]):
            await saver.aput(config, {**point, **_changed("x")}, metadata(0), {}, strict=True)

        assert await values_of(saver, at()) == "v0"
        assert await saver.acount("t") == 1


def _changed(value: str) -> dict[str, Any]:
    return {"channel_values": {"foo": value, "bar": []}}


class TestWritersAtOnce:
    @pytest.mark.promise("S068", "C18")
    async def test_one_of_two_strict_puts_is_refused(self, store):
        """
        Two writers that have read one checkpoint both put its child: one is stored, the other one
        hears which.
        """
        async with store.saver() as one, _other(store, one) as two:
            base = await put(one, at(), 0)
            boxes = [Box(), Box()]
            points = [checkpoint(1, {"foo": name}, version=2) for name in "ab"]
            async with anyio.create_task_group() as group:
                for box, saver, point in zip(boxes, (one, two), points, strict=True):
                    call = partial(saver.aput, base, point, metadata(1), {}, strict=True)
                    group.start_soon(box.fill, call)
            (lost,) = [box.error for box in boxes if box.error is not None]
            (won,) = [point for box, point in zip(boxes, points, strict=True) if box.value]
            found = [p.checkpoint["id"] async for p in two.alist(at())]

            assert type(lost) is ConflictError
            assert won["id"] in str(lost)
            assert found == [won["id"], base["configurable"]["checkpoint_id"]]

    @pytest.mark.promise("C18")
    async def test_a_strict_put_without_a_parent_is_the_first(self, saver):
        """
        Each namespace of a thread takes one strict put without a parent, and no put gets in
        the way of another thread.
        """
        for place in (at(), at(checkpoint_ns="n"), at("other")):
            await saver.aput(place, checkpoint(0), metadata(0), {}, strict=True)
        for place in (at(), at(checkpoint_ns="n")):
            with pytest.raises(ConflictError, match="moved on"):
                await saver.aput(place, checkpoint(1), metadata(1), {}, strict=True)

        assert [await saver.acount(thread) for thread in ("t", "other")] == [2, 1]

    @pytest.mark.promise("S068", "C18")
    async def test_versions_that_were_expected(self, saver):
        """
        A put that names the versions of channels is refused where the newest checkpoint has others,
        with the channel and that checkpoint.
        """
        config = await put(saver, at(), 0)  # version 10
        newest = await put(saver, config, 1)  # version 11
        put_with = partial(saver.aput, config, checkpoint(2), metadata(2), {})

        for wrong in ({"foo": 10}, {"foo": 11, "new": 1}, {"foo": None}):
            with pytest.raises(ConflictError) as refused:
                await put_with(expected_versions=wrong)
            assert newest["configurable"]["checkpoint_id"] in str(refused.value)
        with pytest.raises(ConflictError, match="moved on"):
            await put_with(expected_versions={"foo": 11}, strict=True)
        assert await saver.acount("t") == 2

        branch = await put_with(expected_versions={"foo": 11, "new": None})

        assert (await saver.aget_tuple(branch)).parent_config == config


@asynccontextmanager
async def _other(store: Store, saver: Any) -> AsyncIterator[Any]:
    """A second saver over the same place, where there can be one."""
    if not store.on_disk:
        yield saver
        return
    async with store.again() as second:
        yield second
