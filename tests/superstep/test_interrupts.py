"""How runs leave that wait for answers, or whose saver refuses a save."""

from collections.abc import Callable
from typing import Any

import pytest

from actorgraph.values.run import CancelTasks, Failed, Interrupted, Save
from tests.superstep.script import Script, chain, kinds, only, rows
from tests.superstep.threads import ASYNC, EXIT, MODES, SYNC, State, stored, three


class TestQuestions:
    @pytest.mark.promise("L41", "S078")
    @MODES
    def test_a_question_stops_no_sibling(self, mode):
        """
        Siblings go on after one of them asks, and the run waits for them.
        """
        run = three(mode)
        assert only(CancelTasks, run.ask("a", "why?")) == []
        run.finish("b", log=["b"])
        assert run.finishes == []
        run.finish("c", log=["c"])
        run.saved()

        assert isinstance(run.outcome, Interrupted)
        assert [i.value for i in run.outcome.interrupts] == ["why?"]
        assert set(stored(run)) == {("a", -3), ("b", 0), ("c", 0)}
        assert run.store.statuses == ["interrupted"]

    @pytest.mark.promise("L41", "S141")
    @pytest.mark.parametrize("order", ["abc", "cba", "bca"])
    def test_all_questions_are_collected_in_path_order(self, order):
        """
        In any order of asking, the questions come by the tasks' paths.
        """
        run = three()
        for name in order:
            run.ask(name, f"{name}?")
        run.saved()

        assert [i.value for i in run.outcome.interrupts] == ["a?", "b?", "c?"]
        assert len({i.id for i in run.outcome.interrupts}) == 3

    @pytest.mark.parametrize("first", ["a", "b"])
    def test_an_error_beats_a_question(self, first):
        """
        If one task asks and another fails, in either order, the run fails; the question is kept.
        """
        run = three()
        acts: list[Callable[[], Any]] = [
            lambda: run.ask("a", "why?"),
            lambda: run.fail("b", ValueError("no")),
        ]
        for act in acts if first == "a" else reversed(acts):
            act()
        run.stop("c")
        run.saved()

        assert isinstance(run.outcome, Failed)
        assert {("a", -3), ("b", -1)} <= set(stored(run))

    def test_the_last_question_travels_with_the_farewell(self):
        """
        Earlier rows go out at once, the last one with the run's status: one save, not two.
        """
        run = three()
        run.ask("a", "a?")
        run.finish("b", log=["b"])
        (farewell,) = only(Save, run.ask("c", "c?"))

        assert (rows(farewell), farewell.ends) == ([("c", -3)], "interrupted")
        assert farewell.checkpoints == ()

    @pytest.mark.promise("S078")
    def test_exit_stores_checkpoint_and_questions_at_once(self):
        """
        In exit mode an interrupt is one save with everything that a resume needs.
        """
        run = three(EXIT)
        run.ask("a", "a?")
        run.finish("b", log=["b"])
        (farewell,) = only(Save, run.ask("c", "c?"))

        assert rows(farewell) == [("a", -3), ("b", 0), ("c", -3)]
        assert [p.step for p in farewell.checkpoints] == [0]

    def test_readers_see_the_question(self):
        """
        The updates and values streams carry an interrupt when it is stored.
        """
        run = Script(chain(State, "a"), SYNC, modes=frozenset({"updates", "values"}))
        run.begin({"text": "x"})
        run.saved()
        run.ask("a", "why?")
        run.saved()

        (asked,) = run.streamed("updates")
        assert [i.value for i in asked["__interrupt__"]] == ["why?"]
        assert run.streamed("values")[-1]["__interrupt__"] == asked["__interrupt__"]


class TestRefusedSaves:
    @pytest.mark.parametrize("mode", [SYNC, ASYNC])
    def test_the_run_ends_with_the_savers_error(self, mode):
        """
        A save that is refused ends the run: what runs is stopped, nothing more is saved.
        """
        run = three(mode)
        run.finish("a", log=["a"])
        full = OSError("no space")

        assert kinds(run.refuse(2, full)) == ["CancelTasks"]
        run.stop("b")
        assert kinds(run.stop("c")) == ["Finish"]
        assert run.outcome == Failed(full)

    @pytest.mark.parametrize("late", ["finish", "fail", "ask"])
    def test_a_task_that_ends_after_the_refusal_is_not_saved(self, late):
        """
        Another save would not be acknowledged, so none is sent, and the run can end.
        """
        run = three()
        run.finish("a", log=["a"])
        run.refuse(2, OSError("no space"))
        sent = len(run.sent)
        act = {"finish": run.finish, "ask": lambda n: run.ask(n, "?")}
        act["fail"] = lambda n: run.fail(n, ValueError("no"))
        act[late]("b")
        act[late]("c")

        assert len(run.sent) == sent
        assert isinstance(run.outcome, Failed)
        assert str(run.outcome.error) == "no space"

    @pytest.mark.promise("L80")
    def test_an_earlier_error_is_noted_on_the_savers(self):
        """
        The saver's error is what the caller gets; the node's is added as a note.
        """
        run = three()
        run.fail("b", ValueError("first"))
        full = OSError("no space")
        run.refuse(2, full)
        run.stop("a")
        run.stop("c")

        assert run.outcome == Failed(full)
        assert full.__notes__ == ["before that, the run had failed with ValueError('first')"]

    @pytest.mark.promise("L81")
    @pytest.mark.langgraph("F-E16")
    def test_the_first_refusal_counts(self):
        """
        All later saves of the run are refused too; the caller gets the first reason.
        """
        run = Script(chain(State, *"abc"), ASYNC)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", log=["a"])
        run.finish("b", log=["b"])
        run.refuse(2, OSError("first"))
        run.refuse(3, OSError("second"))
        run.stop("c")

        assert str(run.outcome.error) == "first"

    def test_a_refused_claim_starts_nothing(self):
        """
        The loser of two runs ends without a node.
        """
        run = Script(chain(State, "a"), SYNC)
        run.begin({"text": "x"})
        run.refuse(1, OSError("conflict"))

        assert run.given == []
        assert str(run.outcome.error) == "conflict"

    def test_held_chunks_are_dropped(self):
        """
        Chunks about writes that were not stored are never delivered.
        """
        run = three(modes=frozenset({"updates"}))
        run.finish("a", log=["a"])
        run.refuse(2, OSError("no space"))
        run.stop("b")
        run.stop("c")

        assert run.streamed("updates") == []
