"""When an error handler may start, and what is stored before: by hand-fed events."""

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.plan import Plan
from actorgraph.values.constants import START
from actorgraph.values.policies import Durability
from actorgraph.values.run import Failed, StartHandler, Succeeded
from tests.superstep.script import Script, Store, idle, kinds, only, rows, started

SYNC, ASYNC, EXIT = Durability
HANDLER = "__error_handler__a"


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def plan_of(*siblings: str, handler: Callable[..., Any] | None = idle) -> Plan:
    """START -> a, which has an error handler, and its siblings."""
    builder = GraphBuilder(State).add_node("a", idle, error_handler=handler)
    builder.add_edge(START, "a")
    for name in siblings:
        builder.add_node(name, idle).add_edge(START, name)
    return make_plan(builder, name="g")


def begun(mode: Durability, *siblings: str, store: Store | None = None, **settings: Any) -> Script:
    """A run whose first tasks are running."""
    run = Script(plan_of(*siblings), mode, store=store, **settings)
    run.begin({"log": []})
    run.saved()
    return run


class TestDurableFirst:
    @pytest.mark.langgraph("F-C12", "L44")
    @pytest.mark.parametrize("mode", [SYNC, ASYNC])
    def test_the_handler_waits_for_the_failures_rows(self, mode):
        """
        The error and its mark are stored together, and the handler starts after that.
        """
        run = begun(mode)

        effects = run.fail("a", ValueError("boom"))

        assert kinds(effects) == ["Save"]
        assert rows(run.sent[-1]) == [("a", -1), ("a", -6)]
        assert started(run.saved()) == [HANDLER]

    @pytest.mark.langgraph("L44")
    def test_in_exit_mode_it_starts_at_once(self):
        """
        A run that stores nothing until it leaves has nothing to wait for.
        """
        run = begun(EXIT)

        assert started(run.fail("a", ValueError("boom"))) == [HANDLER]

    @pytest.mark.langgraph("L44", "L45")
    def test_in_exit_mode_the_rows_travel_with_the_farewell(self):
        """
        Cancelled while the handler runs, the run stores that the failure is handled.
        """
        store = Store()
        run = begun(EXIT, store=store)
        run.fail("a", ValueError("boom"))
        run.cancel()
        run.stop(HANDLER)
        run.saved()

        again = Script(plan_of(), EXIT, store=store)
        again.begin(None)
        again.saved()

        assert rows(run.sent[-1]) == [("a", -1), ("a", -6)]
        assert again.names == [HANDLER]

    def test_siblings_wait_for_nothing(self):
        """
        Those that run go on, and their results are saved while the failure is.
        """
        run = begun(SYNC, "b")
        run.fail("a", ValueError("boom"))

        assert kinds(run.finish("b", log=["b"])) == ["Save"]


class TestTheTask:
    @pytest.mark.langgraph("F-C12", "L44")
    def test_a_handlers_path_follows_the_failed_task(self):
        """
        The handler's path is the failed task's with a mark, its input the failed one's view.
        """
        run = begun(SYNC)
        run.fail("a", ValueError("boom"))
        effect = only(StartHandler, run.saved())[0]

        assert effect.task.path == ("__pregel_pull", "a", "node_error_handler", False)
        assert (effect.given, effect.error.node) == ({"log": []}, "a")

    @pytest.mark.langgraph("F-C12")
    def test_its_writes_are_the_failed_ones(self):
        """
        The superstep ends with the handler's writes; the failed node is not due again.
        """
        run = begun(SYNC)
        run.fail("a", ValueError("boom"))
        run.saved()
        run.finish(HANDLER, log=["handled"])
        run.saved()

        assert isinstance(run.outcome, Succeeded)
        assert run.outcome.values == {"log": ["handled"]}
        assert run.state.seen["a"]

    @pytest.mark.langgraph("L45")
    @pytest.mark.parametrize("at", ["before the handler", "in the handler", "after the handler"])
    def test_after_a_crash_the_node_is_not_called(self, at):
        """
        Wherever the run breaks off once the failure is stored, the handler goes on from there.
        """
        store = Store()
        run = begun(SYNC, "b", store=store)
        run.fail("a", ValueError("boom"))
        run.saved()
        if at == "after the handler":
            run.finish(HANDLER, log=["handled"])
            run.saved()
        elif at == "in the handler":
            run.fail(HANDLER, KeyError("handler"))
            run.stop("b")
            run.saved()

        again = Script(plan_of("b"), SYNC, store=store)
        again.begin(None)
        again.saved()

        assert again.names == (["b"] if at == "after the handler" else ["b", HANDLER])

    @pytest.mark.langgraph("L45")
    def test_its_id_is_the_same_after_a_crash(self):
        """
        The handler's task has one id, by which its answers and results are found again.
        """
        store = Store()
        run = begun(SYNC, store=store)
        run.fail("a", ValueError("boom"))
        run.saved()
        again = Script(plan_of(), SYNC, store=store)
        again.begin(None)
        again.saved()

        assert again.task(HANDLER).id == run.task(HANDLER).id


class TestNotHandled:
    @pytest.mark.langgraph("F-C12")
    def test_a_handlers_failure_fails_the_run(self):
        """
        The failure of a handler isn't handled.
        """
        run = begun(SYNC)
        run.fail("a", ValueError("boom"))
        run.saved()
        run.fail(HANDLER, KeyError("handler"))
        run.saved()

        assert isinstance(run.outcome, Failed)
        assert repr(run.outcome.error) == "KeyError('handler')"

    def test_exits_of_the_program_are_not_handled(self):
        """
        Only an Exception goes to a handler.
        """
        run = begun(SYNC)
        run.fail("a", KeyboardInterrupt())  # type: ignore[arg-type]
        run.saved()

        assert isinstance(run.outcome, Failed)

    @pytest.mark.langgraph("F-C13", "L45")
    def test_a_run_that_leaves_starts_no_handler(self):
        """
        When a sibling has failed already, the failure is stored for the next run's handler.
        """
        store = Store()
        run = begun(SYNC, "b", "c", store=store)
        run.fail("b", KeyError("first"))
        run.fail("a", ValueError("boom"))
        run.stop("c")
        run.saved()
        again = Script(plan_of("b", "c"), SYNC, store=store)
        again.begin(None)
        again.saved()

        assert isinstance(run.outcome, Failed)
        assert again.names == ["b", "c", HANDLER]
