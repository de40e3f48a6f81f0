"""Errors of a `Command(resume=)` that can't be used: each says what is wrong."""

import pytest

from actorgraph import AlreadyResumed, Command, EmptyInputError, SaverRequiredError, interrupt
from actorgraph.errors import LostPauseWarning
from tests.support.graphs import at, in_a_row

OTHER = "0" * 32


async def asks(state):
    return {"bar": [interrupt("?")]}


def asking(saver=None):
    """A graph that asks one question."""
    return in_a_row({"asks": asks}, checkpointer=saver)


class TestWithoutASaver:
    @pytest.mark.parametrize("more", [{}, {"update": {"foo": "x"}}])
    async def test_a_resume_needs_a_checkpointer(self, more):
        """
        Without one nothing waits, so the answer is refused, whatever else the Command has.
        """
        graph = asking()
        with pytest.warns(LostPauseWarning):
            await graph.ainvoke({})

        with pytest.raises(SaverRequiredError, match="without a checkpointer") as refused:
            await graph.ainvoke(Command(resume="x", **more))

        assert "compile(checkpointer=...)" in refused.value.do


class TestAnotherThread:
    async def test_an_unknown_thread_has_nothing_to_resume(self, saver):
        """
        The error names the thread, and doesn't ask for an input.
        """
        graph = asking(saver)
        await graph.ainvoke({}, at())

        with pytest.raises(EmptyInputError, match="nothing to resume: thread 'u'") as refused:
            await graph.ainvoke(Command(resume="x"), at("u"))

        assert "thread_id" in refused.value.do
        assert "input" not in str(refused.value)

    async def test_no_input_is_still_no_input(self, saver):
        """
        None on an unknown thread is reported as before.
        """
        with pytest.raises(EmptyInputError, match="Received no input for thread 'u'"):
            await asking(saver).ainvoke(None, at("u"))


class TestAnotherQuestion:
    @pytest.mark.every_saver
    async def test_a_wrong_id_is_named_beside_those_that_wait(self, saver):
        """
        The error has the id that was given and the ids of the open questions; nothing is written.
        """
        graph = asking(saver)
        (question,) = (await graph.ainvoke({}, at()))["__interrupt__"]

        with pytest.raises(AlreadyResumed, match=f"no open question has the id '{OTHER}'") as no:
            await graph.ainvoke(Command(resume={OTHER: "x"}), at())

        assert f"Command(resume={{'{question.id}': ...}})" in no.value.do
        assert (await graph.ainvoke(Command(resume={question.id: "y"}), at()))["bar"] == ["y"]

    async def test_a_second_answer_is_refused_as_before(self, saver):
        """
        After the run has ended no question is open.
        """
        graph = asking(saver)
        await graph.ainvoke({}, at())
        await graph.ainvoke(Command(resume="x"), at())

        with pytest.raises(AlreadyResumed) as refused:
            await graph.ainvoke(Command(resume="x"), at())

        assert refused.value.what == "no question of thread 't' waits for this answer"
