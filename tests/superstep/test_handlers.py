"""When an error handler may start, and what is stored before: by hand-fed events."""

import operator
from collections import deque
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.errors import StoredNodeError
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.plan import Plan
from actorgraph.superstep.pending_writes import Attempt
from actorgraph.superstep.task_failures import is_handled
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import START
from actorgraph.values.ids import TaskId, task_id
from actorgraph.values.policies import Durability, TimeoutPolicy
from actorgraph.values.run import Failed, Save, StartHandler, Succeeded, Task, TaskResult
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

    def test_after_a_crash_its_superstep_ends_with_its_writes(self):
        """
        The failed task counts as finished without writes, its sibling with its own.
        """
        store = Store()
        run = begun(SYNC, "b", store=store)
        run.fail("a", ValueError("boom"))
        run.finish("b", log=["b"])
        run.saved()
        again = Script(plan_of("b"), SYNC, store=store)
        again.begin(None)
        again.saved()
        again.finish(HANDLER, log=["handled"])
        again.saved()

        assert again.outcome == Succeeded({"log": ["handled", "b"]})

    def test_a_later_failure_is_stored_as_any_other(self):
        """
        The handlers of a superstep are forgotten with it.
        """
        builder = GraphBuilder(State).add_node("a", idle, error_handler=idle)
        builder.add_node("b", idle).add_edge(START, "a").add_edge(START, "b").add_edge("b", "b")
        run = Script(make_plan(builder, name="g"))
        run.begin({"log": []})
        run.saved()
        run.fail("a", ValueError("boom"))
        run.saved()
        run.finish("b", log=["b"])
        run.finish(HANDLER, log=["handled"])
        run.saved()
        run.fail("b", KeyError("b"))
        run.saved()

        assert run.store.statuses == ["error"]
        assert run.state.handled == {}

    def test_its_question_gets_its_answer(self):
        """
        A handler that asked runs again with the answer.
        """
        store = Store()
        run = begun(SYNC, store=store)
        run.fail("a", ValueError("boom"))
        run.saved()
        run.ask(HANDLER, "retry?")
        run.saved()
        again = Script(plan_of(), SYNC, store=store)
        again.begin(Command(resume="yes"))
        again.saved()

        assert again.task(HANDLER).answers == ("yes",)

    def test_a_task_that_has_finished_since_needs_none(self):
        """
        A failure is left to the handler until its task has writes.
        """
        plan = plan_of()
        task = Task(TaskId("1"), "a", (), (), None)
        failed, finished = Attempt(handled=True), Attempt(writes=(), handled=True)

        assert is_handled(plan, task, {"1": failed})
        assert not is_handled(plan, task, {"1": finished})
        assert not is_handled(plan, task, {"1": Attempt()})
        assert not is_handled(plan, task, {})

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


class TestWhole:
    def test_the_failures_rows_and_the_handlers_task(self):
        """
        The error's repr and its node's name are stored; the handler has the failed task's input,
        and an id made of its place.
        """
        plan = plan_of()
        limit = TimeoutPolicy(run_timeout=3.0)
        object.__setattr__(plan.handlers[HANDLER], "timeout", limit)
        run = Script(plan, modes=frozenset({"tasks"}))
        run.begin({"log": []})
        run.saved()
        failed = run.task("a")
        run.fail("a", ValueError("boom"))
        (start,) = only(StartHandler, run.saved())
        error, source = run.sent[-1].ledger
        place = ("", HANDLER, "__pregel_push", "node_error_handler", failed.id)

        assert error.writes == (("__error__", "ValueError('boom')"),)
        assert source.writes == (("__error_source_node__", "a"),)
        assert start.task == Task(
            id=task_id(run.state.checkpoint, *place),
            name=HANDLER,
            path=(*failed.path, "node_error_handler", False),
            triggers=("__pregel_push",),
            input=failed.input,
            timeout=limit,
        )
        assert run.state.results[failed.id] == TaskResult(failed.id, ())
        assert [t["error"] for t in run.streamed("tasks") if "error" in t] == ["ValueError('boom')"]

    def test_of_a_send_has_its_argument_and_its_place(self):
        """
        The handler of a Send's task gets the Send's argument, inside of the run's namespace.
        """
        run = Script(plan_of("b"), saver=False)
        run.state.namespace = "n:1"
        run.begin({"log": []})
        run.finish("a", Send("a", {"log": ["packet"]}))
        run.finish("b")
        effects = run.fail("a", ValueError("boom"))
        (start,) = only(StartHandler, effects)

        assert (start.given, start.task.within) == ({"log": ["packet"]}, "n:1")
        assert start.task.path == ("__pregel_push", 0, "node_error_handler", False)
        assert run.state.sent == 0

    def test_after_a_crash_it_gets_the_errors_text(self):
        """
        The exception itself is not stored: the error says so, and which node had failed.
        """
        store = Store()
        first = begun(SYNC, store=store)
        first.fail("a", ValueError("boom"))
        first.saved()
        run = Script(plan_of(), store=store)
        run.begin(None)
        (start,) = only(StartHandler, run.saved())

        assert type(start.error.error) is StoredNodeError
        assert start.error.node == "a"
        assert start.error.error.what == ("node 'a' failed in an earlier run: ValueError('boom')")
        assert start.error.error.do == "read the text: the exception itself was not stored"

    def test_the_checkpoint_of_a_pause_names_no_handler(self):
        """
        `next` names nodes: the handler runs its failed node's part.
        """
        run = begun(EXIT)
        run.fail("a", ValueError("boom"))
        run.ask(HANDLER, "retry?")
        run.saved()

        assert run.sent[-1].checkpoints[0].next == ("a",)

    def test_a_failure_of_a_node_that_lost_its_handler_is_an_ordinary_one(self):
        """
        When the graph has no handler for it any more, the node itself runs again.
        """
        store = Store()
        run = begun(SYNC, "b", store=store)
        run.fail("a", ValueError("boom"))
        run.saved()
        builder = GraphBuilder(State).add_node("a", idle).add_edge(START, "a")
        builder.add_node("b", idle, error_handler=idle).add_edge(START, "b")
        again = Script(make_plan(builder, name="g"), store=store)
        again.begin(None)
        again.saved()

        assert again.names == ["a", "b"]

    @pytest.mark.parametrize("saver", [True, False])
    def test_while_the_run_leaves_the_rows_wait_for_the_last_save(self, saver):
        """
        Without a saver no rows are made.
        """
        run = Script(plan_of("b"), saver=saver)
        run.begin({"log": []})
        run.saved()
        run.fail("b", KeyError("first"))
        effects = run.fail("a", ValueError("boom"))

        assert [rows(s) for s in only(Save, effects)] == ([[("a", -1), ("a", -6)]] if saver else [])
        assert run.state.due == deque()


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
        run.fail("a", KeyboardInterrupt())
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
