"""Why a run stops although it has work: a drain, a deadline, a limit of supersteps or visits."""

import operator
from typing import Annotated, TypedDict

import pytest

from actorgraph.errors import ErrorCode, GraphDrained, GraphRecursionError, StepTimeoutError
from actorgraph.superstep.limits import check_depth
from actorgraph.values.commands import Send
from actorgraph.values.constants import START
from actorgraph.values.policies import Durability
from actorgraph.values.run import Drained, Failed, Interrupted, StepTimedOut, Succeeded, TaskDrained
from tests.superstep.script import Script, Store, chain, graph, idle

SYNC, ASYNC, EXIT = Durability
MODES = pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def drains_when(run: Script, when) -> None:
    run.state.stopping = lambda: "shutdown" if when() else None


class TestDrain:
    @pytest.mark.langgraph("F-C20", "L34")
    @MODES
    def test_the_superstep_ends_and_no_other_begins(self, mode):
        """
        Running tasks finish and are stored; the next superstep waits for the next run.
        """
        store = Store()
        run = Script(chain(State, "a", "b", "c"), mode, store=store)
        drains_when(run, lambda: len(run.given) > 1)
        run.play({"log": []}, {n: lambda s, n=n: {"log": [n]} for n in "abc"})

        assert isinstance(run.outcome, Drained)
        assert isinstance(run.outcome.error, GraphDrained)
        assert run.outcome.error.reason == "shutdown"
        assert store.statuses[-1] == "drained"

        again = Script(chain(State, "a", "b", "c"), mode, store=store)
        outcome = again.play(None, {n: lambda s, n=n: {"log": [n]} for n in "abc"})
        assert outcome == Succeeded({"log": ["a", "b", "c"]})

    @pytest.mark.langgraph("F-C20", "L34")
    def test_a_run_without_work_ends_as_usual(self):
        """
        A drain that is asked for in the last superstep changes nothing.
        """
        run = Script(chain(State, "a"), saver=False)
        drains_when(run, lambda: bool(run.given))

        assert isinstance(run.play({"log": []}), Succeeded)

    @pytest.mark.langgraph("F-C20", "L34")
    def test_a_breakpoint_comes_first(self):
        """
        A run that would pause anyway pauses.
        """
        run = Script(chain(State, "a"), saver=False, interrupt_before=("a",))
        drains_when(run, lambda: True)

        assert isinstance(run.play({"log": []}), Interrupted)

    @pytest.mark.langgraph("F-C20")
    @MODES
    def test_a_run_asked_before_it_begins_keeps_its_input(self, mode):
        """
        No node runs, and the input is stored for the next run.
        """
        store = Store()
        run = Script(chain(State, "a"), mode, store=store)
        drains_when(run, lambda: True)
        run.play({"log": ["in"]})
        again = Script(chain(State, "a"), mode, store=store)

        assert isinstance(run.outcome, Drained)
        assert again.play(None, {"a": lambda s: {"log": ["a"]}}) == Succeeded({"log": ["in", "a"]})

    @pytest.mark.langgraph("F-C20")
    def test_a_task_whose_graph_has_stopped_runs_again(self):
        """
        A drained task has neither failed nor finished; its siblings finish first.
        """
        store = Store()
        plan = graph(State, dict.fromkeys("ab", idle), [(START, "a"), (START, "b")])
        run = Script(plan, store=store)
        run.begin({"log": []})
        run.saved()
        error = GraphDrained("Graph drained: x", do="go on", reason="x")
        run.event(TaskDrained(run.running.pop(run.task("a").id).id, error))
        assert run.finishes == []
        run.finish("b", log=["b"])
        run.saved()

        again = Script(plan, store=store)
        again.begin(None)
        again.saved()

        assert run.outcome == Drained(error)
        assert again.names == ["a"]

    def test_a_question_beside_it_is_reported(self):
        """
        When a sibling asks, the run pauses with its question.
        """
        plan = graph(State, dict.fromkeys("ab", idle), [(START, "a"), (START, "b")])
        run = Script(plan)
        run.begin({"log": []})
        run.saved()
        error = GraphDrained("Graph drained: x", do="go on", reason="x")
        run.ask("b", "who?")
        run.event(TaskDrained(run.running.pop(run.task("a").id).id, error))
        run.saved()

        assert isinstance(run.outcome, Interrupted)
        assert [i.value for i in run.outcome.interrupts] == ["who?"]


class TestVisits:
    @pytest.mark.promise("E8")
    @pytest.mark.parametrize("limit", [1, 2, 5])
    def test_a_node_runs_in_so_many_supersteps(self, limit):
        """
        `node_visit_limit` ends a loop after so many rounds, and names the node.
        """
        plan = graph(State, {"a": idle, "b": idle}, [(START, "a"), ("a", "b"), ("b", "a")])
        run = Script(plan, saver=False, node_visit_limit=limit)
        run.play({"log": []}, {n: lambda s, n=n: {"log": [n]} for n in "ab"})

        assert isinstance(run.outcome, Failed)
        assert isinstance(run.outcome.error, GraphRecursionError)
        assert f"'a' of graph 'g' has run in {limit} supersteps" in str(run.outcome.error)
        assert run.state.values["log"] == ["a", "b"] * limit

    def test_a_fan_out_is_one_visit(self):
        """
        Many Sends to one node in one superstep count once.
        """
        plan = graph(State, {"a": idle, "b": idle}, [(START, "a")])
        run = Script(plan, saver=False, node_visit_limit=1)
        sends = [Send("b", i) for i in range(5)]

        outcome = run.play({"log": []}, {"a": lambda s: sends, "b": lambda s: {"log": ["b"]}})

        assert outcome == Succeeded({"log": ["b"] * 5})


class TestTheOtherLimits:
    @pytest.mark.langgraph("F-C8", "F-C26", "L28")
    @MODES
    def test_the_recursion_error_has_langgraphs_word(self, mode):
        """
        A run out of supersteps fails with a code, and a resume gets as many again.
        """
        store = Store()
        plan = graph(State, {"a": idle}, [(START, "a"), ("a", "a")])
        nodes = {"a": lambda s: {"log": ["a"]}}
        for rounds in (3, 6):
            run = Script(plan, mode, store=store, recursion_limit=3)
            run.play({"log": []} if rounds == 3 else None, nodes)

            assert isinstance(run.outcome, Failed)
            assert run.outcome.error.code is ErrorCode.GRAPH_RECURSION_LIMIT
            assert run.state.values["log"] == ["a"] * rounds

    @pytest.mark.promise("E8")
    def test_depth(self):
        """
        A graph below the limit of nesting is refused.
        """
        check_depth("g", 3, 3)
        with pytest.raises(GraphRecursionError, match="4 levels below"):
            check_depth("g", 4, 3)

    @pytest.mark.langgraph("F-C11")
    def test_a_superstep_whose_time_is_over_fails(self):
        """
        The end of a superstep's time stops its tasks; that of an earlier one means nothing.
        """
        run = Script(chain(State, "a", "b"), saver=False, step_timeout_s=3.0)
        run.begin({"log": []})
        first = run.state.step
        run.finish("a", log=["a"])
        assert run.event(StepTimedOut(first)) == []
        assert run.names == ["b"]
        run.event(StepTimedOut(run.state.step))
        run.stop("b")

        assert isinstance(run.outcome, Failed)
        assert isinstance(run.outcome.error, StepTimeoutError)
        assert "['b'] were running" in str(run.outcome.error)
