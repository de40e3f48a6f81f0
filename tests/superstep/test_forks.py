"""Checkpoints made from outside of a run, and those that begin a branch or a namespace."""

from typing import Any

import pytest

from actorgraph.channels import DeltaChannel
from actorgraph.errors import InvalidUpdateError
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compile import make_plan
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.begin import restore
from actorgraph.superstep.nesting import Nested
from actorgraph.superstep.replay import transplant
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.tasks import due_tasks
from actorgraph.superstep.update import Updating, checked_updates, fork, update_writes
from actorgraph.values.commands import Command, Send, StateUpdate
from actorgraph.values.constants import START
from actorgraph.values.ids import task_id
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import ClaimIntent, LedgerEntry, NewCheckpoint, Save
from tests.superstep.script import Script, Store, chain, graph, idle, kinds, only, with_values
from tests.superstep.threads import EXIT, PAIR, SYNC, State, again, state_at, thread


def updating(store: Store, at: int = -1) -> Updating:
    """Updates on top of a checkpoint of a thread."""
    restored = store.restored(at)
    known = pending.attempts(restored.ledger) if restored else {}
    superseded = restored is not None and restored.id != restored.head
    return Updating(state_at(store, at), known, superseded=superseded)


def folded(work: Updating, *updates: StateUpdate) -> None:
    """Fold one superstep of updates."""
    checked = checked_updates(work.state, updates, strict=False)
    work.fold([(u, update_writes(PAIR, u.node, u.values)) for u in checked])


class TestUpdate:
    def test_is_one_save_with_claim_row_and_checkpoint(self):
        """
        An update as a node that is due: its row beside the base, and a checkpoint after it.
        """
        store = thread("b")
        base = store.restored()
        assert base is not None
        task = next(e for e in store.ledger if e.path[-1] == "a" and e.index == -1)
        work = updating(store)
        folded(work, StateUpdate({"text": "new"}, "a"))
        version = max(base.versions.values()) + 1
        save = work.save()
        (point,) = save.checkpoints
        (row,) = save.ledger
        join = next(channel for channel, _ in row.writes if channel.startswith("join"))

        assert (save.number, save.head, save.ends) == (1, base.id, "updated")
        assert save.claim == ClaimIntent(base.id, "sync")
        writes = (("text", "new"), (join, "a"))
        assert row == LedgerEntry(base.id, task.task, ("__pregel_pull", "a"), 0, 0, writes)
        changed = {"text", join, "branch:to:a", "branch:to:b"}
        assert set(point.changed) == changed
        assert (point.changed["text"], point.parent) == ("new", base.id)
        assert (point.step, point.source, point.next) == (base.step + 1, "update", ())
        assert point.versions == base.versions | dict.fromkeys(changed, version)
        assert point.seen == base.seen | {"a": {}}
        assert point.metadata == {"as_node": "a", "as_node_inferred": False}
        assert point.updated is None

    def test_by_two_nodes_is_one_superstep(self):
        """
        Updates of one superstep are folded together; the metadata lists their nodes.
        """
        store = thread("a", "b")
        work = updating(store)
        folded(work, StateUpdate({"log": ["1"]}, "a"), StateUpdate({"log": ["2"]}, "b"))
        (point,) = work.save().checkpoints

        assert point.metadata == {"as_node": ["a", "b"], "as_node_inferred": False}
        assert point.changed["log"] == ["1", "2"]
        assert point.next == ("c",)

    def test_without_an_author_keeps_the_pending_tasks(self):
        """
        The author is inferred to be none: no row, and all that was due stays due.
        """
        work = updating(thread("b", finished=("a",)))
        folded(work, StateUpdate({"text": "new"}))
        save = work.save()

        assert save.ledger == ()
        assert save.checkpoints[0].next == ("a", "b")
        assert save.checkpoints[0].metadata == {"as_node": None, "as_node_inferred": True}

    def test_by_a_task_id_is_the_result_of_that_task(self):
        """
        A task id without a node names the author: the row is that task's.
        """
        store = thread("a", "b")
        wanted = due_tasks(state_at(store), None)[1]
        work = updating(store)
        folded(work, StateUpdate({"text": "new"}, None, wanted.id))
        save = work.save()

        assert [(row.task, row.path) for row in save.ledger] == [(wanted.id, wanted.path)]
        assert save.checkpoints[0].metadata == {"as_node": "b", "as_node_inferred": True}

    def test_by_an_unknown_task_id_has_a_row_of_that_id(self):
        """
        An id that no due task has is the row's own; a due task of the node keeps waiting.
        """
        own = "00000000-0000-0000-0000-00000000000a"
        work = updating(thread("a", "b"))
        folded(work, StateUpdate({"text": "new"}, "a", own))
        (row,) = work.save().ledger

        assert (row.task, row.path) == (own, ("__interrupt__", "a"))

    def test_as_a_node_that_is_not_due_has_an_id_of_its_place(self):
        """
        Without a due task the row's id is made of the checkpoint and the update's place.
        """
        store = thread("a", "b")
        work = updating(store)
        folded(work, StateUpdate({"log": ["1"]}, "c"), StateUpdate({"log": ["2"]}, "c"))
        made = [task_id(store.head or b"", "", "__interrupt__", place) for place in "01"]

        assert [row.task for row in work.save().ledger] == made

    @pytest.mark.parametrize(("ran", "author"), [(("a",), "a"), (("a", "b"), None)])
    def test_the_author_is_the_node_that_wrote_last(self, ran, author):
        """
        After a superstep of one node that node is the author; one of two has no author.
        """
        edges: list[Any] = [(START, name) for name in ran]
        plan = graph(State, dict.fromkeys("abc", idle), [*edges, ("a", "c")])
        run = Script(plan)
        run.begin({"text": "x"})
        run.saved()
        for name in ran:
            run.finish(name, log=[name])
        run.saved()
        restored = run.store.restored()
        assert restored is not None
        state = RunState(plan, RunPolicy(), run.store.mint, has_saver=True)
        restore(state, restored)
        (update,) = checked_updates(state, [StateUpdate({})], strict=False)

        assert (update.node and update.node.name) == author

    def test_a_removed_node_is_not_the_author(self):
        """
        Of the nodes that the graph still has, the one that wrote last is.
        """
        state = state_at(thread("b"))
        state.seen = {"a": {"x": 3}, "gone": {"x": 9}, "b": {"x": 2}, "c": {}}
        (update,) = checked_updates(state, [StateUpdate({})], strict=False)

        assert update.node is PAIR.nodes["a"]

    def test_its_writes_are_seen_as_its_nodes(self):
        """
        An update without an author is seen as an input's; each superstep has its own rows.
        """
        work = Updating(state_at(thread("b", finished=("a",))), {})
        folded(work, StateUpdate({"text": "1"}))
        assert None not in work.state.seen
        assert "__input__" in work.state.seen
        folded(work, StateUpdate({"text": "2"}, "a"))
        folded(work, StateUpdate({"text": "3"}, "b"))
        first, second = work.save().ledger

        assert [row.path[-1] for row in (first, second)] == ["a", "b"]
        assert first.base != second.base

    def test_a_graph_of_one_node_has_one_author(self):
        """
        An entrypoint has no START: its one node is the author of each update.
        """
        plan = chain(State, "a")
        only_node = {"a": plan.nodes["a"]}
        object.__setattr__(plan, "nodes", only_node)
        state = RunState(plan, RunPolicy(), Store().mint, has_saver=True)
        (update,) = checked_updates(state, [StateUpdate({})], strict=False)

        assert update.node is plan.nodes["a"]

    def test_an_unknown_key_without_an_author_is_refused(self):
        """
        Only state keys can be written; the known ones are.
        """
        assert update_writes(PAIR, None, {"text": "x"}) == [("text", "x")]
        with pytest.raises(InvalidUpdateError, match="'branch:to:a'"):
            update_writes(PAIR, None, {"text": "x", "branch:to:a": None})


class TestClear:
    def test_finished_tasks_are_folded_and_the_others_dropped(self):
        """
        As `__end__` without values: a's writes are in the state, b is not due any more.
        """
        store = thread("b", finished=("a",))
        work = updating(store)
        work.clear()
        save = work.save()
        (point,) = save.checkpoints

        assert (point.source, point.metadata) == ("update", {"as_node": "__end__"})
        assert (point.next, point.changed["log"], save.ledger) == ((), ["a"], ())
        assert set(point.seen["a"]) == {"branch:to:a"}
        assert set(point.seen["b"]) == {"branch:to:b"}
        assert point.parent == store.saves[0].checkpoints[-1].id

    def test_tasks_are_folded_in_path_order(self):
        """
        Sends are folded by their number, as the superstep itself would have folded them.
        """
        plan = graph(State, {"s": idle, "a": idle}, [(START, "s")])
        run = Script(plan)
        run.begin({"text": "x"})
        run.saved()
        run.finish("s", [Send("a", n) for n in range(3)])
        run.saved()
        for number in (2, 0, 1):
            task = next(t for t in run.running.values() if t.input == number)
            place = [t.id for t in run.running.values()].index(task.id)
            if number != 1:
                run.finish("a", at=place, log=[str(number)])
        run.fail("a", ValueError("no"))
        run.saved()
        restored = run.store.restored()
        assert restored is not None
        state = RunState(plan, RunPolicy(), run.store.mint, has_saver=True)
        restore(state, restored)
        work = Updating(state, pending.attempts(restored.ledger))
        work.clear()

        assert work.save().checkpoints[0].changed["log"] == ["0", "2"]

    def test_the_writes_of_an_error_handler_are_folded_too(self):
        """
        The handler of a failed task belongs to the superstep.
        """
        builder = GraphBuilder(State).add_node("a", idle, error_handler=idle)
        builder.add_node("b", idle).add_edge(START, "a").add_edge(START, "b")
        plan = make_plan(builder, name="g")
        run = Script(plan)
        run.begin({"text": "x"})
        run.saved()
        run.fail("a", ValueError("no"))
        run.saved()
        run.finish("__error_handler__a", log=["handled"])
        run.saved()
        restored = run.store.restored()
        assert restored is not None
        state = RunState(plan, RunPolicy(), run.store.mint, has_saver=True)
        restore(state, restored)
        work = Updating(state, pending.attempts(restored.ledger))
        work.clear()

        assert work.save().checkpoints[0].changed["log"] == ["handled"]

    def test_at_an_end_nothing_changes(self):
        """
        Where nothing is due a checkpoint with the same state is made.
        """
        store = Store()
        Script(PAIR, store=store).play(
            {"text": "x"}, {name: lambda s: {"log": ["x"]} for name in "abc"}
        )
        work = updating(store)
        work.clear()
        (point,) = work.save().checkpoints

        assert (point.changed, point.next) == ({}, ())


class TestInput:
    def test_is_applied_on_top(self):
        """
        As `__input__`: the pending tasks stay due, and START's with them.
        """
        store = thread("b", finished=("a",))
        base = store.restored()
        assert base is not None
        work = updating(store)
        work.as_input({"text": "new"})
        save = work.save()
        (point,) = save.checkpoints

        assert (point.source, point.metadata) == ("input", {"as_node": "__input__"})
        assert (point.step, point.parent) == (base.step + 1, base.id)
        assert point.next == ("__start__", "a", "b")
        assert point.changed == {START: {"text": "new"}}
        assert save.ledger == ()
        assert set(point.seen) == {*base.seen, "__input__"}

    @pytest.mark.parametrize(("as_input", "step"), [(True, -1), (False, 0)])
    def test_the_first_checkpoint_of_a_thread(self, as_input, step):
        """
        Its step is -1 for an input, else 0; it has no parent.
        """
        work = updating(Store())
        if as_input:
            work.as_input({"text": "new"})
        else:
            folded(work, StateUpdate({"text": "new"}, START))
        save = work.save()
        (point,) = save.checkpoints

        assert (point.step, point.parent, save.head) == (step, None, None)
        assert save.claim == ClaimIntent(None, "sync")


class TestCopy:
    def test_updates_follow_the_copy(self):
        """
        A list of updates is applied to the copy at once: its parent is the copy.
        """
        store = thread("b")
        base = store.restored()
        assert base is not None
        work = updating(store)
        work.copy()
        folded(work, StateUpdate({"text": "new"}, "a"))
        save = work.save()
        copy, then = save.checkpoints

        assert (copy.parent, copy.source, copy.metadata) == (
            base.parent,
            "fork",
            {"as_node": "__copy__"},
        )
        assert (then.parent, then.step) == (copy.id, copy.step + 1)
        assert [row.base for row in save.ledger] == [copy.id]
        assert save.head == base.id

    def test_delta_channels_are_stored_whole(self):
        """
        The parent's ledger leads to the base and not to the copy, so the copy needs the value.
        """
        restored = with_values(thread("b"), deltas={"log": (1, 1)}, values={"log": ["x"]})
        plan = graph(State, dict.fromkeys("abc", idle), [(START, "a")])
        rule = DeltaChannel(lambda old, new: [*old, *(x for w in new for x in w)], list)
        object.__setattr__(plan, "channels", {**plan.channels, "log": rule})
        object.__setattr__(plan, "deltas", frozenset({"log"}))
        state = RunState(plan, RunPolicy(), Store().mint, has_saver=True)
        restore(state, restored)
        work = Updating(state, {})
        work.copy()
        (point,) = work.save().checkpoints

        assert point.changed == {"log": ["x"]}
        assert point.unwritten == {"log"}
        assert point.deltas == {}


def test_a_fork_of_a_thread_is_the_root_of_another():
    """
    The copy has every cell and version, no parent and no pending writes; what was due is due.
    """
    store = thread("b", finished=("a",))
    restored = store.restored()
    assert restored is not None
    state = RunState(PAIR, RunPolicy(metadata={"user": 1}), store.mint, has_saver=True)
    origin = {"thread_id": "t", "checkpoint_id": "1"}
    save = fork(state, restored, origin)
    (point,) = save.checkpoints

    assert point == NewCheckpoint(
        id=state.checkpoint,
        parent=None,
        step=restored.step,
        source="fork",
        changed={c: restored.values.get(c, point.changed[c]) for c in sorted(restored.versions)},
        versions=restored.versions,
        seen=restored.seen,
        updated=None,
        next=("a", "b"),
        metadata={"user": 1, "forked_from": origin},
    )
    assert {c: v for c, v in point.changed.items() if c in restored.values}.items() <= (
        restored.values.items()
    )
    assert save == Save(1, None, ClaimIntent(None, "sync"), (), (point,), "updated")
    assert point.id != restored.id


class TestTransplant:
    def state(self, mode: Any = SYNC, **options: Any) -> tuple[RunState, Any]:
        """A subgraph's run in a new namespace, at a checkpoint of another one."""
        store = thread("b", finished=("a",))
        restored = store.restored()
        assert restored is not None
        modes = options.pop("modes", frozenset({"values", "updates"}))
        policy = RunPolicy(durability=mode, modes=modes)
        state = RunState(PAIR, policy, store.mint, **{"has_saver": True, **options})
        state.nested = Nested({"": "1"}, {})
        state.namespace = "n:1"
        restore(state, restored)
        return state, restored

    def test_begins_the_namespace_with_a_copy(self):
        """
        One save with the whole state, without parent and claim; its tasks start behind it.
        """
        state, restored = self.state()
        (save,) = only(Save, transplant(state))
        (point,) = save.checkpoints

        assert (save.number, save.head, save.claim, save.ends) == (1, None, None, None)
        assert (point.parent, point.source, point.step) == (None, "fork", restored.step + 1)
        assert set(point.changed) == set(restored.versions)
        assert point.next == ("a", "b")
        assert point.seen == restored.seen | {"__interrupt__": restored.versions}
        assert save.ledger == ()

    def test_is_shown_to_readers(self):
        """
        The chunk of its first checkpoint names what follows.
        """
        state, _ = self.state(EXIT, modes=frozenset({"checkpoints"}))
        emit = transplant(state)[-1]

        assert [chunk["next"] for _, _, chunk in emit.chunks] == [["a", "b"]]

    def test_runs_all_tasks_again(self):
        """
        Finished tasks of the old namespace have other ids here, so they are due.
        """
        state, _ = self.state()
        transplant(state)

        assert [task.name for task in state.due] == ["a", "b"]
        assert (state.results, state.has_output) == ({}, True)

    @pytest.mark.parametrize(("mode", "saver"), [(EXIT, True), (SYNC, False)])
    def test_stores_nothing_where_nothing_is_stored_yet(self, mode, saver):
        """
        In exit mode and without a saver its tasks start at once.
        """
        state, _ = self.state(mode, has_saver=saver)
        effects = transplant(state)

        assert kinds(effects) == ["StartTask", "StartTask", "Emit"]
        assert state.sent == 0
        assert [chunk for _, _, chunk in effects[-1].chunks] == [{"text": "x", "log": []}]


class TestReplay:
    def test_the_save_of_a_branch_is_whole(self):
        """
        Claim on the head, marker below the old checkpoint, answers beside the marker.
        """
        store = thread("b", finished=("a",))
        asked = next(e for e in store.ledger if e.index == -3).writes[0][1][0].id
        again(store, {"text": "new"})
        old = list(store.points.values())[1]
        head = store.head
        run = Script(PAIR, store=store, metadata={"user": 1})
        effects = run.begin(Command(resume={asked: "yes"}, update={"text": "u"}), at=1)
        state = run.state
        (save,) = only(Save, effects)
        (point,) = save.checkpoints
        task = next(t for t in due_tasks(state, None) if t.name == "b")

        assert kinds(effects) == ["Save"]
        assert (save.number, save.head, save.ends) == (1, head, None)
        assert save.claim == ClaimIntent(head, "sync")
        assert save.ledger == (
            LedgerEntry(state.checkpoint, task.id, task.path, -4, 2, (("__resume__", ["yes"]),)),
        )
        assert (point.id, point.parent, point.step) == (state.checkpoint, old.id, old.step + 1)
        assert (point.changed, point.updated) == ({"text": "u"}, ("text",))
        assert point.seen == old.seen | {
            "__input__": {},
            "__interrupt__": state.versions,
        }
        assert point.metadata == {"user": 1}
        assert (state.has_output, list(state.unsaved_steps)) == (True, [])

    def test_readers_see_the_marker_with_its_tasks(self):
        """
        The chunk of the branch's first checkpoint names what follows.
        """
        store = thread("b", finished=("a",))
        again(store, {"text": "new"})
        run = Script(PAIR, store=store, modes=frozenset({"checkpoints"}))
        run.begin(None, at=1)
        run.saved()

        assert [c["next"] for c in run.streamed("checkpoints")] == [["a", "b"]]

    def test_a_command_at_a_finished_checkpoint_ends_at_once(self):
        """
        Its writes make a branch of one checkpoint, saved with the final status.
        """
        store = Store()
        plan = chain(State, "a")
        for text in "xy":
            Script(plan, store=store).play({"text": text}, {"a": lambda s: None})
        run = Script(plan, store=store)
        (save,) = only(Save, run.begin(Command(update={"text": "u"}), at=2))
        run.saved()

        assert (save.ends, [p.source for p in save.checkpoints]) == ("success", ["fork"])
        assert run.outcome.values == {"text": "u", "log": []}

    def test_an_exit_run_at_its_end_is_stored_with_its_marker(self):
        """
        Also in exit mode, where no task follows and the marker is the only checkpoint.
        """
        store = Store()
        plan = chain(State, "a")
        for text in "xy":
            Script(plan, store=store).play({"text": text}, {"a": lambda s: None})
        run = Script(plan, EXIT, store=store)
        (first,) = only(Save, run.begin(Command(update={"text": "u"}), at=2))
        (last,) = only(Save, run.saved(1))

        assert [p.source for p in first.checkpoints] == ["fork"]
        assert (last.checkpoints, last.ends) == ((), "success")
