"""Tasks that may run, when, and for how long: order, ids, concurrency, limits, breakpoints."""

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.errors import GraphRecursionError
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.plan import Plan
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import START
from actorgraph.values.policies import Durability, TimeoutPolicy
from actorgraph.values.run import Failed, Interrupted, Succeeded
from tests.superstep.script import Script, Store, chain, graph, idle, names_of, started

SYNC, ASYNC, EXIT = Durability
MODES = pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])


class State(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


async def waits(state: Any) -> None:
    """An async node: only such a one may have a timeout."""


def note(name: str) -> Callable[[Any], Any]:
    """A node that logs its name."""
    return lambda state: {"log": [name]}


def logging(plan: Plan) -> dict[str, Callable[[Any], Any]]:
    """Every node of a plan logs its name."""
    return {name: note(name) for name in plan.nodes if name != START}


def loop() -> Plan:
    """START -> a -> a -> ..."""
    return graph(State, {"a": idle}, [(START, "a"), ("a", "a")])


class TestPlanning:
    @pytest.mark.promise("L26")
    def test_sends_come_first_then_nodes_by_name(self):
        """
        The tasks of a superstep: Sends in their order, then triggered nodes by name.
        """
        plan = graph(State, dict.fromkeys(["a", "z", "m", "b"], idle), [(START, "a")])
        run = Script(plan, saver=False)
        run.begin({"text": "x"})
        run.finish("a", [Command(goto=["z", "b"]), Send("m", 1), Send("a", 2)])

        assert run.names == ["m", "a", "b", "z"]
        assert [value for _, value in run.given[1:3]] == [1, 2]

    @pytest.mark.promise("L33")
    @pytest.mark.langgraph("F-C4")
    def test_a_send_carries_its_argument_as_it_is(self):
        """
        The value of a Send reaches the node itself, not a copy and not the state.
        """
        packet = object()
        run = Script(graph(State, {"a": idle, "b": waits}, [(START, "a")]), saver=False)
        run.begin({"text": "x"})
        run.finish("a", [Send("b", packet, timeout=3)])

        assert run.given[-1][1] is packet
        assert run.task("b").timeout == TimeoutPolicy(run_timeout=3.0)

    @pytest.mark.promise("L9")
    def test_the_same_checkpoint_gives_the_same_ids(self):
        """
        Task ids are a function of the checkpoint and the path, so that stored writes find their
        tasks; another checkpoint gives others.
        """
        run = Script(graph(State, dict.fromkeys("ab", idle), [(START, "a")]), SYNC)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", [Send("b", 1), Send("b", 1), Command(goto="b")])
        run.saved()
        again = Script(run.plan, SYNC, store=run.store)
        again.begin(None)
        again.saved()

        assert list(again.running) == list(run.running)
        assert len(set(run.running)) == 3
        earlier = Script(run.plan, SYNC, store=run.store)
        earlier.begin(None, at=1)
        assert {t.id for t in due_tasks(earlier.state, None)}.isdisjoint(run.running)

    @pytest.mark.promise("L5", "S057")
    def test_a_never_run_node_is_due_when_its_trigger_is_there(self):
        """
        Without anything seen, availability alone makes a node due.
        """
        run = Script(chain(State, "a"), SYNC)
        run.begin({"text": "x"})

        assert "a" not in run.state.seen
        assert names_of(due_tasks(run.state, None)) == ["a"]

    @pytest.mark.promise("S060")
    def test_a_loop_that_stops_writing_ends_by_itself(self):
        """
        A node runs again only when its trigger has changed since it last ran.
        """
        builder = GraphBuilder(State).add_node("a", idle).add_edge(START, "a")
        builder.add_conditional_edges("a", lambda s: [] if len(s["log"]) == 5 else ["a"])
        run = Script(make_plan(builder, name="g"), saver=False)

        outcome = run.play({"text": "x"}, {"a": note("a")})
        assert outcome == Succeeded({"text": "x", "log": ["a"] * 5})


class TestConcurrency:
    @pytest.mark.langgraph("F-C16")
    @pytest.mark.parametrize("most", [1, 2, 3])
    def test_a_run_has_at_most_so_many_tasks_at_once(self, most):
        """
        `max_concurrency` tasks run; the next starts, in plan order, when one ends.
        """
        run = Script(
            graph(State, dict.fromkeys("abcde", idle), [(START, n) for n in "abcde"]),
            saver=False,
            max_concurrency=most,
        )
        run.begin({"text": "x"})
        order = list(run.names)
        while run.names:
            assert len(run.names) == min(most, 5 - len(order) + len(run.names))
            order += started(run.finish(run.names[-1], log=["x"]))

        assert order == list("abcde")
        assert isinstance(run.outcome, Succeeded)

    def test_a_node_has_its_own_bound(self):
        """
        A node's `max_concurrency` holds back its own tasks and lets others pass.
        """
        builder = GraphBuilder(State).add_node("a", idle).add_edge(START, "a")
        builder.add_node("b", idle, max_concurrency=1).add_node("c", idle)
        run = Script(make_plan(builder, name="g"), saver=False)
        run.begin({"text": "x"})
        run.finish("a", [*(Send("b", n) for n in range(3)), Send("c", 1)])
        assert run.names == ["b", "c"]

        assert started(run.finish("c", log=["c"])) == []
        assert started(run.finish("b", log=["b"])) == ["b"]

    def test_a_question_frees_its_place(self):
        """
        A task that asks counts as no running one.
        """
        plan = graph(State, dict.fromkeys("ab", idle), [(START, n) for n in "ab"])
        run = Script(plan, saver=False, max_concurrency=1)
        run.begin({"text": "x"})

        assert started(run.ask("a", "why?")) == ["b"]
        run.finish("b")
        assert [i.value for i in run.outcome.interrupts] == ["why?"]


class TestRecursionLimit:
    @pytest.mark.promise("L28")
    @pytest.mark.langgraph("F-C8")
    @MODES
    @pytest.mark.parametrize("limit", [1, 4])
    def test_a_fresh_input_gets_exactly_so_many_node_supersteps(self, mode, limit):
        """
        START takes no step of the limit; the error says what still had work.
        """
        run = Script(loop(), mode, recursion_limit=limit)
        outcome = run.play({"text": "x"}, {"a": note("a")})

        assert isinstance(outcome, Failed)
        assert isinstance(outcome.error, GraphRecursionError)
        assert f"Recursion limit of {limit} reached" in str(outcome.error)
        assert "['a']" in str(outcome.error)
        assert run.store.restored().values["log"] == ["a"] * limit
        assert run.store.statuses == ["error"]

    @pytest.mark.promise("L28")
    @pytest.mark.langgraph("F-C8", "L117")
    @MODES
    def test_a_resume_gets_as_many_again(self, mode):
        """
        Going on has the same limit, and what was done before the error is kept.
        """
        store = Store()
        for round_ in (1, 2, 3):
            run = Script(loop(), mode, store=store, recursion_limit=3)
            run.play({"text": "x"} if round_ == 1 else None, {"a": note("a")})
            assert isinstance(run.outcome.error, GraphRecursionError)

            assert store.restored().values["log"] == ["a"] * (3 * round_)

    @pytest.mark.parametrize(("limit", "ends"), [(2, Failed), (3, Succeeded)])
    def test_a_run_that_ends_in_time_succeeds(self, limit, ends):
        """
        As many node supersteps as the limit are fine; one more is not.
        """
        plan = chain(State, "a", "b", "c")
        outcome = Script(plan, recursion_limit=limit).play({"text": "x"}, logging(plan))

        assert isinstance(outcome, ends)

    def test_a_fan_out_is_one_superstep(self):
        """
        The limit counts supersteps, however many tasks each has.
        """
        plan = graph(State, dict.fromkeys("ab", idle), [(START, "a")])
        nodes = {"a": lambda s: [Send("b", n) for n in range(50)], "b": note("b")}
        outcome = Script(plan, saver=False, recursion_limit=2).play({"text": "x"}, nodes)

        assert isinstance(outcome, Succeeded)
        assert len(outcome.values["log"]) == 50


def pauses(plan: Plan, mode: Durability, **breakpoints: Any) -> list[list[str]]:
    """Run to the end, going on after each pause; the log at each stop."""
    store, given, logs = Store(), {"text": "x"}, []
    for _ in range(10):
        run = Script(plan, mode, store=store, **breakpoints)
        outcome = run.play(given, logging(plan))
        logs.append(outcome.values.get("log", []))
        if isinstance(outcome, Succeeded):
            return logs
        assert isinstance(outcome, Interrupted)
        assert outcome.interrupts == ()
        given = None
    raise AssertionError(logs)


class TestBreakpoints:
    @pytest.mark.promise("S061", "S168", "S170", "L61", "L62")
    @pytest.mark.langgraph("F-F6")
    @MODES
    @pytest.mark.parametrize(
        ("breakpoints", "logs"),
        [
            ({"interrupt_before": ("b",)}, ["a", "abc"]),
            ({"interrupt_after": ("b",)}, ["ab", "abc"]),
            ({"interrupt_before": ("a",)}, ["", "abc"]),
            ({"interrupt_after": ("a",), "interrupt_before": ("b",)}, ["a", "abc"]),
            ({"interrupt_before": ("b", "c")}, ["a", "ab", "abc"]),
            ({"interrupt_before": ("*",)}, ["", "a", "ab", "abc"]),
            ({"interrupt_after": ("*",)}, ["a", "ab", "abc"]),
            ({"interrupt_after": ("*",), "interrupt_before": ("*",)}, ["", "a", "ab", "abc"]),
            ({"interrupt_after": ("c",)}, ["abc"]),
        ],
    )
    def test_a_run_stops_at_its_breakpoints_once_each(self, mode, breakpoints, logs):
        """
        A pause comes before or after the named nodes; two at one place are one pause, `*` means
        every visible node, and going on doesn't stop at the same place again.
        """
        assert pauses(chain(State, *"abc"), mode, **breakpoints) == [list(log) for log in logs]

    @pytest.mark.promise("S169", "L63")
    def test_a_pause_is_seen_and_leaves_no_question(self):
        """
        Readers of updates get an empty interrupt; the ledger gets none.
        """
        plan = chain(State, "a", "b")
        settings: dict[str, Any] = {"interrupt_before": ("b",), "modes": frozenset({"updates"})}
        run = Script(plan, SYNC, **settings)
        outcome = run.play({"text": "x"}, logging(plan))

        assert outcome == Interrupted({"text": "x", "log": ["a"]}, ())
        assert run.streamed("updates") == [{"a": {"log": ["a"]}}, {"__interrupt__": ()}]
        assert all(entry.index >= 0 for entry in run.store.ledger)
        assert run.store.restored().next == ("b",)

    @pytest.mark.promise("S058")
    def test_going_on_notes_the_versions_of_the_pause(self):
        """
        The versions seen by a pause are the state when the run goes on, and only then.
        """
        store, plan = Store(), chain(State, "a", "b")
        Script(plan, SYNC, store=store, interrupt_before=("b",)).play({"text": "x"}, logging(plan))
        paused = store.restored()
        Script(plan, SYNC, store=store).play(None, logging(plan))

        assert "__interrupt__" not in paused.seen
        assert store.restored().seen["__interrupt__"] == paused.versions

    def test_a_breakpoint_in_a_loop_stops_in_each_round(self):
        """
        A pause counts for the state it stopped at: new writes make the breakpoint hold again.
        """
        store, given = Store(), {"text": "x"}
        for done in range(4):
            run = Script(loop(), SYNC, store=store, interrupt_before=("a",))
            outcome = run.play(given, {"a": note("a")})
            given = None

            assert outcome == Interrupted({"text": "x", "log": ["a"] * done}, ())
