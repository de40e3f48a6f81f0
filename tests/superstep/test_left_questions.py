"""Questions that a run leaves open, and pauses without one: their chunks and whose they are."""

import msgspec
import pytest

from actorgraph.superstep import chunks
from actorgraph.superstep.nesting import Nested
from actorgraph.superstep.run_state import RunState
from actorgraph.values.commands import Command, Interrupt
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import AnswerCall, Interrupted, TaskCalled, TaskInterrupted
from tests.superstep.programs import Program
from tests.superstep.script import Script, Store, chain, kinds, only
from tests.superstep.test_handlers import begun
from tests.superstep.threads import PAIR, SYNC, State, thread

UPDATES = frozenset({"updates"})


def questions(store: Store) -> list[Interrupt]:
    """The questions of a thread's tasks, in the order of their paths."""
    rows = sorted((e for e in store.ledger if e.index == -3), key=lambda e: e.path)
    return [question for row in rows for question in row.writes[0][1]]


class TestChunks:
    def test_of_a_question_that_got_no_answer(self):
        """
        Its task is left alone, a later one runs, and the question is streamed at the end.
        """
        store = thread("a", "b")
        first, second = questions(store)
        run = Script(PAIR, store=store, modes=UPDATES)
        run.begin(Command(resume={second.id: "yes"}))
        run.saved()
        assert run.names == ["b"]
        run.finish("b", log=["b"])
        run.saved()

        assert run.streamed("updates") == [{"b": {"log": ["b"]}}, {"__interrupt__": (first,)}]
        assert run.outcome.interrupts == (first,)

    def test_of_a_breakpoint_in_a_subgraph(self):
        """
        It pauses the root run without a question, which is streamed as an empty one.
        """
        run = Script(chain(State, "a"), modes=UPDATES)
        run.begin({"text": "x"})
        run.saved()
        run.event(TaskInterrupted(run.running.pop(run.task("a").id).id, ()))
        run.saved()

        assert run.streamed("updates") == [{"__interrupt__": ()}]

    @pytest.mark.parametrize(
        ("nested", "asked", "count"),
        [(False, False, 1), (False, True, 1), (True, False, 0), (True, True, 1)],
    )
    def test_of_a_subgraphs_own_pauses(self, nested, asked, count):
        """
        A subgraph streams its questions, and leaves a breakpoint to the root run.
        """
        state = RunState(PAIR, RunPolicy(modes=UPDATES), Store().mint, has_saver=True)
        state.nested = Nested({}, {}) if nested else None
        chunks.hold_interrupt(state, (Interrupt("?", "1" * 32),) if asked else ())

        assert len(state.held or ()) == count


def test_debug_has_the_superstep_of_an_end_without_a_result():
    """
    A failure and a question belong to the superstep after the checkpoint, as results do.
    """
    run = Script(PAIR, modes=frozenset({"debug"}))
    run.begin({"text": "x"})
    run.saved()
    run.ask("b", "b?")
    run.fail("a", ValueError("no"))
    run.saved()

    ends = [chunk for chunk in run.streamed("debug") if chunk["type"] == "task_result"]
    assert [(chunk["payload"]["name"], chunk["step"]) for chunk in ends] == [("b", 1), ("a", 1)]


class TestCalls:
    def test_one_without_an_answer_is_left_alone_and_its_question_stays_its_callers(self):
        """
        Of two calls that asked the answered one runs; the other's question pauses the run again,
        although the caller has returned.
        """
        first = Program("a").begun()
        calls = [first.called(first.task("a"), name) for name in ("one", "two")]
        for call in calls:
            first.asks(call, f"{call.name}?")
        first.finish("a")
        first.saved()
        answered, left = first.outcome.interrupts

        run = Program("a", store=first.store)
        run.begin(Command(resume={answered.id: "yes"}))
        run.saved()
        caller = run.task("a")
        one, two = (msgspec.structs.replace(call, routed=caller.routed) for call in calls)
        assert kinds(run.event(TaskCalled(caller.id, one))) == ["StartTask"]
        effects = run.event(TaskCalled(caller.id, two))
        assert only(AnswerCall, effects) == [AnswerCall(two.id, interrupts=(left,))]
        run.ends(one, "1")
        run.finish("a")
        run.saved()

        assert type(run.outcome) is Interrupted
        assert run.outcome.interrupts == (left,)


class TestSubgraphs:
    @pytest.mark.parametrize("answering", [True, False])
    def test_one_leaves_questions_alone_where_the_run_above_does(self, answering):
        """
        Whether it has got an answer itself decides nothing.
        """
        store = thread("a", "b")
        for routed in ({}, {questions(store)[0].id: "yes"}):
            run = Script(PAIR, store=store)
            run.state.nested = Nested({"": "1"}, routed, answering=answering)
            run.begin(None)

            assert run.state.answering is answering

    def test_an_answer_reaches_the_handler_that_asked(self):
        """
        The handler of a stored failure goes on with the answer that its parent got.
        """
        first = begun(SYNC)
        first.fail("a", ValueError("boom"))
        first.saved()
        (handler,) = first.state.running.values()
        question = Interrupt("how?", "1" * 32)
        first.event(TaskInterrupted(handler.id, (question,)))
        first.saved()

        run = Script(first.plan, store=first.store)
        run.state.nested = Nested({"": "1"}, {question.id: "so"})
        run.begin(None)
        run.saved()

        (task,) = run.state.running.values()
        assert (task.id, task.routed) == (handler.id, {question.id: "so"})
