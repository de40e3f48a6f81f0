"""An answer that a task refuses: its rows are taken back, its siblings end, the run fails."""

from typing import Any

import pytest

from actorgraph.superstep import pending_writes as pending
from actorgraph.values.commands import Command, Interrupt, mark_invalid_resume
from actorgraph.values.ids import interrupt_id
from actorgraph.values.run import CancelTasks, Failed
from tests.superstep.script import Script, only
from tests.superstep.threads import EXIT, MODES, SYNC, again, thread


def refuse(run: Script, name: str, number: int = 0) -> tuple[list[Any], ValueError]:
    """A node refuses the answer to its question of this number."""
    task = run.task(name)
    error = ValueError("no fit")
    mark_invalid_resume(error, Interrupt(f"{name}?", interrupt_id(task.namespace, number)))
    return run.fail(name, error), error


class TestAnAnswerThatIsRefused:
    @pytest.mark.langgraph("F-F9")
    @MODES
    def test_its_question_waits_again(self, mode):
        """
        After the run has failed the question is open and has no answers.
        """
        store = thread("b", mode=mode, finished=("a",))
        run = again(store, Command(resume="bad"), mode)
        _, error = refuse(run, "b")
        run.saved()
        next_run = again(store, Command(resume="good"), mode)

        assert run.outcome == Failed(error)
        assert next_run.task("b").answers == ("good",)

    @pytest.mark.langgraph("F-F9")
    def test_its_siblings_run_to_their_ends(self):
        """
        No other task is stopped; the run ends when all have.
        """
        store = thread("a", "b")
        asked = {e.path[-1]: e.writes[0][1][0].id for e in store.ledger if e.index == -3}
        run = again(store, Command(resume={asked["a"]: "bad", asked["b"]: "good"}))
        effects, error = refuse(run, "a")
        assert only(CancelTasks, effects) == []
        assert run.finishes == []
        run.finish("b", log=["b"])
        run.saved()

        assert run.outcome == Failed(error)
        assert again(store, None).names == ["a"]
        assert again(store, Command(resume="better")).task("a").answers == ("better",)

    @pytest.mark.langgraph("F-F9", "L53")
    @pytest.mark.parametrize("mode", [SYNC, EXIT])
    def test_answers_before_it_are_kept(self, mode):
        """
        Of two answers the second is taken back, the first stays.
        """
        store = thread("b", mode=mode, finished=("a",))
        run = again(store, Command(resume="1"), mode)
        run.ask("b", "and?")
        run.saved()
        run = again(store, Command(resume="bad"), mode)
        refuse(run, "b", 1)
        run.saved()

        assert again(store, Command(resume="2"), mode).task("b").answers == ("1", "2")

    @pytest.mark.langgraph("F-F9", "L51")
    def test_a_bare_answer_goes_to_no_other_question(self):
        """
        A bare answer is gone when the task that took it refuses it.
        """
        store = thread(finished=("a",))
        run = again(store, Command(resume="bad"))
        assert run.state.unaddressed_answer == ["bad"]
        refuse(run, "b")
        run.saved()

        restored = store.restored()
        assert restored is not None
        assert pending.unaddressed_answer(restored.ledger) == []
