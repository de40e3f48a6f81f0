"""Calls of `@task` functions as decisions: when they start, what is kept, when callers end."""

from typing import Any

import pytest

from actorgraph.errors import GraphDrained, ParentCommand
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.values.commands import Command
from actorgraph.values.constants import RETURN
from actorgraph.values.run import (
    CancelTasks,
    Drained,
    Failed,
    Succeeded,
    TaskCancelled,
    TaskDrained,
    TaskEscaped,
    TaskFailed,
)
from tests.superstep.programs import Program, State
from tests.superstep.script import Store, chain, idle, kinds, only, started
from tests.superstep.test_handlers import plan_of


class TestStarting:
    @pytest.mark.langgraph("F-J3")
    def test_a_call_starts_beside_its_caller(self):
        """
        A call starts at once, in the superstep of its caller.
        """
        run = Program("a").begun()

        task, effects = run.call(run.task("a"), "step")

        assert kinds(effects) == ["StartTask"]
        assert run.names == ["a", "step"]
        assert run.state.running[task.id].input == ((), {})

    @pytest.mark.langgraph("F-J4")
    def test_its_result_is_sent_to_the_store_and_to_its_caller_at_once(self):
        """
        The row of a call is beside those of nodes; its caller doesn't wait for it to be
        durable, and readers do.
        """
        run = Program("a", modes=frozenset({"updates"})).begun()
        step = run.called(run.task("a"), "step")

        effects = run.ends(step, 5)

        assert kinds(effects) == ["Save", "AnswerCall"]
        assert [entry.writes for entry in run.sent[-1].ledger] == [((RETURN, 5),)]
        assert run.answers[step.id].value == 5
        assert run.streamed("updates") == []
        run.saved()
        assert run.streamed("updates") == [{"step": 5}]

    @pytest.mark.langgraph("F-J3")
    def test_results_of_calls_reach_no_channel(self):
        """
        The superstep folds in what the node returned and nothing of its calls.
        """
        run = Program("a").begun()
        run.ends(run.called(run.task("a"), "step"), 5)

        run.finish("a", log=["a"])

        assert run.state.values == {"log": ["a"]}
        assert run.state.calls is None

    @pytest.mark.langgraph("L101")
    @pytest.mark.parametrize("value", [None, 0, False, ""])
    def test_a_stored_result_is_handed_over_at_once(self, value):
        """
        In a run that goes on after a crash, the same call is not run again.
        """
        store = Store()
        first = Program("a", store=store).begun()
        first.ends(first.called(first.task("a"), "step"), value)
        first.saved()
        again = Program("a", store=store)
        again.begin(None)
        again.saved()

        step, effects = again.call(again.task("a"), "step")
        other, more = again.call(again.task("a"), "step")

        assert kinds(effects) == ["AnswerCall"]
        assert again.answers[step.id].value is value
        assert (kinds(more), other.id in again.running) == (["StartTask"], True)

    def test_one_made_too_late_is_refused(self):
        """
        A call after its task has ended, or while the run is leaving, is refused at once.
        """
        run = Program("a", "b").begun()
        late = run.task("a")
        run.finish("a", log=["a"])
        after, _ = run.call(late, "step")
        busy = run.task("b")
        run.cancel()
        leaving, _ = run.call(busy, "step")

        assert run.answers[after.id].gone
        assert run.answers[leaving.id].gone
        assert not {after.id, leaving.id} & set(run.running)


class TestPlaces:
    @pytest.mark.langgraph("L113")
    def test_a_caller_that_waits_holds_none(self):
        """
        Under max_concurrency=1 a call at any depth gets the place of those who wait for it, and
        the sibling's task comes when there is one.
        """
        run = Program("a", "b", max_concurrency=1).begun()
        assert run.names == ["a"]

        outer = run.called(run.task("a"), "outer")
        inner = run.called(outer, "inner")
        second, effects = run.call(run.task("a"), "second")

        assert run.names == ["a", "outer", "inner"]
        assert kinds(effects) == []
        run.ends(inner)
        assert run.names == ["a", "outer"]
        run.ends(outer)
        assert run.names == ["a", "second"]
        run.ends(second)
        assert run.names == ["a"]
        run.finish("a", log=["a"])
        assert run.names == ["b"]

    def test_they_are_given_in_the_order_of_the_calls(self):
        """
        Calls wait for a place in the order in which they were made.
        """
        run = Program("a", max_concurrency=2).begun()
        tasks = [run.called(run.task("a"), f"step{n}") for n in range(5)]

        order = []
        while run.names != ["a"]:
            order.append([name for name in run.names if name != "a"])
            run.ends(next(task for task in tasks if task.id in run.running))

        assert order == [["step0", "step1"], ["step1", "step2"], ["step2", "step3"],
                         ["step3", "step4"], ["step4"]]  # fmt: skip

    def test_a_nodes_own_limit_counts_the_node_alone(self):
        """
        A function of the same name takes no place from a node that may run once at a time.
        """
        builder = GraphBuilder(State).add_node("b", idle, max_concurrency=1)
        builder.add_node("a", idle).add_node("aa", idle)
        for name in ("a", "aa", "b"):
            builder.add_edge("__start__", name)
        run = Program(plan=make_plan(builder, name="g"), max_concurrency=2).begun()
        run.called(run.task("a"), "b")
        assert run.names == ["a", "aa", "b"]

        run.finish("aa", log=["aa"])

        assert run.names == ["a", "b", "b"]


class TestEnding:
    @pytest.mark.langgraph("F-J3")
    def test_a_caller_ends_after_its_calls(self):
        """
        The result of a node counts, and is shown, once the calls that it left behind have ended.
        """
        run = Program("a", modes=frozenset({"updates"})).begun()
        step = run.called(run.task("a"), "step")

        assert run.finish("a", log=["a"]) == []
        effects = run.ends(step, 1)
        run.saved()

        assert kinds(effects) == ["Save", "AnswerCall", "Save"]
        assert run.streamed("updates") == [{"step": 1}, {"a": {"log": ["a"]}}]
        assert isinstance(run.outcome, Succeeded)

    @pytest.mark.langgraph("F-J7")
    def test_one_that_fails_has_its_calls_stopped(self):
        """
        The run fails once the calls of the failed node have stopped, those of calls too.
        """
        run = Program("a").begun()
        outer = run.called(run.task("a"), "outer")
        inner = run.called(outer, "inner")

        effects = run.fail("a", ValueError("no"))
        assert only(CancelTasks, effects) == [CancelTasks((outer.id,))]
        effects = run.event(TaskCancelled(outer.id))
        assert only(CancelTasks, effects) == [CancelTasks((inner.id,))]
        assert run.finishes == []
        run.event(TaskCancelled(inner.id))
        run.saved()

        assert isinstance(run.outcome, Failed)
        assert (run.answers[outer.id].gone, run.answers[inner.id].gone) == (True, True)

    @pytest.mark.langgraph("F-J7", "F-C12")
    def test_an_error_handler_starts_when_the_calls_have_stopped(self):
        """
        The handler of a failed node runs beside none of the node's calls.
        """
        run = Program(plan=plan_of()).begun()
        step = run.called(run.task("a"), "step")

        run.fail("a", ValueError("no"))
        assert run.names == ["step"]
        del run.running[step.id]
        run.event(TaskCancelled(step.id))

        assert started(run.saved()) == ["__error_handler__a"]

    @pytest.mark.langgraph("F-J5")
    def test_a_calls_error_is_its_callers(self):
        """
        A failed call fails no other task, and nothing of it is stored.
        """
        run = Program("a").begun()
        step = run.called(run.task("a"), "step")
        before, error = len(run.sent), ValueError("no")
        del run.running[step.id]

        effects = run.event(TaskFailed(step.id, error))

        assert kinds(effects) == ["AnswerCall"]
        assert run.answers[step.id].error is error
        assert len(run.sent) == before
        run.finish("a", log=["a"])
        run.saved()
        assert isinstance(run.outcome, Succeeded)

    def test_a_command_for_the_graph_above_reaches_the_caller(self):
        """
        A Command for the parent from a graph inside of a call is raised in the call's caller.
        """
        run = Program("a").begun()
        step = run.called(run.task("a"), "step")
        command = Command[Any](graph=Command.PARENT, update={"log": ["up"]})

        run.event(TaskEscaped(step.id, ParentCommand(command)))

        error = run.answers[step.id].error
        assert isinstance(error, ParentCommand)
        assert error.command is command

    @pytest.mark.parametrize("waited", [True, False])
    def test_a_graph_in_a_call_that_was_drained_drains_the_run(self, waited):
        """
        A drain inside of a call reaches the whole run, whether its caller waited or not.
        """
        run = Program("a").begun()
        caller, step = run.task("a"), run.called(run.task("a"), "step")
        error = GraphDrained("Graph drained: stop", do="go on", reason="stop")

        run.event(TaskDrained(step.id, error))
        assert run.answers[step.id].drained is error
        if waited:
            run.event(TaskDrained(caller.id, error))
        else:
            run.finish("a", log=["a"])
        run.saved()

        assert isinstance(run.outcome, Drained)


def test_a_superstep_begins_without_failed_calls_of_the_one_before():
    """
    Also calls that left no result are forgotten.
    """
    run = Program(plan=chain(State, "a", "b")).begun()
    step = run.called(run.task("a"), "step")
    run.event(TaskFailed(run.running.pop(step.id).id, ValueError("no")))
    run.finish("a", log=["a"])

    assert run.state.calls is None


def test_a_superstep_begins_without_calls_of_the_one_before():
    """
    The results of calls are forgotten with their superstep.
    """
    run = Program(plan=chain(State, "a", "b")).begun()
    run.ends(run.called(run.task("a"), "step"), 5)
    run.finish("a", log=["a"])
    run.saved()

    _, effects = run.call(run.task("b"), "step")

    assert kinds(effects) == ["StartTask"]
