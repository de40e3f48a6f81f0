"""Questions with times: they remind, answer themselves, and race with people, once each."""

import logging
from datetime import timedelta
from typing import Any

import pytest

from actorgraph import Command, Interrupt, interrupt
from actorgraph.api.system import alarm_work
from actorgraph.errors import AlreadyResumedError, QuestionExpiredError
from tests.support.graphs import at, in_a_row, side_by_side
from tests.support.timed import DAY, HOUR, Timed, asked, place, timed

__all__ = ["place", "timed"]

REMIND = [timedelta(hours=4), DAY]
Called = list[tuple[Any, int, timedelta]]


def bill(timed: Timed, called: Called, **more: Any) -> Any:
    """A graph that asks for three days, and reminds after four hours and after a day."""
    began = timed.clock.now

    def tell(question: Interrupt, times: int) -> None:
        called.append((question.value, times, timed.clock.now - began))

    def node(state):
        answer = interrupt(
            "pay?", due=3 * DAY, otherwise="no", remind=REMIND, escalate=tell, **more
        )
        return {"foo": answer}

    return in_a_row({"ask": node})


async def value(system: Any, thread_id: str = "t") -> Any:
    """What the thread's `foo` is."""
    return (await system.graphs["g"].aget_state(at(thread_id))).values.get("foo")


async def ask(system: Any, thread_id: str = "t", **options: Any) -> Any:
    """A run that has asked, and its thread's open questions."""
    run = await system.start("g", thread_id, {"bar": []}, **options)
    await run.wait()
    return await asked(system.graphs["g"], thread_id)


class TestDue:
    @pytest.mark.every_saver
    async def test_it_reminds_and_then_answers_itself(self, timed: Timed):
        """
        In one move of three days the question reminds twice, at its times, and then answers.
        """
        called: Called = []
        async with timed.system(bill(timed, called)) as system:
            (question,) = await ask(system)
            assert question.due == timed.clock.now + 3 * DAY

            await timed.advance(3 * DAY)
            assert called == [("pay?", 1, REMIND[0]), ("pay?", 2, REMIND[1])]
            assert (await value(system), await asked(system.graphs["g"])) == ("no", [])

    async def test_a_moment_earlier_it_waits(self, timed: Timed):
        """
        A microsecond before it is due the question is open.
        """
        async with timed.system(bill(timed, [])) as system:
            await ask(system)
            await timed.advance(3 * DAY - timedelta(microseconds=1))
            assert (await value(system), len(await asked(system.graphs["g"]))) == (None, 1)

    async def test_a_persons_answer_before_wins(self, timed: Timed):
        """
        After a person's answer nothing reminds, and nothing answers.
        """
        called: Called = []
        async with timed.system(bill(timed, called)) as system:
            await ask(system)
            run = await system.resume("g", "t", "yes")
            await run.wait()
            await timed.advance(10 * DAY)

            assert (await value(system), called) == ("yes", [])
            assert len(await system.runs(thread_id="t")) == 2

    async def test_an_answer_after_it_is_refused(self, timed: Timed):
        """
        A person who answers a question that has answered itself gets AlreadyResumedError.
        """
        async with timed.system(bill(timed, [])) as system:
            (question,) = await ask(system)
            await timed.advance(3 * DAY)
            with pytest.raises(AlreadyResumedError):
                await system.resume("g", "t", {question.id: "yes"})
            assert await value(system) == "no"

    async def test_a_question_without_its_own_answer_expires(self, timed: Timed):
        """
        Without `otherwise` the call raises QuestionExpiredError, which a node can catch.
        """

        async def node(state):
            try:
                interrupt("?", due=HOUR)
            except QuestionExpiredError:
                return {"foo": "expired"}

        async with timed.system(in_a_row({"n": node})) as system:
            await ask(system)
            await timed.advance(HOUR)
            assert await value(system) == "expired"

    async def test_an_expiry_that_nobody_catches_fails_the_run(self, timed: Timed):
        """
        A QuestionExpiredError that leaves its node is the error of the run that the clock began.
        """

        async def node(state):
            return {"foo": interrupt("?", due=HOUR)}

        async with timed.system(in_a_row({"n": node})) as system:
            await ask(system)
            await timed.advance(HOUR)
            by_clock = (await system.runs(thread_id="t"))[-1]
            assert by_clock.status == "error"
            with pytest.raises(QuestionExpiredError):
                await by_clock.result()

    async def test_none_is_an_answer(self, timed: Timed):
        """
        `otherwise=None` answers with None.
        """

        async def node(state):
            return {"foo": repr(interrupt("?", due=HOUR, otherwise=None))}

        async with timed.system(in_a_row({"n": node})) as system:
            await ask(system)
            await timed.advance(HOUR)
            assert await value(system) == "None"

    async def test_questions_of_one_superstep_have_their_own_times(self, timed: Timed):
        """
        Of two parallel questions the earlier one answers itself, and the other one stays open.
        """

        def at_(length: timedelta, name: str):
            async def node(state):
                return {"bar": [interrupt(name, due=length, otherwise=name)]}

            return node

        graph = side_by_side({"a": at_(HOUR, "a"), "b": at_(DAY, "b")})
        async with timed.system(graph) as system:
            await ask(system)
            await timed.advance(HOUR)
            assert [q.value for q in await asked(system.graphs["g"])] == ["b"]

            await timed.advance(DAY)
            state = await system.graphs["g"].aget_state(at())
            assert (state.values["bar"], state.next) == (["a", "b"], ())

    async def test_the_second_question_of_a_node_counts_from_when_it_was_asked(self, timed: Timed):
        """
        A node that asks twice is given both answers; the second hour begins after the first.
        """
        began = timed.clock.now

        async def node(state):
            first = interrupt("a", due=HOUR, otherwise="x")
            second = interrupt("b", due=HOUR, otherwise="y")
            return {"foo": first + second}

        async with timed.system(in_a_row({"n": node})) as system:
            await ask(system)
            await timed.advance(HOUR)
            (question,) = await asked(system.graphs["g"])
            assert (question.value, question.due) == ("b", began + 2 * HOUR)

            await timed.advance(HOUR)
            assert await value(system) == "xy"

    @pytest.mark.every_saver
    async def test_a_question_of_a_subgraph(self, timed: Timed):
        """
        A question two graphs down reminds by its own function, and answers itself.
        """
        called: Called = []
        graph = bill(timed, called)
        for name in ("inner", "outer"):
            graph = in_a_row({name: graph})
        async with timed.system(graph) as system:
            await ask(system)
            await timed.advance(3 * DAY)
            assert await value(system) == "no"
            assert [times for _, times, _ in called] == [1, 2]


class TestReminders:
    async def test_an_async_function(self, timed: Timed):
        """
        `escalate` may be async; a question that is never due reminds all the same.
        """
        called: list[int] = []

        async def tell(question, times):
            called.append(times)

        async def node(state):
            return {"foo": interrupt("?", remind=[HOUR], escalate=tell)}

        async with timed.system(in_a_row({"n": node})) as system:
            await ask(system)
            await timed.advance(10 * DAY)
            assert called == [1]
            assert len(await asked(system.graphs["g"])) == 1

    async def test_the_question_says_when_it_has_reminded(self, timed: Timed):
        """
        A reminder needs no function: the question's times have it.
        """

        async def node(state):
            return {"foo": interrupt("?", remind=[HOUR, DAY])}

        async with timed.system(in_a_row({"n": node})) as system:
            await ask(system)
            await timed.advance(2 * HOUR)
            (question,) = await asked(system.graphs["g"])
            assert len(question.timing.reminded) == 1
            assert question.timing.open_reminders == question.timing.reminders[1:]

    async def test_a_function_that_fails_is_called_again(self, timed: Timed, caplog, monkeypatch):
        """
        After three errors the last one is logged, and the question goes on with its times.
        """
        monkeypatch.setattr(alarm_work, "TRIES_S", (0.0, 0.0))
        caplog.set_level(logging.ERROR, "actorgraph")
        called: list[int] = []

        def tell(question, times):
            called.append(times)
            raise ValueError("no mail today")

        async def node(state):
            return {"foo": interrupt("?", due=DAY, otherwise="no", remind=[HOUR], escalate=tell)}

        async with timed.system(in_a_row({"n": node})) as system:
            await ask(system)
            await timed.advance(DAY)
            assert (called, await value(system)) == ([1, 1, 1], "no")
            found = system.statistics()
            assert (found.reminders, found.escalations_failed, found.questions_due) == (1, 1, 1)
        (record,) = [r for r in caplog.records if "escalation.failed" in r.getMessage()]
        assert "no mail today" in record.getMessage()

    async def test_a_function_that_works_at_its_second_call(self, timed: Timed, monkeypatch):
        """
        A function that fails once is called twice.
        """
        monkeypatch.setattr(alarm_work, "TRIES_S", (0.0, 0.0))
        called: list[int] = []

        async def tell(question, times):
            called.append(times)
            if len(called) == 1:
                raise ValueError("not yet")

        async def node(state):
            return {"foo": interrupt("?", remind=[HOUR], escalate=tell)}

        async with timed.system(in_a_row({"n": node})) as system:
            await ask(system)
            await timed.advance(DAY)
            found = system.statistics()
            assert (found.reminders, found.escalations_failed, found.questions_due) == (1, 0, 0)
        assert called == [1, 1]


class TestSystems:
    @pytest.mark.every_saver
    async def test_what_became_due_while_none_was_open(self, timed: Timed):
        """
        A system that is opened later answers what was due meanwhile, and reminds of it no more.
        """
        called: Called = []
        graph = bill(timed, called)
        async with timed.system(graph) as system:
            await ask(system)
        await timed.advance(4 * DAY)
        assert await value_of(timed, graph) is None

        async with timed.system(graph) as system:
            await timed.advance(timedelta(0))
            assert (await value(system), called) == ("no", [])

    async def test_missed_reminders_are_one(self, timed: Timed):
        """
        A system that is opened after two reminders were missed reminds once.
        """
        called: Called = []
        graph = bill(timed, called)
        async with timed.system(graph) as system:
            await ask(system)
        timed.clock.move(2 * DAY)
        async with timed.system(graph):
            await timed.advance(HOUR)
        assert [times for _, times, _ in called] == [1]

    @pytest.mark.every_saver
    async def test_of_two_systems_one_acts(self, timed: Timed):
        """
        Two systems over one saver call a function once, and begin one run.
        """
        called: Called = []
        one, two = bill(timed, called), bill(timed, called)
        async with timed.system(one) as system, timed.system(two):
            await ask(system)
            await timed.advance(3 * DAY)
            assert [times for _, times, _ in called] == [1, 2]
            assert len(await system.runs(thread_id="t")) == 2

    async def test_threads_have_their_own_alarms(self, timed: Timed):
        """
        Of ten threads that asked an hour apart those answer themselves that are due.
        """

        async def node(state):
            return {"foo": interrupt("?", due=DAY, otherwise="no")}

        async with timed.system(in_a_row({"n": node})) as system:
            for number in range(10):
                await ask(system, f"t{number}")
                await timed.advance(HOUR)
            await timed.advance(18 * HOUR)
            answered = [await value(system, f"t{number}") for number in range(10)]
        assert answered == ["no"] * 5 + [None] * 5


async def value_of(timed: Timed, graph: Any) -> Any:
    """What a thread's `foo` is, read without a system."""
    own = graph.copy(update={"checkpointer": timed.saver})
    return (await own.aget_state(at())).values.get("foo")


class TestThreads:
    """What the alarm of a thread does that is changed from outside."""

    async def test_a_copy_has_no_alarm(self, timed: Timed):
        """
        A copied thread has the question and its times, and nothing answers it by itself.
        """
        async with timed.system(bill(timed, [])) as system:
            await ask(system)
            await timed.saver.acopy_thread("t", "copy")
            await timed.advance(4 * DAY)
            assert (await value(system), await value(system, "copy")) == ("no", None)
            assert len(await asked(system.graphs["g"], "copy")) == 1

    async def test_a_deleted_thread_has_none(self, timed: Timed):
        """
        A thread that is deleted reminds no more, and isn't there afterwards.
        """
        called: Called = []
        async with timed.system(bill(timed, called)) as system:
            await ask(system)
            await timed.saver.adelete_thread("t")
            await timed.advance(4 * DAY)
            state = await system.graphs["g"].aget_state(at())
            assert (called, state.created_at) == ([], None)

    async def test_an_update_takes_the_alarm_away_with_the_question(self, timed: Timed):
        """
        `update_state` as the node that asked ends the question: nothing reminds any more.
        """
        called: Called = []
        async with timed.system(bill(timed, called)) as system:
            await ask(system)
            await system.graphs["g"].aupdate_state(at(), {"foo": "mine"}, as_node="ask")
            await timed.advance(4 * DAY)
            assert (called, await value(system)) == ([], "mine")
            assert len(await system.runs(thread_id="t")) == 1

    async def test_new_input_replaces_the_question(self, timed: Timed):
        """
        A run with new input asks anew: its question is due by its own time, and answers once.
        """

        async def node(state):
            return {"bar": [interrupt("?", due=DAY, otherwise="no")]}

        async with timed.system(in_a_row({"n": node})) as system:
            await ask(system)
            await timed.advance(12 * HOUR)
            await ask(system)
            await timed.advance(13 * HOUR)
            assert len(await asked(system.graphs["g"])) == 1

            await timed.advance(11 * HOUR)
            state = await system.graphs["g"].aget_state(at())
            assert (state.values["bar"], state.next) == (["no"], ())

    async def test_a_fork_is_due_by_its_own_question(self, timed: Timed):
        """
        A run from an earlier checkpoint asks again; its question reminds and answers itself.
        """
        called: Called = []
        async with timed.system(bill(timed, called)) as system:
            await ask(system)
            await timed.advance(3 * DAY)
            graph = system.graphs["g"]
            first = [c async for c in graph.aget_state_history(at())][-2]
            assert first.next == ("ask",)
            await graph.ainvoke(None, first.config)
            (question,) = await asked(graph)
            assert question.due == timed.clock.now + 3 * DAY

            await timed.advance(3 * DAY)
            assert (await value(system), [times for _, times, _ in called]) == ("no", [1, 2, 1, 2])

    async def test_a_thread_with_another_question_later(self, timed: Timed):
        """
        A question without times, after one with them, is left alone by the old alarm.
        """

        async def first(state):
            return {"foo": interrupt("a", due=DAY, otherwise="no")}

        async def second(state):
            return {"bar": [interrupt("b")]}

        async with timed.system(in_a_row({"a": first, "b": second})) as system:
            await ask(system)
            await (await system.resume("g", "t", "yes")).wait()
            await timed.advance(2 * DAY)
            assert [q.value for q in await asked(system.graphs["g"])] == ["b"]
            assert await value(system) == "yes"


class TestWithoutSystem:
    async def test_the_next_run_has_the_own_answer(self, timed: Timed):
        """
        Without a system `ainvoke(None)` goes on with the question's own answer once it is due.
        """

        async def node(state):
            return {"foo": interrupt("?", due=HOUR, otherwise="no")}

        graph = in_a_row({"n": node}, checkpointer=timed.saver)
        await graph.ainvoke({"bar": []}, at())
        early = await graph.ainvoke(None, at())
        assert early["__interrupt__"][0].due == timed.clock.now + HOUR

        timed.clock.move(HOUR)
        assert (await graph.ainvoke(None, at()))["foo"] == "no"

    async def test_asking_again_keeps_the_first_times(self, timed: Timed):
        """
        A run that asks a stored question again leaves it the time at which it was asked first.
        """

        async def node(state):
            return {"foo": interrupt("?", due=HOUR, otherwise="no")}

        graph = in_a_row({"n": node}, checkpointer=timed.saver)
        first = (await graph.ainvoke({"bar": []}, at()))["__interrupt__"][0]
        timed.clock.move(HOUR / 2)
        again = (await graph.ainvoke(None, at()))["__interrupt__"][0]
        assert again == first

    async def test_an_answer_by_id_is_a_persons(self, timed: Timed):
        """
        An answer that comes after the time, when nothing has answered yet, is taken.
        """

        async def node(state):
            return {"foo": interrupt("?", due=HOUR, otherwise="no")}

        graph = in_a_row({"n": node}, checkpointer=timed.saver)
        await graph.ainvoke({"bar": []}, at())
        timed.clock.move(DAY)
        assert (await graph.ainvoke(Command(resume="yes"), at()))["foo"] == "yes"
