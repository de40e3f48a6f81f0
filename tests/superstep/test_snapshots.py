"""Snapshots of checkpoints, whole: the live view of a thread's head, and those of old ones."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.channels import EMPTY, LastValueAfterFinish
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.snapshot import (
    empty_snapshot,
    iso,
    metadata_of,
    restored_state,
    snapshot,
    unsaved_snapshot,
    values_of,
    writes_by_node,
)
from actorgraph.values.checkpoint import StoredWrite
from actorgraph.values.commands import Command
from actorgraph.values.constants import START
from actorgraph.values.ids import as_text
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import TaskResult, TaskSucceeded
from actorgraph.values.state_snapshot import PregelTask, StateSnapshot
from tests.superstep.script import Script, Store, chain, graph, idle, with_values
from tests.superstep.threads import PAIR, State, again, thread

CONFIG = {"configurable": {"thread_id": "t"}}


def view(store: Any, plan: Any = PAIR, *, at: int = -1, live: bool = True) -> StateSnapshot:
    """The snapshot of a checkpoint of the thread, with the pending writes of its parent."""
    restored = store.restored(at)
    assert restored is not None
    ledger = [
        StoredWrite(e.task, e.path, e.index, e.generation, e.writes)
        for e in store.ledger
        if e.base == restored.parent
    ]
    return snapshot(plan, restored, "t", live=live, parent_ledger=ledger)


def address(identifier: bytes) -> dict[str, Any]:
    """The config of a checkpoint of the thread."""
    text = as_text(identifier)
    return {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": text}}


class TestThreadsWithoutACheckpoint:
    def test_have_nothing(self):
        """
        No values, no tasks, no metadata; the config is the one that was asked with.
        """
        assert empty_snapshot(CONFIG) == StateSnapshot({}, (), CONFIG, None, None, None, (), ())

    def test_with_an_accepted_input_begin_with_start(self):
        """
        START runs next where an input is stored with a claim.
        """
        assert unsaved_snapshot(CONFIG) == StateSnapshot(
            {}, (START,), CONFIG, None, None, None, (), ()
        )


class TestAWaitingThread:
    def test_live(self):
        """
        Finished tasks are done: their writes are in the values, and `next` has the others.
        """
        store = thread("b", finished=("a",))
        base, question = store.restored(), next(e for e in store.ledger if e.index == -3)
        assert base is not None
        asked = question.writes[0][1][0]
        done = next(e for e in store.ledger if e.index == 0 and e.path[-1] == "a")

        assert view(store) == StateSnapshot(
            values={"text": "x", "log": ["a"]},
            next=("b",),
            config=address(base.id),
            metadata={
                "source": "loop",
                "step": 0,
                "parents": {},
                "run_id": None,
                "writes": None,
            },
            created_at="1970-01-01T00:00:00+00:00",
            parent_config=address(base.parent or b""),
            tasks=(
                PregelTask(done.task, "a", done.path, result={"log": ["a"]}),
                PregelTask(question.task, "b", question.path, interrupts=(asked,)),
            ),
            interrupts=(asked,),
        )

    def test_at_its_checkpoint(self):
        """
        The values are those at the start of the superstep, and all of its tasks are next.
        """
        store = thread("b", finished=("a",))
        shown, live = view(store, live=False), view(store)

        assert (shown.values, shown.next) == ({"text": "x", "log": []}, ("a", "b"))
        assert shown._replace(values=live.values, next=live.next) == live

    @pytest.mark.parametrize(("live", "shown"), [(True, ()), (False, ("b?",))])
    def test_an_answered_question(self, live, shown):
        """
        The live view shows open questions; that of a checkpoint all that were asked.
        """
        store = thread("b", finished=("a",))
        again(store, Command(resume="yes"))

        assert tuple(i.value for i in view(store, live=live).interrupts) == shown

    def test_a_failed_task(self):
        """
        It has the text of its error, and is next.
        """
        store = thread(finished=("a",))
        shown = view(store)

        assert [(t.name, t.error) for t in shown.tasks] == [("a", None), ("b", "ValueError('no')")]
        assert shown.next == ("b",)
        assert (shown.failed_node, shown.error) == ("b", "ValueError('no')")

    def test_results_that_conflict(self):
        """
        Where all have finished and could not be folded, all are next, with the error of the
        fold; the values stay those of the checkpoint.
        """
        run = Script(PAIR)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", text="1")
        run.finish("b", text="2")
        run.saved()
        shown = view(run.store)

        assert shown.next == ("a", "b")
        assert {t.error for t in shown.tasks} == {repr(run.outcome.error)}
        assert [t.result for t in shown.tasks] == [{"text": "1"}, {"text": "2"}]
        assert shown.values == {"text": "x", "log": []}
        assert shown.is_stuck
        assert [t.error for t in view(run.store, live=False).tasks] == [None, None]

    def test_results_that_were_not_folded_yet(self):
        """
        After a crash before the checkpoint the live view has the writes, and all are next.
        """
        run = Script(PAIR)
        run.begin({"text": "x"})
        run.saved()
        run.finish("b", log=["b"])
        run.finish("a", log=["a"])
        for save in run.sent[1:]:
            run.store.ledger.extend(save.ledger)
        shown = view(run.store)

        assert (shown.values, shown.next) == ({"text": "x", "log": ["a", "b"]}, ("a", "b"))

    def test_conflicting_results_without_a_stored_error(self):
        """
        The values are those of the checkpoint, and no error is raised.
        """
        run = Script(PAIR)
        run.begin({"text": "x"})
        run.saved()
        run.finish("b", text="b")
        run.finish("a", text="a")
        for save in run.sent[1:]:
            run.store.ledger.extend(e for e in save.ledger if e.index >= 0)

        assert view(run.store).values == {"text": "x", "log": []}


class TestMetadata:
    def test_has_the_runs_own_keys_and_the_place(self):
        """
        The caller's keys, then source, step, parents, run and counters of deltas.
        """
        made = metadata_of(
            PAIR,
            with_values(
                thread("b"),
                metadata={"user": 1, "step": "x", "parents": {"": "1"}},
                run=bytes(16),
                deltas={"log": (1, 2)},
                source="fork",
                step=7,
            ),
        )

        assert made == {
            "user": 1,
            "step": 7,
            "source": "fork",
            "parents": {"": "1"},
            "run_id": "00000000-0000-0000-0000-000000000000",
            "writes": None,
            "counters_since_delta_snapshot": {"log": (1, 2)},
        }
        stored = with_values(thread("b"), metadata={"run_id": "mine"}, run=bytes(16))
        assert metadata_of(PAIR, stored)["run_id"] == "mine"

    @pytest.mark.parametrize(
        ("source", "metadata", "writes"),
        [
            ("loop", {}, {"a": {"log": ["a"]}, "b": {"text": "b"}}),
            ("update", {"as_node": "a"}, {"a": {"log": ["a"]}}),
            ("update", {"as_node": ["a", "b"]}, {"a": {"log": ["a"]}, "b": {"text": "b"}}),
            ("update", {"as_node": "c"}, None),
            ("update", {}, None),
            ("input", {"as_node": "a"}, None),
            ("fork", {"as_node": "a"}, None),
        ],
    )
    def test_names_the_writes_that_made_it(self, source, metadata, writes):
        """
        A superstep's by node; an update's those of its authors; none for inputs and forks.
        """
        ledger = [row("a", ("log", ["a"])), row("b", ("text", "b"))]
        restored = with_values(thread("b"), source=source, metadata=metadata)

        assert metadata_of(PAIR, restored, ledger)["writes"] == writes

    def test_of_an_update_without_rows_has_no_writes(self):
        """
        An update on a checkpoint that has other children leaves no rows.
        """
        restored = with_values(thread("b"), source="update", metadata={"as_node": "a"})

        assert metadata_of(PAIR, restored, [])["writes"] is None

    def test_parents_are_in_the_addresses(self):
        """
        The config of a subgraph's checkpoint leads back to the checkpoints above it.
        """
        restored = with_values(thread("b"), metadata={"parents": {"": "1"}}, namespace="n:1")
        shown = snapshot(PAIR, restored, "t", live=False)
        place = {"thread_id": "t", "checkpoint_ns": "n:1"}
        ids = [as_text(restored.id), as_text(restored.parent or b"")]

        assert [shown.config, shown.parent_config] == [
            {
                "configurable": {
                    **place,
                    "checkpoint_id": text,
                    "checkpoint_map": {"": "1", "n:1": text},
                }
            }
            for text in ids
        ]

    def test_the_time_is_utc(self):
        """
        Microseconds since 1970 as ISO 8601.
        """
        assert iso(1_500_000) == "1970-01-01T00:00:01.500000+00:00"


def row(node: Any, *writes: tuple[str, Any], index: int = 0) -> StoredWrite:
    """A row of a node's task."""
    return StoredWrite(str(node), ("__pregel_pull", node), index, 0, writes)


class TestWritesByNode:
    def test_several_tasks_of_one_node_are_a_list(self):
        """
        Rows of START, control rows and those of unknown nodes or without a path are left out.
        """
        ledger = [
            row(START, ("text", "x")),
            row("a", ("log", ["1"]), ("branch:to:b", None)),
            row("a", ("log", ["2"])),
            row("b", ("__no_writes__", None)),
            row("b", ("__error__", "x"), index=-1),
            row("gone", ("log", ["x"])),
            StoredWrite("1", (), 0, 0, (("log", ["x"]),)),
            StoredWrite("1", ("__pregel_push", 0), 0, 0, (("log", ["x"]),)),
            StoredWrite("1", ("__pregel_push", 0, "c"), 0, 0, (("branch:to:b", 1), ("text", "c"))),
        ]

        assert writes_by_node(PAIR, ledger) == {
            "a": [{"log": ["1"]}, {"log": ["2"]}],
            "b": {},
            "c": {"text": "c"},
        }

    def test_without_rows_there_are_none(self):
        """
        None where no node has written.
        """
        assert writes_by_node(PAIR, [row(START, ("text", "x"))]) is None


def test_a_snapshot_has_the_writes_of_the_superstep_before():
    """
    They are read from the pending writes of the checkpoint's parent.
    """
    run = Script(PAIR)
    run.begin({"text": "x"})
    run.saved()
    for name in "ab":
        run.finish(name, log=[name])
    run.saved()

    writes = (view(run.store).metadata or {})["writes"]
    assert writes == {"a": {"log": ["a"]}, "b": {"log": ["b"]}}


class TestForms:
    def test_a_bare_value_is_shown_without_its_key(self):
        """
        The state of a graph over one value is that value, also in the result of a task.
        """
        plan = graph(Annotated[list, operator.add], {"a": idle, "b": idle}, BOTH)
        run = Script(plan)
        run.begin(["x"])
        run.saved()
        run.finish("a", ["a"])
        run.fail("b", ValueError("no"))
        run.saved()
        shown = view(run.store, plan)

        assert shown.values == ["x", "a"]
        assert [task.result for task in shown.tasks] == [["a"], None]

    def test_a_task_without_a_write_has_no_bare_result(self):
        """
        None where it returned nothing.
        """
        plan = graph(Annotated[list, operator.add], {"a": idle, "b": idle}, BOTH)
        run = Script(plan)
        run.begin(["x"])
        run.saved()
        run.event(TaskSucceeded(TaskResult(run.running.pop(run.task("a").id).id, ())))
        run.fail("b", ValueError("no"))
        run.saved()

        assert [task.result for task in view(run.store, plan).tasks] == [None, None]

    def test_keys_without_a_value_are_left_out(self):
        """
        A key that was never written is not in the values.
        """
        run = Script(chain(State, "a"))
        run.begin({"log": ["x"]})
        run.saved()

        assert view(run.store, chain(State, "a")).values == {"log": ["x"]}

    def test_a_task_that_runs_a_subgraph_has_the_config_of_its_state(self):
        """
        It addresses the namespace of the task; other tasks have none.
        """
        plan = graph(State, dict.fromkeys("abc", idle), BOTH)
        object.__setattr__(plan, "subgraphs", frozenset({"b"}))
        shown = view(thread("a", "b"), plan)
        a, b = shown.tasks

        assert a.state is None
        assert b.state == {"configurable": {"thread_id": "t", "checkpoint_ns": f"b:{b.id}"}}

    def test_the_state_to_read_has_its_thread_and_namespace(self):
        """
        It is at the checkpoint, has no saver and makes no ids.
        """
        restored = with_values(thread("b"), namespace="n:1")
        state = restored_state(PAIR, restored, "t")

        assert (state.thread_id, state.namespace, state.has_saver) == ("t", "n:1", False)
        assert (state.checkpoint, state.step) == (restored.id, restored.step)


BOTH: list[Any] = [(START, "a"), (START, "b")]


class TestHandlers:
    def thread(self, *, handled: bool, asks: bool = False) -> Any:
        """A thread on which `a` failed, which has a handler, and `b` failed too."""
        builder = GraphBuilder(State).add_node("a", idle, error_handler=idle)
        builder.add_node("b", idle).add_edge(START, "a").add_edge(START, "b")
        plan = make_plan(builder, name="g")
        run = Script(plan)
        run.begin({"text": "x"})
        run.saved()
        run.fail("a", ValueError("boom"))
        run.saved()
        if asks:
            run.ask(HANDLER, "retry?")
        elif handled:
            run.finish(HANDLER, log=["handled"])
        run.fail("b", KeyError("b"))
        for name in run.names:
            run.stop(name)
        run.saved()
        return plan, run.store

    def test_a_failure_whose_handler_has_finished_is_settled(self):
        """
        The handler's writes are in the live values; the failed node is not next.
        """
        plan, store = self.thread(handled=True)
        shown = view(store, plan)

        assert (shown.values, shown.next) == ({"text": "x", "log": ["handled"]}, ("b",))
        assert [(t.name, t.error) for t in shown.tasks] == [
            ("a", "ValueError('boom')"),
            ("b", "KeyError('b')"),
        ]

    def test_a_failure_whose_handler_has_not_is_next(self):
        """
        The handler runs the failed node's part, so the node's name is what comes next.
        """
        plan, store = self.thread(handled=False)
        shown = view(store, plan)

        assert (shown.values["log"], shown.next) == ([], ("a", "b"))
        assert [t.name for t in shown.tasks] == ["a", "b"]

    def test_a_handler_that_asks_is_shown(self):
        """
        Its task has rows and no result: it is listed behind the nodes with its question.
        """
        plan, store = self.thread(handled=False, asks=True)
        shown = view(store, plan)

        assert [t.name for t in shown.tasks] == ["a", "b", HANDLER]
        assert [i.value for i in shown.interrupts] == ["retry?"]


HANDLER = "__error_handler__a"


class Late(TypedDict, total=False):
    text: str
    late: Annotated[int, LastValueAfterFinish]


def test_values_are_those_that_readers_see():
    """
    A cell that differs from its value is read by its rule, and left out while it has none.
    """
    state = RunState(chain(Late, "a"), RunPolicy(), Store().mint, has_saver=False)
    rule = state.plan.channels["late"]
    held = rule.fold("late", EMPTY, [7])
    state.values = {"text": "x", "late": held}
    assert values_of(state) == {"text": "x"}
    state.values["late"] = rule.finish(held)
    assert values_of(state) == {"text": "x", "late": 7}
