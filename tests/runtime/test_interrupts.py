"""Interrupts at run time: pausing, answering, and what a node can do wrong about them."""

import asyncio

import anyio
import pytest

from actorgraph import Command, InMemorySaver, Interrupt, interrupt
from actorgraph.errors import LostPauseWarning, SwallowedInterruptWarning, UnknownInterruptError
from tests.support.graphs import ab, at, count, history, in_a_row, side_by_side, writer

pytestmark = [pytest.mark.every_saver, pytest.mark.first_case]


async def ask(state):
    return {"bar": [interrupt("sure?")]}


def ask_in_a_thread(state):
    return {"bar": [interrupt("sure?")]}


class TestPausing:
    @pytest.mark.promise("S003", "S038", "S141", "S171")
    @pytest.mark.langgraph("F-F1", "F-F3")
    @pytest.mark.parametrize("node", [ask, ask_in_a_thread], ids=["async", "sync"])
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_question_and_its_answer(self, saver, node, durability):
        """
        The first call returns the question, the resume gives its answer to the node.
        """
        graph = in_a_row({"a": writer("a"), "ask": node}, checkpointer=saver)

        paused = await graph.ainvoke({}, at(), durability=durability)
        state = await graph.aget_state(at())
        result = await graph.ainvoke(Command(resume="yes"), at(), durability=durability)
        after = await graph.aget_state(at())

        (question,) = paused["__interrupt__"]
        assert question.value == "sure?"
        assert state.tasks[0].interrupts == state.interrupts == (question,)
        assert (state.next, after.next, after.interrupts) == (("ask",), (), ())
        assert result == {"foo": "a", "bar": ["a", "yes"]}

    @pytest.mark.promise("S078")
    async def test_exit_stores_one_row_and_a_new_saver_resumes(self, store):
        """
        In exit mode a pause is one row with its question; a later process resumes it.
        """
        async with store.saver() as saver:
            graph = in_a_row({"a": writer("a"), "ask": ask}, checkpointer=saver)
            await graph.ainvoke({}, at(), durability="exit")
            (row,) = await history(graph, at())
        async with store.again() as saver:
            graph = in_a_row({"a": writer("a"), "ask": ask}, checkpointer=saver)
            result = await graph.ainvoke(Command(resume="yes"), at())

        assert [i.value for i in row.interrupts] == ["sure?"]
        assert result["bar"] == ["a", "yes"]

    @pytest.mark.promise("S061", "S168", "S169", "S170", "D12")
    async def test_a_pause_before_a_node_and_after_one(self, saver):
        """
        `interrupt_before` and `interrupt_after` on neighbours pause once.
        """
        log: list[str] = []
        graph = ab(saver, log, interrupt_before=["b"], interrupt_after=["a"])

        await graph.ainvoke({}, at())
        state = await graph.aget_state(at())
        result = await graph.ainvoke(None, at())

        assert state.next == ("b",)
        assert log == ["a", "b"]
        assert result["bar"] == ["a", "b"]

    @pytest.mark.promise("S172")
    async def test_a_run_that_waits_holds_no_thread_of_the_saver(self, saver):
        """
        A paused thread has no active run: its state can be changed, then resumed.
        """
        graph = in_a_row({"ask": ask, "b": writer("b")}, checkpointer=saver)
        await graph.ainvoke({"foo": "x"}, at())

        assert saver.statistics().active_runs == 0
        await graph.aupdate_state(at(), {"foo": "edited"}, as_node="ask")
        result = await graph.ainvoke(None, at())

        assert result == {"foo": "b", "bar": ["b"]}


class TestManyQuestions:
    @pytest.mark.langgraph("F-F2", "F-F4", "F-F5")
    async def test_two_siblings_ask_and_are_answered_by_id(self, saver):
        """
        Each question has its id; a resume may answer one now and one later.
        """
        graph = side_by_side({"one": ask, "two": ask}, checkpointer=saver)

        asked = (await graph.ainvoke({}, at()))["__interrupt__"]
        with pytest.raises(UnknownInterruptError, match="multiple pending interrupts"):
            await graph.ainvoke(Command(resume="which?"), at())
        half = await graph.ainvoke(Command(resume={asked[0].id: "1"}), at())
        done = await graph.ainvoke(Command(resume={asked[1].id: "2"}), at())

        assert len({i.id for i in asked}) == 2
        assert half["__interrupt__"] == [asked[1]]
        assert sorted(done["bar"]) == ["1", "2"]

    @pytest.mark.langgraph("F-F1")
    async def test_a_node_that_asks_twice_runs_three_times(self, saver):
        """
        Each question of a node ends an attempt; answers come back in the order of questions.
        """
        calls: list[str] = []

        async def twice(state):
            calls.append("call")
            return {"bar": [interrupt("first"), interrupt("second")]}

        graph = in_a_row({"twice": twice}, checkpointer=saver)

        first = await graph.ainvoke({}, at())
        second = await graph.ainvoke(Command(resume="1"), at())
        result = await graph.ainvoke(Command(resume="2"), at())

        assert [r["__interrupt__"][0].value for r in (first, second)] == ["first", "second"]
        assert first["__interrupt__"][0].id != second["__interrupt__"][0].id
        assert (result["bar"], len(calls)) == (["1", "2"], 3)

    @pytest.mark.langgraph("F-F5")
    async def test_a_finished_sibling_is_kept_over_the_pause(self, saver):
        """
        While one task waits, its sibling's work is stored and not done again.
        """
        log: list[str] = []
        graph = side_by_side({"a": writer("a", log), "ask": ask}, checkpointer=saver)

        await graph.ainvoke({}, at())
        live = await graph.aget_state(at())
        result = await graph.ainvoke(Command(resume="yes"), at())

        assert log == ["a"]
        assert (live.values["bar"], live.next) == (["a"], ("ask",))
        assert result["bar"] == ["a", "yes"]

    async def test_an_answer_given_before_any_question_is_used_once(self, saver):
        """
        It goes to the first question, and to no later one, however often the node runs again.
        """

        async def three(state):
            return {"foo": [interrupt(1), interrupt(2), interrupt(3)]}

        graph = in_a_row({"three": three}, checkpointer=saver)
        await graph.ainvoke({}, at(), interrupt_before=["three"])

        asked = [await graph.ainvoke(Command(resume=answer), at()) for answer in "ab"]
        result = await graph.ainvoke(Command(resume="c"), at())

        assert [r["__interrupt__"][0].value for r in asked] == [2, 3]
        assert result["foo"] == ["a", "b", "c"]


class TestWhatNodesDoWrong:
    @pytest.mark.langgraph("F-F1", "L64", "L117")
    async def test_except_exception_does_not_swallow_it(self, saver):
        """
        The exception of `interrupt()` isn't an Exception.
        """

        async def careless(state):
            try:
                return {"bar": [interrupt("?")]}
            except Exception:  # noqa: BLE001 - what users write
                return {"bar": ["swallowed"]}

        graph = in_a_row({"careless": careless}, checkpointer=saver)

        assert "__interrupt__" in await graph.ainvoke({}, at())

    async def test_a_swallowed_question_pauses_all_the_same(self, saver):
        """
        A node that catches the question and returns is warned about, and the run pauses.
        """

        async def swallows(state):
            try:
                answer = interrupt("?")
            except BaseException:  # noqa: BLE001 - what is under test
                answer = "made up"
            return {"bar": [answer]}

        graph = in_a_row({"swallows": swallows}, checkpointer=saver)

        with pytest.warns(SwallowedInterruptWarning, match="'swallows'"):
            paused = await graph.ainvoke({}, at())
        result = await graph.ainvoke(Command(resume="real"), at())

        assert [i.value for i in paused["__interrupt__"]] == ["?"]
        assert result["bar"] == ["real"]

    async def test_questions_in_a_group_are_all_asked(self, saver):
        """
        A group of interrupts, as task groups raise them, pauses with every question.
        """

        async def group(state):
            answers = {}

            async def one(name: str) -> None:
                answers[name] = interrupt(name)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, "x")
                tasks.start_soon(one, "y")
            return {"bar": [answers["x"] + answers["y"]]}

        graph = in_a_row({"group": group}, checkpointer=saver)

        paused = await graph.ainvoke({}, at())

        assert sorted(i.value for i in paused["__interrupt__"]) == ["x", "y"]

    async def test_an_error_in_a_group_wins(self, saver):
        """
        Of questions and an error in one group the error counts, without the questions.
        """

        async def group(state):
            async def one() -> None:
                interrupt("?")

            async def two() -> None:
                raise ValueError("boom")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one)
                tasks.start_soon(two)

        graph = in_a_row({"group": group}, checkpointer=saver)

        with pytest.raises(BaseExceptionGroup) as raised:
            await graph.ainvoke({}, at())

        assert [str(e) for e in raised.value.exceptions] == ["boom"]

    def test_gather_with_return_exceptions_pauses(self):
        """
        A `gather(return_exceptions=True)` hides the question only from the node.
        """

        async def gathers(state):
            async def question() -> str:
                return interrupt("?")

            answers = await asyncio.gather(question(), return_exceptions=True)
            return {"bar": [str(a) for a in answers]}

        async def main() -> None:
            graph = in_a_row({"gathers": gathers}, checkpointer=InMemorySaver())
            with pytest.warns(SwallowedInterruptWarning):
                paused = await graph.ainvoke({}, at())
            assert [i.value for i in paused["__interrupt__"]] == ["?"]
            assert (await graph.ainvoke(Command(resume="ok"), at()))["bar"] == ["ok"]

        asyncio.run(main())

    @pytest.mark.langgraph("L64")
    async def test_a_question_without_a_saver_is_returned_too(self):
        """
        Without a checkpointer a run pauses for good, with its question in the result.
        """
        with pytest.warns(LostPauseWarning):
            paused = await in_a_row({"ask": ask}).ainvoke({})

        assert [i.value for i in paused["__interrupt__"]] == ["sure?"]

    async def test_an_unfitting_answer_is_refused(self, saver):
        """
        An answer by an id without a question is refused, and nothing is written.
        """
        graph = in_a_row({"ask": ask}, checkpointer=saver)
        await graph.ainvoke({}, at())
        before = await count(graph, at())

        with pytest.raises(Exception, match="no question"):
            await graph.ainvoke(Command(resume={"0" * 32: "x"}), at())

        assert await count(graph, at()) == before
        assert isinstance((await graph.aget_state(at())).interrupts[0], Interrupt)
