"""Answers that fit no question: what is taken, and what `strict_resume` refuses."""

import pytest

from actorgraph import Command, UnknownInterruptError, interrupt
from actorgraph.errors import AlreadyResumed
from tests.support.graphs import at, count, in_a_row, side_by_side, writer

NOBODY = "0" * 32
STRICT = {"__pregel_strict_resume": True}


async def ask(state):
    return {"bar": [interrupt("?")]}


async def two(saver):
    """A thread with two waiting questions; the graph and their ids."""
    graph = side_by_side({"one": ask, "two": ask}, checkpointer=saver)
    asked = (await graph.ainvoke({}, at()))["__interrupt__"]
    return graph, [question.id for question in asked]


class TestStrict:
    @pytest.mark.langgraph("F-F10", "L57")
    @pytest.mark.parametrize("by_config", [False, True])
    async def test_an_unknown_id_is_refused_before_anything_is_written(self, saver, by_config):
        """
        One id without a question refuses the whole map; pending questions can still be answered.
        """
        graph, ids = await two(saver)
        before = await graph.aget_state(at())
        how = {} if by_config else {"strict_resume": True}
        config = at(**STRICT) if by_config else at()

        with pytest.raises(UnknownInterruptError, match=NOBODY) as refused:
            await graph.ainvoke(Command(resume={ids[0]: "x", NOBODY: "y"}), config, **how)
        after = await graph.aget_state(at())
        result = await graph.ainvoke(Command(resume=dict.fromkeys(ids, "x")), config, **how)

        assert refused.value.reason == "not_pending"
        assert refused.value.interrupt_ids == (NOBODY,)
        assert refused.value.pending_ids == tuple(sorted(ids))
        assert (after, result["bar"]) == (before, ["x", "x"])

    @pytest.mark.langgraph("F-F10", "F-F2", "L54")
    async def test_an_answered_id_is_refused(self, saver):
        """
        An answer that is sent again after another question of the node is not taken for that one.
        """

        async def twice(state):
            return {"bar": [interrupt("first"), interrupt("second")]}

        graph = in_a_row({"twice": twice}, checkpointer=saver)
        first = (await graph.ainvoke({}, at()))["__interrupt__"][0].id
        second = (await graph.ainvoke(Command(resume="1"), at()))["__interrupt__"][0].id

        with pytest.raises(UnknownInterruptError) as refused:
            await graph.ainvoke(Command(resume={first: "1"}), at(), strict_resume=True)

        assert first != second
        assert refused.value.pending_ids == (second,)

    @pytest.mark.langgraph("F-F10", "L55")
    async def test_an_empty_map_is_refused(self, saver):
        """
        A map that names no pending question is a mistake under strict, and ignored otherwise.
        """
        graph, ids = await two(saver)

        with pytest.raises(UnknownInterruptError, match="names no interrupt") as refused:
            await graph.ainvoke(Command(resume={}), at(), strict_resume=True)
        again = await graph.ainvoke(Command(resume={}), at())

        assert refused.value.reason == "empty_map"
        assert [i.id for i in again["__interrupt__"]] == ids

    @pytest.mark.langgraph("F-F10", "L56")
    async def test_one_answer_for_two_is_ambiguous(self, saver):
        """
        A bare value for two questions is refused, strict or not, and says who waits.
        """
        graph, ids = await two(saver)

        for strict in (True, False):
            with pytest.raises(UnknownInterruptError) as refused:
                await graph.ainvoke(Command(resume="x"), at(), strict_resume=strict)
            assert refused.value.reason == "ambiguous"
            assert sorted(refused.value.pending_ids) == sorted(ids)

    @pytest.mark.langgraph("F-F10", "F-F6")
    async def test_a_bare_value_at_a_breakpoint_is_accepted(self, saver):
        """
        Where no question was asked, a value goes on past a breakpoint.
        """
        graph = in_a_row(
            {"a": writer("a"), "b": writer("b")}, checkpointer=saver, interrupt_before=["b"]
        )
        await graph.ainvoke({}, at())

        result = await graph.ainvoke(Command(resume="go"), at(), strict_resume=True)

        assert result["bar"] == ["a", "b"]


class TestOtherwise:
    @pytest.mark.langgraph("F-F4", "L57")
    async def test_known_ids_of_a_map_are_taken(self, saver):
        """
        Without strict an unknown id beside a known one is left alone.
        """
        graph, ids = await two(saver)

        half = await graph.ainvoke(Command(resume={ids[0]: "x", NOBODY: "y"}), at())

        assert [i.id for i in half["__interrupt__"]] == ids[1:]

    @pytest.mark.langgraph("L57")
    async def test_a_map_of_which_nothing_fits_is_refused(self, saver):
        """
        A map without one pending question is an error, and nothing is written.
        """
        graph, _ = await two(saver)
        before = await count(graph, at())

        with pytest.raises(AlreadyResumed):
            await graph.ainvoke(Command(resume={NOBODY: "y"}), at())
        assert await count(graph, at()) == before

    @pytest.mark.langgraph("L112", "L58", "L117")
    @pytest.mark.parametrize("command", [Command(), Command(resume=None), Command(resume={})])
    async def test_an_empty_command_asks_again(self, saver, command):
        """
        A Command that says nothing goes on as None does; None is never an answer.
        """
        graph = in_a_row({"ask": ask}, checkpointer=saver)
        await graph.ainvoke({}, at())

        again = await graph.ainvoke(command, at())

        assert [i.value for i in again["__interrupt__"]] == ["?"]

    @pytest.mark.langgraph("L107", "L53")
    async def test_going_on_never_uses_an_answer_twice(self, saver):
        """
        After the first of two questions is answered, None asks the second.
        """

        async def twice(state):
            return {"bar": [interrupt("first"), interrupt("second")]}

        graph = in_a_row({"twice": twice}, checkpointer=saver)
        await graph.ainvoke({}, at())
        await graph.ainvoke(Command(resume="1"), at())

        again = await graph.ainvoke(None, at())
        result = await graph.ainvoke(Command(resume="2"), at())

        assert [i.value for i in again["__interrupt__"]] == ["second"]
        assert result["bar"] == ["1", "2"]
