"""Checkpoint ids across levels; durability without a saver and below a parent; retries."""

import itertools
import sys
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
import pytest

from actorgraph import START, Command, InMemorySaver, RetryPolicy, StateGraph, interrupt
from actorgraph.runtime.clock import IdSource
from actorgraph.values.ids import GREGORIAN_OFFSET
from tests.support.graphs import AB, ab, at, compiled, in_a_row, writer


def with_child(child: Any, **options: Any) -> Any:
    """a, the child, b."""
    return in_a_row({"a": writer("a"), "child": child, "b": writer("b")}, **options)


class Coarse:
    """A clock that repeats its time for many ids, and goes back now and then."""

    def __init__(self, ahead: int = 0) -> None:
        self.calls = itertools.count(1)
        self.start = GREGORIAN_OFFSET + ahead

    def ticks(self) -> int:
        """See `ports.Clock.ticks`."""
        call = next(self.calls)
        return self.start + call // 50 - (0 if call % 500 else 100)


class TestIds:
    @pytest.mark.promise("S024", "S048")
    @pytest.mark.langgraph("F-E9", "L8")
    async def test_they_rise_however_fast_they_are_made(self):
        """
        Ids that two tasks and two threads make in one go are all different and sort as they were
        made, as bytes and as text, whatever step they carry, and however rarely the clock moves;
        each is above its parent's, though another process, whose clock is ahead, made that.
        """
        ids, elsewhere = IdSource(Coarse()), IdSource(Coarse(ahead=10_000)).checkpoint(0, None)
        made: list[bytes] = []
        each: list[list[bytes]] = []

        async def task() -> None:
            for step in range(5_000):
                made.append(ids.checkpoint(-step % 3, None))
                if step % 100 == 0:
                    await anyio.lowlevel.checkpoint()

        def thread() -> None:
            each.append([ids.checkpoint(-step % 3, elsewhere) for step in range(5_000)])

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            async with anyio.create_task_group() as group:
                for _ in range(2):
                    group.start_soon(task)
                    group.start_soon(anyio.to_thread.run_sync, thread)
        finally:
            sys.setswitchinterval(interval)

        assert made == sorted(made)
        assert [m.hex() for m in made] == sorted(m.hex() for m in made)
        assert all(one == sorted(one) for one in each)
        assert len({*made, *each[0], *each[1]}) == 20_000
        assert min(*each[0], *each[1]) > elsewhere

    @pytest.mark.promise("S048")
    @pytest.mark.langgraph("F-E9", "L8")
    async def test_they_rise_across_namespaces(self):
        """
        A child's checkpoints come after its parent's last one and before its next one, by their
        ids alone.
        """
        saver = InMemorySaver()
        child = in_a_row({"x": writer("x"), "y": writer("y")})
        await with_child(child, checkpointer=saver).ainvoke({"bar": []}, at())

        found = [point async for point in saver.alist(at())]
        by_id = sorted(found, key=lambda point: point.checkpoint["id"])
        levels = ["child" in p.config["configurable"]["checkpoint_ns"] for p in by_id]

        first, last = levels.index(True), len(levels) - levels[::-1].index(True)
        assert all(levels[first:last])
        assert by_id[first - 1].metadata["step"] + 1 == by_id[last].metadata["step"]


class TestDurability:
    @pytest.mark.langgraph("L111")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_mode_without_a_saver_is_allowed(self, durability):
        """
        A graph without a checkpointer takes any durability and runs.
        """
        final = await ab().ainvoke({"bar": []}, durability=durability)

        assert final == {"foo": "b", "bar": ["a", "b"]}

    @pytest.mark.langgraph("F-H3", "L111")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_child_that_stores_nothing_takes_the_parents_mode(self, durability):
        """
        A child compiled with checkpointer=False runs below a parent in any durability, and leaves
        no row.
        """
        saver = InMemorySaver()
        child = in_a_row({"x": writer("x")}, checkpointer=False)
        graph = with_child(child, checkpointer=saver)

        final = await graph.ainvoke({"bar": []}, at(), durability=durability)

        assert final["foo"] == "b"
        names = {p.config["configurable"]["checkpoint_ns"] async for p in saver.alist(at())}
        assert names == {""}

    @pytest.mark.langgraph("F-E14", "L83", "L85")
    @pytest.mark.parametrize(("durability", "rows"), [("sync", 3), ("async", 3), ("exit", 0)])
    async def test_a_child_has_its_parents_mode(self, durability, rows):
        """
        The call's durability holds for nested graphs too: in exit mode a child that ends well
        stores nothing.
        """
        saver = InMemorySaver()
        child = in_a_row({"x": writer("x")})
        graph = with_child(child, checkpointer=saver)

        await graph.ainvoke({"bar": []}, at(), durability=durability)

        found = [p async for p in saver.alist(at())]
        assert sum("child" in p.config["configurable"]["checkpoint_ns"] for p in found) == rows


class TestQuestions:
    @pytest.mark.langgraph("F-F11", "L43")
    async def test_a_retried_node_keeps_its_answers(self):
        """
        An attempt after an answered question gets the answer again and isn't asked again.
        """
        seen: list[Any] = []

        async def ask(state: AB) -> dict[str, Any]:
            seen.append(interrupt("foo?"))
            if len(seen) == 1:
                raise ConnectionError
            return {"foo": seen[-1]}

        policy = RetryPolicy(initial_interval=0.001, jitter=False)
        builder = StateGraph(AB).add_node("ask", ask, retry_policy=policy)
        graph = builder.add_edge(START, "ask").compile(checkpointer=InMemorySaver())
        await graph.ainvoke({"bar": []}, at())
        final = await graph.ainvoke(Command(resume="mine"), at())

        assert seen == ["mine", "mine"]
        assert final["foo"] == "mine"

    @pytest.mark.langgraph("F-D1", "L60")
    async def test_the_last_values_of_a_pause_show_finished_siblings(self):
        """
        A pause ends with the state as it would be with what has finished; the stored checkpoint
        is the one before.
        """

        async def ask(state: AB) -> dict[str, Any]:
            return {"foo": interrupt("foo?")}

        graph = compiled(
            {"ask": ask, "done": writer("done")},
            [(START, "ask"), (START, "done")],
            checkpointer=InMemorySaver(),
        )
        stream = graph.astream({"bar": []}, at(), stream_mode="values")
        *_, last = [chunk async for chunk in stream if "__interrupt__" not in chunk]
        stored = (await graph.aget_state(at())).config

        assert last == {"foo": "done", "bar": ["done"]}
        assert (await graph.aget_state(stored)).values["bar"] == []


class TestSpecialWrites:
    @pytest.mark.langgraph("F-E6", "F-E7", "L36", "L37")
    async def test_they_replace_each_other_and_a_nodes_own_do_not(self):
        """
        Of a task's errors, questions and answers the last one stored counts; its own writes are
        stored once.
        """
        saver = InMemorySaver()
        async with saver:
            await ab(saver).ainvoke({"bar": []}, at())
            place = (await saver.aget_tuple(at())).config
            for number in (1, 2):
                writes = [("foo", number), ("__interrupt__", number), ("__error__", number)]
                await saver.aput_writes(place, writes, str(UUID(int=7)))

            found = (await saver.aget_tuple(place)).pending_writes

        assert sorted((channel, value) for _, channel, value in found) == [
            ("__error__", 2),
            ("__interrupt__", 2),
            ("foo", 1),
        ]
