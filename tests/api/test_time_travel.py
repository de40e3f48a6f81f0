"""Going on from a place of a thread: resume, resume_from, retry; and forks to other threads."""

import pytest

from actorgraph import Command, ConflictError, EmptyInputError, Latest, ResumeTarget, interrupt
from actorgraph.errors import CheckpointNotFoundError
from tests.support.graphs import ab, at, chain, count, history, in_a_row, side_by_side, writer

pytestmark = pytest.mark.every_saver


async def ask(state):
    return {"bar": [interrupt("?")]}


def asking(saver, log=None):
    """a, a question, z."""
    nodes = {"a": writer("a", log), "ask": ask, "z": writer("z", log)}
    return in_a_row(nodes, checkpointer=saver)


class TestResume:
    @pytest.mark.promise("S166")
    async def test_both_targets(self, saver):
        """
        `Latest` is the head, `checkpoint(id)` any other; `resume` is `resume_from` Latest.
        """
        graph = asking(saver)
        await graph.ainvoke({}, at("one"))
        await graph.ainvoke({}, at("two"))

        first = await graph.aresume("one", Command(resume="x"))
        second = await graph.aresume_from("two", Latest, Command(resume="x"))
        old = next(s for s in await history(graph, "one") if s.next == ("z",))
        target = ResumeTarget.checkpoint(old.config["configurable"]["checkpoint_id"])
        third = await graph.aresume_from("one", target)

        assert first == second == third == {"foo": "z", "bar": ["a", "x", "z"]}
        assert ResumeTarget.latest() == Latest == ResumeTarget()

    @pytest.mark.promise("S167")
    @pytest.mark.langgraph("F-G10", "L68")
    async def test_an_older_question_gets_another_answer(self, saver):
        """
        At an old checkpoint the answer goes to its question, on new rows whose first one has it
        as parent; old rows stay as they are.
        """
        log: list[str] = []
        graph = asking(saver, log)
        await graph.ainvoke({}, at())
        paused = await graph.aget_state("t")
        await graph.aresume("t", Command(resume="x"))
        before = await history(graph, "t")
        log.clear()
        target = ResumeTarget.checkpoint(paused.config["configurable"]["checkpoint_id"])

        result = await graph.aresume_from("t", target, Command(resume="y"))
        by_id = {paused.interrupts[0].id: "w"}
        again = await graph.aresume_from("t", target, Command(resume=by_id))
        after = await history(graph, "t")

        assert (result["bar"], again["bar"], log) == (["a", "y", "z"], ["a", "w", "z"], ["z", "z"])
        assert after[6:] == before
        assert [s.metadata["source"] for s in after[:6]] == ["loop", "loop", "fork"] * 2
        assert after[2].parent_config == after[5].parent_config == paused.config

    @pytest.mark.promise("S162")
    @pytest.mark.langgraph("F-G7", "L66")
    async def test_a_replayed_question_is_asked_again(self, saver):
        """
        Without an answer the replay pauses at the question, and a plain resume answers it there.
        """
        graph = asking(saver)
        await graph.ainvoke({}, at())
        paused = await graph.aget_state("t")
        await graph.aresume("t", Command(resume="x"))

        asked = await graph.ainvoke(None, paused.config)
        live = await graph.aget_state("t")
        result = await graph.aresume("t", Command(resume="y"))

        assert [i.value for i in asked["__interrupt__"]] == ["?"]
        assert live.interrupts[0].id != paused.interrupts[0].id
        assert (live.next, result["bar"]) == (("ask",), ["a", "y", "z"])

    @pytest.mark.promise("C7")
    @pytest.mark.langgraph("F-G9", "L67")
    async def test_the_heads_own_id_does_not_branch(self, saver):
        """
        A resume that names the head hands back what its siblings have done.
        """
        log: list[str] = []
        graph = side_by_side({"a": writer("a", log), "ask": ask}, checkpointer=saver)
        await graph.ainvoke({}, at())
        head = (await graph.aget_state("t")).config
        before = await count(graph, "t")

        result = await graph.ainvoke(Command(resume="yes"), head)

        assert (log, result["bar"]) == (["a"], ["a", "yes"])
        assert await count(graph, "t") == before + 1

    @pytest.mark.langgraph("F-G10", "L67")
    async def test_a_branch_runs_finished_siblings_again(self, saver):
        """
        At an old checkpoint nothing is handed back: all tasks of its superstep run.
        """
        log: list[str] = []
        graph = side_by_side({"a": writer("a", log), "ask": ask}, checkpointer=saver)
        await graph.ainvoke({}, at())
        paused = await graph.aget_state("t")
        await graph.aresume("t", Command(resume="x"))

        result = await graph.ainvoke(Command(resume="y"), paused.config)

        assert (log, result["bar"]) == (["a", "a"], ["a", "y"])

    @pytest.mark.promise("S003", "S162")
    @pytest.mark.langgraph("F-G11", "L66")
    async def test_several_forks_of_one_checkpoint(self, saver):
        """
        Each update of an old checkpoint is a branch; going on from one leaves the others alone.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, "t") if s.next == ("b",))
        one = await graph.aupdate_state(old.config, {"bar": ["1"]})
        two = await graph.aupdate_state(old.config, {"bar": ["2"]})

        first = await graph.ainvoke(None, one)
        second = await graph.ainvoke(None, two)

        assert (first["bar"], second["bar"]) == (["a", "1", "b", "c"], ["a", "2", "b", "c"])
        assert (await graph.aget_state(one)).values["bar"] == ["a", "1"]

    @pytest.mark.promise("S162", "S164")
    @pytest.mark.langgraph("F-G7")
    async def test_a_stream_from_an_old_checkpoint(self, saver):
        """
        `astream(None, old)` branches as `ainvoke` does.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, "t") if s.next == ("b",))

        seen = [list(chunk) async for chunk in graph.astream(None, old.config)]

        assert seen == [["b"], ["c"]]

    @pytest.mark.langgraph("L69", "L82")
    async def test_new_input_at_an_old_checkpoint_in_exit_mode(self, saver):
        """
        The one row of an exit run hangs below the checkpoint that it began at.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, "t") if s.next == ("b",))

        await graph.ainvoke({"bar": ["new"]}, old.config, durability="exit")
        newest = await graph.aget_state("t")

        assert newest.parent_config == old.config
        assert newest.values["bar"] == ["a", "new", "a", "b"]


class TestRetry:
    @pytest.mark.promise("E2", "S173", "S174", "S140")
    @pytest.mark.langgraph("L42")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_only_what_failed_runs_again(self, saver, durability):
        """
        A failed thread says where and why; `retry` runs that and keeps what its siblings did.
        """
        log: list[str] = []
        broken = [True]

        async def bad(state):
            log.append("bad")
            if broken:
                raise ValueError("boom")
            return {"bar": ["bad"]}

        graph = side_by_side({"good": writer("good", log), "bad": bad}, checkpointer=saver)
        with pytest.raises(ValueError, match="boom"):
            await graph.ainvoke({}, at(), durability=durability)
        failed = await graph.aget_state("t")
        broken.clear()

        result = await graph.aretry("t")

        assert (failed.failed_node, failed.error) == ("bad", "ValueError('boom')")
        assert sorted(result["bar"]) == ["bad", "good"]
        assert log.count("good") == 1
        assert (await graph.aget_state("t")).failed_node is None

    @pytest.mark.promise("E2", "S172")
    async def test_edit_then_retry(self, saver):
        """
        An update of a failed thread is seen by the retried node.
        """

        async def picky(state):
            return {"bar": [str(int(state["foo"]))]}

        graph = in_a_row({"a": writer("a"), "picky": picky}, checkpointer=saver)
        with pytest.raises(ValueError, match="invalid literal"):
            await graph.ainvoke({}, at())

        await graph.aupdate_state("t", {"foo": "7"})
        edited = await graph.aget_state("t")
        result = await graph.aretry("t")

        assert (edited.next, edited.failed_node) == (("picky",), None)
        assert result["bar"] == ["a", "7"]

    @pytest.mark.promise("E2")
    async def test_a_finished_thread_has_nothing_to_retry(self, saver):
        """
        On a thread where nothing is due, or that doesn't exist, retry is an error.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        for thread in ("t", "nobody"):
            with pytest.raises(EmptyInputError, match="nothing to retry"):
                await graph.aretry(thread)


class TestForkState:
    @pytest.mark.promise("S159", "S160", "C9")
    async def test_the_target_has_one_parentless_row(self, saver):
        """
        The same values and next under a fresh root that says where it is from.
        """
        graph = asking(saver)
        await graph.ainvoke({}, at())
        before = await history(graph, "t")

        config = await graph.afork_state("t", "u")
        (copied,) = await history(graph, "u")

        origin = before[0]
        assert copied.config == config
        assert (copied.values, copied.next) == (origin.values, origin.next)
        assert (copied.parent_config, copied.metadata["source"]) == (None, "fork")
        assert copied.metadata["forked_from"] == {
            "thread": "t",
            "ns": "",
            "id": origin.config["configurable"]["checkpoint_id"],
        }
        assert await history(graph, "t") == before

    @pytest.mark.promise("S160", "S161")
    async def test_the_copy_goes_its_own_way(self, saver):
        """
        Going on from the copy builds on the original's state and leaves the original alone.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({"bar": ["i"]}, at())
        old = next(s for s in await history(graph, "t") if s.next == ("b",))
        before = await history(graph, "t")

        await graph.afork_state(old.config, "u")
        result = await graph.ainvoke(None, at("u"))
        more = await graph.ainvoke({"bar": ["j"]}, at("u"))

        assert result["bar"] == ["i", "a", "b", "c"]
        assert more["bar"] == [*result["bar"], "j", "a", "b", "c"]
        assert await history(graph, "t") == before

    @pytest.mark.promise("C9")
    async def test_the_source_may_go_away(self, saver):
        """
        The copy has every value itself.
        """
        graph = chain([f"n{i}" for i in range(30)], checkpointer=saver)
        await graph.ainvoke({"foo": "x"}, at())

        await graph.afork_state("t", "u")
        await saver.adelete_thread("t")

        assert (await graph.aget_state("u")).values["bar"] == [f"n{i}" for i in range(30)]

    @pytest.mark.promise("S160")
    async def test_a_target_that_has_checkpoints_is_refused(self, saver):
        """
        A fork overwrites no thread.
        """
        graph = ab(saver)
        await graph.ainvoke({}, at())

        with pytest.raises(ConflictError, match="'t' has checkpoints"):
            await graph.afork_state("t", "t")
        assert await count(graph, "t") == 4

    @pytest.mark.promise("S159")
    async def test_a_source_that_is_not_there_is_refused(self, saver):
        """
        There must be something to copy.
        """
        graph = ab(saver)

        with pytest.raises(CheckpointNotFoundError, match="'t' has no checkpoint"):
            await graph.afork_state("t", "u")
        await graph.ainvoke({}, at())
        with pytest.raises(ValueError, match="thread_id"):
            await graph.afork_state("t")
