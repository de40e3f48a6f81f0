"""How a run begins: an input, None, a Command; on an empty, a finished or a waiting thread."""

import operator
from typing import Annotated, TypedDict

import pytest

from actorgraph.errors import EmptyInputError, InvalidUpdateError
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.values.commands import Send
from actorgraph.values.constants import START
from actorgraph.values.run import Save, Succeeded
from tests.superstep.script import Script, Store, chain, graph, idle, kinds, only, with_values
from tests.superstep.threads import EXIT, MODES, PAIR, SYNC, State, again, thread


def kept(old: list[str], new: list[str]) -> list[str]:
    """A reducer that keeps what finished tasks have written."""
    return [*old, *new]


vars(kept)["keeps_finished"] = True


class Kept(TypedDict):
    log: Annotated[list[str], kept]
    other: Annotated[list[str], operator.add]


class TestInput:
    @pytest.mark.promise("S009", "L13")
    @MODES
    def test_a_second_input_goes_on_from_the_threads_state(self, mode):
        """
        Reducers keep what is there, the step counts on, the parent is the head.
        """
        store = Store()
        plan = chain(State, "a")
        for text in "xy":
            run = Script(plan, mode, store=store)
            run.play({"text": text}, {"a": lambda s: {"log": [s["text"]]}})

        assert run.outcome == Succeeded({"text": "y", "log": ["x", "y"]})
        steps = [p.step for p in store.points.values()]
        assert steps == ([1, 4] if mode is EXIT else [-1, 0, 1, 2, 3, 4])

    @pytest.mark.promise("L50")
    @pytest.mark.langgraph("F-F14")
    @MODES
    def test_a_new_input_discards_pending_tasks(self, mode):
        """
        On a waiting thread an input begins anew: a's finished writes and b's question are gone,
        and both run again.
        """
        store = thread("b", mode=mode, finished=("a",))
        run = again(store, {"text": "new"}, mode)

        assert run.names == ["a", "b"]
        assert run.state.values["text"] == "new"
        assert run.state.values.get("log", []) == []
        assert all(task.answers == () for task in run.running.values())

    @MODES
    def test_a_reducer_may_keep_what_had_finished(self, mode):
        """
        Where a reducer asks for it, a new input keeps the finished tasks' writes to its key, in
        task-path order and before the input; their other writes, and all that is due, are gone.
        """
        plan = graph(Kept, dict.fromkeys("abc", idle), [(START, name) for name in "abc"])
        first = Script(plan, mode)
        first.begin({"log": ["in"]})
        first.saved()
        first.finish("c", log=["c"], other=["c"])
        first.finish("a", log=["a"], other=["a"])
        first.ask("b", "b?")
        first.saved()

        run = Script(plan, mode, store=first.store)
        run.begin({"log": ["new"]})
        run.saved()

        assert run.names == ["a", "b", "c"]
        assert run.state.values["log"] == ["in", "a", "c", "new"]
        assert run.state.values.get("other", []) == []

    def test_finished_work_is_kept_if_the_run_that_brought_the_input_died(self):
        """
        In exit mode only its claim is stored: the next run begins with that input.
        """
        plan = graph(Kept, dict.fromkeys("ab", idle), [(START, name) for name in "ab"])
        first = Script(plan)
        first.begin({"log": ["in"]})
        first.saved()
        first.finish("a", log=["a"])
        first.ask("b", "b?")
        first.saved()
        dead = Script(plan, EXIT, store=first.store)
        dead.begin({"log": ["new"]})
        dead.saved()
        run = Script(plan, store=first.store)
        run.begin(None)
        run.saved()

        assert run.state.values["log"] == ["in", "a", "new"]

    def test_writes_of_a_handler_are_kept_where_others_have_not_ended(self):
        """
        The tasks that are given up count as run, also one that a crash left without a row.
        """
        builder = GraphBuilder(Kept).add_node("a", idle, error_handler=idle).add_edge(START, "a")
        builder.add_node("b", idle).add_edge(START, "b")
        first = Script(make_plan(builder, name="g"))
        first.begin({"log": ["in"]})
        first.saved()
        first.fail("a", ValueError("boom"))
        first.saved()
        first.finish("__error_handler__a", log=["handled"])
        first.saved()
        run = Script(first.plan, store=first.store)
        run.begin({"log": ["new"]})

        assert run.state.values["log"] == ["in", "handled", "new"]
        assert set(run.state.seen) == {"__input__", START, "a", "b", "__error_handler__a"}

    @pytest.mark.promise("L50")
    def test_a_new_input_discards_pending_sends(self):
        """
        Sends that had not run are discarded with the rest.
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

    @pytest.mark.promise("L50")
    def test_a_new_input_discards_a_join_that_had_opened(self):
        """
        A node that was due because all had come waits for all of them anew.
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
    def test_an_invalid_input_is_refused_before_anything_changes(self, given):
        """
        A wrong input raises at once and says what to pass: nothing is saved and no node runs.
        """
        run = Script(chain(State, "a"), SYNC)
        with pytest.raises(InvalidUpdateError, match="as an input") as refused:
            run.begin(given)

        assert refused.value.what.startswith("Expected dict, got ")
        assert refused.value.do.startswith("pass a dict of state keys")
        assert (run.state.sent, run.state.versions) == (0, {})

    @pytest.mark.langgraph("L27")
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
    @pytest.mark.promise("L49")
    def test_an_empty_thread_has_nothing_to_go_on_with(self):
        """
        None on a thread without a checkpoint is an error that asks for an input.
        """
        with pytest.raises(EmptyInputError, match="'t', which has no checkpoint") as refused:
            Script(PAIR, SYNC).begin(None)

        assert "pass an input" in refused.value.do

    @pytest.mark.promise("L49")
    @MODES
    def test_a_finished_thread_gives_its_values_and_writes_nothing(self, mode):
        """
        None on a finished thread returns the state at once.
        """
        store = Store()
        Script(chain(State, "a"), mode, store=store).play({"text": "x"}, {"a": lambda s: None})
        run = Script(chain(State, "a"), mode, store=store)

        assert kinds(run.begin(None)) == ["Finish"]
        assert run.outcome == Succeeded({"text": "x", "log": []})

    @pytest.mark.promise("S174", "S072", "C10")
    @MODES
    def test_finished_tasks_are_handed_back(self, mode):
        """
        Only what has not finished runs, and its siblings' writes are applied once.
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
        run = Script(PAIR, SYNC)
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

    @pytest.mark.promise("C8")
    @pytest.mark.parametrize("mode", [SYNC, EXIT])
    def test_an_input_that_died_with_its_run_is_taken_up(self, mode):
        """
        In exit mode a killed run leaves its claim with the input, and None starts with it.
        """
        store = thread(finished=("a", "b"))
        dead = Script(PAIR, EXIT, store=store)
        dead.begin({"text": "accepted"})
        dead.saved()
        run = again(store, None, mode)

        assert run.names == ["a", "b"]
        assert run.state.values["text"] == "accepted"


class TestFork:
    @pytest.mark.promise("S163", "L7", "L67", "L69")
    @pytest.mark.langgraph("F-G7", "F-E10", "L65")
    def test_going_on_from_an_older_checkpoint_forks(self):
        """
        A run from an addressed checkpoint hangs on it, expects the thread's head, runs every
        task anew and uses versions that no branch has.
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

    @pytest.mark.promise("S062", "S067")
    def test_the_stored_shortcuts_are_not_needed(self):
        """
        `next` and `updated` are projections: without them the same tasks run.
        """
        store = thread(finished=("a",))
        bare = with_values(store, next=(), updated=None)
        run = Script(PAIR, SYNC, store=store)
        store.restored = lambda at=-1: bare
        run.begin(None)
        run.saved()

        assert run.names == ["b"]
