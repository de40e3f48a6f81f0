"""Ways to begin that depend on what is stored: a claim, a subgraph's own checkpoint, an end."""

from typing import Any

import pytest

from actorgraph.channels import EphemeralValue, LastValue
from actorgraph.errors import EmptyInputError, MissingNodeError, UnknownTargetError
from actorgraph.plan.channel_graph import (
    ChannelGraph,
    ChannelNode,
    ChannelWriteEntry,
    make_channel_plan,
)
from actorgraph.plan.plan import Plan
from actorgraph.superstep.begin import begin, restore
from actorgraph.superstep.nesting import Nested
from actorgraph.superstep.run_state import RunState
from actorgraph.values.checkpoint import OpenClaim, Restored
from actorgraph.values.commands import Command, Interrupt
from actorgraph.values.constants import START
from actorgraph.values.ids import as_text
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import (
    ClaimIntent,
    Save,
    StartTask,
    Succeeded,
)
from tests.superstep.script import Script, Store, chain, kinds, only, with_values
from tests.superstep.threads import EXIT, PAIR, SYNC, State, thread


def unsaved(claim: OpenClaim | None) -> Restored:
    """A thread on which no checkpoint is stored."""
    return with_values(thread("b"), id=b"", claim=claim)


class TestAClaimWithoutACheckpoint:
    CLAIM = OpenClaim(b"r" * 16, "exit", {"text": "accepted"}, has_input=True)

    @pytest.mark.parametrize(
        ("given", "text"), [(None, "accepted"), ({"text": "mine"}, "mine")], ids=["None", "input"]
    )
    def test_its_input_is_taken_up_unless_another_is_given(self, given, text):
        """
        A run in exit mode claimed a new thread and died: its input begins the thread.
        """
        run = Script(PAIR)
        (save,) = only(Save, begin(run.state, unsaved(self.CLAIM), given))

        assert (save.head, save.claim) == (None, ClaimIntent(None, "sync"))
        assert [p.step for p in save.checkpoints] == [-1, 0]
        assert run.state.values["text"] == text

    def test_without_an_input_there_is_nothing(self):
        """
        Where no claim is open either, None has nothing to go on with.
        """
        with pytest.raises(EmptyInputError):
            begin(Script(PAIR).state, unsaved(None), None)


def test_an_input_on_a_waiting_thread_counts_its_tasks_as_run():
    """
    They have seen their triggers; in exit mode the claim is on the thread's head.
    """
    store = thread("b")
    run = Script(PAIR, EXIT, store=store)
    (save,) = only(Save, run.begin({"text": "new"}))

    claim = ClaimIntent(store.head, "exit", {"text": "new"}, has_input=True)
    assert save == Save(1, store.head, claim)
    assert set(run.state.seen) == {"__input__", START, "a", "b"}


def test_a_restored_state_is_that_of_the_checkpoint():
    """
    Cells, versions, what nodes have seen, ids, step and source are the checkpoint's own.
    """
    store = thread("b", finished=("a",))
    restored = with_values(store, source="fork", version_floor=99, deltas={"log": (1, 1)})
    state = RunState(PAIR, RunPolicy(), store.mint, has_saver=True)
    restore(state, restored)

    assert state.values == {"log": [], **restored.values}
    assert (state.versions, state.seen) == (restored.versions, restored.seen)
    assert state.versions is not restored.versions
    assert (state.max_version, state.step, state.source) == (99, restored.step, "fork")
    assert (state.checkpoint, state.parent) == (restored.id, restored.parent)
    assert (state.head, state.anchor) == (restored.head, restored.id)
    assert (state.deltas, state.tasks, state.generation) == ({"log": (1, 1)}, {}, 2)


def test_the_highest_version_of_a_checkpoint_counts_without_a_floor():
    """
    New versions are above those of the checkpoint, too.
    """
    restored = with_values(thread("b"), version_floor=0, head=b"")
    state = RunState(PAIR, RunPolicy(), Store().mint, has_saver=True)
    restore(state, restored)

    assert state.max_version == max(restored.versions.values())
    assert state.head == restored.id


class TestAFinishedThread:
    def test_gives_its_values_and_its_checkpoint_to_readers(self):
        """
        Nothing runs and nothing is written; readers see where the thread is.
        """
        store = Store()
        Script(chain(State, "a"), store=store).play({"text": "x"}, {"a": lambda s: None})
        run = Script(chain(State, "a"), store=store, modes=frozenset({"values", "checkpoints"}))
        effects = run.begin(None)

        assert kinds(effects) == ["Emit", "Finish"]
        assert run.streamed("values") == [{"text": "x", "log": []}]
        (point,) = run.streamed("checkpoints")
        assert (point["next"], point["tasks"]) == ([], [])
        assert run.outcome == Succeeded({"text": "x", "log": []})

    def test_makes_no_chunk_without_readers(self):
        """
        Without readers of values no chunk is made.
        """
        store = Store()
        Script(chain(State, "a"), store=store).play({"text": "x"}, {"a": lambda s: None})
        run = Script(chain(State, "a"), store=store, modes=frozenset({"updates"}))

        assert kinds(run.begin(None)) == ["Finish"]


class TestASubgraph:
    def asked(self) -> tuple[Store, Interrupt]:
        """Its thread's checkpoint, on which `a` has finished and `b` waits; b's question."""
        store = thread("b", finished=("a",))
        return store, next(e for e in store.ledger if e.index == -3).writes[0][1][0]

    def nested(self, store: Store, mode: Any = SYNC, **fields: Any) -> Script:
        """A run below a task, on its own stored checkpoint."""
        run = Script(PAIR, mode, store=store)
        run.state.nested = Nested({"": "1"}, fields.pop("routed", {}), **fields)
        return run

    @pytest.mark.parametrize("given", [None, {"text": "other"}])
    def test_goes_on_with_the_answers_of_its_parent(self, given):
        """
        It goes on with any input of its task; answers to other questions are left out.
        """
        store, question = self.asked()
        run = self.nested(store, routed={question.id: "yes", "f" * 32: "no"})
        (save,) = only(Save, run.begin(given))
        run.saved()

        assert (save.claim, save.ends, save.checkpoints) == (None, None, ())
        assert [(e.path, e.index, e.writes) for e in save.ledger] == [
            (("__pregel_pull", "b"), -4, (("__resume__", ["yes"]),))
        ]
        assert [(t.name, t.answers) for t in run.running.values()] == [("b", ("yes",))]
        assert run.state.values["text"] == "x"

    def test_without_answers_and_without_a_claim_saves_nothing(self):
        """
        The root run has claimed the thread: its tasks start at once.
        """
        store, _ = self.asked()
        run = self.nested(store)

        assert [type(e) for e in run.begin({"text": "other"})] == [StartTask]
        assert run.names == ["b"]

    def test_with_a_saver_of_its_own_claims_its_thread(self):
        """
        Its claim is saved although it brings no rows.
        """
        store, _ = self.asked()
        run = self.nested(store, claims=True)
        (save,) = only(Save, run.begin({"text": "other"}))

        assert save == Save(1, store.head, ClaimIntent(store.head, "sync"))

    def test_a_stateful_one_of_another_task_begins_with_its_input(self):
        """
        On its finished checkpoint a new task's input is a new input.
        """
        store = Store()
        Script(chain(State, "a"), store=store).play({"text": "x"}, {"a": lambda s: None})
        restored = with_values(store, metadata={"parents": {"": "0"}})
        run = Script(chain(State, "a"), store=store)
        run.state.nested = Nested({"": "1"}, {}, stateful=True, task="2")
        (save,) = only(Save, begin(run.state, restored, {"text": "y"}))

        assert (save.claim, [p.source for p in save.checkpoints]) == (None, ["input", "loop"])
        assert run.state.values["text"] == "y"

    def test_its_inputs_unknown_keys_are_the_parents(self):
        """
        Its input is the parent's state: keys that it does not have are not reported.
        """
        runs = [Script(PAIR, saver=False) for _ in range(2)]
        runs[1].state.nested = Nested({"": "1"}, {})
        for run in runs:
            run.begin({"text": "x", "other": 1})

        assert [len(run.state.dropped) for run in runs] == [1, 0]


def test_a_breakpoint_at_which_the_thread_has_stopped_does_not_pause_again():
    """
    Going on with finished tasks passes the breakpoint before them.
    """
    store = thread("b", finished=("a",))
    run = Script(PAIR, store=store, interrupt_before=("b",))
    run.begin(None)
    run.saved()

    assert run.names == ["b"]


def test_a_breakpoint_before_a_node_is_noted_as_the_kind_of_pause():
    """
    The kind of breakpoint is that of the pause; readers get an empty list of questions.
    """
    run = Script(chain(State, "a"), interrupt_before=("a",), modes=frozenset({"updates"}))
    assert run.state.pause == "interrupt_after"
    run.begin({"text": "x"})
    run.saved()

    assert run.state.pause == "interrupt_before"
    assert run.streamed("updates") == [{"__interrupt__": ()}]


def test_ids_are_made_of_the_step_and_the_checkpoint_before():
    """
    The function that makes ids gets both, from the first to the last.
    """
    made: list[tuple[int, bytes | None]] = []
    store = Store()

    def mint(step: int, parent: bytes | None) -> Any:
        made.append((step, parent))
        return store.mint(step, parent)

    run = Script(chain(State, "a"), store=store)
    first = run.state.checkpoint
    run.state.mint = mint
    run.begin({"text": "x"})
    run.saved()
    run.finish("a", log=["a"])
    run.saved()
    ids = [first, *store.points]

    assert made == [(-1, ids[0]), (0, ids[1]), (1, ids[2])]


class TestCommands:
    def test_a_wrong_target_names_the_input(self):
        """
        The error says that the input goes to a node that does not exist.
        """
        with pytest.raises(UnknownTargetError) as refused:
            Script(PAIR).begin(Command(goto="nope"))

        assert refused.value.what == "the input goes to 'nope', which is not a node of graph 'g'"
        assert not isinstance(refused.value, MissingNodeError)

    def test_the_first_one_of_a_thread_has_the_number_0(self):
        """
        Stamps are made of the id of the state's checkpoint and the Command's number.
        """
        plan = chain(State, "a")
        object.__setattr__(plan, "stamps", {"log": lambda value, seed: [*value, seed]})
        run = Script(plan)
        base = as_text(run.state.checkpoint)
        run.begin(Command(update={"log": ["u"]}))

        assert run.state.values["log"] == ["u", f"{base}:0:0"]
        assert set(run.state.seen) == {"__input__"}


class TestAGraphWithoutAStart:
    def plan(self) -> Plan:
        """`in` -> node `a` -> `out`."""
        return make_channel_plan(
            ChannelGraph(
                nodes={"a": ChannelNode(("in",), ("in",), entries=(ChannelWriteEntry("out"),))},
                channels={"in": EphemeralValue(int), "also": LastValue(int), "out": LastValue(int)},
                inputs=("in", "also"),
                outputs=("out",),
                shown=None,
                name="g",
            )
        )

    def test_writes_its_input_at_once(self):
        """
        One checkpoint holds the input's channels; the nodes that they trigger follow it.
        """
        run = Script(self.plan())
        (save,) = only(Save, run.begin({"in": 1, "also": 2}))
        (made,) = save.checkpoints

        assert (made.changed, made.step, made.source) == ({"in": 1, "also": 2}, -1, "input")
        assert (made.next, save.ledger, save.ends) == (("a",), (), None)
        run.saved()
        run.finish("a", 7)
        run.saved()
        assert run.outcome == Succeeded({"out": 7})

    def test_reports_the_keys_that_it_does_not_have(self):
        """
        As an input of any graph; a subgraph's input is its parent's state.
        """
        runs = [Script(self.plan(), saver=False) for _ in range(2)]
        runs[1].state.nested = Nested({"": "1"}, {})
        for run in runs:
            run.begin({"in": 1, "ni": 2})

        assert [len(run.state.dropped) for run in runs] == [1, 0]

    def test_needs_one_of_its_input_channels(self):
        """
        The error names them.
        """
        with pytest.raises(EmptyInputError) as refused:
            Script(self.plan()).begin({"out": 1})

        assert refused.value.what == "Received no input for ['also', 'in']"
        assert refused.value.do == "pass a dict with one of these keys"

    def test_stamps_its_input_with_the_checkpoint_before(self):
        """
        No task makes the writes: the seed has the checkpoint and the input's mark.
        """
        plan = self.plan()
        object.__setattr__(plan, "stamps", {"also": lambda value, seed: (value, seed)})
        run = Script(plan)
        base = as_text(run.state.checkpoint)
        run.begin({"in": 1, "also": 2})

        assert run.state.values["also"] == (2, f"{base}:__input__:1")
