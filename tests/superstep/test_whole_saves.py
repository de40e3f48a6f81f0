"""Saves compared whole: every field of the claim, the rows, the checkpoints and the status."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph.channels import EMPTY, DeltaChannel, EphemeralValue, LastValue
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.superstep.nesting import Nested
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import chunk_gate, new_checkpoint
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import NULL_TASK, START, TASKS
from actorgraph.values.ids import TaskId, as_text
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import ClaimIntent, Finish, LedgerEntry, NewCheckpoint, Save
from tests.superstep.script import Script, Store, chain, graph, idle, kinds, only, started
from tests.superstep.threads import ASYNC, EXIT, PAIR, SYNC, again, thread


class State(TypedDict, total=False):
    text: str
    log: Annotated[list[str], operator.add]


A = "branch:to:a"


def point(run: Script, number: int, **fields: Any) -> NewCheckpoint:
    """The checkpoint of this number of the run's thread, with these fields."""
    ids = list(run.store.points)
    parent = ids[number - 1] if number else None
    return NewCheckpoint(id=ids[number], parent=parent, **fields)


def points_of_one_node(run: Script, cleared: dict[str, Any]) -> list[NewCheckpoint]:
    """The checkpoints of START -> a with the input {"text": "x"}, where `a` logs its name."""
    changes = [
        {START: {"text": "x"}},
        {START: cleared[START], A: None, "text": "x"},
        {A: cleared[A], "log": ["a"]},
    ]
    versions = [
        {START: 1},
        {START: 2, "text": 2, A: 2},
        {START: 2, "text": 2, A: 3, "log": 3},
    ]
    seen: list[dict[str, Any]] = [{"__input__": {}}]
    seen.append({**seen[0], START: {START: 1}})
    seen.append({**seen[1], "a": {A: 2}})
    return [
        point(
            run,
            number,
            step=number - 1,
            source="loop" if number else "input",
            changed=changes[number],
            versions=versions[number],
            seen=seen[number],
            updated=[(START,), (A, "text"), ("log",)][number],
            next=[(START,), ("a",), ()][number],
            metadata={"user": 1},
        )
        for number in range(3)
    ]


class TestARun:
    @pytest.mark.parametrize("mode", [SYNC, ASYNC])
    def test_of_one_node_makes_two_saves(self, mode):
        """
        The claim with the input's two checkpoints; the node's row, the last checkpoint and the
        final status.
        """
        run = Script(chain(State, "a"), mode, metadata={"user": 1})
        run.begin({"text": "x"})
        run.saved()
        task = run.task("a")
        run.finish("a", log=["a"])
        run.saved()
        first, second, third = run.store.points
        start = run.sent[0].ledger[0].task
        row = LedgerEntry(first, start, ("__pregel_pull", START), 0, 0, (("text", "x"), (A, None)))
        result = LedgerEntry(second, task.id, ("__pregel_pull", "a"), 0, 0, (("log", ["a"]),))
        cleared = {
            START: run.sent[0].checkpoints[1].changed[START],
            A: run.sent[1].checkpoints[0].changed[A],
        }
        entered, begun, over = points_of_one_node(run, cleared)
        assert set(cleared.values()) == {EMPTY}
        assert run.sent == [
            Save(1, None, ClaimIntent(None, mode.value), (row,), (entered, begun)),
            Save(2, second, None, (result,), (over,), "success"),
        ]
        assert run.state.head == third

    def test_in_exit_mode_makes_a_claim_and_a_last_save(self):
        """
        The claim holds the input; the last checkpoint has all that changed, and no parent.
        """
        run = Script(chain(State, "a"), EXIT)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", log=["a"])
        run.saved()
        (last,) = run.store.points.values()

        assert run.sent[0] == Save(
            1, None, ClaimIntent(None, "exit", {"text": "x"}, has_input=True)
        )
        assert run.sent[1:] == [Save(2, None, None, (), (last,), "success")]
        assert (last.parent, last.step, last.source) == (None, 1, "loop")
        assert set(last.changed) == {START, A, "text", "log"}
        assert (last.next, last.updated) == ((), ("log",))

    def test_without_a_node_ends_with_its_input(self):
        """
        A graph whose START leads nowhere is over with the claim's save.
        """
        plan = graph(State, {"a": idle}, [(START, "a")])
        object.__setattr__(plan.nodes[START], "targets", ())
        run = Script(plan)
        effects = run.begin({"text": "x"})

        assert [(s.number, s.ends) for s in only(Save, effects)] == [(1, "success")]
        assert run.finishes == []
        assert [type(e) for e in run.saved()] == [Finish]
        assert run.outcome.values == {"text": "x", "log": []}

    @pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])
    def test_that_goes_on_claims_the_head(self, mode):
        """
        Its first save has the claim only; in every mode its tasks wait for it.
        """
        store = thread("b", finished=("a",))
        run = Script(PAIR, mode, store=store)

        assert run.begin(None) == [Save(1, store.head, ClaimIntent(store.head, mode.value))]
        assert started(run.saved()) == ["b"]

    def test_a_restored_superstep_is_completed_without_rows(self):
        """
        Its rows are stored already; the save has its checkpoint only.
        """
        run = Script(chain(State, "a"))
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", log=["a"])
        run.store.ledger.extend(run.sent[1].ledger)
        second = Script(run.plan, store=run.store)
        (claim,) = only(Save, second.begin(None))
        (last,) = only(Save, second.saved(1))

        assert (claim.claim, claim.checkpoints) == (ClaimIntent(run.store.head, "sync"), ())
        assert (last.ledger, last.ends, len(last.checkpoints)) == ((), "success", 1)
        assert last.checkpoints[0].changed["log"] == ["a"]


class TestACommand:
    def test_its_answers_and_writes_are_in_the_claims_save(self):
        """
        The rows beside the head, and the ids of the questions that it answers.
        """
        store = thread("b", finished=("a",))
        asked = next(e for e in store.ledger if e.index == -3)
        run = Script(PAIR, store=store)
        (save,) = only(Save, run.begin(Command(resume="yes", update={"text": "u"}, goto="c")))
        head, question = store.head, asked.writes[0][1][0].id
        writes = (("text", "u"), ("branch:to:c", None))

        assert head is not None
        assert save == Save(
            1,
            head,
            ClaimIntent(head, "sync", resumes=(question,)),
            (
                LedgerEntry(head, asked.task, asked.path, -4, 2, (("__resume__", ["yes"]),)),
                LedgerEntry(head, TaskId(NULL_TASK), (), 0, 0, writes),
            ),
        )
        run.saved()
        assert run.names == ["b", "c"]

    def test_the_next_commands_row_has_the_next_index(self):
        """
        Rows of Commands never replace each other.
        """
        store = thread("a", "b")
        for text in "xy":
            run = again(store, Command(update={"text": text}))
            run.cancel()
            for name in run.names:
                run.stop(name)
            run.saved()
        found = [(e.index, e.writes) for e in store.ledger if e.task == NULL_TASK]

        assert found == [(0, (("text", "x"),)), (1, (("text", "y"),))]
        restored = again(store, None)
        assert restored.state.values["text"] == "y"

    def test_a_finished_thread_gets_a_checkpoint(self):
        """
        Where nothing is due its writes are a superstep of their own, and no row.
        """
        store = Store()
        plan = chain(State, "a")
        Script(plan, store=store).play({"text": "x"}, {"a": lambda s: None})
        head = store.restored()
        assert head is not None
        run = Script(plan, store=store)
        (save,) = only(Save, run.begin(Command(update={"text": "u"})))
        (made,) = save.checkpoints

        claim = ClaimIntent(head.id, "sync")
        assert (save.head, save.claim, save.ends) == (head.id, claim, "success")
        assert (save.ledger, made.source, made.step) == ((), "update", head.step + 1)
        assert (made.parent, made.changed, made.updated) == (head.id, {"text": "u"}, ("text",))

    @pytest.mark.parametrize("mode", [SYNC, EXIT])
    def test_can_begin_a_thread(self, mode):
        """
        Its update and goto make the first checkpoint, with the claim, in every mode.
        """
        run = Script(PAIR, mode, modes=frozenset({"values", "checkpoints"}))
        (save,) = only(Save, run.begin(Command(update={"text": "u"}, goto="c")))
        (made,) = save.checkpoints

        assert (save.head, save.claim, save.ends) == (None, ClaimIntent(None, mode.value), None)
        assert (made.step, made.source, made.parent, made.next) == (-1, "input", None, ("c",))
        assert made.changed == {"text": "u", "branch:to:c": None}
        run.saved()
        assert run.names == ["c"]
        assert run.streamed("values") == [{"text": "u", "log": []}]
        assert [c["next"] for c in run.streamed("checkpoints")] == [["c"]]

    def test_that_leads_nowhere_begins_a_thread_that_is_over(self):
        """
        Its one save has the final status.
        """
        run = Script(PAIR)
        (save,) = only(Save, run.begin(Command(update={"text": "u"})))
        run.saved()

        assert save.ends == "success"
        assert run.outcome.values == {"text": "u", "log": []}

    def test_can_begin_a_run_without_a_saver(self):
        """
        Then nothing is saved.
        """
        run = Script(PAIR, saver=False)

        assert kinds(run.begin(Command(goto="c"))) == ["StartTask"]

    def test_sends_of_a_command_are_new_tasks(self):
        """
        Sends of a Command replace those that waited; their tasks have other ids.
        """
        plan = graph(State, {"a": idle, "b": idle}, [(START, "a")])
        run = Script(plan)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", Send("b", 1))
        run.saved()
        old = run.task("b")
        run.ask("b", "why?")
        run.saved()
        second = Script(plan, store=run.store)
        second.begin(Command(goto=Send("b", 2)))
        second.saved()
        new = second.task("b")

        assert (old.input, new.input, new.path) == (1, 2, old.path)
        assert old.id != new.id
        assert second.state.send_round == 1


class TestSubgraphs:
    @pytest.mark.parametrize("claims", [True, False])
    def test_make_no_claim_of_their_own(self, claims):
        """
        The root run's claim covers the thread, unless the subgraph has a saver of its own.
        """
        run = Script(chain(State, "a"))
        run.state.nested = Nested({"": "1"}, {}, claims=claims)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", log=["a"])
        run.saved()

        assert [save.claim is not None for save in run.sent] == [claims, False]
        assert [save.ends for save in run.sent] == [None, "success" if claims else None]

    @pytest.mark.parametrize(("stateful", "saves"), [(True, 1), (False, 0)])
    def test_in_exit_mode_store_what_is_needed_again(self, stateful, saves):
        """
        A stateful one stores its last checkpoint, without a claim and a status.
        """
        run = Script(chain(State, "a"), EXIT)
        run.state.nested = Nested({"": "1"}, {}, stateful=stateful, task="1")
        assert kinds(run.begin({"text": "x"})) == ["StartTask"]
        run.finish("a", log=["a"])
        run.saved()

        assert len(run.sent) == saves
        assert all((s.claim, s.ends, len(s.checkpoints)) == (None, None, 1) for s in run.sent)

    def test_with_nothing_new_store_nothing_at_the_end(self):
        """
        A subgraph has no status to store: without rows and checkpoints no last save is made.
        """
        run = Script(chain(State, "a"))
        run.state.nested = Nested({"": "1"}, {})
        run.begin({"text": "x"})
        run.saved()
        run.cancel()
        run.stop("a")

        assert len(run.sent) == 1
        assert len(run.finishes) == 1


class TestCheckpoints:
    def test_name_their_highest_version_where_none_changed(self):
        """
        A checkpoint without a change names the highest version of all branches.
        """
        store = thread("b")
        run = Script(PAIR, store=store)
        (save,) = only(Save, run.begin(None, at=0))

        highest = max(v for p in store.points.values() for v in p.versions.values())
        assert save.checkpoints[0].highest == highest
        assert save.checkpoints[0].changed == {}

    @pytest.mark.parametrize("count", [2, 12])
    def test_list_their_changes_by_name(self, count):
        """
        The stored rows do not depend on the order of a set.
        """
        for start in range(20):
            names = [f"k{start}{n:02}" for n in range(count)]
            schema: Any = TypedDict("schema", dict.fromkeys(names, int))  # type: ignore[misc]
            plan = graph(schema, {"a": idle}, [])
            state = RunState(plan, RunPolicy(), Store().mint, has_saver=True)
            state.dirty = set(names)

            assert list(new_checkpoint(state, []).changed) == names
            assert state.dirty == set()

    def test_have_what_a_channel_makes_of_its_value(self):
        """
        A channel that stores another form of its value is asked for it; an empty cell is empty.
        """
        packed: Any = Annotated[int, Packed(int)]
        schema: Any = TypedDict("schema", dict.fromkeys("abc", packed))  # type: ignore[misc]
        state = RunState(graph(schema, {"n": idle}, []), RunPolicy(), Store().mint, has_saver=True)
        state.values |= {"a": 1, "branch:to:n": 5}
        state.dirty = {"a", "b", "branch:to:n"}

        assert new_checkpoint(state, []).changed == {
            "a": ["packed", 1],
            "b": EMPTY,
            "branch:to:n": 5,
        }

    def test_have_their_send_in_the_channel_of_tasks(self):
        """
        The Sends of the next superstep are stored with the checkpoint.
        """
        plan = graph(State, {"a": idle, "b": idle}, [(START, "a")])
        run = Script(plan)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", [Send("b", 1), Send("b", 2)])
        run.saved()
        point_ = list(run.store.points.values())[-1]

        assert point_.changed[TASKS] == [Send("b", 1), Send("b", 2)]
        assert point_.next == ("b", "b")
        second = run.task("b", 1)
        run.finish("b", at=1, log=["2"])
        assert run.sent[-1].ledger == (
            LedgerEntry(point_.id, second.id, ("__pregel_push", 1, "b"), 0, 0, (("log", ["2"]),)),
        )

    def test_an_ephemeral_cell_that_was_cleared_is_stored_as_empty(self):
        """
        Its version rises with the clearing.
        """

        class Flash(TypedDict, total=False):
            flash: Annotated[int, EphemeralValue]

        run = Script(chain(Flash, "a", "b"))
        run.begin({"flash": 1})
        run.saved()
        run.finish("a", {})
        run.saved()

        assert run.store.points[run.state.checkpoint].versions["flash"] == 3
        assert "flash" not in run.store.values[run.state.checkpoint]

    @pytest.mark.parametrize("mode", [SYNC, ASYNC, EXIT])
    def test_the_rows_of_an_exit_run_are_those_of_its_last_superstep(self, mode):
        """
        Rows beside an earlier checkpoint would be without their base.
        """
        run = Script(chain(State, "a", "b"), mode)
        run.begin({"text": "x"})
        run.saved()
        run.finish("a", log=["a"])
        run.saved()
        run.fail("b", ValueError("no"))
        run.saved()

        last = run.sent[-1]
        assert [(e.path[-1], e.index) for e in last.ledger] == [("b", -1)]
        assert {e.base for e in last.ledger} == {run.state.checkpoint}
        assert last.ends == "error"
        assert len(last.checkpoints) == (mode is EXIT)


class Packed(LastValue[int]):
    """A channel whose stored form is not its value."""

    def dump(self, value):
        return ["packed", value]


class TestGates:
    def test_a_chunk_waits_for_the_save_with_its_contents(self):
        """
        In sync mode for the newest save, or for the next one while rows wait for that.
        """
        run = Script(PAIR)
        run.begin({"text": "x"})
        assert chunk_gate(run.state) == 1
        run.saved()
        run.finish("a", log=["a"])
        assert chunk_gate(run.state) == 2
        run.saved()
        run.state.unflushed.append(run.sent[1].ledger[0])
        assert chunk_gate(run.state) == 3

    @pytest.mark.parametrize("options", [{"durability": ASYNC}, {"saver": False}])
    def test_others_go_at_once(self, options):
        """
        In other modes and without a saver a chunk waits for nothing.
        """
        run = Script(PAIR, **options)
        run.begin({"text": "x"})

        assert chunk_gate(run.state) == 0


class TestStamps:
    def test_name_the_write_of_the_task(self):
        """
        A reducer's stamp gets the task's id and the place of the write, wherever it is made.
        """

        def keep(old: list[Any], new: list[Any]) -> list[Any]:
            return [*old, *new]

        class Stamped(TypedDict, total=False):
            log: Annotated[list[Any], keep]

        builder = GraphBuilder(Stamped).add_node("a", idle).add_edge(START, "a")
        plan = make_plan(builder, name="g")
        object.__setattr__(plan, "stamps", {"log": lambda value, seed: [*value, seed]})
        run = Script(plan)
        run.begin({"log": ["in"]})
        start = run.sent[0].ledger[0].task

        assert run.state.values["log"] == ["in", f"{start}:0"]
        run.saved()
        run.ask("a", "why?")
        run.saved()
        base = run.state.checkpoint
        second = Script(plan, store=run.store)
        second.begin(Command(update={"log": ["u"]}))

        assert second.state.values["log"][2:] == ["u", f"{as_text(base)}:0:0"]


def test_delta_channels_of_a_superstep_are_left_out_of_its_checkpoint():
    """
    The checkpoint names them with their counters: their writes are in the parent's ledger.
    """

    def extend(old: list[str], new: list[list[str]]) -> list[str]:
        return [*old, *(item for write in new for item in write)]

    class Delta(TypedDict, total=False):
        log: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=3)]

    run = Script(chain(Delta, "a", "b", "c"))
    run.begin({"log": ["0"]})
    run.saved()
    for name in "abc":
        run.finish(name, log=[name])
        run.saved()
    points = list(run.store.points.values())

    assert [p.changed.get("log") for p in points] == [None, None, None, ["0", "a", "b"], None]
    assert [dict(p.deltas) for p in points] == [
        {},
        {"log": (1, 1)},
        {"log": (2, 2)},
        {},
        {"log": (1, 1)},
    ]
    assert [p.folds for p in points] == [False, True, True, True, True]
