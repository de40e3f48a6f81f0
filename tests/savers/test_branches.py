"""Branches of one thread never write over each other's values."""

from typing import Any

import anyio
import pytest

from actorgraph.runtime.clock import IDS
from actorgraph.testing import GatedSaver
from actorgraph.testing.conformance.builders import checkpoint, metadata
from actorgraph.values.ids import as_text
from tests.support.graphs import AB, at, history, in_a_row

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


@pytest.mark.langgraph("L7")
async def test_a_branch_that_fails_at_once_hides_no_version(saver):
    """
    A branch that has stored nothing but its beginning is the head; what the next run writes
    leaves every value of the older branch as it was.
    """
    fails: list[str] = []

    async def a(state: AB) -> dict[str, Any]:
        return {"foo": "a" * len(state.get("bar", [])), "bar": [f"a{len(state.get('bar', []))}"]}

    async def b(state: AB) -> dict[str, Any]:
        if fails:
            raise OSError(fails.pop())
        return {"foo": "b" * len(state["bar"]), "bar": [f"b{len(state['bar'])}"]}

    graph = in_a_row({"a": a, "b": b}, checkpointer=saver)
    for _ in range(3):
        await graph.ainvoke({"bar": ["in"]}, at())
    before = {s.config["configurable"]["checkpoint_id"]: s for s in await history(graph, at())}
    old = next(s for s in reversed(list(before.values())) if s.next == ("b",))

    fails.append("at once")
    with pytest.raises(OSError, match="at once"):
        await graph.ainvoke(None, old.config)
    for _ in range(3):
        await graph.ainvoke({"bar": ["again"]}, at())

    after = {s.config["configurable"]["checkpoint_id"]: s for s in await history(graph, at())}
    assert len(after) > len(before) + 3
    assert {i: after[i].values for i in before} == {i: s.values for i, s in before.items()}


class TestVersionsOfAProgram:
    async def test_equal_versions_have_other_values(self, saver):
        """
        Checkpoints that were put with equal versions and other values keep their own.
        """
        values = [{"x": f"value {n}", "y": [n] * 3} for n in range(3)]
        root = await _put(saver, at(), values[0])
        left = await _put(saver, root, values[1])
        right = await _put(saver, root, values[2])

        found = [(await saver.aget_tuple(c)).checkpoint for c in (root, left, right)]
        listed = [f.checkpoint["channel_values"] async for f in saver.alist(at())]

        assert [point["channel_values"] for point in found] == values
        assert [point["channel_versions"] for point in found] == [{"x": 3, "y": 3}] * 3
        assert listed == values[::-1]

    async def test_removing_one_leaves_equal_values_of_others(self, saver):
        """
        A value that several checkpoints have is there until the last of them is gone.
        """
        root = await _put(saver, at(), {"x": "same"})
        await _put(saver, root, {"x": "other"})
        last = await _put(saver, root, {"x": "same"})

        await saver.adelete_checkpoints("t", [root["configurable"]["checkpoint_id"]])
        await saver.aprune(["t"])

        assert (await saver.aget(last))["channel_values"] == {"x": "same"}

    async def test_a_run_after_low_versions_writes_above_all(self, saver):
        """
        A head that was put with lower versions than the thread has leaves older values alone.
        """
        graph = in_a_row(
            {
                "a": lambda state: {"foo": "a" * len(state["bar"])},
                "b": lambda state: {"bar": ["b" * len(state["bar"])]},
            },
            checkpointer=saver,
        )
        for _ in range(3):
            await graph.ainvoke({"bar": ["in"]}, at())
        before = await history(graph, at())
        first = await saver.aget(before[-2].config)
        point = {**first, "id": as_text(IDS.checkpoint(0, None))}
        await saver.aput(before[-2].config, point, {"source": "fork", "step": 0}, {})

        for _ in range(3):
            await graph.ainvoke({"bar": ["again"]}, at())

        await _assert_kept(graph, before)

    async def test_a_put_that_a_run_overtakes_knows_its_versions(self, store):
        """
        A run that raises the versions between the look and the save of a put loses no value by it.
        """
        slow = GatedSaver(store.saver())
        fast = GatedSaver(store.again(), is_open=True)
        async with slow, fast:
            graph = in_a_row(
                {
                    "a": lambda state: {"foo": "a" * len(state["bar"])},
                    "b": lambda state: {"bar": ["b" * len(state["bar"])]},
                },
                checkpointer=fast,
            )
            await graph.ainvoke({"bar": ["in"]}, at())
            head = await fast.aget_tuple(at())
            point = {**head.checkpoint, "id": as_text(IDS.checkpoint(0, None))}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(slow.aput, head.config, point, metadata(7, "fork"), {})
                await slow.waiting()
                for _ in range(2):
                    await graph.ainvoke({"bar": ["meanwhile"]}, at())
                before = await history(graph, at())
                slow.release(None)

            assert (await fast.aget(at()))["id"] == point["id"]
            for _ in range(3):
                await graph.ainvoke({"bar": ["once", "again"]}, at())
            await _assert_kept(graph, before)

    async def test_many_puts_at_once_are_all_stored(self, saver):
        """
        Puts of one namespace that overtake each other are all stored, each once.
        """
        root = await _put(saver, at(), {"x": -1})
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(_put, saver, root, {"x": number})

        found = [c.checkpoint["channel_values"]["x"] async for c in saver.alist(at())]
        assert sorted(found) == [*range(-1, 40)]

    async def test_a_run_goes_on_from_a_value_that_was_put(self, saver):
        """
        A value that no superstep changes is the same in every checkpoint of a run.
        """
        graph = in_a_row({"a": lambda _: {"bar": ["a"]}}, checkpointer=saver)
        await graph.ainvoke({"foo": "old", "bar": ["in"]}, at())
        head = await saver.aget_tuple(at())
        values = {**head.checkpoint["channel_values"], "foo": "put", "bar": ["put"]}
        point = {
            **head.checkpoint,
            "id": as_text(IDS.checkpoint(0, None)),
            "channel_values": values,
        }
        await saver.aput(head.config, point, {"source": "update", "step": 9}, {})

        await graph.ainvoke({"bar": ["again"]}, at())

        states = await history(graph, at())
        assert states[0].values == {"foo": "put", "bar": ["put", "again", "a"]}
        old = next(s for s in states if s.config == head.config)
        assert old.values == {"foo": "old", "bar": ["in", "a"]}


async def _assert_kept(graph: Any, before: Any) -> None:
    """All of a history is there still."""
    after = {s.config["configurable"]["checkpoint_id"]: s for s in await history(graph, at())}
    ids = [s.config["configurable"]["checkpoint_id"] for s in before]
    assert [after[i].values for i in ids] == [s.values for s in before]


async def _put(saver: Any, config: Any, values: Any) -> Any:
    point = checkpoint(values, version=3)
    return await saver.aput(config, point, metadata(0), point["channel_versions"])
