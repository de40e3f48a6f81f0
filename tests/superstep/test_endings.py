"""How runs leave: failure and cancellation, and events that come late."""

import pytest

from actorgraph.errors import InvalidUpdateError
from actorgraph.values.run import (
    Cancelled,
    CancelTasks,
    Failed,
    Save,
    SaveFailed,
    TaskCancelled,
    TaskFailed,
    TaskInterrupted,
    TaskSucceeded,
)
from tests.superstep.script import Script, Store, chain, kinds, only, started
from tests.superstep.threads import MODES, SYNC, State, parallel, stored, three


class TestFailure:
    @pytest.mark.promise("S174", "L38")
    @pytest.mark.langgraph("F-C13")
    @MODES
    def test_finished_siblings_are_kept_and_the_others_are_stopped(self, mode):
        """
        When b fails, a's writes are stored and c is cancelled.
        """
        run = three(mode)
        run.finish("a", log=["a"])
        effects = run.fail("b", ValueError("no"))
        assert only(CancelTasks, effects) == [CancelTasks()]
        assert run.finishes == []
        run.stop("c")
        run.saved()

        assert isinstance(run.outcome, Failed)
        assert str(run.outcome.error) == "no"
        assert set(stored(run)) == {("a", 0), ("b", -1)}
        assert run.store.statuses == ["error"]

    def test_a_sibling_that_finishes_while_it_is_being_stopped_is_kept(self):
        """
        A task that returns before it notices the cancellation need not run again.
        """
        run = three()
        run.fail("b", ValueError("no"))
        run.finish("a", log=["a"])
        run.finish("c", log=["c"])
        run.saved()

        assert set(stored(run)) == {("a", 0), ("b", -1), ("c", 0)}
        assert isinstance(run.outcome, Failed)

    @MODES
    def test_two_failures_end_the_run_with_the_first(self, mode):
        """
        A second task that fails changes nothing: the run ends, with the first error.
        """
        run = three(mode)
        run.fail("b", ValueError("first"))
        run.fail("a", ValueError("second"))
        run.fail("c", ValueError("third"))
        run.saved()

        assert isinstance(run.outcome, Failed)
        assert str(run.outcome.error) == "first"

    def test_without_a_saver_the_run_ends_when_its_tasks_have(self):
        """
        Without a saver too, no task outlives the run.
        """
        run = three(saver=False)
        assert kinds(run.fail("b", ValueError("no"))) == ["CancelTasks"]
        assert run.stop("a") == []

        assert kinds(run.stop("c")) == ["Finish"]

    @pytest.mark.promise("L40")
    def test_an_error_is_stored_as_its_repr(self):
        """
        The ledger says what was raised, as text.
        """
        run = Script(chain(State, "a"), SYNC)
        run.begin({"text": "x"})
        run.saved()
        (save,) = only(Save, run.fail("a", ValueError("no")))

        assert save.ledger[0].writes == (("__error__", "ValueError('no')"),)
        assert (save.ends, save.checkpoints) == ("error", ())

    @pytest.mark.promise("S173", "S174", "L42")
    @MODES
    def test_going_on_runs_the_unfinished_tasks_only(self, mode):
        """
        A resume hands back what is in the ledger and runs the rest, under the same ids.
        """
        run = three(mode)
        run.finish("a", log=["a"])
        ids = {run.task("b").id, run.task("c").id}
        run.fail("b", ValueError("no"))
        run.stop("c")
        run.saved()
        again = Script(run.plan, mode, store=run.store)
        again.begin(None)
        again.saved()

        assert {task.id for task in again.running.values()} == ids
        for name in ("c", "b", "end"):
            again.finish(name, log=[name])
            again.saved()
        assert again.state.values["log"] == ["a", "b", "c", "end"]

    def test_a_node_whose_schema_refuses_the_state_fails_the_run_once(self):
        """
        A state that can't be made into a node's schema is the run's error, said once.
        """

        class Number:
            def __init__(self, text: str) -> None:
                self.number = int(text)

        plan = parallel("a", "b")
        object.__setattr__(plan.nodes["b"], "coerce", Number)
        run = Script(plan, saver=False)
        assert kinds(run.begin({"text": "x"})) == ["StartTask", "CancelTasks"]

        assert kinds(run.stop("a")) == ["Finish"]
        assert isinstance(run.outcome, Failed)
        assert isinstance(run.outcome.error, InvalidUpdateError)


class TestCancel:
    @pytest.mark.langgraph("F-C15", "L46")
    @MODES
    def test_tasks_are_stopped_and_what_is_done_is_stored(self, mode):
        """
        A cancelled run stops its tasks, stores what finished, and only then ends.
        """
        run = three(mode)
        run.finish("a", log=["a"])
        assert only(CancelTasks, run.cancel()) == [CancelTasks()]
        run.stop("b")
        effects = run.stop("c")
        assert "Finish" not in kinds(effects)
        run.saved()

        assert run.outcome == Cancelled()
        assert set(stored(run)) == {("a", 0)}
        assert run.store.statuses == ["cancelled"]

    def test_nothing_starts_after_it(self):
        """
        A run that is cancelled before its claim is durable starts no node.
        """
        run = Script(chain(State, "a"), SYNC)
        run.begin({"text": "x"})
        run.cancel()
        run.saved(1)
        run.saved()

        assert run.given == []
        assert run.outcome == Cancelled()

    @pytest.mark.parametrize("limit", [1, 2])
    def test_waiting_tasks_are_forgotten(self, limit):
        """
        Tasks that waited for a free place never start.
        """
        run = Script(parallel("a", "b", "c"), SYNC, max_concurrency=limit)
        run.begin({"text": "x"})
        run.saved()
        run.cancel()
        while run.names:
            assert started(run.stop(run.names[0])) == []
        run.saved()

        assert run.outcome == Cancelled()
        assert len(run.given) == limit

    def test_a_task_that_fails_while_it_is_cancelled_ends_it_all_the_same(self):
        """
        A node may answer a cancellation with an error: the run is cancelled, not failed.
        """
        run = three()
        run.cancel()
        run.fail("a", ValueError("late"))
        run.finish("b")
        run.fail("c", ValueError("later"))
        run.saved()

        assert run.outcome == Cancelled()


class TestLateEvents:
    @pytest.mark.parametrize(
        "event",
        [
            lambda t, r: TaskSucceeded(r),
            lambda t, r: TaskFailed(t.id, ValueError("late")),
            lambda t, r: TaskInterrupted(t.id, ()),
        ],
    )
    def test_a_second_report_of_a_task_changes_nothing(self, event):
        """
        A task is reported once; whatever comes after that is ignored.
        """
        run = three()
        task = run.task("a")
        run.finish("a", log=["a"])
        result = run.state.results[task.id]
        before = (dict(run.state.results), dict(run.state.running), run.state.sent)

        assert run.event(event(task, result)) == []
        assert (run.state.results, run.state.running, run.state.sent) == before

    def test_tasks_that_end_after_a_refused_save_send_no_chunk(self):
        """
        A chunk of a task that ends when a save has failed would show what is stored nowhere.
        """
        run = Script(parallel("a", "b"), SYNC, modes=frozenset({"updates"}))
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", log=["a"])
        run.refuse(run.state.sent, OSError("full"))
        run.finish("b", log=["b"])

        assert run.streamed("updates") == []
        assert isinstance(run.outcome, Failed)

    def test_an_acknowledgement_is_never_taken_back(self):
        """
        Acknowledgements that come late or twice release nothing and withdraw nothing.
        """
        run = three()
        run.finish("a", log=["a"])
        run.saved(2)

        assert [*run.saved(1), *run.saved(2)] == []
        assert run.state.durable == 2

    @MODES
    def test_a_run_that_has_left_only_repeats_its_outcome(self, mode):
        """
        After its end every event leaves the run as it is, and answers the outcome or nothing.
        """
        run = Script(chain(State, "a"), mode)
        run.begin({"text": "x"})
        run.saved()
        task = run.task("a")
        run.finish("a", log=["a"])
        run.saved()
        outcome = run.outcome
        for act in (run.cancel, run.saved, lambda: run.event(SaveFailed(1, OSError("late")))):
            assert set(kinds(act())) <= {"Finish"}
        run.event(TaskCancelled(task.id))
        run.event(TaskFailed(task.id, ValueError("late")))

        assert run.outcome is outcome

    def test_the_outcome_can_be_asked_for_again(self):
        """
        A cancellation that comes as the run ends is answered, so that no caller waits for ever.
        """
        run = Script(chain(State, "a"), SYNC, store=Store())
        run.begin({"text": "x"})
        run.saved()
        run.finish("a")
        run.saved()

        assert kinds(run.cancel()) == ["Finish"]
