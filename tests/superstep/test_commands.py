"""A Command as input: answers to questions, updates and routes on a paused thread."""

import pytest

from actorgraph.errors import (
    AlreadyResumed,
    EmptyInputError,
    InvalidUpdateError,
    UnknownInterruptError,
    UnknownTargetError,
)
from actorgraph.values.commands import Command, Interrupt, Send
from actorgraph.values.ids import interrupt_id
from actorgraph.values.run import Succeeded, TaskInterrupted
from tests.superstep.script import Script, Store, chain, rows
from tests.superstep.threads import MODES, PAIR, SYNC, State, again, thread


def two_questions() -> tuple[Store, tuple[Interrupt, Interrupt]]:
    """A thread on which b asked two questions at once, and a has finished."""
    run = Script(PAIR, SYNC)
    run.begin({"text": "x"})
    run.saved()
    run.finish("a", log=["a"])
    task = run.running.pop(run.task("b").id)
    first, second = (Interrupt(n, interrupt_id(task.namespace, n)) for n in (0, 1))
    run.event(TaskInterrupted(task.id, (first, second), ()))
    run.saved()
    return run.store, (first, second)


class TestCommand:
    @pytest.mark.langgraph("F-F3")
    @MODES
    def test_a_bare_answer_goes_to_the_one_that_waits(self, mode):
        """
        The task that asked runs again with the answer; its finished sibling doesn't.
        """
        store = thread("b", mode=mode, finished=("a",))
        (save, *_) = (run := again(store, Command(resume="yes"), mode)).sent

        assert run.names == ["b"]
        assert run.task("b").answers == ("yes",)
        assert rows(save) == [("b", -4)]
        assert save.claim is not None
        assert len(save.claim.resumes) == 1

    @pytest.mark.promise("L58")
    @pytest.mark.langgraph("F-F3")
    @pytest.mark.parametrize("answer", [False, 0, "", [], {"a": 1}])
    def test_any_answer_but_none_counts(self, answer):
        """
        False, 0 and the empty text are answers, a dict that has no interrupt ids too.
        """
        run = again(thread("b", finished=("a",)), Command(resume=answer))

        assert run.task("b").answers == (answer,)

    @pytest.mark.promise("L55")
    @pytest.mark.langgraph("F-F4", "L57")
    def test_answers_by_id_go_to_their_questions(self):
        """
        A dict of interrupt ids answers several at once.
        """
        store = thread("a", "b")
        asked = {e.path[-1]: e.writes[0][1][0] for e in store.ledger if e.index == -3}
        resume = {asked["b"].id: "for b", asked["a"].id: "for a"}
        run = again(store, Command(resume=resume))

        assert {t.name: t.answers for t in run.running.values()} == {
            "a": ("for a",),
            "b": ("for b",),
        }
        assert set(run.sent[0].claim.resumes) == {i.id for i in asked.values()}

    @pytest.mark.promise("L56")
    @pytest.mark.langgraph("F-F4")
    def test_an_answer_for_one_of_two_leaves_the_other_waiting(self):
        """
        The unanswered task is left alone with its question; after that a bare answer will do.
        """
        store = thread("a", "b")
        asked = {e.path[-1]: e.writes[0][1][0] for e in store.ledger if e.index == -3}
        run = again(store, Command(resume={asked["a"].id: "yes"}))
        assert {t.name: t.answers for t in run.running.values()} == {"a": ("yes",)}
        run.finish("a", log=["a"])
        run.saved()

        assert [i.id for i in run.outcome.interrupts] == [asked["b"].id]
        assert again(store, Command(resume="also yes")).task("b").answers == ("also yes",)

    @pytest.mark.parametrize("given", [None, Command(resume={}), Command(update={"text": "y"})])
    def test_without_an_answer_every_task_that_asked_runs(self, given):
        """
        None, an empty map and an update alone call both tasks again.
        """
        assert again(thread("a", "b"), given).names == ["a", "b"]

    def test_an_update_beside_an_answer_lets_the_others_ask_anew(self):
        """
        With another state the unanswered task may ask something else, so it runs.
        """
        store = thread("a", "b")
        asked = {e.path[-1]: e.writes[0][1][0] for e in store.ledger if e.index == -3}
        run = again(store, Command(resume={asked["a"].id: "yes"}, update={"text": "y"}))

        assert {t.name: t.answers for t in run.running.values()} == {"a": ("yes",), "b": ()}

    def test_a_task_that_failed_since_is_not_left_alone(self):
        """
        An answer to another task's question runs what has failed, whether it had asked or not.
        """
        store = thread("a", "b")
        retried = again(store, None)
        retried.ask("a", "a?")
        retried.fail("b", ValueError("no"))
        retried.saved()
        asked = [e for e in store.ledger if e.index == -3 and e.path[-1] == "a"][-1]
        run = again(store, Command(resume={asked.writes[0][1][0].id: "yes"}))

        assert run.names == ["a", "b"]

    def test_a_task_with_an_answer_that_it_never_used_runs(self):
        """
        After a crash before a task used one of its answers, an answer to another runs it too.
        """
        run = Script(PAIR, SYNC)
        run.begin({"text": "x"})
        run.saved()
        task = run.running.pop(run.task("b").id)
        below = tuple(Interrupt(n, str(n) * 32) for n in (1, 2))
        run.event(TaskInterrupted(task.id, below))
        run.ask("a", "a?")
        run.saved()
        again(run.store, Command(resume={"1" * 32: "yes"}))  # it dies here
        asked = next(e for e in run.store.ledger if e.index == -3 and e.path[-1] == "a")
        after = again(run.store, Command(resume={asked.writes[0][1][0].id: "yes"}))

        assert after.names == ["a", "b"]
        assert after.task("b").routed == {"1" * 32: "yes"}

    @pytest.mark.promise("L56")
    def test_a_bare_answer_to_two_questions_is_refused(self):
        """
        With two waiting the ids must be given, and nothing is written.
        """
        run = Script(PAIR, SYNC, store=thread("a", "b"))
        with pytest.raises(UnknownInterruptError, match="multiple pending interrupts") as refused:
            run.begin(Command(resume="yes"))

        assert "interrupt.id" in refused.value.do
        assert run.state.sent == 0

    @pytest.mark.parametrize(
        ("by_number", "answers"),
        [({0: "p", 1: "q"}, ("p", "q")), ({1: "q", 0: "p"}, ("p", "q")), ({0: "p"}, ("p",))],
    )
    def test_questions_that_one_task_asked_at_once_get_their_own_answers(self, by_number, answers):
        """
        A task may ask twice before it stops; answers by id reach it in the order of its questions.
        """
        store, (first, second) = two_questions()
        ids = [first.id, second.id]
        run = again(store, Command(resume={ids[n]: text for n, text in by_number.items()}))

        assert run.task("b").answers == answers
        assert again(store, None).task("b").answers == answers

    @pytest.mark.langgraph("L107")
    def test_an_answer_never_reaches_an_earlier_question(self):
        """
        Of two questions asked at once the later one can't be answered alone.
        """
        store, (_, second) = two_questions()
        run = Script(PAIR, SYNC, store=store)

        with pytest.raises(UnknownInterruptError, match="'b' asked several questions at once"):
            run.begin(Command(resume={second.id: "q"}))
        assert run.state.sent == 0

    @pytest.mark.parametrize("resume", ["yes", {"0" * 32: "yes"}])
    def test_an_answer_on_a_finished_thread_is_refused(self, resume):
        """
        When nothing waits, the question has been answered by another call.
        """
        store = Store()
        Script(chain(State, "a"), SYNC, store=store).play({"text": "x"}, {"a": lambda s: None})
        run = Script(chain(State, "a"), SYNC, store=store)

        with pytest.raises(AlreadyResumed, match="no question of thread 't' waits"):
            run.begin(Command(resume=resume))
        assert run.state.sent == 0

    def test_an_answer_by_an_id_that_does_not_wait_is_refused(self):
        """
        An id that was answered before is refused even while other questions wait.
        """
        with pytest.raises(AlreadyResumed):
            again(thread("b", finished=("a",)), Command(resume={"0" * 32: "yes"}))

    @pytest.mark.promise("L51")
    def test_an_answer_before_any_question_waits_for_one(self):
        """
        On a thread with pending tasks and no question the answer is kept for the next question,
        used once, and marked as used.
        """
        run = again(thread(finished=("a",)), Command(resume="early"))
        assert run.state.unaddressed_answer == ["early"]
        task = run.task("b")
        assert task.answers == ()
        assert again(run.store, None).state.unaddressed_answer == ["early"]

    def test_an_empty_map_of_answers_goes_on(self):
        """
        No answers are like none; the question still waits.
        """
        assert again(thread("b", finished=("a",)), Command(resume={})).task("b").answers == ()

    @pytest.mark.langgraph("L112")
    def test_an_empty_command_goes_on(self):
        """
        Command() is like None: it runs what is pending.
        """
        assert again(thread(finished=("a",)), Command()).names == ["b"]

    @pytest.mark.promise("L16")
    def test_an_update_is_applied_and_keeps_pending_tasks(self):
        """
        Command(update=) changes the state under the pending tasks, and is stored beside the
        checkpoint, so that a crash doesn't lose it.
        """
        store = thread(finished=("a",))
        run = again(store, Command(update={"text": "new"}))
        assert run.names == ["b"]
        assert run.given[-1][1]["text"] == "new"
        assert rows(run.sent[0]) == [("", 0)]

        more = again(store, None)
        assert more.given[-1][1]["text"] == "new"
        assert more.names == ["b"]

    @pytest.mark.promise("L29")
    def test_a_route_adds_to_what_is_pending(self):
        """
        Command(goto=) runs its target beside the pending tasks.
        """
        assert again(thread(finished=("a",)), Command(goto="c")).names == ["b", "c"]

    @pytest.mark.parametrize(
        ("goto", "log", "sources"),
        [("a", ["x", "y"], ["loop"]), ((), ["x"], ["update"])],
    )
    def test_a_finished_thread_takes_commands(self, goto, log, sources):
        """
        A route begins a new superstep on a finished thread; an update alone makes a checkpoint.
        """
        store = Store()
        nodes = {"a": lambda s: {"log": [s["text"]]}}
        Script(chain(State, "a"), SYNC, store=store).play({"text": "x"}, nodes)
        run = Script(chain(State, "a"), SYNC, store=store)
        run.play(Command(update={"text": "y"}, goto=goto), nodes)

        assert run.outcome == Succeeded({"text": "y", "log": log})
        assert [p.source for p in store.points.values()][3:] == sources
        assert store.statuses == ["success", "success"]

    @pytest.mark.promise("C29")
    @pytest.mark.parametrize(
        ("command", "error"),
        [
            (Command(goto="nowhere"), UnknownTargetError),
            (Command(goto=Send("nowhere", 1)), UnknownTargetError),
            (Command(update=3), InvalidUpdateError),
            (Command(graph=Command.PARENT), UnknownInterruptError),
        ],
    )
    def test_a_command_that_cannot_be_taken_changes_nothing(self, command, error):
        """
        A wrong route, update or graph is refused before anything is saved.
        """
        run = Script(PAIR, SYNC, store=thread(finished=("a",)))
        with pytest.raises(error):
            run.begin(command)

        assert run.state.sent == 0

    def test_a_command_on_an_empty_thread_is_refused(self):
        """
        There is nothing to resume on a thread that never ran.
        """
        with pytest.raises(EmptyInputError, match="has no checkpoint"):
            Script(PAIR, SYNC).begin(Command(resume="yes"))
