"""The end of a task: its whole rows, saves and outcomes, and the advice of its errors."""

from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.errors import (
    AlreadyResumedError,
    CheckpointError,
    ConflictError,
    GraphDrained,
    LeaseLostError,
    ParentCommand,
    SaverBrokenError,
    SerializationError,
    StorageError,
)
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.nesting import Nested
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.task_failures import (
    GO_ON,
    LOOK,
    mark_input_stored,
    may_begin_again,
    with_input_advice,
)
from actorgraph.values.commands import Command, Interrupt
from actorgraph.values.constants import ONE_AT_A_TIME, START
from actorgraph.values.ids import interrupt_id
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import (
    Cancelled,
    CancelRequested,
    CancelTasks,
    Escaped,
    Failed,
    HandOver,
    LedgerEntry,
    Save,
    StartHandler,
    StepTimedOut,
    TaskDrained,
    TaskEscaped,
    TaskInterrupted,
    TaskResult,
    TaskSucceeded,
)
from tests.superstep.script import Script, Store, chain, kinds, only, rows
from tests.superstep.test_handlers import HANDLER, plan_of
from tests.superstep.threads import ASYNC, EXIT, PAIR, SYNC, State, again, stored, thread, three


class TestRows:
    @pytest.mark.parametrize("last", [True, False])
    def test_of_a_task_that_used_an_answer_without_an_id(self, last):
        """
        Its result travels with the answer that it took, and with the mark that it is used up,
        whether or not another task still runs.
        """
        store = thread(finished=("a",) if last else ())
        run = again(store, Command(resume="bare"))
        task = run.running.pop(run.task("b").id)
        result = TaskResult(task.id, (("log", ["b"]),), ("bare",), took_unaddressed=True)
        (save,) = only(Save, run.event(TaskSucceeded(result)))

        assert save.ledger == (
            LedgerEntry(task_base(store), task.id, task.path, 0, 0, (("log", ["b"]),)),
            LedgerEntry(task_base(store), task.id, task.path, -4, 2, (("__resume__", ["bare"]),)),
            LedgerEntry(
                task_base(store),
                run.sent[0].ledger[0].task,
                (),
                -4,
                3,
                (("__resume__", []),),
            ),
        )
        assert run.state.unaddressed_answer == []

    @pytest.mark.parametrize(("answers", "took_unaddressed"), [(("x",), False), ((), True)])
    def test_of_a_task_that_used_one_kind_of_answer(self, answers, took_unaddressed):
        """
        Answers of its own and the one without an id are noted independently.
        """
        store = thread()
        run = again(store, Command(resume="bare"))
        task = run.running.pop(run.task("b").id)
        result = TaskResult(task.id, (), answers, took_unaddressed=took_unaddressed)
        (save,) = only(Save, run.event(TaskSucceeded(result)))

        assert [(e.index, e.path == ()) for e in save.ledger[1:]] == [(-4, took_unaddressed)]

    def test_of_a_question_after_an_answer_without_an_id(self):
        """
        A task that asks again keeps the answer that it took, and no other task can take it.
        """
        store = thread()
        run = again(store, Command(resume="bare"))
        task = run.running.pop(run.task("b").id)
        asked = Interrupt("more?", interrupt_id(task.namespace, 1))
        event = TaskInterrupted(task.id, (asked,), ("bare",), took_unaddressed=True)
        (save,) = only(Save, run.event(event))

        assert [(e.path, e.index, e.writes[0][1]) for e in save.ledger] == [
            (task.path, -4, ["bare"]),
            ((), -4, []),
            (task.path, -3, [asked]),
        ]

    def test_of_a_question_while_another_task_is_due(self):
        """
        They are saved at once: the run goes on with the next task.
        """
        run = Script(PAIR, max_concurrency=1)
        run.begin({"text": "x"})
        run.saved()

        assert kinds(run.ask("a", "a?")) == ["Save", "StartTask"]
        assert run.names == ["b"]

    def test_of_the_last_question_of_a_subgraph(self):
        """
        They travel in the subgraph's last save, which has neither a claim nor a status.
        """
        run = Script(chain(State, "a"))
        run.state.nested = Nested({"": "1"}, {})
        run.begin({"text": "x"})
        run.saved()
        run.ask("a", "a?")

        assert [rows(save) for save in run.sent] == [[(START, 0)], [("a", -3)]]
        assert (run.sent[-1].claim, run.sent[-1].ends) == (None, None)

    def test_of_results_that_can_not_be_folded(self):
        """
        The last result is stored with the error of the fold, which belongs to no task.
        """
        run = Script(PAIR)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", text="1")
        (save,) = only(Save, run.finish("b", text="2"))
        run.saved()
        error = run.outcome.error

        assert rows(save) == [("b", 0), ("", -1)]
        assert save.ends == "error"
        assert save.ledger[0].writes[0] == ("text", "2")
        restored = run.store.restored()
        assert restored is not None
        assert pending.fold_error(restored.ledger) == repr(error)

    def test_of_results_whose_fold_ctrl_c_cut_off(self):
        """
        The result is stored, and no error: the next run folds it.
        """

        def fold(before: str, new: str) -> str:
            if new == "stop":
                raise KeyboardInterrupt
            return new

        state: Any = TypedDict("state", {"text": Annotated[str, fold]})
        run = Script(chain(state, "a"))
        run.begin({"text": "x"})
        run.saved()
        (save,) = only(Save, run.finish("a", text="stop"))

        assert rows(save) == [("a", 0)]
        assert save.ends == "cancelled"

    def test_of_results_that_can_not_be_folded_without_a_saver(self):
        """
        Without a saver no rows are made, and the run fails all the same.
        """
        run = Script(PAIR, saver=False)
        run.begin({"text": "x"})
        run.finish("a", text="1")
        run.finish("b", text="2")

        assert isinstance(run.outcome, Failed)
        assert (run.sent, run.state.unflushed) == ([], [])

    def test_of_a_failure(self):
        """
        The row of a failed task has the repr of its error.
        """
        run = three()
        run.fail("b", ValueError("boom"))
        run.stop("a")
        run.stop("c")
        run.saved()

        assert stored(run)["b", -1].writes == (("__error__", "ValueError('boom')"),)

    def test_of_a_task_that_ctrl_c_cut_off(self):
        """
        It has none, like a task that a kill cut off, and the run's status is that of a cancelled
        one; its error is Ctrl-C's own.
        """
        run = three()
        run.finish("a", {"text": "x"})
        run.fail("b", KeyboardInterrupt())
        run.stop("c")
        run.saved()

        assert {task for task, _ in stored(run)} == {"a"}
        assert run.store.statuses == ["cancelled"]
        assert isinstance(run.outcome, Failed)
        assert isinstance(run.outcome.error, KeyboardInterrupt)


def task_base(store: Store) -> bytes:
    """The checkpoint that the tasks of a thread follow."""
    assert store.head is not None
    return store.head


class TestOutcomes:
    def test_a_command_for_the_parent_graph_ends_the_run(self):
        """
        Its siblings are stopped, and the outcome carries the Command.
        """
        run = three()
        command = Command(graph=Command.PARENT, goto="x")
        error = ParentCommand(command)
        effects = run.event(TaskEscaped(run.running.pop(run.task("a").id).id, error))
        assert kinds(effects) == ["CancelTasks"]
        run.stop("b")
        run.stop("c")
        run.saved()

        assert run.outcome == Escaped(HandOver((command,), nodes=("",)))
        assert run.store.statuses == ["escaped"]

    @pytest.mark.parametrize(("to_others", "status"), [(True, "drained"), (False, "cancelled")])
    def test_a_cancelled_run(self, to_others, status):
        """
        A run that another process continues is stored as drained, not as cancelled.
        """
        run = three()
        run.event(CancelRequested(to_others))
        for name in "abc":
            run.stop(name)
        run.saved()

        assert run.outcome == Cancelled(to_others)
        assert run.store.statuses == [status]

    def test_a_superstep_that_takes_too_long_stops_its_tasks(self):
        """
        Those that run are stopped, and none starts.
        """
        run = three(step_timeout_s=1.0)
        effects = run.event(StepTimedOut(run.state.step))

        assert effects == [CancelTasks()]
        assert not run.state.due

    def test_of_a_task_that_has_ended_counts_once(self):
        """
        A late Command for the parent, or a late drain, ends the run and touches no other task.
        """
        command = Command(graph=Command.PARENT, goto="x")
        run = three()
        task = run.running.pop(run.task("a").id)
        run.event(TaskEscaped(task.id, ParentCommand(command)))
        run.event(TaskEscaped(task.id, ParentCommand(command)))
        run.event(TaskDrained(task.id, GraphDrained("drained", do="go on")))
        assert len(run.state.running) == 2
        assert run.state.interrupted == {}
        run.stop("b")
        run.stop("c")
        run.saved()

        assert run.outcome == Escaped(HandOver((command,), nodes=("",)))

    def test_an_error_handler_gets_the_failure(self):
        """
        It starts with the failed task's input, its node's name and the error itself.
        """
        error = ValueError("boom")
        run = Script(plan_of())
        run.begin({"log": []})
        run.saved()
        failed = run.task("a")
        run.fail("a", error)
        (start,) = only(StartHandler, run.saved())

        assert (start.error.node, start.error.error) == ("a", error)
        assert (start.task.name, start.task.triggers) == (HANDLER, ("__pregel_push",))
        assert (start.task.within, start.task.path[:2]) == (failed.within, failed.path)

    def test_the_writes_of_one_task_are_seen_as_its_node(self):
        """
        A superstep of one task notes the versions that this node has run with.
        """
        run = Script(chain(State, "a"), saver=False)
        run.begin({"text": "x"})
        run.finish("a", log=["a"])

        assert set(run.state.seen) == {"__input__", START, "a"}


def state_of(nested: Nested | None = None, *, durable: int = 0, mode: Any = SYNC) -> RunState:
    """A run with so many durable saves."""
    state = RunState(PAIR, RunPolicy(durability=mode), Store().mint, has_saver=True)
    state.nested, state.durable = nested, durable
    return state


BELOW = Nested({}, {})
OWN = Nested({}, {}, claims=True)


class TestInputAdvice:
    @pytest.mark.parametrize(
        ("error", "stored_"),
        [
            (ConflictError("x", do="y"), False),
            (AlreadyResumedError("x", do="y"), False),
            (StorageError("x", do="y"), False),
            (SerializationError("x", do="y"), False),
            (SaverBrokenError("x", do="y"), None),
            (CheckpointError("x", do="y"), None),
        ],
    )
    def test_of_a_refused_claim(self, error, stored_):
        """
        Nothing is stored after a conflict or a refused write; after others that is unknown.
        """
        advised: Any = with_input_advice(state_of(), error)

        assert (advised.input_stored, advised.do) == (stored_, "y")
        assert type(advised) is type(error)

    @pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])
    @pytest.mark.parametrize(
        ("nested", "durable"), [(None, 1), (BELOW, 0)], ids=["a later save", "a subgraph's"]
    )
    @pytest.mark.parametrize(
        ("error", "advice"),
        [
            (LeaseLostError("x", do="y"), "y"),
            (StorageError("x", do="y"), f"y; then {GO_ON}"),
            (ConflictError("x", do=ONE_AT_A_TIME), f"{ONE_AT_A_TIME}; then {GO_ON}"),
            (ConflictError("x", do="y"), GO_ON),
        ],
    )
    def test_of_a_refused_save_after_the_claim(self, nested, durable, mode, error, advice):
        """
        The input is stored with the claim: the error says so, and how to go on from there. In
        exit mode the run that took the thread over may have used it.
        """
        advised: Any = with_input_advice(state_of(nested, durable=durable, mode=mode), error)
        unsure = mode is EXIT and advice == GO_ON

        assert (advised.input_stored, advised.do) == ((None, LOOK) if unsure else (True, advice))

    @pytest.mark.parametrize(
        ("error", "nested"),
        [(OSError("x"), None), (StorageError("x", do="y"), OWN)],
        ids=["an error that no saver raised", "a subgraph with a saver of its own"],
    )
    def test_of_others_is_not_given(self, error, nested):
        """
        These errors are returned as they are.
        """
        assert with_input_advice(state_of(nested), error) is error

    def test_is_given_on_a_copy(self):
        """
        The saver may give one error to many runs: it stays as it was, and the copy has its
        notes, its cause and its own attributes.
        """
        error = StorageError("x", do="y")
        error.retryable = True
        error.add_note("note")
        error.__cause__, error.__context__ = OSError("cause"), OSError("context")
        error.__suppress_context__ = False
        advised: Any = with_input_advice(state_of(durable=1), error)
        advised.add_note("more")

        assert (error.input_stored, error.do, error.__notes__) == (None, "y", ["note"])
        assert (advised.what, advised.retryable, advised.args) == ("x", True, error.args)
        assert advised.__notes__ == ["note", "more"]
        assert advised.__cause__ is error.__cause__
        assert advised.__context__ is error.__context__
        assert advised.__suppress_context__ is False

    def test_of_a_run_is_its_outcomes(self):
        """
        The outcome of a run whose save was refused is the advised error.
        """
        run = three()
        run.finish("a", log=["a"])
        run.refuse(2, StorageError("full", do="make room"))
        run.stop("b")
        run.stop("c")

        assert run.outcome.error.input_stored is True
        assert run.outcome.error.do == f"make room; then {GO_ON}"

    def test_says_what_to_do(self):
        """
        The input is not to be passed again where it is stored.
        """
        assert GO_ON == "go on with the input None; this call's input is stored already"
        assert LOOK == (
            "read get_state(config) before this input is passed again: the run that took the "
            "thread over may have gone on with it"
        )


class TestErrorsOfTasks:
    @pytest.mark.parametrize(("saver", "marked"), [(True, True), (False, None)])
    @pytest.mark.parametrize("inner", [True, False])
    def test_of_a_saver_speak_about_this_run(self, saver, marked, inner):
        """
        A node's own call set the mark of the inner run; that of this run is what its caller
        needs: stored if it has a saver.
        """
        error = ConflictError("x", do="y")
        error.input_stored = inner
        run = three(saver=saver)
        run.fail("a", error)

        assert error.input_stored is marked

    def test_without_a_mark_get_none(self):
        """
        An error that was not about a run stays so, and other errors are left alone.
        """
        error = ConflictError("x", do="y")
        mark_input_stored(state_of(), error)
        mark_input_stored(state_of(), ValueError("x"))

        assert error.input_stored is None


@pytest.mark.parametrize(
    ("error", "stored_", "again_"),
    [
        (ConflictError("x", do="y"), False, True),
        (ConflictError("x", do="y"), None, False),
        (ConflictError("x", do="y"), True, False),
        (AlreadyResumedError("x", do="y"), False, False),
        (LeaseLostError("x", do="y"), False, False),
        (StorageError("x", do="y"), False, False),
    ],
)
def test_only_a_run_that_lost_its_claim_may_begin_again(error, stored_, again_):
    """
    It has stored nothing, and neither its answer was given by another run nor its lease lost.
    """
    error.input_stored = stored_

    assert may_begin_again(error) is again_
    assert may_begin_again(None) is False
