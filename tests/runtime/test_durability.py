"""The durability modes as seen from outside, with a saver that blocks (S074-S080).

The decisions of the supervisor are tested without I/O in tests/superstep/test_durability.py; here
real runs wait for real commits.
"""

from collections.abc import Sequence
from typing import Annotated, TypedDict

import pytest

from actorgraph import InMemorySaver
from actorgraph.codec.records import Record, decode_record
from actorgraph.testing import GatedSaver
from actorgraph.values.commits import Commit, Request
from tests.support.gates import Box, patient_group, settled
from tests.support.graphs import ab, at, chain, count, history, in_a_row, writer

pytestmark = pytest.mark.every_saver


def steps(batch: Sequence[Request]) -> list[int]:
    """The steps of the checkpoints in a batch."""
    return [row.step for r in batch if isinstance(r, Commit) for row in r.checkpoints]


class Loading(GatedSaver):
    """Says when it is read."""

    log: list[str]

    async def query(self, queries):
        self.log.append("load")
        return await super().query(queries)


class TestSync:
    @pytest.mark.promise("S064", "S074")
    @pytest.mark.langgraph("F-E11")
    async def test_each_step_is_stored_before_the_next_one_starts(self, store):
        """
        put(k) has returned before any node of step k+1 starts, for all k.
        """
        log: list[str] = []
        saver = GatedSaver(
            store.saver(),
            is_open=True,
            on_stored=lambda batch: log.extend(f"step {s}" for s in steps(batch)),
        )
        async with saver:
            await chain("abc", log, checkpointer=saver).ainvoke({}, at())

        assert log == ["step -1", "step 0", "a", "step 1", "b", "step 2", "c", "step 3"]

    @pytest.mark.promise("S064", "C12")
    async def test_the_steps_of_a_superstep_happen_in_order(self, store):
        """
        Load, plan, run, apply and bump versions, update versions seen, checkpoint, put.
        """
        log: list[str] = []
        records: list[Record] = []

        def fold(old: list[str], new: list[str]) -> list[str]:
            log.append(f"apply {new[0]}")
            return [*old, *new]

        class Folded(TypedDict, total=False):
            bar: Annotated[list[str], fold]

        def stored(batch: Sequence[Request]) -> None:
            log.append(f"put {steps(batch)}")
            records.extend(
                decode_record(row.record) for commit in batch for row in commit.checkpoints
            )

        async def node(state):
            log.append(f"run with {state['bar']}")
            return {"bar": ["a"]}

        async with Loading(store.saver(), is_open=True, on_stored=stored) as saver:
            saver.log = log
            await in_a_row({"a": node}, schema=Folded, checkpointer=saver).ainvoke(
                {"bar": ["in"]}, at()
            )
        before, after = records[1:]

        assert log == [
            *("load", "apply in", "put [-1, 0]"),
            *("run with ['in']", "apply a", "put [1]"),
        ]
        trigger = "branch:to:a"
        assert after.channel_versions["bar"] > before.channel_versions["bar"]
        assert "a" not in before.versions_seen
        assert after.versions_seen["a"][trigger] == before.channel_versions[trigger]

    @pytest.mark.promise("S074", "S079")
    async def test_a_blocked_saver_holds_the_next_node(self, store):
        """
        By default no node starts while the save before it waits at the gate.
        """
        log: list[str] = []
        async with GatedSaver(store.saver()) as saver, patient_group(saver) as group:
            group.start_soon(ab(saver, log).ainvoke, {}, at())
            seen = []
            for _ in range(3):
                seen.append((steps(await saver.waiting()), list(log)))
                await settled()
                assert log == seen[-1][1]
                saver.release()

        assert seen == [([-1, 0], []), ([1], ["a"]), ([2], ["a", "b"])]

    async def test_the_call_returns_after_the_last_save(self):
        """
        A returned call has its last checkpoint stored.
        """
        async with (
            GatedSaver(InMemorySaver(), is_open=True) as saver,
            patient_group(saver) as group,
        ):
            box = Box()
            graph = in_a_row({"a": writer("a"), "b": holding(saver)}, checkpointer=saver)
            group.start_soon(box.fill, graph.ainvoke, {}, at())
            assert steps(await saver.waiting()) == [2]
            await settled()
            assert not box.done.is_set()
            saver.release()

        assert box.value["bar"] == ["a"]


class TestAsync:
    @pytest.mark.promise("S075", "S076", "C4")
    @pytest.mark.langgraph("F-E12")
    async def test_the_next_node_runs_while_the_save_waits(self, store):
        """
        Steps go on while their saves wait at the gate, and all are stored at the return.
        """
        log: list[str] = []
        async with GatedSaver(store.saver()) as saver, patient_group(saver) as group:
            box = Box()
            graph = chain("abc", log, checkpointer=saver)
            group.start_soon(lambda: box.fill(graph.ainvoke, {}, at(), durability="async"))
            await saver.waiting()
            await settled()
            assert log == []  # the run's claim is awaited in every mode
            saver.release()
            assert steps(await saver.waiting())[0] == 1
            await settled()
            assert log == ["a", "b", "c"]
            assert not box.done.is_set()
            saver.release(None)

        assert box.value["bar"] == ["a", "b", "c"]
        assert [s for batch in saver.batches for s in steps(batch)] == [-1, 0, 1, 2, 3]

    async def test_the_lag_is_bounded(self):
        """
        At most `max_unsaved_steps` supersteps run ahead of the saver.
        """
        log: list[str] = []
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            graph = chain("abcdefgh", log, checkpointer=saver)
            config = {**at(), "max_unsaved_steps": 3}
            group.start_soon(lambda: graph.ainvoke({}, config, durability="async"))
            await saver.waiting()
            saver.release()
            await saver.waiting()
            await settled()
            ahead = list(log)
            saver.release(None)

        assert ahead == ["a", "b", "c", "d"]
        assert log == list("abcdefgh")

    @pytest.mark.promise("D3", "D5")
    async def test_both_modes_store_the_same(self, saver):
        """
        The ledger and the checkpoints of an async run are those of a sync one, and in a list they
        are what they are one by one.
        """
        stored = {}
        for mode in ("sync", "async"):
            graph = chain("abc", checkpointer=saver)
            await graph.ainvoke({"foo": "x"}, at(mode), durability=mode)
            found = [point async for point in saver.alist(at(mode))]
            assert [await saver.aget_tuple(point.config) for point in found] == found
            stored[mode] = [
                (
                    p.metadata["step"],
                    p.checkpoint["channel_values"],
                    [w[1:] for w in p.pending_writes],
                )
                for p in found
            ]

        assert stored["sync"] == stored["async"]
        ledger = [{name for name, _ in writes} for _, _, writes in stored["sync"]]
        assert [{"foo", "bar"} <= names for names in ledger] == [False, *[True] * 3, False]


def holding(saver: GatedSaver):
    """A node that shuts the saver's gate and writes nothing."""

    async def node(state):
        saver.hold()

    return node


class TestExit:
    @pytest.mark.promise("S077")
    @pytest.mark.langgraph("F-E13")
    async def test_one_row_however_long_the_run(self, saver):
        """
        A run of five steps leaves exactly one checkpoint.
        """
        graph = chain("abcde", checkpointer=saver)

        result = await graph.ainvoke({"foo": "x"}, at(), durability="exit")
        (only,) = await history(graph, at())

        assert only.values == result == {"foo": "e", "bar": list("abcde")}
        assert (only.next, only.metadata["step"], only.parent_config) == ((), 5, None)

    @pytest.mark.promise("S077")
    async def test_nothing_is_stored_while_it_runs_but_the_claim(self):
        """
        In exit mode nodes run without waiting for a save; the claim alone comes first.
        """
        log: list[str] = []
        async with GatedSaver(InMemorySaver()) as saver, patient_group(saver) as group:
            graph = chain("abc", log, checkpointer=saver)
            group.start_soon(lambda: graph.ainvoke({}, at(), durability="exit"))
            (claim,) = await saver.waiting()
            assert (claim.claim is not None, steps([claim]), log) == (True, [], [])
            saver.release()
            assert steps(await saver.waiting()) == [3]
            assert log == ["a", "b", "c"]
            saver.release()

        assert len(saver.batches) == 2

    @pytest.mark.promise("S077")
    async def test_a_run_on_an_old_thread_adds_one(self, saver):
        """
        A later exit run adds one row, whose parent is the one stored before.
        """
        graph = ab(saver)

        await graph.ainvoke({}, at(), durability="exit")
        await graph.ainvoke({}, at(), durability="exit")
        newest, oldest = await history(graph, at())

        assert newest.parent_config == oldest.config
        assert newest.values["bar"] == ["a", "b", "a", "b"]


class TestWhichModeHolds:
    @pytest.mark.promise("S080")
    def test_a_graph_with_another_mode_is_another_graph(self):
        """
        `with_durability` leaves the graph that it is called on as it was.
        """
        graph = ab(InMemorySaver())

        other = graph.with_durability("exit")

        assert (graph.durability, other.durability) == ("sync", "exit")

    @pytest.mark.promise("S079", "S080", "C32")
    @pytest.mark.langgraph("L85")
    async def test_a_call_overrides_the_graph_and_the_graph_the_default(self, saver):
        """
        The call's mode, else the graph's, else sync.
        """
        graph = ab(saver)
        exits = graph.with_durability("exit")

        await graph.ainvoke({}, at("default"))
        await exits.ainvoke({}, at("graph"))
        await exits.ainvoke({}, at("call"), durability="sync")
        await graph.ainvoke({}, at("exit"), durability="exit")

        rows = [await count(graph, at(t)) for t in ("default", "graph", "call", "exit")]
        assert rows == [4, 1, 4, 1]

    @pytest.mark.parametrize("where", ["call", "graph"])
    async def test_a_mode_that_does_not_exist_is_refused(self, where):
        """
        A misspelt mode is refused with the nearest one, before anything runs.
        """
        graph = ab(InMemorySaver())

        async def choose() -> None:
            if where == "call":
                await graph.ainvoke({}, at(), durability="asinc")
            graph.with_durability("asinc")

        with pytest.raises(ValueError, match=r"(?s)asinc.*'async'"):
            await choose()

    @pytest.mark.promise("S009", "C32")
    async def test_one_thread_in_three_modes_ends_right(self, saver):
        """
        A thread that is run sync, then exit, then async has every run's effect once.
        """
        graph = ab(saver)

        for number, mode in enumerate(["sync", "exit", "async", "exit", "sync"]):
            await graph.ainvoke({"bar": [str(number)]}, at(), durability=mode)
        found = await history(graph, at())

        bar = [x for n in range(5) for x in (str(n), "a", "b")]
        assert found[0].values["bar"] == bar
        assert len(found) == 4 + 1 + 4 + 1 + 4
        assert [s.metadata["step"] for s in reversed(found)] == sorted(
            s.metadata["step"] for s in found
        )
