"""Reading a thread: snapshots, the live view and the record view, history."""

from datetime import datetime

import pytest

from actorgraph import Command, InMemorySaver, interrupt
from actorgraph.errors import CheckpointNotFoundError, SaverRequiredError
from tests.support.graphs import ab, at, chain, history, in_a_row, side_by_side, writer


async def ask(state):
    return {"bar": [interrupt("sure?")]}


class TestSnapshot:
    @pytest.mark.promise("S007", "S126", "S133", "S135")
    @pytest.mark.every_saver
    async def test_the_latest_and_the_named_checkpoint(self, saver):
        """
        Without an id the newest checkpoint, with one that one.
        """
        graph = ab(saver)
        await graph.ainvoke({"foo": "x"}, at())

        latest = await graph.aget_state(at())
        found = await history(graph, at())

        assert latest == found[0] == await graph.aget_state(latest.config)
        for snapshot in found:
            assert await graph.aget_state(snapshot.config) == snapshot
        assert found[1].values == {"foo": "a", "bar": ["a"]}

    @pytest.mark.promise("S127", "S134", "S136", "S137", "S139", "S142", "S145")
    @pytest.mark.every_saver
    async def test_its_parts(self, saver):
        """
        A snapshot names values, next, config, metadata, time, parent and tasks.
        """
        graph = ab(saver)
        await graph.ainvoke({"foo": "x"}, at())

        snapshot = (await history(graph, at()))[1]
        place = snapshot.config["configurable"]
        (task,) = snapshot.tasks

        assert (place["thread_id"], place["checkpoint_ns"]) == ("t", "")
        assert snapshot.next == snapshot.next_nodes == ("b",)
        assert (task.name, task.error, task.interrupts) == ("b", None, ())
        assert snapshot.metadata["source"] == "loop"
        assert datetime.fromisoformat(snapshot.created_at).tzinfo is not None
        assert snapshot.interrupts == snapshot.pending_interrupts == ()
        assert list(snapshot.to_dict()) == [
            *("values", "next", "config", "metadata", "created_at", "parent_config", "tasks")
        ]

    @pytest.mark.promise("C28")
    async def test_an_unknown_thread_is_empty(self, saver):
        """
        A thread without checkpoints has an empty snapshot.
        """
        snapshot = await ab(saver).aget_state(at("nobody"))

        assert (snapshot.values, snapshot.next, snapshot.tasks) == ({}, (), ())
        assert (snapshot.metadata, snapshot.created_at, snapshot.parent_config) == (None,) * 3

    async def test_an_unknown_checkpoint_is_an_error(self, saver):
        """
        A config that names a checkpoint which the thread hasn't is refused.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at("one"))
        await graph.ainvoke({}, at("two"))
        foreign = (await graph.aget_state(at("two"))).config["configurable"]["checkpoint_id"]

        for wrong in (foreign, "1f0a0000-0000-6000-8000-000000000000"):
            with pytest.raises(CheckpointNotFoundError, match="'one'"):
                await graph.aget_state(at("one", checkpoint_id=wrong))
        with pytest.raises(ValueError, match="must be the id of a checkpoint"):
            await graph.aget_state(at("one", checkpoint_id="nonsense"))

    @pytest.mark.promise("S125", "S214")
    async def test_reading_needs_a_checkpointer(self):
        """
        Every reading and changing method of a graph without a saver says what to pass.
        """
        graph = ab()

        for call in (
            lambda: graph.aget_state(at()),
            lambda: history(graph, at()),
            lambda: graph.aupdate_state(at(), {}),
        ):
            with pytest.raises(SaverRequiredError, match=r"checkpointer= to compile\(\)"):
                await call()

    @pytest.mark.promise("S006")
    async def test_a_thread_id_is_required(self):
        """
        With a checkpointer and without a thread id nothing runs.
        """
        log: list[str] = []
        graph = ab(InMemorySaver(), log)

        for config in (None, {}, {"configurable": {}}):
            with pytest.raises(ValueError, match="thread_id"):
                await graph.ainvoke({}, config)

        assert log == []

    @pytest.mark.parametrize("bad", ["", "a\nb", "x" * 256, 1.5, b"t", ["t"]])
    async def test_a_thread_id_that_cannot_be_used_is_refused(self, bad):
        """
        Empty, long, unprintable and non-text thread ids are refused.
        """
        with pytest.raises(ValueError, match="thread_id"):
            await ab(InMemorySaver()).ainvoke({}, at(bad))

    @pytest.mark.promise("S065")
    @pytest.mark.every_saver
    async def test_snapshots_are_the_readers_own(self, saver):
        """
        Changing a snapshot's values changes nothing that is stored.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        (await graph.aget_state(at())).values["bar"].append("forged")

        assert (await graph.aget_state(at())).values["bar"] == ["a", "b"]


class TestLiveAndRecord:
    @pytest.mark.promise("S007", "S135", "C30")
    @pytest.mark.langgraph("F-G3", "F-G4", "L73")
    @pytest.mark.every_saver
    async def test_a_finished_sibling_shows_in_the_live_view_only(self, saver):
        """
        Without an id finished tasks of the unfinished step are counted, with it they are not.
        """
        graph = side_by_side({"a": writer("a"), "ask": ask}, checkpointer=saver)
        await graph.ainvoke({}, at())

        live = await graph.aget_state(at())
        record = await graph.aget_state(live.config)

        assert (live.values, live.next) == ({"foo": "a", "bar": ["a"]}, ("ask",))
        assert (record.values, record.next) == ({"bar": []}, ("a", "ask"))
        assert live.config == record.config

    @pytest.mark.promise("C30")
    async def test_they_are_equal_between_steps(self, saver):
        """
        When no task of the next step has finished both views are the same.
        """
        graph = ab(saver, interrupt_before=["b"])
        await graph.ainvoke({}, at())

        live = await graph.aget_state(at())

        assert live == await graph.aget_state(live.config)

    @pytest.mark.langgraph("F-F12", "F-G4", "L73")
    async def test_an_answered_question_is_gone_from_the_live_view(self, saver):
        """
        The record keeps the question that was asked; the live view shows what waits.
        """

        async def fails_once(state):
            interrupt("?")
            raise ValueError("boom")

        graph = in_a_row({"node": fails_once}, checkpointer=saver)
        await graph.ainvoke({}, at())
        asked = await graph.aget_state(at())
        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke(Command(resume="x"), at())
        live = await graph.aget_state(at())
        record = await graph.aget_state(live.config)

        assert [i.value for i in asked.interrupts] == ["?"]
        assert live.interrupts == ()
        assert live.tasks[0].error == "ValueError('boom')"
        assert [i.value for i in record.interrupts] == ["?"]


class TestHistory:
    @pytest.mark.promise("S130")
    @pytest.mark.langgraph("F-G6")
    @pytest.mark.every_saver
    async def test_newest_first(self, saver):
        """
        The whole thread, newest first.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({}, at())
        await graph.ainvoke({}, at())

        steps = [s.metadata["step"] for s in await history(graph, at())]

        assert steps == [8, 7, 6, 5, 4, 3, 2, 1, 0, -1]

    @pytest.mark.promise("S012", "S128", "S131", "S132")
    @pytest.mark.langgraph("F-G6")
    @pytest.mark.every_saver
    async def test_filter_before_and_limit(self, saver):
        """
        Each narrows the history, alone and together.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())
        found = await history(graph, at())

        async def steps(**options) -> list[int]:
            return [s.metadata["step"] for s in await history(graph, at(), **options)]

        assert await steps(filter={"source": "loop"}) == [2, 1, 0]
        assert await steps(limit=2) == [2, 1]
        assert await steps(before=found[1].config) == [0, -1]
        assert await steps(before=found[0].config, filter={"source": "loop"}, limit=1) == [1]
        assert await steps(filter={"step": 1}) == [1]
        assert await steps(limit=0) == []
        assert await steps(filter={"source": "nothing"}) == []
        for odd in ([1], {"a": 1}, "1", 10**30, True):
            assert await steps(filter={"step": odd}) == []
            assert await steps(filter={"source": odd}) == []

    @pytest.mark.promise("S216")
    @pytest.mark.every_saver
    async def test_pages_are_seamless(self, saver):
        """
        A history longer than a page is complete and in order.
        """
        graph = chain([f"n{i:03}" for i in range(230)], checkpointer=saver)
        await graph.ainvoke({}, at(), durability="async")

        found = await history(graph, at())

        assert [s.metadata["step"] for s in found] == list(range(230, -2, -1))
        assert [len(s.values["bar"]) for s in found] == [*range(230, -1, -1), 0]

    async def test_a_history_may_be_left_early(self, saver):
        """
        Reading a history in part leaves nothing open.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        async for _ in graph.aget_state_history(at()):
            break
        first = await anext(graph.aget_state_history(at()))
        await graph.ainvoke({}, at())

        assert first.metadata["step"] == 2

    @pytest.mark.promise("D3")
    @pytest.mark.every_saver
    async def test_each_snapshot_has_its_own_ledger(self, saver):
        """
        Tasks of a past step show what they wrote then.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        tasks = [s.tasks for s in await history(graph, at())]

        assert tasks[0] == ()
        assert [(t.name, t.result) for (t,) in tasks[1:3]] == [
            ("b", {"foo": "b", "bar": ["b"]}),
            ("a", {"foo": "a", "bar": ["a"]}),
        ]
