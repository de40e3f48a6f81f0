"""The durability modes: which saves a run asks for, what is in them, and who waits for whom."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.errors import LeaseLostError
from actorgraph.plan.plan import Plan
from actorgraph.values.commands import Send
from actorgraph.values.constants import NO_WRITES, START
from actorgraph.values.policies import Durability
from actorgraph.values.run import (
    Cancelled,
    CancelRequested,
    CancelTasks,
    Failed,
    NewCheckpoint,
    Save,
    Succeeded,
)
from tests.superstep.script import Script, Store, chain, graph, idle, kinds, only, rows, started

SYNC, ASYNC, EXIT = Durability


class State(TypedDict):
    text: str
    log: Annotated[list[str], operator.add]


def begun(mode: Durability, plan: Plan | None = None, **settings: Any) -> Script:
    """A run of START -> a -> b -> c with the input {"text": "x"}; nothing is saved yet."""
    run = Script(plan or chain(State, "a", "b", "c"), mode, **settings)
    run.begin({"text": "x"})
    return run


def lost_lease() -> LeaseLostError:
    """A saver's answer to a claim of a run that another process has taken over."""
    return LeaseLostError("taken over", do="read the run")


def pair(mode: Durability) -> Script:
    """A run in which a and b run at once, and then c."""
    edges: list[Any] = [(START, "a"), (START, "b"), (["a", "b"], "c")]
    run = begun(mode, graph(State, dict.fromkeys("abc", idle), edges))
    run.saved()
    return run


def points(save: Save) -> list[tuple[int, str, tuple[str, ...]]]:
    """The checkpoints of a save: step, source and next."""
    return [(point.step, point.source, point.next) for point in save.checkpoints]


class TestClaim:
    @pytest.mark.parametrize("mode", [SYNC, ASYNC])
    def test_the_claim_travels_with_the_input_and_the_checkpoint_after_it(self, mode):
        """
        In sync and async the first save claims the thread and stores input and START's result.
        """
        (save,) = only(Save, Script(chain(State, "a"), mode).begin({"text": "x"}))

        assert (save.number, save.head, save.ends) == (1, None, None)
        assert save.claim is not None
        assert (save.claim.mode, save.claim.has_input) == (mode.value, False)
        assert points(save) == [(-1, "input", (START,)), (0, "loop", ("a",))]
        assert rows(save) == [(START, 0)]

    @pytest.mark.promise("S077")
    def test_exit_claims_with_the_input_and_nothing_else(self):
        """
        In exit mode the claim holds the input itself and no checkpoint is stored.
        """
        (save,) = only(Save, Script(chain(State, "a"), EXIT).begin({"text": "x"}))

        assert save.claim is not None
        assert (save.claim.input, save.claim.has_input) == ({"text": "x"}, True)
        assert (save.checkpoints, save.ledger) == ((), ())

    @pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])
    def test_no_node_starts_before_the_claim_is_durable(self, mode):
        """
        In any mode, the loser of two runs on one thread starts no node.
        """
        run = begun(mode)
        assert run.names == []

        assert started(run.saved(1)) == ["a"]

    @pytest.mark.parametrize("stored", [True, False])
    @pytest.mark.parametrize("to_others", [True, False])
    @pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])
    def test_a_cancelled_run_sends_its_status_once_its_claim_is_stored(
        self, mode, to_others, stored
    ):
        """
        A run that is cancelled while its claim is on its way sends nothing behind it, and nothing
        at all if it is refused: the save could pass for one of the process that took the run over.
        """
        run = begun(mode)
        assert only(Save, run.event(CancelRequested(to_others))) == []
        answered = run.saved(1) if stored else run.refuse(1, lost_lease())

        status = "drained" if to_others else "cancelled"
        assert [save.ends for save in only(Save, answered)] == [status] * stored
        run.saved()
        assert isinstance(run.outcome, Cancelled if stored else Failed)

    @pytest.mark.parametrize("stored", [True, False])
    @pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])
    def test_a_superstep_whose_tasks_have_ended_waits_for_it(self, mode, stored):
        """
        The checkpoint after tasks that are all stored is sent when the claim of the run that goes
        on is stored, and not if it is refused.
        """
        first = begun(SYNC)
        first.saved()
        first.finish("a", log=["a"])
        first.store.ledger.extend(first.sent[1].ledger)
        run = Script(first.plan, mode, store=first.store)
        assert len(only(Save, run.begin(None))) == 1
        answered = run.saved(1) if stored else run.refuse(1, lost_lease())

        assert len(only(Save, answered)) == stored * (mode is not EXIT)

    def test_without_a_saver_nothing_is_saved_or_waited_for(self):
        """
        A run without a saver starts at once and never asks for a save.
        """
        run = Script(chain(State, "a"), saver=False)

        assert kinds(run.begin({"text": "x"})) == ["StartTask"]
        assert kinds(run.finish("a", log=["a"])) == ["Finish"]
        assert run.outcome == Succeeded({"text": "x", "log": ["a"]})


class TestSync:
    @pytest.mark.promise("S074", "S079")
    @pytest.mark.langgraph("F-E11", "L79")
    def test_the_next_superstep_waits_for_the_checkpoint(self):
        """
        Step n+1 starts after step n's save is acknowledged, for every n.
        """
        run = begun(SYNC)
        for number, (name, following) in enumerate([("a", ["b"]), ("b", ["c"])], 1):
            run.saved(number)
            assert kinds(run.finish(name, log=[name])) == ["Save"]
            assert run.names == []
            assert started(run.saved(number + 1)) == following

    def test_the_last_tasks_writes_travel_with_the_checkpoint(self):
        """
        A sibling's writes go out at once; those of the last one and the checkpoint are one save.
        """
        run = pair(SYNC)
        (first,) = only(Save, run.finish("b", log=["b"]))
        (second,) = only(Save, run.finish("a", log=["a"]))

        assert (first.number, rows(first), points(first)) == (2, [("b", 0)], [])
        assert (second.number, rows(second)) == (3, [("a", 0)])
        assert points(second) == [(1, "loop", ("c",))]

    def test_the_next_superstep_waits_for_siblings_rows_too(self):
        """
        An acknowledgement of the first of two saves releases no waiting task.
        """
        run = pair(SYNC)
        run.finish("b", log=["b"])
        run.finish("a", log=["a"])

        assert started(run.saved(2)) == []
        assert started(run.saved(3)) == ["c"]

    def test_the_last_checkpoint_says_how_the_run_ended(self):
        """
        The final save carries the status, and Finish waits for it.
        """
        run = begun(SYNC, chain(State, "a"))
        run.saved()
        (save,) = only(Save, run.finish("a", log=["a"]))

        assert (save.ends, points(save)) == ("success", [(1, "loop", ())])
        assert kinds(run.saved()) == ["Finish"]

    @pytest.mark.parametrize("mode", ["updates", "values"])
    def test_a_chunk_is_delivered_when_its_content_is_durable(self, mode):
        """
        In sync a delivered chunk is a durable one.
        """
        run = begun(SYNC, modes=frozenset({mode}))
        run.saved()
        before = len(run.streamed(mode))
        run.finish("a", log=["a"])
        assert len(run.streamed(mode)) == before

        run.saved()
        assert len(run.streamed(mode)) == before + 1


class TestAsync:
    @pytest.mark.promise("S075", "C4")
    @pytest.mark.langgraph("F-E12", "L79")
    def test_the_next_superstep_starts_while_the_checkpoint_is_being_saved(self):
        """
        Overlap: step n+1 starts with step n's save still on its way.
        """
        run = begun(ASYNC)
        run.saved(1)

        effects = run.finish("a", log=["a"])
        assert kinds(effects) == ["Save", "StartTask"]
        assert started(run.finish("b", log=["b"])) == ["c"]
        assert [s.number for s in run.sent] == [1, 2, 3]

    @pytest.mark.promise("S075")
    @pytest.mark.langgraph("F-E12")
    def test_the_run_ends_only_when_everything_is_durable(self):
        """
        Overlap never means loss: Finish comes after the last acknowledgement.
        """
        run = begun(ASYNC)
        run.saved(1)
        for name in "abc":
            run.finish(name, log=[name])

        assert [*run.saved(2), *run.saved(3)] == []
        assert kinds(run.saved(4)) == ["Finish"]

    @pytest.mark.parametrize("most", [1, 2])
    def test_the_lag_is_bounded(self, most):
        """
        With `max_unsaved_steps` supersteps not yet durable the next one waits.
        """
        run = begun(ASYNC, chain(State, *"abcd"), max_unsaved_steps=most)
        run.saved(1)
        for name in "abcd"[:most]:
            assert len(started(run.finish(name, log=[name]))) == 1

        held = "abcd"[most]
        assert started(run.finish(held, log=[held])) == []
        assert len(started(run.saved(2))) == 1

    def test_chunks_are_live(self):
        """
        In async a chunk doesn't wait for the saver.
        """
        run = begun(ASYNC, modes=frozenset({"updates"}))
        run.saved(1)
        run.finish("a", log=["a"])

        assert run.streamed("updates") == [{"a": {"log": ["a"]}}]


class TestExit:
    @pytest.mark.promise("S077", "C8")
    @pytest.mark.langgraph("F-E13", "L82")
    def test_nothing_is_sent_until_the_run_leaves(self):
        """
        Only the claim and one farewell with the last checkpoint.
        """
        run = begun(EXIT)
        run.saved(1)
        assert kinds(run.finish("a", log=["a"])) == ["StartTask"]
        assert kinds(run.finish("b", log=["b"])) == ["StartTask"]
        (farewell,) = only(Save, run.finish("c", log=["c"]))

        assert (farewell.number, farewell.claim, farewell.ends) == (2, None, "success")
        assert points(farewell) == [(3, "loop", ())]
        assert farewell.checkpoints[0].parent is None
        assert farewell.ledger == ()
        assert farewell.checkpoints[0].changed["log"] == ["a", "b", "c"]
        assert kinds(run.saved(2)) == ["Finish"]

    @pytest.mark.promise("C8")
    @pytest.mark.langgraph("L82", "L84")
    def test_a_run_that_is_stopped_flushes_its_unfinished_superstep(self):
        """
        On a controlled exit the finished siblings' writes go with the checkpoint.
        """
        run = pair(EXIT)
        run.finish("b", log=["b"])
        run.cancel()
        (farewell,) = only(Save, run.stop("a"))

        assert (farewell.ends, rows(farewell)) == ("cancelled", [("b", 0)])
        assert points(farewell) == [(0, "loop", ("a", "b"))]
        assert farewell.ledger[0].base == farewell.checkpoints[0].id

    def test_rows_of_committed_supersteps_are_not_sent(self):
        """
        Writes that are inside the checkpoint don't go out beside it.
        """
        run = pair(EXIT)
        run.finish("b", log=["b"])
        run.finish("a", log=["a"])
        (farewell,) = only(Save, run.finish("c"))

        assert farewell.ledger == ()
        assert farewell.checkpoints[0].changed["log"] == ["a", "b"]

    def test_the_farewells_parent_is_the_last_stored_checkpoint(self):
        """
        A second run in exit mode hangs its one checkpoint on what the store has.
        """
        store = Store()
        Script(chain(State, "a"), SYNC, store=store).play({"text": "x"}, {"a": lambda s: None})
        head = store.head
        run = Script(chain(State, "a"), EXIT, store=store)
        run.play({"text": "y"}, {"a": lambda s: None})

        last = list(store.points.values())[-1]
        assert (last.parent, run.sent[-1].head, run.sent[0].head) == (head, head, head)
        assert len(store.points) == 3 + 1


class TestEveryMode:
    @pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])
    def test_the_result_is_the_same(self, mode):
        """
        The mode changes when things are durable, and nothing else.
        """
        run = begun(mode)
        run.saved()
        for name in "abc":
            run.finish(name, log=[name])
            run.saved()

        assert run.outcome == Succeeded({"text": "x", "log": ["a", "b", "c"]})
        assert run.store.statuses == ["success"]

    @pytest.mark.promise("S143", "S002", "L13")
    @pytest.mark.parametrize("mode", [SYNC, ASYNC])
    def test_two_nodes_make_exactly_four_checkpoints(self, mode):
        """
        Input, START's, a's and b's, numbered from -1, each the child of the one before.
        """
        run = Script(chain(State, "a", "b"), mode)
        run.play({"text": "x"}, {n: lambda s: {"log": ["."]} for n in "ab"})
        made = list(run.store.points.values())

        assert [(p.step, p.source, p.next) for p in made] == [
            (-1, "input", (START,)),
            (0, "loop", ("a",)),
            (1, "loop", ("b",)),
            (2, "loop", ()),
        ]
        assert [p.parent for p in made] == [None, *(p.id for p in made[:-1])]
        assert [run.store.values[p.id].get("log", []) for p in made] == [[], [], ["."], [".", "."]]
        assert [p.updated for p in made][2:] == [("branch:to:b", "log"), ("log",)]

    @pytest.mark.promise("L35")
    def test_a_task_without_writes_leaves_a_row(self):
        """
        A finished task that wrote nothing says so, or a crash would run it again.
        """
        run = pair(SYNC)
        (save,) = only(Save, run.finish("b"))

        assert [c for c, _ in save.ledger[0].writes] != [NO_WRITES], "its edge is a write"
        alone = begun(SYNC, chain(State, "a"))
        alone.saved()
        (last,) = only(Save, alone.finish("a"))
        assert last.ledger[0].writes == ((NO_WRITES, None),)

    @pytest.mark.promise("S065")
    @pytest.mark.langgraph("L22", "L105")
    def test_a_checkpoint_holds_copies(self):
        """
        Values that were handed over don't change while the run goes on.
        """
        run = begun(ASYNC)
        run.saved(1)
        (point,) = only(Save, run.finish("a", log=["a"]))[0].checkpoints
        before = repr(point)
        run.finish("b", log=["b"])

        assert repr(point) == before

    @given(
        st.sampled_from([SYNC, ASYNC, EXIT]),
        st.lists(st.sampled_from(["finish", "ack", "ack one", "cancel"]), max_size=30),
    )
    def test_any_order_of_events_ends_well(self, mode, moves):
        """
        In any order of events, saves are numbered without gaps, at most one superstep's tasks run,
        the store gets each checkpoint after its parent, and the run ends exactly once, with
        everything acknowledged.
        """
        edges = [(START, "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
        run = begun(mode, graph(State, dict.fromkeys("abcd", idle), edges))
        for move in moves:
            do(run, move)
            assert set(run.names) <= {"a"} or set(run.names) <= {"b", "c"} or run.names == ["d"]
        settle(run)

        assert isinstance(run.outcome, Succeeded | Cancelled)
        assert [s.number for s in run.sent] == list(range(1, len(run.sent) + 1))
        assert [s.ends for s in run.sent if s.ends] == [s.ends for s in run.sent][-1:]
        assert run.store.saves == run.sent


def do(run: Script, move: str) -> None:
    """One event, if it is possible now."""
    if move == "finish" and run.names:
        run.finish(run.names[-1], log=["x"])
    elif move == "ack":
        run.saved()
    elif move == "ack one" and run.state.durable < run.state.sent:
        run.saved(run.state.durable + 1)
    elif move == "cancel" and not run.finishes:
        effects = run.cancel()
        for _ in only(CancelTasks, effects):
            while run.names:
                run.stop(run.names[0])


def settle(run: Script) -> None:
    """Let the run end."""
    for _ in range(100):
        if run.names:
            run.finish(run.names[0], log=["x"])
        elif run.state.durable < run.state.sent:
            run.saved()
        else:
            return


@pytest.mark.langgraph("F-E5", "L86")
def test_channels_are_handed_over_when_they_changed():
    """
    Each checkpoint carries only the cells whose version rose, and marks the cleared ones.
    """
    run = begun(SYNC)
    run.saved()
    (save,) = only(Save, run.finish("a", text="y"))
    point: NewCheckpoint = save.checkpoints[0]

    assert set(point.changed) == {"text", "branch:to:a", "branch:to:b"}
    assert repr(point.changed["branch:to:a"]) == "EMPTY"
    assert set(point.versions) == {START, "text", "branch:to:a", "branch:to:b"}


@pytest.mark.promise("S035", "S063")
def test_pending_sends_are_in_the_checkpoint():
    """
    Sends that have not run are part of the stored state.
    """
    run = begun(SYNC, graph(State, dict.fromkeys("ab", idle), [(START, "a")]))
    run.saved()
    packets = [Send("b", 1), Send("b", 2)]
    (save,) = only(Save, run.finish("a", packets))

    assert save.checkpoints[0].changed["__pregel_tasks"] == packets
    assert save.checkpoints[0].next == ("b", "b")
