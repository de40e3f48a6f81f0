"""Metadata of a checkpoint: its source, its writer, and its cause."""

import pytest

from actorgraph import Command
from actorgraph.checkpoints import empty_checkpoint
from tests.support.graphs import AB, ab, at, chain, history, in_a_row

PLACE = {"deep": [1, None, True, {"é": 0.5}], "empty": {}}


class TestSources:
    @pytest.mark.promise("S040", "S043")
    @pytest.mark.every_saver
    async def test_each_kind_of_checkpoint_says_what_made_it(self, saver):
        """
        An input, a superstep, an update from outside and a branch.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, at()) if s.next == ("b",))
        await graph.aupdate_state(at(), {"foo": "x"})
        await graph.ainvoke(None, old.config)

        sources = [s.metadata["source"] for s in reversed(await history(graph, at()))]

        assert sources == ["input", "loop", "loop", "loop", "update", "fork", "loop"]

    @pytest.mark.promise("S043", "C16")
    @pytest.mark.every_saver
    async def test_source_step_run_and_parents_are_always_there(self, saver):
        """
        Runs, updates, branches and copies have the same keys.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, at()) if s.next == ("b",))
        await graph.ainvoke(None, old.config)
        await graph.aupdate_state(at(), {"foo": "x"})
        await graph.aupdate_state(at(), None, "__copy__")
        await graph.afork_state("t", "u")
        points = [*await history(graph, "t"), *await history(graph, "u")]

        for point in points:
            assert {"source", "step", "run_id", "parents", "writes"} <= set(point.metadata)
            assert point.metadata["parents"] == {}
        runs = {p.metadata["run_id"] for p in points if p.metadata["source"] in ("loop", "input")}
        assert len(runs) == 2
        assert None not in runs

    @pytest.mark.promise("C16")
    @pytest.mark.langgraph("L13", "L69")
    async def test_steps_count_from_minus_one(self, saver):
        """
        The input is -1, the first superstep 0; a branch counts on from where it parts.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, at()) if s.next == ("b",))
        await graph.ainvoke(None, old.config)

        steps = [s.metadata["step"] for s in reversed(await history(graph, at()))]

        assert steps == [-1, 0, 1, 2, 2, 3]


@pytest.mark.every_saver
class TestWrites:
    @pytest.mark.promise("S041", "S044")
    async def test_a_branch_does_not_show_the_work_of_the_other(self, saver):
        """
        The marker of a branch was made by no node; an update names its own node alone.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, at()) if s.next == ("b",))
        await graph.ainvoke(None, old.config)
        await graph.aupdate_state(at(), {"foo": "x"}, "a")

        newest, _, _, marker, *_ = await history(graph, at())

        assert marker.metadata["writes"] is None
        assert (newest.metadata["as_node"], newest.metadata["as_node_inferred"]) == ("a", False)

    @pytest.mark.promise("S041")
    async def test_the_nodes_that_completed_and_the_callers_keys(self, saver):
        """
        `writes` names the nodes of the superstep, beside what the caller declared.
        """
        graph = ab(saver)

        await graph.ainvoke({}, {**at(), "metadata": {"user": "ada", "try": 2, "at": PLACE}})
        newest = await graph.aget_state(at())

        assert list(newest.metadata["writes"]) == ["b"]
        assert (newest.metadata["user"], newest.metadata["try"]) == ("ada", 2)
        assert newest.metadata["at"] == PLACE


class TestNext:
    @pytest.mark.promise("C21")
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_next_is_derived_from_the_versions(self, saver, durability):
        """
        After an update by hand and a Command `next` is what will run.
        """
        log: list[str] = []

        def node(name):
            async def call(state: AB):
                log.append(name)
                return {"bar": [name]}

            return call

        graph = in_a_row({n: node(n) for n in "abcd"}, checkpointer=saver, interrupt_before=["d"])
        await graph.ainvoke({}, at(), durability=durability)
        await graph.aupdate_state(at(), {"foo": "x"}, "a")
        told = (await graph.aget_state(at())).next
        log.clear()

        await graph.ainvoke(Command(goto="c"), at(), durability=durability)

        assert told == ("b",)
        assert sorted(log[:2]) == ["b", "c"]


class TestPuts:
    @pytest.mark.every_saver
    async def test_the_configs_metadata_is_stored(self, saver):
        """
        A put by hand stores the metadata of its config as a run does: below its own, and with
        secrets redacted.
        """
        config = at(checkpoint_ns="") | {"metadata": {"run": "r1", "api_key": "k", "who": "config"}}
        own = {"source": "loop", "step": 1, "who": "put"}

        stored = await saver.aput(config, empty_checkpoint(), own, {})

        found = (await saver.aget_tuple(stored)).metadata
        assert (found["run"], found["api_key"], found["who"]) == ("r1", "[redacted]", "put")
        assert [p async for p in saver.alist(None, filter={"run": "r1"})]
