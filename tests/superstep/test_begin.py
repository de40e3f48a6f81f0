"""How a run begins: an input, None, a Command; on an empty, a finished or a waiting thread."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.errors import (
    AlreadyResumed,
    EmptyInputError,
    InvalidUpdateError,
    UnknownInterruptError,
    UnknownTargetError,
)
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import START
from actorgraph.values.policies import Durability
from actorgraph.values.run import Save, Succeeded
from tests.superstep.script import Script, Store, chain, graph, idle, kinds, only, rows, with_values

SYNC, ASYNC, EXIT = Durability
MODES = pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])


class State(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


EDGES: list[Any] = [(START, "a"), (START, "b"), (["a", "b"], "c")]
PLAN = graph(State, dict.fromkeys("abc", idle), EDGES)


def thread(*asking: str, mode: Durability = SYNC, finished: tuple[str, ...] = ()) -> Store:
    """A thread on which some of a and b wait for answers, some have finished, the rest failed."""
    run = Script(PLAN, mode)
    run.begin({"text": "x"})
    run.saved()
    for name in finished:
        run.finish(name, log=[name])
    for name in asking:
        run.ask(name, f"{name}?")
    for name in list(run.names):
        run.fail(name, ValueError("no"))
    run.saved()
    return run.store


def again(store: Store, given: Any, mode: Durability = SYNC) -> Script:
    """A next run on the thread, its claim acknowledged."""
    run = Script(PLAN, mode, store=store)
    run.begin(given)
    run.saved()
    return run


class TestInput:
    @MODES
    def test_a_second_input_goes_on_from_the_threads_state(self, mode):
        """
        Reducers keep what is there, the step counts on, the parent is the head.
        Promise: S009, L13.
        """
        store = Store()
        plan = chain(State, "a")
        for text in "xy":
            run = Script(plan, mode, store=store)
            run.play({"text": text}, {"a": lambda s: {"log": [s["text"]]}})

        assert run.outcome == Succeeded({"text": "y", "log": ["x", "y"]})
        steps = [p.step for p in store.points.values()]
        assert steps == ([1, 4] if mode is EXIT else [-1, 0, 1, 2, 3, 4])

    @MODES
    def test_a_new_input_discards_pending_tasks(self, mode):
        """
        On a waiting thread an input begins anew: a's finished writes and b's question are gone,
        and both run again. Promise: L50.
        """
        store = thread("b", mode=mode, finished=("a",))
        run = again(store, {"text": "new"}, mode)

        assert run.names == ["a", "b"]
        assert run.state.values["text"] == "new"
        assert run.state.values.get("log", []) == []
        assert all(task.answers == () for task in run.running.values())

    def test_a_new_input_discards_pending_sends(self):
        """
        Sends that had not run are discarded with the rest. Promise: L50.
        """
        plan = graph(State, dict.fromkeys("ab", idle), [(START, "a")])
        first = Script(plan, SYNC)
        first.begin({"text": "x"})
        first.saved()
        first.finish("a", [Send("b", 1)])
        first.saved()
        first.cancel()
        first.stop("b")
        first.saved()
        run = Script(plan, SYNC, store=first.store)
        run.begin({"text": "y"})
        run.saved()

        assert run.names == ["a"]

    def test_a_new_input_discards_a_join_that_had_opened(self):
        """
        A node that was due because all had come waits for all of them anew. Promise: L50.
        """
        first = again(thread(finished=("a", "b")), None)
        assert first.names == ["c"]
        run = again(first.store, {"text": "new"})
        assert run.names == ["a", "b"]
        for name in ("a", "b"):
            run.finish(name, log=[name])
            run.saved()

        assert run.names == ["c"]
        assert run.state.values["log"] == ["a", "b", "a", "b"]

    @pytest.mark.parametrize("given", [3, "text", ["text"], object()])
    def test_an_input_that_is_no_update_is_refused_before_anything_changes(self, given):
        """
        A wrong input raises at once: nothing is saved and no node runs.
        """
        run = Script(chain(State, "a"), SYNC)
        with pytest.raises(InvalidUpdateError, match="Expected dict, got"):
            run.begin(given)

        assert (run.state.sent, run.state.versions) == (0, {})

    @pytest.mark.parametrize("mode", [SYNC, EXIT])
    def test_a_branch_at_start_runs_as_a_task(self, mode):
        """
        When START has a branch its input checkpoint is saved first, because user code runs next.
        """
        builder = GraphBuilder(State).add_node("a", idle)
        builder.set_conditional_entry_point(lambda state: "a")
        run = Script(make_plan(builder, name="g"), mode)
        (save,) = only(Save, run.begin({"text": "x"}))
        assert [p.step for p in save.checkpoints] == ([] if mode is EXIT else [-1])

        run.saved()
        assert run.names == [START]
        run.finish(START, {"text": "x"})
        run.saved()
        assert run.names == ["a"]


class TestNone:
    def test_an_empty_thread_has_nothing_to_go_on_with(self):
        """
        None on a thread without a checkpoint is an error that asks for an input. Promise: L49.
        """
        with pytest.raises(EmptyInputError, match="'t', which has no checkpoint") as refused:
            Script(PLAN, SYNC).begin(None)

        assert "pass an input" in refused.value.do

    @MODES
    def test_a_finished_thread_gives_its_values_and_writes_nothing(self, mode):
        """
        None on a finished thread returns the state at once. Promise: L49.
        """
        store = Store()
        Script(chain(State, "a"), mode, store=store).play({"text": "x"}, {"a": lambda s: None})
        run = Script(chain(State, "a"), mode, store=store)

        assert kinds(run.begin(None)) == ["Finish"]
        assert run.outcome == Succeeded({"text": "x", "log": []})

    @MODES
    def test_finished_tasks_are_handed_back(self, mode):
        """
        Only what has not finished runs, and its siblings' writes are applied once.
        Promise: S174, S072, C10.
        """
        store = thread(mode=mode, finished=("a",))
        run = again(store, None, mode)
        assert run.names == ["b"]
        run.finish("b", log=["b"])
        run.saved()

        assert run.names == ["c"]
        assert run.state.values["log"] == ["a", "b"]

    @MODES
    def test_a_superstep_that_only_misses_its_checkpoint_is_closed(self, mode):
        """
        When every task of the superstep is in the ledger, no node of it runs again.
        """
        run = Script(PLAN, SYNC)
        run.begin({"text": "x"})
        run.saved()
        store = run.store
        run.finish("a", log=["a"])
        run.finish("b", log=["b"])
        for save in run.sent[1:]:  # the crash took the checkpoint; both rows are there
            store.ledger.extend(save.ledger)
        more = again(store, None, mode)
        more.saved()

        assert more.names == ["c"]
        assert more.state.values["log"] == ["a", "b"]

    @pytest.mark.parametrize("mode", [SYNC, EXIT])
    def test_an_input_that_died_with_its_run_is_taken_up(self, mode):
        """
        In exit mode a killed run leaves its claim with the input, and None starts with it.
        Promise: C8.
        """
        store = thread(finished=("a", "b"))
        dead = Script(PLAN, EXIT, store=store)
        dead.begin({"text": "accepted"})
        dead.saved()
        run = again(store, None, mode)

        assert run.names == ["a", "b"]
        assert run.state.values["text"] == "accepted"


class TestCommand:
    @MODES
    def test_a_bare_answer_goes_to_the_one_that_waits(self, mode):
        """
        The task that asked runs again with the answer; its finished sibling doesn't.
        """
        store = thread("b", mode=mode, finished=("a",))
        (save, *_) = (run := again(store, Command(resume="yes"), mode)).sent

        assert run.names == ["b"]
        assert run.task("b").answers == ("yes",)
        assert rows(save) == [("b", -4)]
        assert save.claim is not None
        assert len(save.claim.resumes) == 1

    @pytest.mark.parametrize("answer", [False, 0, "", [], {"a": 1}])
    def test_any_answer_but_none_counts(self, answer):
        """
        False, 0 and the empty text are answers, a dict that has no interrupt ids too. Promise: L58.
        """
        run = again(thread("b", finished=("a",)), Command(resume=answer))

        assert run.task("b").answers == (answer,)

    def test_answers_by_id_go_to_their_questions(self):
        """
        A dict of interrupt ids answers several at once. Promise: L55.
        """
        store = thread("a", "b")
        asked = {e.path[-1]: e.writes[0][1][0] for e in store.ledger if e.index == -3}
        resume = {asked["b"].id: "for b", asked["a"].id: "for a"}
        run = again(store, Command(resume=resume))

        assert {t.name: t.answers for t in run.running.values()} == {
            "a": ("for a",),
            "b": ("for b",),
        }
        assert set(run.sent[0].claim.resumes) == {i.id for i in asked.values()}

    def test_an_answer_for_one_of_two_leaves_the_other_waiting(self):
        """
        The unanswered task runs to its question again; after that a bare answer will do.
        Promise: L56.
        """
        store = thread("a", "b")
        asked = {e.path[-1]: e.writes[0][1][0] for e in store.ledger if e.index == -3}
        run = again(store, Command(resume={asked["a"].id: "yes"}))
        assert {t.name: t.answers for t in run.running.values()} == {"a": ("yes",), "b": ()}
        run.finish("a", log=["a"])
        run.ask("b", "b?")
        run.saved()

        assert [i.id for i in run.outcome.interrupts] == [asked["b"].id]
        assert again(store, Command(resume="also yes")).task("b").answers == ("also yes",)

    def test_a_bare_answer_to_two_questions_is_refused(self):
        """
        With two waiting the ids must be given, and nothing is written. Promise: L56.
        """
        run = Script(PLAN, SYNC, store=thread("a", "b"))
        with pytest.raises(UnknownInterruptError, match="multiple pending interrupts") as refused:
            run.begin(Command(resume="yes"))

        assert "interrupt.id" in refused.value.do
        assert run.state.sent == 0

    @pytest.mark.parametrize("resume", ["yes", {"0" * 32: "yes"}])
    def test_an_answer_on_a_finished_thread_is_refused(self, resume):
        """
        When nothing waits, the question has been answered by another call.
        """
        store = Store()
        Script(chain(State, "a"), SYNC, store=store).play({"text": "x"}, {"a": lambda s: None})
        run = Script(chain(State, "a"), SYNC, store=store)

        with pytest.raises(AlreadyResumed, match="no question of thread 't' waits"):
            run.begin(Command(resume=resume))
        assert run.state.sent == 0

    def test_an_answer_by_an_id_that_does_not_wait_is_refused(self):
        """
        An id that was answered before is refused even while other questions wait.
        """
        with pytest.raises(AlreadyResumed):
            again(thread("b", finished=("a",)), Command(resume={"0" * 32: "yes"}))

    def test_an_answer_before_any_question_waits_for_one(self):
        """
        On a thread with pending tasks and no question the answer is kept for the next question,
        used once, and marked as used. Promise: L51.
        """
        run = again(thread(finished=("a",)), Command(resume="early"))
        assert run.state.bare_answer == ["early"]
        task = run.task("b")
        assert task.answers == ()
        assert again(run.store, None).state.bare_answer == ["early"]

    def test_an_empty_command_goes_on(self):
        """
        Command() is like None: it runs what is pending.
        """
        assert again(thread(finished=("a",)), Command()).names == ["b"]

    def test_an_update_is_applied_and_keeps_pending_tasks(self):
        """
        Command(update=) changes the state under the pending tasks, and is stored beside the
        checkpoint, so that a crash doesn't lose it. Promise: L16.
        """
        store = thread(finished=("a",))
        run = again(store, Command(update={"text": "new"}))
        assert run.names == ["b"]
        assert run.given[-1][1]["text"] == "new"
        assert rows(run.sent[0]) == [("", 0)]

        more = again(store, None)
        assert more.given[-1][1]["text"] == "new"
        assert more.names == ["b"]

    def test_a_route_adds_to_what_is_pending(self):
        """
        Command(goto=) runs its target beside the pending tasks. Promise: L29.
        """
        assert again(thread(finished=("a",)), Command(goto="c")).names == ["b", "c"]

    @pytest.mark.parametrize(
        ("goto", "log", "sources"),
        [("a", ["x", "y"], ["loop"]), ((), ["x"], ["update"])],
    )
    def test_a_finished_thread_takes_commands(self, goto, log, sources):
        """
        A route begins a new superstep on a finished thread; an update alone makes a checkpoint.
        """
        store = Store()
        nodes = {"a": lambda s: {"log": [s["text"]]}}
        Script(chain(State, "a"), SYNC, store=store).play({"text": "x"}, nodes)
        run = Script(chain(State, "a"), SYNC, store=store)
        run.play(Command(update={"text": "y"}, goto=goto), nodes)

        assert run.outcome == Succeeded({"text": "y", "log": log})
        assert [p.source for p in store.points.values()][3:] == sources
        assert store.statuses == ["success", "success"]

    @pytest.mark.parametrize(
        ("command", "error"),
        [
            (Command(goto="nowhere"), UnknownTargetError),
            (Command(goto=Send("nowhere", 1)), UnknownTargetError),
            (Command(update=3), InvalidUpdateError),
            (Command(graph=Command.PARENT), UnknownInterruptError),
        ],
    )
    def test_a_command_that_cannot_be_taken_changes_nothing(self, command, error):
        """
        A wrong route, update or graph is refused before anything is saved. Promise: C29.
        """
        run = Script(PLAN, SYNC, store=thread(finished=("a",)))
        with pytest.raises(error):
            run.begin(command)

        assert run.state.sent == 0

    def test_a_command_on_an_empty_thread_is_refused(self):
        """
        There is nothing to resume on a thread that never ran.
        """
        with pytest.raises(EmptyInputError, match="no checkpoint that a Command"):
            Script(PLAN, SYNC).begin(Command(resume="yes"))


class TestFork:
    def test_going_on_from_an_older_checkpoint_forks(self):
        """
        A run from an addressed checkpoint hangs on it, expects the thread's head, runs every
        task anew and uses versions that no branch has. Promise: S163, L7, L67, L69.
        """
        store = Store()
        plan = chain(State, "a", "b")
        nodes = {n: lambda s, n=n: {"log": [n]} for n in "ab"}
        Script(plan, SYNC, store=store).play({"text": "x"}, nodes)
        old = list(store.points.values())
        run = Script(plan, SYNC, store=store)
        (save,) = only(Save, run.begin(None, at=2))
        (fork,) = save.checkpoints

        assert (fork.parent, fork.step, fork.source) == (old[2].id, old[2].step + 1, "fork")
        assert save.head == old[-1].id
        assert fork.next == ("b",)
        run.saved()
        run.finish("b", log=["again"])
        run.saved()
        assert run.outcome.values["log"] == ["a", "again"]
        used = {v for p in old for v in p.versions.values()}
        assert run.state.versions["log"] not in used

    def test_the_stored_shortcuts_are_not_needed(self):
        """
        `next` and `updated` are projections: without them the same tasks run. Promise: S062, S067.
        """
        store = thread(finished=("a",))
        bare = with_values(store, next=(), updated=None)
        run = Script(PLAN, SYNC, store=store)
        store.restored = lambda at=-1: bare
        run.begin(None)
        run.saved()

        assert run.names == ["b"]
