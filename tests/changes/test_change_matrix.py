"""Threads of one version go on under another as a whole, or are refused by name: the matrix."""

import pytest

from actorgraph import InMemorySaver
from tests.changes.kinds import kinds
from tests.changes.matrix import Cell, faults, stops
from tests.changes.programs import PROGRAMS

pytestmark = [
    pytest.mark.filterwarnings("ignore::actorgraph.errors.OtherGraphWarning"),
    pytest.mark.filterwarnings("ignore::actorgraph.errors.UnreachableNodeWarning"),
]
CELLS = [
    pytest.param(program, kind, id=f"{program}-{kind.name.replace(' ', '-')}")
    for program in PROGRAMS
    for kind in kinds(program)
]
SHORT = ("asks None", "fails watch", "fails left", "fails work3", "fails second", "fails middle")
"""Stops that `make test` tries: at a question, and with a finished task beside a failed one.

Each change of a program meets one of them, and each of them some of its changes."""


ROWS = [(*cell.values, number) for number, cell in enumerate(CELLS)]


def faults_of(program, kind, saver, wanted=None):
    """The faults of a row's cells, by the stops that have some."""
    found = {}
    for place, stop in enumerate(stops(program)):
        name = " ".join(map(str, stop))
        if wanted is None or name in wanted:
            thread = f"{program}-{kind.name}-{place}."
            if cell := faults(Cell(program, kind, stop, saver, thread)):
                found[name] = cell
    return found


def tried(program, number):
    """The stop of `SHORT` that a change is tried with: those of a program in turn."""
    known = {" ".join(map(str, stop)) for stop in stops(program)}
    mine = [name for name in SHORT if name in known]
    return mine[number % len(mine)]


@pytest.mark.parametrize(("program", "kind", "number"), ROWS, ids=[cell.id for cell in CELLS])
def test_threads_go_on_or_are_refused(program, kind, number):
    """
    After a change each stopped thread goes on with nothing lost and nothing done twice, or is
    refused before anything runs; the check of threads has said which.
    """
    assert faults_of(program, kind, InMemorySaver(), {tried(program, number)}) == {}


@pytest.mark.long
@pytest.mark.every_saver
@pytest.mark.parametrize(("program", "kind"), CELLS)
def test_threads_of_every_saver_and_stop(program, kind, store):
    """
    The same holds for each saver, and wherever the thread has stopped.
    """
    with store.saver() as saver:
        assert faults_of(program, kind, saver) == {}
