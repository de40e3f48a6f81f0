"""Tasks compared whole: ids, paths and inputs, of nodes, Sends, calls and steps."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.channels import EMPTY, DeltaChannel, LastValueAfterFinish
from actorgraph.errors import InvalidUpdateError, UnknownInterruptError
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.plan.schema import IsLastStep, RemainingSteps
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.begin import restore
from actorgraph.superstep.calls import shown_path, step_id, step_path
from actorgraph.superstep.replay import given_answers
from actorgraph.superstep.results import copied, stamped
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.tasks import as_shown, due_tasks, input_of, next_nodes, view
from actorgraph.values.commands import Command, Interrupt, Send, mark_invalid_resume
from actorgraph.values.constants import CALL, PULL, PUSH, START, TASKS
from actorgraph.values.ids import TaskId, interrupt_id, task_id
from actorgraph.values.policies import RunPolicy, TimeoutPolicy
from actorgraph.values.run import (
    AnswerCall,
    LedgerEntry,
    Save,
    StepKept,
    Task,
    TaskInterrupted,
    TaskResult,
    TaskSucceeded,
)
from tests.superstep.programs import Program
from tests.superstep.script import Script, Store, chain, graph, idle, only, rows
from tests.superstep.threads import EXIT, PAIR, State, again, thread


async def waits(state: Any) -> None:
    """An async node: only such a one may have a timeout."""


LIMIT, OTHER = TimeoutPolicy(run_timeout=3.0), TimeoutPolicy(run_timeout=5.0)


class TestDueTasks:
    def state(self, send_round: int = 0) -> RunState:
        """A state in which `a` is due, and two Sends to `b`."""
        builder = GraphBuilder(State).add_node("a", waits, timeout=LIMIT)
        builder.add_node("b", waits, timeout=LIMIT).add_edge(START, "a")
        state = RunState(make_plan(builder, name="g"), RunPolicy(), Store().mint, has_saver=True)
        state.namespace, state.send_round = "n:1", send_round
        state.values |= {"branch:to:a": None, TASKS: [Send("b", 1), Send("b", 2, timeout=5)]}
        state.values[TASKS].append(Send("gone", 3))
        state.versions["branch:to:a"] = 1
        return state

    @pytest.mark.parametrize(("send_round", "more"), [(0, ()), (2, ("round 2",))])
    def test_are_made_of_the_checkpoint_and_their_places(self, send_round, more):
        """
        A Send's place is its number and its round, a node's the triggers; a Send to a node that
        is gone is left out.
        """
        state = self.state(send_round)
        base = state.checkpoint

        def sent(number: int, arg: int, limit: TimeoutPolicy) -> Task:
            identifier = task_id(base, "n:1", "b", PUSH, str(number), *more)
            path = (PUSH, number)
            return Task(identifier, "b", path, (PUSH,), arg, timeout=limit, within="n:1")

        a = task_id(base, "n:1", "a", PULL, "branch:to:a")
        assert due_tasks(state, None) == [
            sent(0, 1, LIMIT),
            sent(1, 2, OTHER),
            Task(a, "a", (PULL, "a"), ("branch:to:a",), None, timeout=LIMIT, within="n:1"),
        ]

    def test_are_those_that_have_not_seen_their_triggers(self):
        """
        A node that has seen a trigger's version is not due by it.
        """
        state = self.state()
        state.values[TASKS] = []
        state.seen["a"] = {"branch:to:a": 1}
        assert due_tasks(state, None) == []
        state.versions["branch:to:a"] = 2
        assert [task.name for task in due_tasks(state, None)] == ["a"]
        assert [task.name for task in due_tasks(state, {"branch:to:a", "text"})] == ["a"]
        assert due_tasks(state, {"text"}) == []

    def test_a_trigger_is_available_as_readers_see_it(self):
        """
        A cell whose value readers do not see yet makes no node due.
        """
        plan = graph(State, {"a": idle}, [])
        rule = LastValueAfterFinish(int)
        channels = {**plan.channels, "branch:to:a": rule}
        object.__setattr__(plan, "channels", channels)
        object.__setattr__(plan, "opaque", frozenset({"branch:to:a"}))
        state = RunState(plan, RunPolicy(), Store().mint, has_saver=True)
        state.versions["branch:to:a"] = 1
        value = rule.fold("branch:to:a", EMPTY, [7])
        state.values["branch:to:a"] = value
        assert due_tasks(state, None) == []
        state.values["branch:to:a"] = rule.finish(value)
        assert [task.name for task in due_tasks(state, None)] == ["a"]

    def test_are_shown_with_sends_first(self):
        """
        Then nodes as the graph defines them; none for none, one for one.
        """
        state = self.state()
        tasks = due_tasks(state, None)

        assert [t.name for t in as_shown(state.plan, reversed(tasks))] == ["b", "b", "a"]
        assert next_nodes(state.plan, tasks) == ("b", "b", "a")
        assert next_nodes(state.plan, tasks[2:]) == ("a",)
        assert next_nodes(state.plan, []) == ()


class Counted(TypedDict, total=False):
    text: str
    last: IsLastStep
    left: RemainingSteps


class TestInputs:
    def test_have_the_managed_values(self):
        """
        A node sees how many supersteps are left; the state itself has no such key.
        """
        run = Script(chain(Counted, "a", "b"), saver=False, recursion_limit=3)
        run.begin({"text": "x"})
        run.finish("a", text="y")
        given = [value for _, value in run.given]

        assert [(v["left"], v["last"]) for v in given] == [(2, False), (1, True)]
        assert "left" not in run.state.values

    def test_that_do_not_fit_the_nodes_schema_name_the_node(self):
        """
        The error of the schema is raised with the node's name and the same advice.
        """

        def strict(text: str) -> None:
            del text

        plan = chain(State, "a")
        object.__setattr__(plan.nodes["a"], "coerce", strict)
        run = Script(plan, saver=False)
        run.begin({"log": []})
        error = run.outcome.error

        assert type(error) is InvalidUpdateError
        assert error.what.startswith("node 'a': the state ['log'] can't be made into strict: ")
        assert error.do == (
            "give the schema's fields defaults and types that the state's values fit"
        )

    @pytest.mark.parametrize("key", ["__root__", START])
    def test_of_one_bare_channel_are_its_value(self, key):
        """
        None where it has none; any other single key is in a dict.
        """
        assert view(PAIR, {key: 7}, (key,), None) == 7
        assert view(PAIR, {}, (key,), None) is None
        assert view(PAIR, {"text": 7}, ("text",), None) == {"text": 7}
        assert view(PAIR, {key: 7, "text": 1}, (key, "text"), None) == {key: 7, "text": 1}

    def test_of_a_handler_are_those_of_the_failed_node(self):
        """
        The path names the node whose view of the state it is.
        """
        state = RunState(PAIR, RunPolicy(), Store().mint, has_saver=True)
        state.values["text"] = "x"
        task = Task(TaskId("1"), "__error_handler__a", (PULL, "a", "mark", False), (), None)

        assert input_of(state, task) == {"text": "x", "log": []}


class TestCalls:
    def test_are_shown_as_langgraph_shows_them(self):
        """
        A call's path is its caller's path, its number and True; other paths are as they are.
        """
        caller = (PULL, "a")
        outer = (PUSH, *caller, 2, "f", CALL)
        inner = (PUSH, *outer, 3, "g", CALL)

        assert shown_path(caller) == caller
        assert shown_path(outer) == (PUSH, caller, 2, True)
        assert shown_path(inner) == (PUSH, (PUSH, caller, 2, True), 3, True)

    def test_start_with_their_own_input(self):
        """
        The arguments of the call are its input.
        """
        run = Program("a").begun()
        task, (effect,) = run.call(run.task("a"), "f")

        assert (effect.task, effect.given) == (task, ((), {}))  # type: ignore[union-attr]

    @pytest.mark.parametrize("took_unaddressed", [True, False])
    def test_keep_the_answers_that_they_have_used(self, took_unaddressed):
        """
        The row of the result is followed by those of its answers, if it asked or returned.
        """
        run = Program("a").begun()
        run.state.unaddressed_answer = ["bare"]
        call = run.called(run.task("a"), "f")
        run.running.pop(call.id)
        result = TaskResult(
            call.id, (("__return__", 1),), ("bare",), took_unaddressed=took_unaddressed
        )
        (save,) = only(Save, run.event(TaskSucceeded(result)))
        other = run.called(run.task("a"), "g")
        run.running.pop(other.id)
        run.state.unaddressed_answer = ["bare"]
        asked = Interrupt("?", interrupt_id(other.namespace, 1))
        event = TaskInterrupted(other.id, (asked,), ("bare",), took_unaddressed=took_unaddressed)
        (second,) = only(Save, run.event(event))

        bare = [((), -4, [])] if took_unaddressed else []
        used = [(e.path, e.index, e.writes[0][1]) for e in save.ledger[1:]]
        assert used == [(call.path, -4, ["bare"]), *bare]
        used = [(e.path, e.index, e.writes[0][1]) for e in second.ledger]
        assert used == [(other.path, -4, ["bare"]), *bare]

    def test_a_question_that_its_caller_did_not_wait_for_keeps_the_callers_answers(self):
        """
        The caller's own end becomes a pause with the answers that it has used.
        """
        run = Program("a").begun()
        run.state.unaddressed_answer = ["bare"]
        caller = run.task("a")
        call = run.called(caller, "f")
        run.asks(call, "why?")
        run.running.pop(caller.id)
        result = TaskResult(caller.id, (), ("bare",), took_unaddressed=True)
        run.event(TaskSucceeded(result))
        run.saved()

        found = [(e.path, e.index) for s in run.sent for e in s.ledger if e.index < 0]
        assert found == [(caller.path, -4), ((), -4), (caller.path, -3)]


class TestSteps:
    def test_are_rows_of_their_task(self):
        """
        The id and the path are made of the task's and of the key.
        """
        run = Script(chain(State, "a"))
        run.begin({"text": "x"})
        run.saved()
        task = run.task("a")
        (save,) = only(Save, run.event(StepKept(task, "k", 3)))
        identifier = task_id(b"", "step", task.id, "k")
        path = (PUSH, PULL, "a", "step k", CALL)

        assert (step_id(task, "k"), step_path(task, "k")) == (identifier, path)
        assert save.ledger == (
            LedgerEntry(run.state.checkpoint, identifier, path, 0, 0, (("__return__", 3),)),
        )

    @pytest.mark.parametrize("leaving", [True, False])
    @pytest.mark.parametrize("saver", [True, False])
    def test_that_are_not_saved_at_once_are_answered_at_once(self, leaving, saver):
        """
        In exit mode, without a saver, and while the run leaves.
        """
        run = Script(chain(State, "a"), EXIT, saver=saver)
        run.begin({"text": "x"})
        run.saved()
        task = run.task("a")
        if leaving:
            run.cancel()

        assert run.event(StepKept(task, "k", 3))[:1] == [AnswerCall(step_id(task, "k"), 3)]
        assert len(run.state.unflushed) == saver


class TestRefusedAnswers:
    def test_of_a_subgraphs_question_are_taken_back_by_id(self):
        """
        The row that routed the answer is replaced by one without it; the question waits.
        """
        store, question = routed_question()
        run = again(store, Command(resume={question.id: "bad"}))
        task = run.task("b")
        assert task.routed == {question.id: "bad"}
        error = ValueError("no fit")
        mark_invalid_resume(error, question)
        run.fail("b", error)
        run.saved()
        taken, asked = run.sent[-1].ledger

        assert (taken.path, taken.index, taken.generation) == (task.path, -5, 3)
        assert taken.writes == (("__routed__", {question.id: None}),)
        assert (asked.index, asked.writes[0][1]) == (-3, [question])
        assert again(store, Command(resume="good")).task("b").routed == {question.id: "good"}

    def test_are_shown_to_readers_as_open_questions(self):
        """
        Readers of updates and of tasks see the question again.
        """
        store = thread("b", finished=("a",))
        question = next(e for e in store.ledger if e.index == -3).writes[0][1][0]
        run = Script(PAIR, store=store, modes=frozenset({"updates", "tasks"}))
        run.begin(Command(resume="bad"))
        run.saved()
        error = ValueError("no fit")
        mark_invalid_resume(error, question)
        run.fail("b", error)
        run.saved()

        assert run.streamed("updates")[-1] == {"__interrupt__": (question,)}
        shown = [{"value": question.value, "id": question.id, "response_schema": None}]
        assert run.streamed("tasks")[-1]["interrupts"] == shown


def routed_question() -> tuple[Store, Interrupt]:
    """A thread on which b's subgraph asks; its question."""
    run = Script(PAIR)
    run.begin({"text": "x"})
    run.saved()
    run.finish("a", log=["a"])
    question = Interrupt("below?", "9" * 32)
    run.event(TaskInterrupted(run.running.pop(run.task("b").id).id, (question,)))
    run.saved()
    return run.store, question


class TestReplayedQuestions:
    def test_one_of_a_subgraph_gets_its_answer_without_an_id(self):
        """
        On a branch the subgraph's task has another id, so its first question takes the answer.
        """
        store, question = routed_question()
        again(store, {"text": "new"})
        run = Script(PAIR, store=store)
        (save,) = only(Save, run.begin(Command(resume={question.id: "yes"}), at=1))

        assert run.state.unaddressed_answer == ["yes"]
        assert rows(save) == [("", -4)]
        assert save.ledger[0].writes == (("__resume__", ["yes"]),)

    def test_of_a_subgraph_and_another_task_can_not_be_answered_at_once(self):
        """
        An answer without an id would go to whichever asks first.
        """
        run = Script(PAIR)
        run.begin({"text": "x"})
        run.saved()
        question = Interrupt("below?", "9" * 32)
        run.event(TaskInterrupted(run.running.pop(run.task("a").id).id, (question,)))
        run.ask("b", "b?")
        run.saved()
        own = next(i for i in run.outcome.interrupts if i.value == "b?")
        store = run.store
        again(store, {"text": "new"})
        resume = {question.id: 1, own.id: 2}
        with pytest.raises(UnknownInterruptError, match="multiple pending") as refused:
            Script(PAIR, store=store).begin(Command(resume=resume), at=1)

        assert refused.value.pending_ids == (question.id, own.id)

    def test_of_two_subgraphs_can_not_be_answered_at_once(self):
        """
        Nor can two questions of subgraphs.
        """
        run = Script(PAIR)
        run.begin({"text": "x"})
        run.saved()
        asked = [Interrupt("below?", digit * 32) for digit in "89"]
        for name, question in zip("ab", asked, strict=True):
            run.event(TaskInterrupted(run.running.pop(run.task(name).id).id, (question,)))
        run.saved()
        again(run.store, {"text": "new"})
        resume = {question.id: 1 for question in asked}
        with pytest.raises(UnknownInterruptError, match="multiple pending"):
            Script(PAIR, store=run.store).begin(Command(resume=resume), at=1)

    def several(self) -> tuple[Store, list[str]]:
        """A thread on which `b` asked three questions at once; their ids."""
        run = Script(PAIR)
        run.begin({"text": "x"})
        run.saved()
        run.fail("a", ValueError("no"))
        task = run.running.pop(run.task("b").id)
        asked = [Interrupt(f"{n}?", interrupt_id(task.namespace, n)) for n in range(3)]
        run.event(TaskInterrupted(task.id, tuple(asked)))
        run.saved()
        again(run.store, {"text": "new"})
        return run.store, [question.id for question in asked]

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 0), (0,)])
    def test_of_one_task_get_their_answers_in_their_order(self, order):
        """
        In whichever order the answers are given, each reaches its own question.
        """
        store, ids = self.several()
        run = Script(PAIR, store=store)
        run.begin(Command(resume={ids[n]: n for n in order}), at=1)
        run.saved()

        assert run.task("b").answers == tuple(sorted(order))

    @pytest.mark.parametrize("order", [(1,), (2, 0)])
    def test_of_one_task_can_not_be_skipped(self, order):
        """
        The error names the node.
        """
        store, ids = self.several()
        with pytest.raises(UnknownInterruptError, match="node 'b' asked several") as refused:
            Script(PAIR, store=store).begin(Command(resume={ids[n]: n for n in order}), at=1)

        assert refused.value.do.startswith("answer them in their order")

    @pytest.mark.parametrize("resume", [{"no id": 1}, {"0" * 32: 1, "no id": 2}, ["x"], "0" * 32])
    def test_take_any_value_without_ids(self, resume):
        """
        A dict with other keys, a list and a text are one answer.
        """
        store = thread("b", finished=("a",))
        again(store, {"text": "new"})
        run = Script(PAIR, store=store)
        run.begin(Command(resume=resume), at=1)
        run.saved()

        assert run.task("b").answers == (resume,)

    def test_are_found_behind_tasks_that_have_not_asked(self):
        """
        A task without rows does not hide the questions of those behind it.
        """
        run = Script(PAIR)
        run.begin({"text": "x"})
        run.saved()
        run.ask("b", "b?")
        run.cancel()
        run.stop("a")
        run.saved()
        again(run.store, {"text": "new"})
        restored = run.store.restored(1)
        assert restored is not None
        state = RunState(PAIR, RunPolicy(), run.store.mint, has_saver=True)
        restore(state, restored)
        (answer,) = given_answers(state, restored, "yes").own.items()

        assert answer == (("b", (PULL, "b")), ("yes",))


class TestLeftOverRows:
    def test_of_tasks_that_are_gone_make_delta_channels_whole(self):
        """
        The superstep's ledger has writes that are not part of it: the next checkpoint stores
        the value instead.
        """

        def extend(old: list[str], new: list[list[str]]) -> list[str]:
            return [*old, *(item for write in new for item in write)]

        class Delta(TypedDict, total=False):
            log: Annotated[list[str], DeltaChannel(extend)]
            other: Annotated[list[str], operator.add]

        plan = graph(Delta, dict.fromkeys("ab", idle), [(START, "a"), (START, "b")])
        first = Script(plan)
        first.begin({"log": ["0"]})
        first.saved()
        first.finish("b", log=["b"])
        first.fail("a", ValueError("no"))
        first.saved()
        less = graph(Delta, {"a": idle}, [(START, "a")])
        run = Script(less, store=first.store)
        run.begin(None)
        assert run.state.whole == {"log"}
        run.saved()
        run.finish("a", log=["a"])
        run.saved()

        assert "log" in list(run.store.points.values())[-1].changed

    def test_of_an_answered_task_keep_its_answers(self):
        """
        A finished task that is handed back has the answers that it used.
        """
        store = thread()
        run = again(store, None)
        task = run.running.pop(run.task("a").id)
        run.event(TaskSucceeded(TaskResult(task.id, (("log", ["a"]),), ("x",))))
        run.cancel()
        run.stop("b")
        run.saved()
        later = again(store, None)

        assert later.state.results[task.id] == TaskResult(task.id, (("log", ["a"]),), ("x",))
        restored = store.restored()
        assert restored is not None
        assert pending.attempts(restored.ledger)[task.id].answers == ("x",)


def test_stamps_count_all_writes_of_a_task():
    """
    The seed has the place among all writes, also those without a stamp.
    """
    plan = chain(State, "a")
    assert stamped(plan, iter([("log", 1)]), "s") == [("log", 1)]
    object.__setattr__(plan, "stamps", {"log": lambda value, seed: (value, seed)})

    assert stamped(plan, [("text", "x"), ("log", 1), ("log", 2)], "s") == [
        ("text", "x"),
        ("log", (1, "s:1")),
        ("log", (2, "s:2")),
    ]


@pytest.mark.parametrize("value", [["x"], {"x": 1}, {"x"}])
def test_values_that_a_reducer_could_change_are_copied(value):
    """
    Lists, dicts and sets; others are returned as they are.
    """
    assert copied(value) == value
    assert copied(value) is not value
    assert copied(thing := (1,)) is thing
