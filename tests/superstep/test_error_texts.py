"""Whole texts of errors: each one says which thing is wrong, and what to do about it."""

from typing import Any

import pytest

from actorgraph.errors import (
    ActorGraphError,
    AlreadyResumedError,
    AnsweredInterruptError,
    ConflictError,
    EmptyInputError,
    ErrorCode,
    GraphDrained,
    GraphRecursionError,
    InvalidConfigError,
    InvalidUpdateError,
    MissingNodeError,
    StepTimeoutError,
    UnknownInterruptError,
    UnknownTargetError,
)
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.superstep.limits import check_depth
from actorgraph.superstep.nesting import Nested, continues_stored
from actorgraph.superstep.results import branch_targets, writes_of
from actorgraph.superstep.tasks import view
from actorgraph.superstep.update import Updating, checked_updates, supersteps_of, update_writes
from actorgraph.values.commands import Command, Interrupt, Send, StateUpdate
from actorgraph.values.constants import ONE_AT_A_TIME, START
from actorgraph.values.ids import interrupt_id
from actorgraph.values.run import StepTimedOut, TaskInterrupted
from tests.superstep.script import Script, Store, chain, graph, idle, with_values
from tests.superstep.threads import PAIR, State, again, state_at, thread

GO_ON = "finished work is saved; ainvoke(None, config) goes on"
NOT_SAVED = "with a checkpointer it could go on from here"


def refused(kind: type[ActorGraphError], what: str, do: str) -> Any:
    """Expect an error of exactly this class with these texts."""

    def fits(error: ActorGraphError) -> bool:
        assert (type(error), error.what, error.do) == (kind, what, do)
        return True

    return pytest.RaisesExc(kind, check=fits)


class TestLimits:
    def test_too_many_supersteps(self):
        """
        The error of the recursion limit names the limit, the graph and the nodes that are due.
        """
        run = Script(chain(State, "a", "b"), saver=False, recursion_limit=1)
        run.play({"text": "x"}, {"a": lambda s: None})
        error = run.outcome.error

        assert type(error) is GraphRecursionError
        assert error.what == (
            "Recursion limit of 1 reached without hitting a stop condition; graph 'g' still has "
            "['b']"
        )
        advice = 'let some edge lead to END, or raise config["recursion_limit"]'
        assert error.do == f"{advice}; {NOT_SAVED}"
        assert error.code is ErrorCode.GRAPH_RECURSION_LIMIT

    def test_too_many_visits(self):
        """
        The error of the visit limit names the node, the graph and the limit.
        """
        plan = graph(State, {"a": idle}, [(START, "a"), ("a", "a")])
        run = Script(plan, saver=False, node_visit_limit=2)
        run.play({"text": "x"}, {"a": lambda s: None})
        error = run.outcome.error

        assert type(error) is GraphRecursionError
        assert error.what == (
            "node 'a' of graph 'g' has run in 2 supersteps, its limit, and is due again"
        )
        assert error.do == (
            f'let some edge lead out of its loop, or raise config["node_visit_limit"]; {NOT_SAVED}'
        )
        assert error.code is ErrorCode.GRAPH_RECURSION_LIMIT

    def test_a_superstep_that_takes_too_long(self):
        """
        The error of a step timeout names the superstep, the graph, the limit and the nodes.
        """
        run = Script(chain(State, "a"), saver=False, step_timeout_s=1.5)
        run.begin({"text": "x"})
        run.event(StepTimedOut(0))
        run.stop("a")
        error = run.outcome.error

        assert type(error) is StepTimeoutError
        assert error.what == (
            "superstep 1 of graph 'g' took longer than its step_timeout of 1.5 s; "
            "['a'] were running"
        )
        assert error.do == (
            f"raise graph.step_timeout, or give the slow node a timeout of its own; {NOT_SAVED}"
        )

    def test_a_drain(self):
        """
        The error of a drained run has the reason, and says how to go on.
        """
        run = Script(chain(State, "a"), saver=False)
        run.state.stopping = lambda: "deploy"
        run.begin({"text": "x"})
        error = run.outcome.error

        assert type(error) is GraphDrained
        assert (error.what, error.do, error.reason) == (
            "Graph drained: deploy",
            NOT_SAVED,
            "deploy",
        )

    def test_too_deep_a_nesting(self):
        """
        The error of the nesting limit names the graph, its depth and the limit.
        """
        with refused(
            GraphRecursionError,
            "graph 'g' would run 4 levels below its root run, more than the limit of 3",
            'let the recursion end, or raise config["nesting_limit"]',
        ) as caught:
            check_depth("g", 4, 3)

        assert caught.value.code is ErrorCode.GRAPH_RECURSION_LIMIT


class TestBeginning:
    @pytest.mark.parametrize("given", [None, Command()])
    def test_an_empty_thread(self, given):
        """
        A run without an input on a thread without a checkpoint names the thread.
        """
        with refused(
            EmptyInputError,
            "Received no input for thread 't', which has no checkpoint",
            "pass an input the first time; None goes on from a thread's newest checkpoint",
        ):
            Script(PAIR).begin(given)

    def test_an_empty_run_without_a_thread(self):
        """
        Without a thread the text names none.
        """
        run = Script(PAIR, saver=False)
        run.state.thread_id = ""
        with refused(
            EmptyInputError,
            "Received no input",
            "pass an input the first time; None goes on from a thread's newest checkpoint",
        ):
            run.begin(None)

    def test_a_command_for_a_parent_graph(self):
        """
        A caller's Command has no parent graph to go to.
        """
        with refused(
            UnknownInterruptError,
            "There is no parent graph: a Command with graph= can't be an input",
            "leave graph= out",
        ):
            Script(PAIR).begin(Command(graph=Command.PARENT, goto="a"))

    def test_an_input_of_another_form(self):
        """
        An input that isn't an update is shown, and the forms that are.
        """
        with refused(
            InvalidUpdateError,
            "Expected dict, got 3 as an input",
            "pass a dict of state keys, an object of the state's schema, or a Command",
        ) as caught:
            Script(PAIR).begin(3)

        assert caught.value.code is ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE

    def test_the_state_of_a_node_that_does_not_fit_its_schema(self):
        """
        The error names the node, the keys that there are and the schema.
        """

        def strict(text: str, log: int) -> None:
            del text, log

        with refused(
            InvalidUpdateError,
            "the state ['text'] can't be made into strict: "
            "TestBeginning.test_the_state_of_a_node_that_does_not_fit_its_schema.<locals>.strict() "
            "missing 1 required positional argument: 'log'",
            "give the schema's fields defaults and types that the state's values fit",
        ):
            view(PAIR, {"text": "x"}, ("text", "log"), strict)


class TestAnswers:
    def test_two_open_questions(self):
        """
        One answer for two questions names the thread and lists their ids.
        """
        store = thread("a", "b")
        ids = {e.writes[0][1][0].id for e in store.ledger if e.index == -3}
        with refused(
            UnknownInterruptError,
            "When there are multiple pending interrupts, you must specify the interrupt id when "
            "resuming; thread 't' has 2",
            "Command(resume={interrupt.id: answer, ...})",
        ) as caught:
            again(store, Command(resume="x"))

        assert caught.value.reason == "ambiguous"
        assert set(caught.value.pending_ids) == ids

    def test_no_open_question(self):
        """
        An answer where none is open names the thread.
        """
        store = Store()
        Script(chain(State, "a"), store=store).play({"text": "x"}, {"a": lambda s: None})
        with refused(
            AlreadyResumedError,
            "no question of thread 't' waits for this answer",
            "read get_state(config).interrupts to see what waits; None goes on without an answer",
        ):
            Script(chain(State, "a"), store=store).begin(Command(resume="x"))

    def test_a_later_question_of_a_task(self):
        """
        Of two questions asked at once the first is to be answered first.
        """
        run = Script(chain(State, "a"))
        run.begin({"text": "x"})
        run.saved()
        first, second = ask_twice(run)
        run.saved()
        with refused(
            UnknownInterruptError,
            "node 'a' asked several questions at once; a later one was answered, an earlier one "
            "was not",
            "answer them in their order, or all in one Command(resume={id: answer, ...})",
        ) as caught:
            Script(run.plan, store=run.store).begin(Command(resume={second: "x"}))

        assert first != second
        assert (caught.value.reason, caught.value.pending_ids) == ("", ())

    @pytest.mark.parametrize(
        ("resume", "what", "reason", "unknown"),
        [
            (
                {"f" * 32: 1, "e" * 32: 2},
                f"Unknown or already answered interrupt {'e' * 32} of thread 't'",
                "not_pending",
                ("e" * 32, "f" * 32),
            ),
            ({}, "The resume map names no interrupt", "empty_map", ()),
        ],
    )
    def test_under_strict_resume(self, resume, what, reason, unknown):
        """
        With `strict_resume` each id must be of an open question, and there must be one.
        """
        store = thread("b", finished=("a",))
        asked = next(e for e in store.ledger if e.index == -3).writes[0][1][0].id
        with refused(
            AnsweredInterruptError if unknown else UnknownInterruptError,
            what,
            "take the ids from get_state(config).interrupts; those in pending_ids still wait",
        ) as caught:
            Script(PAIR, store=store, strict_resume=True).begin(Command(resume=resume))

        assert (caught.value.reason, caught.value.interrupt_ids) == (reason, unknown)
        assert caught.value.pending_ids == (asked,)

    def test_a_strict_resume_that_names_an_open_question_is_taken(self):
        """
        With `strict_resume` an answer by the right id is an answer like any other.
        """
        store = thread("b", finished=("a",))
        asked = next(e for e in store.ledger if e.index == -3).writes[0][1][0].id
        run = Script(PAIR, store=store, strict_resume=True)
        run.begin(Command(resume={asked: "yes"}))
        run.saved()

        assert run.task("b").answers == ("yes",)

    def test_at_an_old_checkpoint(self):
        """
        A replay with ids of other checkpoints names the first id, and the ids that fit.
        """
        store = thread("b", finished=("a",))
        asked = next(e for e in store.ledger if e.index == -3).writes[0][1][0].id
        again(store, {"text": "new"})
        with refused(
            UnknownInterruptError,
            f"Unknown interrupt {'0' * 32} at this checkpoint of thread 't'",
            "take the ids from get_state(config) with the checkpoint's config",
        ) as caught:
            Script(PAIR, store=store).begin(Command(resume={"0" * 32: "x", "1" * 32: "y"}), at=1)

        error = caught.value
        assert (error.reason, error.pending_ids) == ("not_pending", (asked,))
        assert error.interrupt_ids == ("0" * 32, "1" * 32)


def ask_twice(run: Script) -> tuple[str, str]:
    """Its task `a` asks two questions at once; their ids."""
    task = run.running.pop(run.task("a").id)
    asked = [Interrupt(f"{n}?", interrupt_id(task.namespace, n)) for n in range(2)]
    run.event(TaskInterrupted(task.id, tuple(asked)))
    return asked[0].id, asked[1].id


class TestReturnValues:
    @pytest.mark.parametrize(
        ("returned", "kind", "what", "do"),
        [
            (
                3,
                InvalidUpdateError,
                "Expected dict, got 3 from node 'a'",
                "return a dict of state keys, a Command, a Send, a list of these, or None",
            ),
            (
                Command(graph="other"),
                InvalidUpdateError,
                (
                    "node 'a' returned a Command with graph='other', but its graph is not the "
                    "subgraph of another one"
                ),
                "leave graph= out; graph=Command.PARENT is for nodes of subgraphs",
            ),
            (
                Send("__end__", 1),
                InvalidUpdateError,
                "Cannot send a packet to the END node (from node 'a')",
                "return END from the edge, or leave the Send out",
            ),
            (
                Send("b", 1, timeout=3),
                InvalidUpdateError,
                (
                    "node 'a' sends to 'b' with a timeout, but that is a sync function and a "
                    "thread can't be stopped"
                ),
                "make the node `async def`, or leave out the Send's timeout",
            ),
            (
                Send("bb", 1),
                UnknownTargetError,
                "node 'a' goes to 'bb', which is not a node of graph 'g'",
                "did you mean 'b'?",
            ),
            (
                Command(goto="xyz"),
                UnknownTargetError,
                "node 'a' goes to 'xyz', which is not a node of graph 'g'",
                "the choices are 'a', 'b', 'c', END",
            ),
        ],
    )
    def test_a_wrong_one_is_refused(self, returned, kind, what, do):
        """
        The error names the node and the value, and the values that are right.
        """
        with refused(kind, what, do):
            writes_of(PAIR, PAIR.nodes["a"], returned)

    def test_an_unknown_key_under_strict(self):
        """
        A strict graph refuses an unknown key of a node with the nearest known one.
        """
        plan = graph(State, {"a": idle}, [(START, "a")], strict=True)
        with refused(
            InvalidUpdateError,
            "node 'a' returned 'txet', which is not a channel of this graph (did you mean 'text'?)",
            "give only known keys, or leave strict=True out",
        ):
            writes_of(plan, plan.nodes["a"], {"txet": 1})

    def test_an_unknown_key_of_an_input(self):
        """
        An input's unknown key is dropped with a sentence about the input.
        """
        run = Script(PAIR, saver=False)
        run.begin({"text": "x", "logs": 1})

        assert run.state.dropped == [
            "the input has 'logs', which is not a channel of this graph (did you mean 'log'?)"
        ]

    def test_questions_of_a_langgraph_graph(self):
        """
        Interrupts that LangGraph returned would be lost, so the node that returns them fails.
        """
        types = pytest.importorskip("langgraph.types", reason="needs LangGraph")
        with refused(
            InvalidUpdateError,
            "node 'a' returned an interrupt of a LangGraph graph: 'why?'. It would be lost, and "
            "the run would go on without an answer",
            "add that graph itself as a node, so that the run asks its questions; or ask with "
            "actorgraph's interrupt() and resume the graph in the node",
        ):
            writes_of(
                PAIR, PAIR.nodes["a"], {"__interrupt__": [types.Interrupt(value="why?", id="1")]}
            )


class TestBranches:
    @pytest.mark.parametrize(
        ("returned", "ends", "what", "do"),
        [
            (
                None,
                None,
                "router 'path' of node 'a' did not return a valid destination: None",
                "return a node's name, END, a Send, or a list of these",
            ),
            (
                "bb",
                None,
                "router 'path' of node 'a' goes to 'bb', which is not a node of graph 'g'",
                "did you mean 'b'?",
            ),
            (
                "yess",
                {"yes": "b"},
                "router 'path' of node 'a' returned 'yess', which is not in its path map",
                "did you mean 'yes'?",
            ),
        ],
    )
    def test_a_wrong_answer_is_refused(self, returned, ends, what, do):
        """
        The error names the branch, its node and the answer.
        """

        def path(state: State) -> Any:
            return None

        builder = GraphBuilder(State)
        for name in "ab":
            builder.add_node(name, idle)
        builder.add_edge(START, "a").add_conditional_edges("a", path, ends)
        plan = make_plan(builder, name="g")
        with refused(UnknownTargetError, what, do):
            branch_targets(plan, "a", plan.nodes["a"].branches[0], returned)


class TestUpdates:
    @pytest.mark.parametrize(
        ("updates", "kind", "what", "do"),
        [
            (
                [StateUpdate({}, "a"), StateUpdate(None, "__end__")],
                InvalidUpdateError,
                "as_node='__end__' can't be one of several updates of a superstep",
                "give it a superstep of its own",
            ),
            (
                [StateUpdate({}, "a"), StateUpdate({})],
                InvalidUpdateError,
                "as_node is required when several updates are applied in one superstep",
                "StateUpdate(values, as_node=...) for each of them",
            ),
            (
                [StateUpdate({})],
                InvalidUpdateError,
                "Ambiguous update, specify as_node: not exactly one node wrote the checkpoint",
                "pass as_node=, or leave strict= out to keep the pending tasks",
            ),
            (
                [StateUpdate({}, "a", "nonsense")],
                InvalidUpdateError,
                "task_id must be the id of a task, got 'nonsense'",
                "take it from get_state(config).tasks[i].id, or leave it out",
            ),
            (
                [StateUpdate({}, "aa")],
                MissingNodeError,
                "Node aa does not exist in graph 'g'",
                "did you mean 'a'?",
            ),
            (
                [StateUpdate({}, "xyz")],
                MissingNodeError,
                "Node xyz does not exist in graph 'g'",
                "the choices are 'a', 'b', 'c'",
            ),
        ],
    )
    def test_whose_author_is_wrong(self, updates, kind, what, do):
        """
        The error names the author that an update was given, or that it lacks.
        """
        with refused(kind, what, do):
            checked_updates(state_at(thread("b")), updates, strict=True)

    @pytest.mark.parametrize(
        ("node", "values", "what", "do"),
        [
            (
                "a",
                {"txet": 1},
                (
                    "the update has 'txet', which is not a channel of this graph "
                    "(did you mean 'text'?)"
                ),
                "update known keys only; nothing was written",
            ),
            (
                None,
                {"text": "x", "txet": 1},
                "the update has 'txet', which is not a channel of this graph",
                "did you mean 'text'?",
            ),
        ],
    )
    def test_with_an_unknown_key(self, node, values, what, do):
        """
        The error names the key, and nothing is written.
        """
        with refused(InvalidUpdateError, what, do):
            update_writes(PAIR, PAIR.nodes[node] if node else None, values)

    def test_an_input_of_nothing(self):
        """
        An update as `__input__` needs values.
        """
        with refused(InvalidUpdateError, "Received no input writes", "pass an input as the values"):
            Updating(state_at(thread()), {}).as_input(None)

    @pytest.mark.parametrize(
        ("given", "what", "do"),
        [
            (
                [],
                "No supersteps provided",
                "pass at least one update: [[StateUpdate(values, as_node=...)]]",
            ),
            (
                [[]],
                "No updates provided in a superstep",
                "pass at least one update: [[StateUpdate(values, as_node=...)]]",
            ),
            (
                [[3]],
                "Expected an update, got 3",
                "use StateUpdate(values, as_node) or (values, as_node)",
            ),
            (
                [[(1, 2, 3, 4)]],
                "Expected an update, got (1, 2, 3, 4)",
                "use StateUpdate(values, as_node) or (values, as_node)",
            ),
        ],
    )
    def test_of_another_form(self, given, what, do):
        """
        The error says which part of the argument has another form.
        """
        with refused(InvalidConfigError, what, do):
            supersteps_of(given)


def test_a_stateful_subgraph_in_two_tasks_at_once():
    """
    The error names the subgraph's namespace and says how to run one at a time.
    """
    nested = Nested({"": "1"}, {}, stateful=True, task="mine")
    metadata = {"parents": {"": "1"}, "langgraph_task_id": "other"}
    restored = with_values(thread("b"), namespace="n", metadata=metadata, next=("a",))
    with refused(
        ConflictError,
        "stateful subgraph 'n' is in use: another task of the same superstep has not finished "
        "with it",
        ONE_AT_A_TIME,
    ):
        continues_stored(nested, restored)
