"""Updates from outside as decisions: their forms, whose they are, the rows that they leave."""

from typing import Any

import pytest

from actorgraph.errors import InvalidConfigError, InvalidUpdateError, MissingNodeError
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.update import (
    Updating,
    checked_updates,
    clears,
    supersteps_of,
    update_writes,
)
from actorgraph.values.commands import StateUpdate
from actorgraph.values.run import Save
from tests.superstep.script import Store, rows
from tests.superstep.threads import PAIR, state_at, thread

ONE, TWO = StateUpdate({"text": "1"}, "a"), StateUpdate({"text": "2"}, "b")


def updated(store: Store, *updates: StateUpdate, at: int = -1) -> Save:
    """The save of one superstep of updates."""
    restored = store.restored(at)
    state = state_at(store, at)
    known = pending.attempts(restored.ledger) if restored else {}
    superseded = restored is not None and restored.id != restored.head
    work = Updating(state, known, superseded=superseded)
    work.fold(
        [
            (u, update_writes(PAIR, u.node, u.values))
            for u in checked_updates(state, updates, strict=False)
        ]
    )
    return work.save()


class TestForms:
    @pytest.mark.promise("C25", "S158")
    @pytest.mark.parametrize(
        ("given", "steps"),
        [
            ([[ONE, TWO]], [[ONE, TWO]]),
            ([ONE, TWO], [[ONE], [TWO]]),
            ([({"text": "1"}, "a"), TWO], [[ONE], [TWO]]),
            ([[({"text": "1"}, "a")], [TWO]], [[ONE], [TWO]]),
            (((ONE, TWO),), [[ONE, TWO]]),
            ([(None, "a")], [[StateUpdate(None, "a")]]),
            ([[({"text": "1"},)]], [[StateUpdate({"text": "1"})]]),
            ([[({"text": "1"}, "a", "id")]], [[StateUpdate({"text": "1"}, "a", "id")]]),
        ],
    )
    def test_all_forms_are_supersteps(self, given, steps):
        """
        Lists of lists, flat lists and tuples mean the same supersteps.
        """
        assert supersteps_of(given) == steps

    @pytest.mark.promise("S158")
    @pytest.mark.parametrize("given", [[], [[]], [[ONE], []], [3], [[3]], [[(1, 2, 3, 4)]]])
    def test_empty_updates_are_refused(self, given):
        """
        Nothing, an empty superstep and other things aren't updates.
        """
        with pytest.raises((InvalidConfigError, TypeError)):
            supersteps_of(given)

    @pytest.mark.langgraph("F-G14")
    def test_only_the_end_without_values_clears(self):
        """
        The end with values is a node that doesn't exist.
        """
        assert clears(StateUpdate(None, "__end__"))
        assert not clears(StateUpdate({}, "__end__"))
        assert not clears(StateUpdate(None, "a"))


class TestWhoseItIs:
    @pytest.mark.promise("C6")
    @pytest.mark.langgraph("F-G13", "L75")
    @pytest.mark.parametrize(
        ("store", "at", "name"),
        [
            (Store(), -1, "__start__"),
            (thread(finished=("a",)), 0, "__start__"),
            (thread(finished=("a",)), -1, None),
        ],
        ids=["a new thread", "only an input", "before the first nodes"],
    )
    def test_without_a_name(self, store, at, name):
        """
        The input's node while nothing has run; none where no single node wrote.
        """
        (update,) = checked_updates(state_at(store, at), [StateUpdate({})], strict=False)

        assert (update.node and update.node.name, update.inferred) == (name, True)

    @pytest.mark.promise("S150")
    @pytest.mark.langgraph("F-G17")
    @pytest.mark.parametrize(
        ("updates", "error"),
        [
            ([StateUpdate({}, "nope")], MissingNodeError),
            ([StateUpdate({}, "a", "nonsense")], InvalidUpdateError),
            ([ONE, StateUpdate({})], InvalidUpdateError),
            ([ONE, StateUpdate(None, "__end__")], InvalidUpdateError),
            ([ONE, StateUpdate({}, "__input__")], InvalidUpdateError),
        ],
    )
    def test_invalid_updates_are_refused(self, updates: list[StateUpdate], error: Any):
        """
        Unknown nodes, ids that are none, and mixtures.
        """
        with pytest.raises(error):
            checked_updates(state_at(thread("b")), updates, strict=False)


class TestRows:
    @pytest.mark.langgraph("L77", "L78")
    def test_the_update_is_the_result_of_its_nodes_task(self):
        """
        Claim, row, checkpoint and end are one save on the head.
        """
        store = thread("b")
        task = next(e.task for e in store.ledger if e.path[-1] == "b")
        save = updated(store, TWO)

        assert rows(save) == [("b", 0)]
        assert (save.ledger[0].task, save.ledger[0].base) == (task, store.head)
        assert (save.head, save.ends, len(save.checkpoints)) == (store.head, "updated", 1)
        assert save.checkpoints[0].next == ()

    @pytest.mark.langgraph("L77")
    def test_a_finished_tasks_row_is_left_alone(self):
        """
        An update as a node that had finished is stored under an id of its own.
        """
        store = thread("b", finished=("a",))
        done = next(e.task for e in store.ledger if e.path[-1] == "a" and e.index == 0)

        assert [entry.task for entry in updated(store, ONE).ledger] != [done]

    @pytest.mark.langgraph("L77")
    def test_two_updates_of_one_node_have_two_ids(self):
        """
        Rows of one superstep never hide each other.
        """
        save = updated(thread("b"), TWO, StateUpdate({"log": ["x"]}, "b"))

        assert len({entry.task for entry in save.ledger}) == 2

    @pytest.mark.langgraph("L78")
    def test_nothing_is_written_beside_an_old_checkpoint(self):
        """
        Its ledger belongs to its other children.
        """
        save = updated(thread("b"), ONE, at=0)

        assert save.ledger == ()
        assert save.checkpoints[0].parent != save.head

    @pytest.mark.langgraph("F-G16", "L76")
    def test_a_copy_hangs_below_the_bases_parent(self):
        """
        A sibling: the base's parent, its step plus one, none of its rows.
        """
        store = thread("b")
        base = store.restored()
        assert base is not None
        work = Updating(state_at(store), pending.attempts(base.ledger))
        work.copy()
        save = work.save()
        (point,) = save.checkpoints

        assert (point.parent, point.step, point.source) == (base.parent, base.step + 1, "fork")
        assert (save.ledger, point.next) == ((), ("a", "b"))

    @pytest.mark.langgraph("F-G17")
    def test_later_supersteps_follow_each_other(self):
        """
        Each one's parent is the one before, in one save.
        """
        store = thread("b")
        state = state_at(store)
        work = Updating(state, {})
        for update in (ONE, TWO):
            work.fold(
                [
                    (u, update_writes(PAIR, u.node, u.values))
                    for u in checked_updates(state, [update], strict=False)
                ]
            )
        first, second = work.save().checkpoints

        assert (first.parent, second.parent) == (store.head, first.id)
