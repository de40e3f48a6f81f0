"""Questions of calls, calls that are stopped, and every order of events."""

import random

import msgspec
import pytest

from actorgraph.errors import GraphDrained
from actorgraph.values.commands import Command, Interrupt
from actorgraph.values.constants import CALL, RETURN
from actorgraph.values.ids import TaskId, interrupt_id
from actorgraph.values.run import (
    CallDropped,
    Cancelled,
    CancelTasks,
    Event,
    Failed,
    Interrupted,
    Succeeded,
    Task,
    TaskCalled,
    TaskCancelled,
    TaskDrained,
    TaskFailed,
    TaskInterrupted,
    TaskResult,
    TaskSucceeded,
)
from tests.superstep.programs import EXIT, Program
from tests.superstep.script import Store, kinds, rows


class TestCallsThatWaitForAPlace:
    def waiting(self) -> tuple[Program, Task]:
        """Two places, both taken by calls of `b`; the one call of `a` waits."""
        run = Program("a", "b", max_concurrency=2).begun()
        run.called(run.task("b"), "x")
        run.called(run.task("b"), "y")
        call = run.called(run.task("a"), "f")
        assert run.names == ["a", "b", "x", "y"]
        return run, call

    def test_are_given_up_with_the_task_that_made_them(self):
        """
        When the run leaves, a task that had returned and waited for such a call has ended too.
        """
        run, call = self.waiting()
        run.finish("a", log=["a"])
        assert len(run.state.running) == 4
        run.cancel()
        assert run.answers[call.id].gone
        assert "a" not in {task.name for task in run.state.running.values()}
        for name in ("x", "y", "b"):
            run.stop(name)
        run.saved()

        assert run.outcome == Cancelled()

    def test_are_all_given_up(self):
        """
        The callers of all of them are answered.
        """
        run, first = self.waiting()
        second = run.called(run.task("a"), "g")
        effects = run.cancel()

        assert kinds(effects) == ["AnswerCall", "AnswerCall", "CancelTasks"]
        assert run.answers[first.id].gone
        assert run.answers[second.id].gone

    def test_need_no_stop_when_their_caller_fails(self):
        """
        Nothing of it runs, so no task is stopped.
        """
        run, _ = self.waiting()
        effects = run.event(TaskFailed(run.running.pop(run.task("a").id).id, ValueError("no")))

        assert kinds(effects) == []


class TestDropped:
    def test_a_call_that_is_not_open_is_left_alone(self):
        """
        Without calls, with an unknown one, and while the run leaves.
        """
        run = Program("a").begun()
        unknown = TaskId("unknown")
        assert run.event(CallDropped(unknown)) == []
        call = run.called(run.task("a"), "f")
        assert run.event(CallDropped(unknown)) == []
        run.cancel()
        assert run.event(CallDropped(call.id)) == []

    def test_one_that_was_made_again_and_dropped_again_does_not_run(self):
        """
        The last word counts.
        """
        run = Program("a").begun()
        call = run.called(run.task("a"), "f")
        run.event(CallDropped(call.id))
        run.event(TaskCalled(run.task("a").id, call))
        run.event(CallDropped(call.id))
        run.running.pop(call.id)
        effects = run.event(TaskCancelled(call.id))

        assert kinds(effects) == ["AnswerCall"]
        assert run.answers[call.id].gone


class TestQuestions:
    @pytest.mark.langgraph("F-F8")
    def test_the_callers_question_is_reported_with_its_calls(self):
        """
        A node that pauses ends after its calls, and the run shows the questions of all of them,
        each once.
        """
        run = Program("a").begun()
        one = run.called(run.task("a"), "one")
        two = run.called(run.task("a"), "two")
        run.asks(one, "first")
        asked = run.answers[one.id].interrupts
        assert asked is not None
        run.event(TaskInterrupted(run.running.pop(run.task("a").id).id, asked))
        assert run.finishes == []
        run.asks(two, "second")
        run.saved()

        assert isinstance(run.outcome, Interrupted)
        assert [question.value for question in run.outcome.interrupts] == ["first", "second"]

    @pytest.mark.langgraph("F-F8")
    def test_a_question_of_an_unawaited_call_pauses_the_run(self):
        """
        A question is never lost: the node that returned without it runs again.
        """
        store = Store()
        run = Program("a", store=store).begun()
        outer = run.called(run.task("a"), "outer")
        inner = run.called(outer, "inner")
        run.ends(outer, "early")
        run.finish("a", log=["early"])
        run.asks(inner, "?")
        run.saved()

        assert isinstance(run.outcome, Interrupted)
        assert [question.value for question in run.outcome.interrupts] == ["?"]
        again = Program("a", store=store)
        again.begin(Command(resume="yes"))
        again.saved()
        identifier = run.outcome.interrupts[0].id
        assert (again.names, again.task("a").routed) == (["a"], {identifier: "yes"})

    def test_a_bare_answer_stays_with_the_call_that_took_it(self):
        """
        A call that used up a bare answer, and asks once more, gets it again when it runs again.
        """
        store = Store()
        first = Program("a", store=store, interrupt_before=("a",))
        first.begin({"log": []})
        first.saved()
        run = Program("a", store=store)
        run.begin(Command(resume="bare"))
        run.saved()
        step = run.called(run.task("a"), "step")
        asked = (Interrupt("second", interrupt_id(step.namespace, 1)),)
        run.event(TaskInterrupted(step.id, asked, ("bare",), took_unaddressed=True))
        run.event(TaskInterrupted(run.task("a").id, asked, took_unaddressed=True))
        run.saved()

        again = Program("a", store=store)
        again.begin(Command(resume="other"))
        again.saved()
        step = again.called(again.task("a"), "step")

        assert again.state.unaddressed_answer == []
        assert again.running[step.id].answers == ("bare",)
        assert again.task("a").routed == {asked[0].id: "other"}

    def asked_by_two_calls(self) -> tuple[Store, list[Interrupt]]:
        """A thread on which two calls of `a` have asked."""
        run = Program("a").begun()
        calls = [run.called(run.task("a"), name) for name in ("one", "two")]
        asked = [Interrupt(c.name, interrupt_id(c.namespace, 0)) for c in calls]
        for call, question in zip(calls, asked, strict=True):
            run.event(TaskInterrupted(call.id, (question,)))
        run.event(TaskInterrupted(run.running.pop(run.task("a").id).id, ()))
        run.saved()
        return run.store, asked

    def test_a_call_whose_question_got_no_answer_is_left_alone(self):
        """
        The caller gets the question at once; it stays open when the caller pauses.
        """
        store, asked = self.asked_by_two_calls()
        run = Program("a", store=store)
        run.begin(Command(resume={asked[0].id: "yes"}))
        run.saved()
        first, second = (run.called(run.task("a"), name) for name in ("one", "two"))
        run.ends(first)
        run.event(TaskInterrupted(run.running.pop(run.task("a").id).id, (asked[1],)))
        run.saved()

        assert [identifier for identifier, _ in run.given][1:] == [first.id]
        assert run.answers[second.id].interrupts == (asked[1],)
        assert run.outcome.interrupts == (asked[1],)

    def test_a_call_runs_if_one_of_its_questions_was_answered(self):
        """
        Of two questions that a call asked at once one is enough to call it again.
        """
        run = Program("a").begun()
        call = run.called(run.task("a"), "one")
        asked = tuple(Interrupt(n, interrupt_id(call.namespace, n)) for n in (0, 1))
        run.event(TaskInterrupted(call.id, asked))
        run.event(TaskInterrupted(run.running.pop(run.task("a").id).id, asked))
        run.saved()

        again = Program("a", store=run.store)
        again.begin(Command(resume={asked[1].id: "yes"}))
        again.saved()
        caller = again.task("a")
        task = msgspec.structs.replace(call, routed=caller.routed)

        assert kinds(again.event(TaskCalled(caller.id, task))) == ["StartTask"]

    def test_without_an_answer_each_call_runs_again(self):
        """
        None calls the functions again that asked.
        """
        store, _ = self.asked_by_two_calls()
        run = Program("a", store=store)
        run.begin(None)
        run.saved()
        for name in ("one", "two"):
            run.called(run.task("a"), name)

        assert run.names == ["a", "one", "two"]


class TestStopping:
    def test_a_call_that_waits_for_a_place_is_given_up(self):
        """
        Its caller no longer waits for it: it never starts, and its caller goes on.
        """
        run = Program("a", max_concurrency=1).begun()
        busy = run.called(run.task("a"), "busy")
        step = run.called(run.task("a"), "step")

        effects = run.event(CallDropped(step.id))
        run.ends(busy)

        assert kinds(effects) == ["AnswerCall"]
        assert run.answers[step.id].gone
        assert run.names == ["a"]

    @pytest.mark.langgraph("F-J7")
    def test_a_running_call_is_stopped_alone(self):
        """
        Only that call is stopped; its caller and its siblings go on.
        """
        run = Program("a").begun()
        other = run.called(run.task("a"), "other")
        step = run.called(run.task("a"), "step")

        effects = run.event(CallDropped(step.id))
        del run.running[step.id]
        run.event(TaskCancelled(step.id))

        assert effects == [CancelTasks((step.id,))]
        assert run.answers[step.id].gone
        assert run.names == ["a", "other"]
        run.ends(other)
        run.finish("a", log=["a"])
        run.saved()
        assert isinstance(run.outcome, Succeeded)

    def test_a_call_made_again_while_it_stops_runs_from_its_begin(self):
        """
        A caller whose attempt ran out of time makes the same call in its next attempt.
        """
        run = Program("a").begun()
        step = run.called(run.task("a"), "step")
        run.event(CallDropped(step.id))

        again, effects = run.call(run.task("a"), "step", place=0)
        assert (again.id, effects) == (step.id, [])
        del run.running[step.id]
        effects = run.event(TaskCancelled(step.id))

        assert kinds(effects) == ["StartTask"]
        assert step.id not in run.answers

    @pytest.mark.langgraph("L109")
    def test_the_next_attempt_waits_for_a_call_that_still_runs(self):
        """
        A caller that is tried again finds its running call, and starts it no second time.
        """
        run = Program("a", max_concurrency=1).begun()
        step = run.called(run.task("a"), "step")
        due = run.called(run.task("a"), "due")

        again, effects = run.call(run.task("a"), "step", place=0)
        more, _ = run.call(run.task("a"), "due", place=1)

        assert (again.id, more.id, effects) == (step.id, due.id, [])
        run.ends(step, 1)
        run.ends(due, 2)
        assert run.names == ["a"]

    @pytest.mark.langgraph("F-J7")
    def test_a_run_that_leaves_keeps_only_callers_whose_calls_ended_well(self):
        """
        A node that returned before its call was stopped has not finished: it runs again.
        """
        store = Store()
        run = Program("a", "b", store=store, max_concurrency=2).begun()
        step = run.called(run.task("a"), "step")
        due = run.called(run.task("a"), "due")
        run.finish("a", log=["a"])
        run.finish("b", log=["b"])
        run.cancel()
        run.event(TaskCancelled(step.id))
        run.event(TaskCancelled(due.id))
        run.saved()

        assert isinstance(run.outcome, Cancelled)
        again = Program("a", "b", store=store)
        again.begin(None)
        again.saved()
        assert again.names == ["a"]

    def test_calls_that_wait_are_given_up_when_a_save_is_refused(self):
        """
        A run that can't store anything any more leaves, whatever its tasks wait for.
        """
        run = Program("a", max_concurrency=1).begun()
        step = run.called(run.task("a"), "step")
        inner = run.called(step, "inner")
        due = run.called(run.task("a"), "due")
        run.event(TaskCancelled(inner.id))
        run.finish("a", log=["a"])
        run.ends(due, 1) if due.id in run.running else None

        effects = run.refuse(run.state.sent + 1, OSError("no space"))
        run.event(TaskCancelled(step.id))

        assert "CancelTasks" in kinds(effects)
        assert run.answers[due.id].gone
        assert isinstance(run.outcome, Failed)

    @pytest.mark.promise("S072")
    def test_a_refused_save_silences_what_comes_after(self):
        """
        Readers never hear of work that ended after a save was refused: none of it is stored.
        """
        run = Program("a", modes=frozenset({"updates", "values"})).begun()
        step = run.called(run.task("a"), "step")
        run.ends(step, 1)
        run.refuse(run.state.sent, OSError("no space"))
        run.finish("a", log=["a"])

        assert isinstance(run.outcome, Failed)
        assert run.streamed("updates") == []

    def test_in_exit_mode_results_travel_with_the_farewell(self):
        """
        A run that stores nothing until it leaves stores the results of calls when it pauses.
        """
        store = Store()
        run = Program("a", mode=EXIT, store=store).begun()
        run.ends(run.called(run.task("a"), "step"), 5)
        before = len(run.sent)
        run.ask("a", "?")
        run.saved()

        assert before == 1
        assert rows(run.sent[-1]) == [(CALL, 0), ("a", -3)]


def play(seed: int) -> None:
    """A random program: calls of calls, every way to end, a small limit, and maybe a cancel."""
    chance = random.Random(seed)
    run = Program("a", "b", max_concurrency=chance.choice([None, 1, 2, 3])).begun()
    names = 0
    for _ in range(60):
        if run.finishes:
            break
        if run.state.durable < run.state.sent and chance.random() < 0.5:
            run.saved()
            continue
        if chance.random() < 0.02:
            run.cancel()
        if not run.running:
            run.saved()
            continue
        task = chance.choice(list(run.running.values()))
        open_calls = run.state.calls.of.get(task.id, set()) if run.state.calls else set[str]()
        if chance.random() < 0.4 and names < 12:
            names += 1
            run.call(task, f"step{names}")
        elif open_calls and chance.random() < 0.2:
            run.event(CallDropped(TaskId(chance.choice(sorted(open_calls)))))
        else:
            del run.running[task.id]
            run.event(_end_of(task, chance))
        limit = run.state.policy.max_concurrency
        if limit is not None and run.state.calls is not None:
            waiting = run.state.calls.of.keys() | run.state.calls.ended.keys()
            assert run.state.running.keys() >= waiting
    run.cancel()
    for task in list(run.running.values()):
        run.event(TaskCancelled(task.id))
    run.saved()
    assert run.finishes, "the run hangs"
    assert not run.state.running


def _end_of(task: Task, chance: random.Random) -> Event:
    asked = (Interrupt("?", interrupt_id(task.namespace, 0)),)
    returned = TaskResult(task.id, ((RETURN if task.path[-1] == CALL else "log", ["x"]),))
    ends: list[Event] = [
        TaskSucceeded(returned),
        TaskSucceeded(returned),
        TaskInterrupted(task.id, asked),
        TaskFailed(task.id, ValueError(task.name)),
        TaskDrained(task.id, GraphDrained("Graph drained: x", do="go on", reason="x")),
    ]
    return chance.choice(ends)


@pytest.mark.parametrize("block", range(4))
def test_no_order_of_events_makes_a_run_hang(block):
    """
    After any calls, and at any time at which the run is asked to leave, it leaves.
    """
    for seed in range(block * 500, block * 500 + 500):
        try:
            play(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_stored_answers_of_a_call_are_not_its_result():
    """
    A call that was answered and did not end runs again, with what it had been answered.
    """
    store = Store()
    run = Program("a", store=store).begun()
    step = run.called(run.task("a"), "step")
    asked = (Interrupt("second", interrupt_id(step.namespace, 1)),)
    run.event(TaskInterrupted(step.id, asked, ("first",)))
    run.saved()

    again = Program("a", store=store)
    again.begin(None)
    again.saved()
    step, effects = again.call(again.task("a"), "step")

    assert kinds(effects) == ["StartTask"]
    assert again.running[step.id] == msgspec.structs.replace(step, answers=("first",))
