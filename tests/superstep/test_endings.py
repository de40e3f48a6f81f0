"""How runs leave: failure, questions, a saver that refuses, cancellation; and late events."""

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.errors import InvalidUpdateError
from actorgraph.plan.graph import Plan
from actorgraph.values.constants import START
from actorgraph.values.policies import Durability
from actorgraph.values.run import (
    Cancelled,
    CancelTasks,
    Failed,
    Interrupted,
    LedgerEntry,
    Save,
    SaveFailed,
    TaskCancelled,
    TaskFailed,
    TaskInterrupted,
    TaskSucceeded,
)
from tests.superstep.script import Script, Store, chain, graph, idle, kinds, only, rows, started

SYNC, ASYNC, EXIT = Durability
MODES = pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])


class State(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


def parallel(*names: str) -> Plan:
    """START -> all of these at once -> end."""
    edges: list[Any] = [(START, name) for name in names]
    return graph(State, dict.fromkeys([*names, "end"], idle), [*edges, (list(names), "end")])


def three(mode: Durability = SYNC, **settings: Any) -> Script:
    """A run in which a, b and c are running."""
    run = Script(parallel("a", "b", "c"), mode, **settings)
    run.begin({"text": "x"})
    run.saved()
    assert run.names == ["a", "b", "c"]
    return run


def stored(run: Script) -> dict[tuple[str, int], LedgerEntry]:
    """The ledger rows beside the newest checkpoint, by node and index."""
    found = [e for e in run.store.ledger if e.base == run.store.head]
    return {(str(e.path[-1]), e.index): e for e in found}


class TestFailure:
    @MODES
    def test_finished_siblings_are_kept_and_the_others_are_stopped(self, mode):
        """
        When b fails, a's writes are stored and c is cancelled. Promise: S174, L38.
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

    def test_an_error_is_stored_as_its_repr(self):
        """
        The ledger says what was raised, as text. Promise: L40.
        """
        run = Script(chain(State, "a"), SYNC)
        run.begin({"text": "x"})
        run.saved()
        (save,) = only(Save, run.fail("a", ValueError("no")))

        assert save.ledger[0].writes == (("__error__", "ValueError('no')"),)
        assert (save.ends, save.checkpoints) == ("error", ())

    @MODES
    def test_going_on_runs_the_unfinished_tasks_only(self, mode):
        """
        A resume hands back what is in the ledger and runs the rest, under the same ids.
        Promise: S173, S174, L42.
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


class TestQuestions:
    @MODES
    def test_a_question_stops_nobody(self, mode):
        """
        Siblings go on after one of them asks, and the run waits for them. Promise: L41, S078.
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

    @pytest.mark.parametrize("order", ["abc", "cba", "bca"])
    def test_all_questions_are_collected_in_path_order(self, order):
        """
        Whoever asks first, the questions come by the tasks' paths. Promise: L41, S141.
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

    def test_exit_stores_checkpoint_and_questions_at_once(self):
        """
        In exit mode an interrupt is one save with everything that a resume needs. Promise: S078.
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
        Nobody would acknowledge another save, so none is sent, and the run can end.
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

    def test_an_earlier_error_is_noted_on_the_savers(self):
        """
        The saver's error is what the caller gets; the node's is told in a note. Promise: L80.
        """
        run = three()
        run.fail("b", ValueError("first"))
        full = OSError("no space")
        run.refuse(2, full)
        run.stop("a")
        run.stop("c")

        assert run.outcome == Failed(full)
        assert full.__notes__ == ["before that, the run had failed with ValueError('first')"]

    def test_the_first_refusal_counts(self):
        """
        All later saves of the run are refused too; the caller gets the first reason. Promise: L81.
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
        Chunks that told of writes which were not stored are never delivered.
        """
        run = three(modes=frozenset({"updates"}))
        run.finish("a", log=["a"])
        run.refuse(2, OSError("no space"))
        run.stop("b")
        run.stop("c")

        assert run.streamed("updates") == []


class TestCancel:
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
        A cancellation that comes as the run ends is answered, so that nobody waits for ever.
        """
        run = Script(chain(State, "a"), SYNC, store=Store())
        run.begin({"text": "x"})
        run.saved()
        run.finish("a")
        run.saved()

        assert kinds(run.cancel()) == ["Finish"]
