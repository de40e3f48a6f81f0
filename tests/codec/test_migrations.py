"""Migrations of a restored checkpoint: what is renamed, dropped, converted and stored again."""

import operator
from dataclasses import replace
from typing import Annotated, Any, TypedDict

import msgspec
import pytest

from actorgraph.channels import DeltaChannel
from actorgraph.codec.migrations import apply_migrations, rename_old_edges
from actorgraph.codec.records import Placement
from actorgraph.plan.plan import Plan
from actorgraph.superstep.list_rows import StoredList
from actorgraph.values.checkpoint import Migration, Restored, StoredWrite
from actorgraph.values.commands import Send
from actorgraph.values.constants import INTERRUPT, PULL, START, TASKS
from actorgraph.values.policies import TimeoutPolicy
from actorgraph.values.run import StoredPlace
from tests.codec.threads import TASK, A, extended
from tests.superstep.script import graph, idle


class State(TypedDict):
    n: int
    text: str
    log: Annotated[list[Any], operator.add]
    facts: Annotated[list[Any], DeltaChannel(extended)]


EDGES: Any = [(START, "a"), ("a", "b"), ("a", "c")]
NODES = dict.fromkeys("abc", idle)
PLAN = graph(State, NODES, EDGES)


def migrating(*migrations: Migration) -> Plan:
    """The graph with these migrations."""
    return replace(PLAN, migrations=migrations)


def restored(**more: Any) -> Restored:
    """A checkpoint as it was stored."""
    fields: dict[str, Any] = {
        "id": A,
        "parent": None,
        "sequence": 1,
        "namespace": "",
        "step": 0,
        "source": "loop",
        "created": 0,
        "run": None,
        "graph": "g",
        "values": {},
        "versions": {},
        "seen": {},
        "updated": None,
        "next": (),
        "metadata": {},
    }
    return Restored(**{**fields, **more})


def placed() -> Placement:
    """Old channel `was` as a blob that grows; `n` inline."""
    growth = {name: StoredList([], [], []) for name in ("was", "n", "text")}
    return Placement(values={"n": 1}, blobs={"was", "text"}, growths=growth)


class TestChannels:
    def test_a_renamed_channel_keeps_what_is_known_of_it(self):
        """
        A renamed key has its old value, version and readers under the new name, and is stored
        again.
        """
        given = restored(
            values={"was": "x", "n": 1},
            versions={"was": 4, "n": 5},
            seen={"a": {"was": 3, "n": 2}, "b": {"n": 1}},
            updated=("n", "was"),
        )
        placement = placed()
        made = apply_migrations(migrating(Migration({"was": "text"})), given, placement)

        assert made == msgspec.structs.replace(
            given,
            values={"text": "x", "n": 1},
            versions={"text": 4, "n": 5},
            seen={"a": {"text": 3, "n": 2}, "b": {"n": 1}},
            updated=("n", "text"),
            migrated=("'was' is 'text' now",),
        )
        assert placement.moved == {"text": "x"}
        assert placement.blobs == set()
        assert set(placement.growths) == {"was", "n"}
        assert given.values == {"was": "x", "n": 1}
        assert given.seen["a"] == {"was": 3, "n": 2}

    def test_a_dropped_channel_leaves_nothing(self):
        """
        A dropped key has no value, version and readers any more, and nothing is stored for it.
        """
        given = restored(
            values={"was": "x"},
            versions={"was": 4, "gone": 1},
            seen={"a": {"was": 3}},
            updated=("was",),
            deltas={"gone": (1, 1), "facts": (2, 2)},
        )
        placement = placed()
        made = apply_migrations(migrating(Migration({"was": None, "gone": None})), given, placement)

        assert (made.values, made.versions, made.seen) == ({}, {}, {"a": {}})
        assert (made.updated, made.deltas) == (("was",), {"facts": (2, 2)})
        assert placement.moved == {}
        assert "was" not in placement.blobs

    def test_names_that_the_checkpoint_does_not_have(self):
        """
        A checkpoint without the old name, or with the new one, stays as it is.
        """
        plan = migrating(Migration({"was": "text"}))
        for given in (
            restored(values={"n": 1}, versions={"n": 1}, updated=()),
            restored(values={"was": 1, "text": 2}, versions={"was": 1, "text": 2}),
            restored(versions={"n": 1}, updated=None),
        ):
            placement = placed()
            assert apply_migrations(plan, given, placement) == given
            assert placement == placed()

    def test_several_names(self):
        """
        One name that the checkpoint lacks doesn't end the renaming of the others.
        """
        given = restored(values={"was": 1, "old": []}, versions={"was": 1, "old": 1})
        names = {"never": "text", "was": "n", "old": "log"}
        made = apply_migrations(migrating(Migration(names)), given, Placement())

        assert made.values == {"n": 1, "log": []}

    def test_an_empty_channel_is_renamed_too(self):
        """
        A key without a value keeps its version under the new name, and stores nothing.
        """
        placement = placed()
        given = restored(versions={"was": 4})
        made = apply_migrations(migrating(Migration({"was": "text"})), given, placement)

        assert (made.values, made.versions) == ({}, {"text": 4})
        assert placement.moved == {}

    def test_a_renamed_delta_channel_is_stored_whole(self):
        """
        A DeltaChannel's old writes have the old name, so the next checkpoint holds its value.
        """
        given = restored(values={"was": [1]}, versions={"was": 1}, deltas={"was": (1, 1)})
        made = apply_migrations(migrating(Migration({"was": "facts"})), given, Placement())

        assert (made.values, made.deltas, made.whole) == ({"facts": [1]}, {}, {"facts"})
        dropped = apply_migrations(migrating(Migration({"was": None})), given, Placement())
        assert (dropped.values, dropped.deltas, dropped.whole) == ({}, {}, set())

    def test_migrations_are_applied_in_order(self):
        """
        A later migration sees the names of an earlier one.
        """
        plan = migrating(Migration({"first": "n"}), Migration({"n": "text"}))
        given = restored(values={"first": "x"}, versions={"first": 1})

        assert apply_migrations(plan, given, Placement()).values == {"text": "x"}


class TestValues:
    def test_a_converted_value_is_stored_again(self):
        """
        The result of a migration's function replaces a value; values that it returns as they are,
        and absent ones, are not stored again.
        """
        kept: list[Any] = []
        given = restored(values={"n": 1, "log": kept}, versions={"n": 1, "log": 1})
        values: dict[str, Any] = {"n": str, "log": lambda value: value, "text": str}
        placement = placed()
        made = apply_migrations(migrating(Migration(values=values)), given, placement)

        assert made.values == {"n": "1", "log": []}
        assert made.values["log"] is kept
        assert placement.moved == {"n": "1"}
        assert "n" not in placement.values
        assert "n" not in placement.growths
        assert placement.blobs == {"was", "text"}


class TestNodes:
    def test_a_renamed_node(self):
        """
        A renamed node keeps the versions that it has seen, its edge, its turn and the Sends to it;
        those of a dropped node go.
        """
        limit = TimeoutPolicy(run_timeout=3)
        sends = [Send("old", 1, timeout=limit), Send("c", 2), Send("gone", 3)]
        given = restored(
            values={"branch:to:old": None, TASKS: sends, "branch:to:gone": None},
            versions={"branch:to:old": 2, TASKS: 2, "branch:to:gone": 1},
            seen={"old": {"n": 1}, "c": {"branch:to:old": 1}, "gone": {}},
            next=("c", "old", "gone"),
        )
        placement = Placement()
        made = apply_migrations(
            migrating(Migration(nodes={"old": "b", "gone": None})), given, placement
        )

        assert made.seen == {"b": {"n": 1}, "c": {"branch:to:b": 1}, "gone": {}}
        assert made.next == ("c", "b")
        assert made.versions == {"branch:to:b": 2, TASKS: 2}
        assert made.values == {
            "branch:to:b": None,
            TASKS: [Send("b", 1, timeout=limit), Send("c", 2)],
        }
        assert made.values[TASKS][0].timeout == limit
        assert set(placement.moved) == {"branch:to:b", TASKS}

    def test_sends_to_other_nodes_stay(self):
        """
        Sends are stored again only if one of them is to a renamed node.
        """
        given = restored(values={TASKS: [Send("c", 2)]}, versions={TASKS: 1})
        placement = Placement()
        made = apply_migrations(migrating(Migration(nodes={"old": "b"})), given, placement)

        assert made.values == {TASKS: [Send("c", 2)]}
        assert placement.moved == {}

    def test_pending_writes_of_a_renamed_node(self):
        """
        A finished task keeps its id under the new name; a dropped node's goes, and that of one in
        whose place another runs is handed on.
        """
        row = StoredWrite(TASK, (PULL, "old"), 0, 0, (("text", "x"),))
        given = restored(
            values={"branch:to:old": None}, versions={"branch:to:old": 2}, ledger=(row,)
        )

        made = apply_migrations(migrating(Migration(nodes={"old": "b"})), given, Placement())
        assert made.ledger == (msgspec.structs.replace(row, path=(PULL, "b")),)
        assert [*made.places.values()] == [StoredPlace(TASK, "old", (PULL, "old"))]
        dropped = apply_migrations(migrating(Migration(nodes={"old": None})), given, Placement())
        assert (dropped.ledger, dropped.places, dropped.left) == ((), {}, ())
        replaced = apply_migrations(migrating(Migration(goto={"old": "b"})), given, Placement())
        assert (replaced.ledger, replaced.next, "branch:to:b" in replaced.values) == ((), (), False)
        assert replaced.left == ((TASK, (PULL, "old"), (("text", "x"),)),)


class TestOldEdges:
    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("start:a", ["branch:to:a"]),
            ("branch:x:condition:a", ["branch:to:a"]),
            ("a", ["branch:to:b", "branch:to:c"]),
            ("start:gone", ["start:gone"]),
            ("start", ["start"]),
            ("branch:x:condition:gone", ["branch:x:condition:gone"]),
            ("branch:x:a", ["branch:x:a"]),
            ("branch:x:y:z:a", ["branch:x:y:z:a"]),
            ("branch:to:a", ["branch:to:a"]),
            ("other:a", ["other:a"]),
            ("gone", ["gone"]),
            ("n", ["n"]),
            (START, [START]),
            ("c", ["c"]),
        ],
    )
    def test_each_is_an_edge_of_today(self, old, new):
        """
        Old channels that lead to a node of the graph get its edge's name; others stay.
        """
        placement = Placement(values={old: 5})
        given = restored(
            values={old: 5},
            versions={old: 4},
            seen={"a": {old: 3}, "b": {old: 2}, "c": {old: 1}, INTERRUPT: {old: 1}, "z": {}},
        )
        made = rename_old_edges(PLAN, given, placement)

        assert made.versions == dict.fromkeys(new, 4)
        assert made.values == dict.fromkeys(new, 5)
        if new == [old]:
            assert made == given
            assert placement == Placement(values={old: 5})
            return
        ends = [name.removeprefix("branch:to:") for name in new]
        seen = {"a": 3, "b": 2, "c": 1}
        assert made.seen == {
            node: {f"branch:to:{node}": seen[node]} if node in ends else {} for node in "abc"
        } | {INTERRUPT: dict.fromkeys(new, 1), "z": {}}
        assert placement == Placement(moved=dict.fromkeys(new, 5))
        assert given.seen["a"] == {old: 3}

    def test_the_newest_of_several_counts(self):
        """
        Of several old channels to one node the highest versions count, and one value.
        """
        given = restored(
            values={"start:b": None, "branch:x:condition:b": 5},
            versions={"start:b": 4, "branch:x:condition:b": 7, "branch:y:condition:b": 2, "n": 9},
            seen={"b": {"start:b": 3, "branch:x:condition:b": 1, "branch:y:condition:b": 2}},
        )
        placement = Placement()
        made = rename_old_edges(PLAN, given, placement)

        assert made.versions == {"branch:to:b": 7, "n": 9}
        assert made.values == {"branch:to:b": None}
        assert made.seen == {"b": {"branch:to:b": 3}}
        assert placement.moved == {"branch:to:b": None}

    def test_a_state_key_with_the_name_of_a_node(self):
        """
        A channel that the graph has isn't an old edge, even if a node has its name.
        """
        plan = replace(PLAN, channels={**PLAN.channels, "a": PLAN.channels["n"]})
        given = restored(values={"a": 1, "start:b": None}, versions={"a": 1, "start:b": 1})
        made = rename_old_edges(plan, given, Placement())

        assert made.values == {"a": 1, "branch:to:b": None}

    def test_a_node_may_be_called_start(self):
        """
        A channel `start` is the edges of the node with that name, if there is one.
        """
        plan = graph(State, {"start": idle, "b": idle}, [(START, "start"), ("start", "b")])
        made = rename_old_edges(plan, restored(versions={"start": 2}), Placement())

        assert made.versions == {"start": 2}

    def test_an_edge_without_a_value(self):
        """
        An old edge that was not taken keeps its version and has no value.
        """
        placement = Placement()
        made = rename_old_edges(PLAN, restored(versions={"start:a": 2}), placement)

        assert (made.versions, made.values, placement.moved) == ({"branch:to:a": 2}, {}, {})
