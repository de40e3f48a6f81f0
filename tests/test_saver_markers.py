"""The markers every_saver and every_loop choose the kinds and loops of a test, and are checked."""

from types import SimpleNamespace

import pytest

from tests.support import saver_markers


class Node:
    """A class of tests, as far as the markers look at it."""

    nodeid = "TestA"

    def __init__(self, *marks):
        self.own_markers = [mark.mark for mark in marks]


class Case(Node):
    """A collected case of the class `parent`."""

    nodeid = "TestA::test_a"

    def __init__(self, *marks, parent=None, **params):
        super().__init__(*marks)
        self.parent = parent or Node()
        self.callspec = SimpleNamespace(params=params)

    def listchain(self):
        return [self.parent, self]

    def get_closest_marker(self, name):
        nodes = reversed(self.listchain())
        return next((m for n in nodes for m in n.own_markers if m.name == name), None)


SAVER, LOOP = pytest.mark.every_saver, pytest.mark.every_loop


@pytest.mark.parametrize(
    ("marks", "cases"),
    [
        ([], {"asyncio": ["memory", "sqlite", "sqlite-memory"], "trio": ["memory", "sqlite"]}),
        ([SAVER], {"asyncio": saver_markers.KINDS, "trio": ["memory", "sqlite"]}),
        ([LOOP], {kind: ["memory", "sqlite", "sqlite-memory"] for kind in ("asyncio", "trio")}),
        ([SAVER, LOOP], dict.fromkeys(("asyncio", "trio"), saver_markers.KINDS)),
        (
            [SAVER, LOOP("jsonl")],
            {"asyncio": saver_markers.KINDS, "trio": ["memory", "sqlite", "jsonl"]},
        ),
    ],
    ids=["none", "every_saver", "every_loop", "both", "one kind"],
)
def test_markers_choose_kinds_and_loops(marks, cases):
    """
    Without a marker a test runs on the quick kinds; each marker adds cases.
    """
    for loop, kinds in cases.items():
        for fixture in ("store", "place"):
            found = [
                kind
                for kind in saver_markers.KINDS
                if saver_markers.is_needed(Case(*marks, **{fixture: kind}, anyio_backend=loop))
            ]
            assert found == kinds


def test_the_nearest_marker_counts():
    """
    A function may run on fewer loops than its class.
    """
    one = Case(LOOP("jsonl"), parent=Node(SAVER, LOOP), store="postgres", anyio_backend="trio")

    assert not saver_markers.is_needed(one)


def test_cases_without_a_kind_are_left_alone():
    """
    An id that happens to be the name of a kind deselects nothing.
    """
    assert saver_markers.is_needed(Case(extra="postgres", anyio_backend="trio"))


@pytest.mark.parametrize(
    "case",
    [
        Case(SAVER),
        Case(LOOP, extra="postgres"),
        Case(parent=Node(SAVER)),
        Case(SAVER("postgres"), store="sqlite"),
        Case(LOOP("oracle"), store="sqlite"),
        Case(LOOP(kind="jsonl"), store="sqlite"),
    ],
    ids=["no kinds", "no fixture", "a class", "arguments", "an unknown kind", "a keyword"],
)
def test_a_marker_without_effect_is_refused(case):
    """
    Nothing is marked in vain: not a test without a kind, nor a kind that there isn't.
    """
    with pytest.raises(pytest.UsageError):
        saver_markers.check([case], whole_files=True)


def test_a_class_is_judged_by_all_of_its_tests():
    """
    When one test is named on the command line, its class may have others that the marker is for.
    """
    saver_markers.check([Case(parent=Node(SAVER))], whole_files=False)
    parent = Node(SAVER)

    saver_markers.check([Case(parent=parent), Case(parent=parent, store="jsonl")], whole_files=True)
