"""Answers with a schema: shown to those who are asked, checked, made into their type."""

from dataclasses import dataclass
from typing import TypedDict

import msgspec
import pydantic
import pytest

from actorgraph import Command, InvalidResumeError, interrupt, is_invalid_resume
from actorgraph.errors import AlreadyResumed
from tests.support.graphs import AB, at, history, in_a_row, side_by_side, writer


@dataclass
class Decision:
    """A dataclass."""

    approve: bool
    reason: str = ""


class Choice(TypedDict):
    """A TypedDict."""

    approve: bool


class Verdict(msgspec.Struct):
    """A Struct."""

    approve: bool


class Ruling(pydantic.BaseModel):
    """A model."""

    approve: bool


TYPES = [Decision, Choice, Verdict, Ruling]
NAMES = [kind.__name__ for kind in TYPES]


def deciding(kind, seen):
    """A node that asks for a `kind` and says what it got."""

    async def decide(state):
        answer = interrupt("ok?", response_schema=kind)
        seen.append(answer)
        approve = answer["approve"] if isinstance(answer, dict) else answer.approve
        return {"bar": [str(approve)]}

    return decide


class TestAnswers:
    @pytest.mark.langgraph("F-F9")
    @pytest.mark.parametrize("kind", TYPES, ids=NAMES)
    async def test_the_question_shows_a_schema_and_the_answer_is_typed(self, saver, kind):
        """
        The question carries the JSON schema, through the store too; the call returns an object
        of the type.
        """
        seen: list[object] = []
        graph = in_a_row({"decide": deciding(kind, seen)}, checkpointer=saver)

        (asked,) = (await graph.ainvoke({}, at()))["__interrupt__"]
        state = await graph.aget_state(at())
        result = await graph.ainvoke(Command(resume={"approve": True}), at())

        assert asked.response_schema["properties"]["approve"]["type"] == "boolean"
        assert state.interrupts == (asked,)
        assert state.to_dict()["tasks"][0]["interrupts"][0]["response_schema"] == (
            asked.response_schema
        )
        assert result["bar"] == ["True"]
        assert type(seen[0]) is (dict if kind is Choice else kind)

    @pytest.mark.langgraph("F-F9")
    async def test_a_dict_is_shown_and_checks_nothing(self, saver):
        """
        A JSON schema as a dict is for the reader alone.
        """
        schema = {"type": "integer"}

        async def ask(state):
            return {"bar": [interrupt("n?", response_schema=schema)]}

        graph = in_a_row({"ask": ask}, checkpointer=saver)

        (asked,) = (await graph.ainvoke({}, at()))["__interrupt__"]
        result = await graph.ainvoke(Command(resume="text"), at())

        assert asked.response_schema == schema
        assert result["bar"] == ["text"]


class TestAnAnswerThatDoesNotFit:
    @pytest.mark.one_loop
    @pytest.mark.langgraph("F-F9")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    @pytest.mark.parametrize("kind", TYPES, ids=NAMES)
    async def test_nothing_of_it_is_kept(self, saver, kind, durability):
        """
        The run fails, the question waits as before, and a fitting answer is taken.
        """
        seen: list[object] = []
        graph = in_a_row({"decide": deciding(kind, seen)}, checkpointer=saver)
        (asked,) = (await graph.ainvoke({}, at(), durability=durability))["__interrupt__"]

        for resume in ({"approve": "maybe"}, {asked.id: {"approve": []}}):
            with pytest.raises(ValueError, match="approve") as refused:
                await graph.ainvoke(Command(resume=resume), at(), durability=durability)
            assert is_invalid_resume(refused.value)
            assert isinstance(
                refused.value, pydantic.ValidationError if kind is Ruling else InvalidResumeError
            )
        waiting = (await graph.aget_state(at())).interrupts
        result = await graph.ainvoke(Command(resume={"approve": False}), at())

        assert waiting == (asked,)
        assert (len(seen), result["bar"]) == (1, ["False"])

    @pytest.mark.langgraph("F-F9")
    async def test_siblings_finish_and_are_kept(self, saver):
        """
        A refused answer stops no other task: what siblings do is stored and not done again.
        """
        log: list[str] = []
        graph = side_by_side(
            {"decide": deciding(Decision, []), "work": asks_and_works(log)}, checkpointer=saver
        )
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]
        bad = {i.id: {"approve": 3} if i.response_schema else "go" for i in asked}

        with pytest.raises(InvalidResumeError):
            await graph.ainvoke(Command(resume=bad), at())
        waiting = (await graph.aget_state(at())).interrupts
        result = await graph.ainvoke(Command(resume={"approve": True}), at())

        assert [i.value for i in waiting] == ["ok?"]
        assert (sorted(result["bar"]), log) == (["True", "worked"], ["work"])

    @pytest.mark.langgraph("F-F9", "L53")
    async def test_earlier_answers_are_kept(self, saver):
        """
        Of two questions in a row only the answer that doesn't fit is taken back.
        """

        async def twice(state):
            name = interrupt("name?")
            decision = interrupt("ok?", response_schema=Decision)
            return {"bar": [name, str(decision.approve)]}

        graph = in_a_row({"twice": twice}, checkpointer=saver)
        await graph.ainvoke({}, at())
        await graph.ainvoke(Command(resume="ann"), at())

        with pytest.raises(InvalidResumeError):
            await graph.ainvoke(Command(resume="no"), at())
        result = await graph.ainvoke(Command(resume={"approve": True}), at())

        assert result["bar"] == ["ann", "True"]

    @pytest.mark.langgraph("F-F9", "F-F7")
    async def test_in_a_graph_inside_it_is_taken_back_at_each_level(self, saver):
        """
        The answer to a nested question, too, can be given again.
        """
        child = in_a_row({"decide": deciding(Decision, [])})
        graph = in_a_row({"a": writer("a"), "child": child}, checkpointer=saver)
        (asked,) = (await graph.ainvoke({}, at()))["__interrupt__"]

        for resume in ("no", {asked.id: "no"}):
            with pytest.raises(InvalidResumeError):
                await graph.ainvoke(Command(resume=resume), at())
            assert (await graph.aget_state(at())).interrupts == (asked,)
        result = await graph.ainvoke(Command(resume={"approve": True}), at())

        assert result["bar"][-1] == "True"

    @pytest.mark.langgraph("F-F9", "L51")
    async def test_a_bare_answer_before_the_question_is_taken_back(self, saver):
        """
        An answer that was given to the first task that asks is not given to any other either.
        """
        graph = in_a_row(
            {"a": writer("a"), "decide": deciding(Decision, [])},
            checkpointer=saver,
            interrupt_before=["decide"],
        )
        await graph.ainvoke({}, at())

        with pytest.raises(InvalidResumeError):
            await graph.ainvoke(Command(resume="no"), at())
        paused = await graph.ainvoke(None, at())
        result = await graph.ainvoke(Command(resume={"approve": True}), at())

        assert [i.value for i in paused["__interrupt__"]] == ["ok?"]
        assert result["bar"] == ["a", "True"]

    @pytest.mark.promise("B4")
    async def test_a_fitting_answer_is_still_taken_once(self, saver):
        """
        After a refused answer and a taken one the question is closed.
        """
        graph = in_a_row({"decide": deciding(Decision, [])}, checkpointer=saver)
        (asked,) = (await graph.ainvoke({}, at()))["__interrupt__"]
        with pytest.raises(InvalidResumeError):
            await graph.ainvoke(Command(resume="no"), at())
        await graph.ainvoke(Command(resume={asked.id: {"approve": True}}), at())

        with pytest.raises(AlreadyResumed):
            await graph.ainvoke(Command(resume={asked.id: {"approve": True}}), at())
        assert len(await history(graph, at())) == 3


def asks_and_works(log):
    """A node that asks first and then writes that it worked."""

    async def work(state: AB):
        interrupt("go?")
        log.append("work")
        return {"bar": ["worked"]}

    return work
