"""Faults planted in the handling of changed graphs: the matrix finds each of them."""

from importlib import import_module
from typing import Any

import pytest

from actorgraph import InMemorySaver
from actorgraph.values.checked_threads import ThreadCheck
from actorgraph.values.graph_changes import ResumeVerdict
from tests.changes.kinds import kinds
from tests.changes.test_change_matrix import SHORT, faults_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::actorgraph.errors.OtherGraphWarning"),
    pytest.mark.filterwarnings("ignore::actorgraph.errors.UnreachableNodeWarning"),
]
MIGRATIONS = import_module("actorgraph.codec.migrations")
CONVERSIONS = import_module("actorgraph.codec.conversions")


def rows_of_renamed_nodes_are_lost(patch: Any) -> None:
    made = MIGRATIONS.migrated_rows

    def rows(names: Any, stored: Any, *more: Any) -> Any:
        gone = names.plan.renames.nodes
        kept = [row for row in stored if not (len(row.path) > 1 and row.path[1] in gone)]
        return made(names, kept, *more)

    patch.setattr(MIGRATIONS, "migrated_rows", rows)


def joins_are_not_migrated(patch: Any) -> None:
    patch.setattr(MIGRATIONS, "_arrived", lambda _plan, _old, value: value)


def every_thread_fits(patch: Any) -> None:
    patch.setattr(ThreadCheck, "verdict", ResumeVerdict.FITS)


def values_are_converted_twice(patch: Any) -> None:
    made = CONVERSIONS.Conversions.value

    def value(self: Any, channel: str, stored: Any, converted: Any) -> Any:
        return made(self, channel, made(self, channel, stored, converted), converted)

    patch.setattr(CONVERSIONS.Conversions, "value", value)


def notes_of_the_graph_above_are_not_read(patch: Any) -> None:
    had = CONVERSIONS.Conversions.now
    patch.setattr(CONVERSIONS.Conversions, "had", lambda self, converted, _: had(self, converted))


def sends_keep_their_old_nodes(patch: Any) -> None:
    names = import_module("actorgraph.codec.migrated_writes").CurrentNames
    patch.setattr(names, "sent", lambda _self, sends, *_more, **_options: list(sends))


def waiting_tasks_get_new_ids(patch: Any) -> None:
    patch.setattr(MIGRATIONS, "places_of", lambda *_: {})


def callers_end_without_their_calls(patch: Any) -> None:
    patch.setattr(import_module("actorgraph.runtime.run.node_actor"), "unclaimed", lambda *_: None)


def late_tasks_are_unknown(patch: Any) -> None:
    plan = import_module("actorgraph.plan.plan")
    patch.setattr(plan, "late_tasks", lambda _: frozenset())


def calls_below_are_not_looked_at(patch: Any) -> None:
    below = import_module("actorgraph.runtime.run.below")
    made = below.change_of
    patch.setattr(below, "change_of", lambda plan, stored, thread, *_: made(plan, stored, thread))


def dropped_calls_keep_their_numbers(patch: Any) -> None:
    calls = import_module("actorgraph.superstep.calls")
    made = calls._places  # noqa: SLF001 - a fault is planted there

    def places(state: Any, base: Any, caller: Any, place: Any, names: Any) -> Any:
        gone = state.plan.renames.tasks
        return made(state, base, caller, place, [n for n in names if gone.get(n, n) is not None])

    patch.setattr(calls, "_places", places)


PLANTED = [
    (rows_of_renamed_nodes_are_lost, "joined", "left renamed by a migration"),
    (joins_are_not_migrated, "joined", "a start renamed by a migration"),
    (every_thread_fits, "joined", "ask renamed"),
    (every_thread_fits, "nested", "open renamed"),
    (values_are_converted_twice, "joined", "price converted"),
    (notes_of_the_graph_above_are_not_read, "nested", "price converted below later"),
    (sends_keep_their_old_nodes, "sending", "work renamed by a migration"),
    (waiting_tasks_get_new_ids, "joined", "left renamed by a migration"),
    (callers_end_without_their_calls, "functional", "last removed"),
    (callers_end_without_their_calls, "calling", "inner removed"),
    (late_tasks_are_unknown, "functional", "late tasks"),
    (calls_below_are_not_looked_at, "calling_below", "second removed"),
    (dropped_calls_keep_their_numbers, "functional", "first removed by a migration"),
]


@pytest.mark.parametrize(
    ("plant", "program", "name"), PLANTED, ids=[f"{p.__name__}-{g}" for p, g, _ in PLANTED]
)
def test_the_matrix_finds_a_fault(plant, program, name, monkeypatch):
    """
    The row of the matrix that is about it has faults with it, and none without.
    """
    (kind,) = [one for one in kinds(program) if one.name == name]
    assert faults_of(program, kind, InMemorySaver(), SHORT) == {}
    plant(monkeypatch)

    try:
        found: Any = faults_of(program, kind, InMemorySaver())
    except Exception as error:  # noqa: BLE001 - a node's own check has failed
        found = error

    assert found
