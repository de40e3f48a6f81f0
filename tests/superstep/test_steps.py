"""Results of steps: when they are stored, when the node goes on, and what a next run finds."""

import operator
from typing import Annotated, TypedDict

import pytest

from actorgraph.superstep.calls import step_id
from actorgraph.values.constants import RETURN
from actorgraph.values.policies import Durability
from actorgraph.values.run import AnswerCall, StepKept
from tests.superstep.script import Script, Store, chain, kinds, only

SYNC, ASYNC, EXIT = Durability


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def begun(mode: Durability, store: Store | None = None, **settings) -> Script:
    run = Script(chain(State, "a"), mode, store=store, **settings)
    run.begin({"log": []})
    run.saved()
    return run


class TestKept:
    @pytest.mark.promise("E7")
    @pytest.mark.parametrize("mode", [SYNC, ASYNC])
    def test_the_node_goes_on_when_it_is_durable(self, mode):
        """
        The row is saved at once, and the node is answered by its acknowledgement.
        """
        run = begun(mode)
        task = run.task("a")

        assert kinds(run.event(StepKept(task, "k", 3))) == ["Save"]
        assert run.sent[-1].ledger[0].writes == ((RETURN, 3),)
        assert only(AnswerCall, run.saved()) == [AnswerCall(step_id(task, "k"), 3)]

    @pytest.mark.parametrize(("mode", "saver"), [(EXIT, True), (SYNC, False)])
    def test_where_nothing_is_saved_it_goes_on_at_once(self, mode, saver):
        """
        In exit mode, and without a saver, no caller waits.
        """
        run = begun(mode, saver=saver)

        effects = run.event(StepKept(run.task("a"), "k", 3))

        assert kinds(effects) == ["AnswerCall"]

    def test_each_step_waits_for_its_own_row(self):
        """
        An acknowledgement answers the steps up to it and no others.
        """
        run = begun(SYNC)
        task = run.task("a")
        run.event(StepKept(task, "one", 1))
        first = run.state.sent
        run.event(StepKept(task, "two", 2))

        assert [e.value for e in only(AnswerCall, run.saved(first))] == [1]
        assert [e.value for e in only(AnswerCall, run.saved())] == [2]


class TestTheNextRun:
    @pytest.mark.promise("E7")
    @pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])
    def test_finds_them(self, mode):
        """
        After a failure the task runs again and has its steps' results.
        """
        store = Store()
        run = begun(mode, store)
        task = run.task("a")
        run.event(StepKept(task, "k", 3))
        run.saved()
        run.fail("a", ValueError("boom"))
        run.saved()

        again = Script(chain(State, "a"), mode, store=store)
        again.begin(None)
        again.saved()

        assert again.names == ["a"]
        assert again.state.returned == {step_id(task, "k"): 3}

    def test_finds_one_that_was_done_while_the_run_left(self):
        """
        An effect that took place while the run was cancelled is stored with its farewell.
        """
        store = Store()
        run = begun(SYNC, store)
        task = run.task("a")
        run.cancel()
        run.event(StepKept(task, "k", 3))
        run.stop("a")
        run.saved()

        again = Script(chain(State, "a"), SYNC, store=store)
        again.begin(None)

        assert again.state.returned == {step_id(task, "k"): 3}

    def test_a_finished_superstep_forgets_them(self):
        """
        Results of steps belong to their superstep; a task of the next one has its own.
        """
        run = begun(SYNC, saver=False)
        run.event(StepKept(run.task("a"), "k", 3))
        run.finish("a", log=["a"])

        assert run.state.returned == {}
