"""The markers every_saver, every_loop, one_loop and long choose the cases of a test."""

from itertools import product
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


SAVER, LOOP, ONE = pytest.mark.every_saver, pytest.mark.every_loop, pytest.mark.one_loop
FIRST, EACH = pytest.mark.first_case, pytest.mark.each_value
EVERY = pytest.mark.every_case


@pytest.mark.parametrize(
    ("marks", "cases"),
    [
        ([], {"asyncio": ["memory", "sqlite"], "trio": ["sqlite"]}),
        ([SAVER], {"asyncio": saver_markers.KINDS, "trio": ["sqlite"]}),
        ([SAVER, LOOP], {"asyncio": saver_markers.KINDS, "trio": ["sqlite"]}),
        ([SAVER, ONE], {"asyncio": saver_markers.KINDS, "trio": []}),
        ([SAVER, LOOP("jsonl")], {"asyncio": saver_markers.KINDS, "trio": ["sqlite", "jsonl"]}),
        ([LOOP("memory")], {"asyncio": ["memory", "sqlite"], "trio": ["memory", "sqlite"]}),
    ],
    ids=["none", "every_saver", "every_loop", "one_loop", "one kind", "memory"],
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


@pytest.mark.parametrize(
    ("marks", "kinds"),
    [
        ([SAVER], ["memory"]),
        ([SAVER, ONE], ["memory", "sqlite"]),
        ([LOOP], ["memory", "sqlite-memory"]),
        ([SAVER, LOOP], ["memory", "sqlite-memory", "jsonl", "postgres"]),
        ([SAVER, LOOP("jsonl"), ONE], saver_markers.KINDS),
    ],
    ids=["every_saver", "one_loop", "every_loop", "both", "all"],
)
def test_left_out_cases_run_when_they_are_asked_for(marks, kinds):
    """
    With `--long` a marked test runs on trio on the kinds that are left out otherwise.
    """
    cases = {kind: Case(*marks, store=kind, anyio_backend="trio") for kind in saver_markers.KINDS}

    assert [k for k, case in cases.items() if saver_markers.is_needed(case, long=True)] == kinds


def cases_of(nodeid, *marks, kinds=("sqlite", "postgres")):
    """Two cases of a function, on each loop and kind."""
    found = []
    for loop, kind, case in product(("asyncio", "trio"), kinds, "ab"):
        made = Case(*marks, **{"store": kind} if kind else {}, anyio_backend=loop)
        made.nodeid = f"{nodeid}[{loop}-{kind}-{case}]"
        found.append(made)
    return found


def names_of(items):
    """What is between the brackets."""
    return [item.nodeid.partition("[")[2][:-1] for item in items]


class TestFurtherCases:
    def test_the_first_is_enough_on_trio_and_on_a_further_saver(self):
        """
        All cases run on asyncio and the first saver; with `--long` the others run.
        """
        items = cases_of("tests/api/test_a.py::test_a", SAVER)
        quick = saver_markers.needed(items, long=False, whole_files=True)
        rest = saver_markers.needed(items, long=True, whole_files=True)

        kept = ["asyncio-sqlite-a", "asyncio-sqlite-b", "asyncio-postgres-a", "trio-sqlite-a"]
        assert names_of(quick) == kept
        assert names_of(rest) == ["asyncio-postgres-b", "trio-sqlite-b"]

    def test_one_that_is_named_runs(self):
        """
        A case that is asked for by its name is not left out.
        """
        items = cases_of("tests/api/test_a.py::test_a", kinds=(None,))

        assert saver_markers.needed(items, long=False, whole_files=False) == items

    @pytest.mark.parametrize(
        ("nodeid", "marks", "left_out"),
        [
            ("tests/runtime/test_a.py::test_a", [SAVER], []),
            ("tests/savers/test_a.py::test_a", [SAVER], ["trio-sqlite-b"]),
            ("tests/dispatch/test_a.py::test_a", [SAVER], ["asyncio-postgres-b"]),
            ("tests/api/test_a.py::test_a", [SAVER, EVERY], []),
        ],
        ids=["both", "stores", "loops", "marked"],
    )
    def test_folders_and_a_marker_ask_for_each(self, nodeid, marks, left_out):
        """
        Where loops or stores are the subject, each case runs on them.
        """
        items = cases_of(nodeid, *marks)
        found = saver_markers.needed(items, long=True, whole_files=True)

        assert names_of(found) == left_out

    def test_a_marker_asks_for_the_first_alone(self):
        """
        In a folder about loops or stores a test may be about neither.
        """
        items = cases_of("tests/runtime/test_a.py::test_a", SAVER, FIRST)
        found = saver_markers.needed(items, long=True, whole_files=True)

        assert names_of(found) == ["asyncio-postgres-b", "trio-sqlite-b"]

    def test_a_marker_asks_for_each_value(self):
        """
        A combination of values that earlier cases had is left out.
        """
        items = []
        for one, other in product("ab", [(), []]):
            items.append(Case(EACH, one=one, other=other))
            items[-1].nodeid = f"tests/a.py::test_a[{one}-{type(other).__name__}]"
        found = saver_markers.needed(items, long=False, whole_files=True)

        assert names_of(found) == ["a-tuple", "a-list", "b-tuple"]

    def test_each_case_runs_in_one_of_both(self):
        """
        No case is left out of both, and none runs twice.
        """
        items = [*cases_of("tests/api/test_a.py::test_a", SAVER, LOOP), *cases_of("b", LOOP)]
        quick, rest = (
            saver_markers.needed(items, long=long, whole_files=True) for long in (False, True)
        )

        unmarked = [item for item in items[8:] if "postgres" in item.nodeid]
        assert sorted(names_of([*quick, *rest, *unmarked])) == sorted(names_of(items))


def test_a_long_test_runs_when_it_is_asked_for():
    """
    A test that is marked as long runs with `--long` only.
    """
    case = Case(pytest.mark.long, anyio_backend="asyncio")

    assert saver_markers.is_needed(case, long=True)
    assert not saver_markers.is_needed(case)


def test_one_loop_is_for_any_test():
    """
    A test that has no kind of storage runs on asyncio alone too.
    """
    assert not saver_markers.is_needed(Case(ONE, anyio_backend="trio"))
    assert saver_markers.is_needed(Case(ONE, anyio_backend="asyncio"))


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
        Case(ONE),
        Case(ONE("jsonl"), anyio_backend="trio"),
        Case(SAVER("postgres"), store="sqlite"),
        Case(LOOP("oracle"), store="sqlite"),
        Case(LOOP(kind="jsonl"), store="sqlite"),
    ],
    ids=[
        "no kinds",
        "no fixture",
        "a class",
        "no loops",
        "a kind of one_loop",
        "arguments",
        "an unknown kind",
        "a keyword",
    ],
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


@pytest.mark.parametrize(
    ("nodeid", "kinds", "mark"),
    [
        ("tests/runtime/test_a.py::test_a", ("sqlite",), FIRST),
        ("tests/api/test_a.py::test_a", ("sqlite",), EVERY),
        ("tests/api/test_a.py::test_a", ("postgres",), EVERY),
    ],
)
def test_a_marker_that_chooses_among_cases_is_taken(nodeid, kinds, mark):
    """
    One case on trio or on a further saver is chosen otherwise than without the marker.
    """
    items = cases_of(nodeid, SAVER, mark, kinds=kinds)

    saver_markers.check(items, whole_files=True)


@pytest.mark.parametrize(
    ("nodeid", "kinds", "mark"),
    [
        ("tests/runtime/test_a.py::test_a", ("memory",), FIRST),
        ("tests/api/test_a.py::test_a", ("sqlite", "postgres"), FIRST),
        ("tests/runtime/test_a.py::test_a", ("sqlite", "postgres"), EVERY),
        ("tests/faults/test_a.py::test_a", ("sqlite", "postgres"), EVERY),
    ],
    ids=["one kind", "left out already", "in already", "a fault"],
)
def test_a_marker_that_chooses_no_case_is_refused(nodeid, kinds, mark):
    """
    Where the same cases run without it, its reader would think that others don't.
    """
    items = cases_of(nodeid, SAVER, mark, kinds=kinds)

    with pytest.raises(pytest.UsageError, match=f"{mark.name} of {nodeid}"):
        saver_markers.check(items, whole_files=True)


@pytest.mark.parametrize(
    ("mark", "params"),
    [
        (EACH, [{}]),
        (FIRST, [{}]),
        (EVERY, [{}]),
        (EACH, [{"one": 1}, {"one": 2}]),
        (EACH("other"), [{"one": one, "other": other} for one in "ab" for other in "cd"]),
        (EACH(others=2), [{"one": one, "other": other} for one in "ab" for other in "cd"]),
        (FIRST("one"), [{"one": 1}, {"one": 2}]),
    ],
    ids=["no parameter", "first", "every", "one parameter", "a name", "a typo", "first of one"],
)
def test_a_marker_without_parameters_to_choose_from_is_refused(mark, params):
    """
    A test without parameters or with one has no combinations; the markers take no arguments.
    """
    parent = Node(mark)
    for cases in ([Case(mark, **some) for some in params], [Case(parent=parent, **params[0])]):
        with pytest.raises(pytest.UsageError, match=mark.name):
            saver_markers.check(cases, whole_files=True)


def test_a_marker_of_cases_is_judged_by_all_of_its_tests():
    """
    Its file may have others that it is for; those that are named on the command line say nothing.
    """
    saver_markers.check([Case(EACH, one=1)], whole_files=False)
    parent = Node(EACH)
    alone = Case(parent=parent, one=1)
    combinations = [Case(parent=parent, one=one, other=other) for one in "ab" for other in "cd"]
    for case in combinations:
        case.nodeid = "TestA::test_b[x]"

    saver_markers.check([alone, *combinations], whole_files=True)


@pytest.mark.parametrize("marks", [(), (SAVER,), (ONE,), (EACH,)], ids=str)
def test_each_case_of_a_fault_runs(marks):
    """
    In tests/faults, on each kind and loop, the first case of a function and all others.
    """
    loops, numbers = ["asyncio", "trio"], range(3)
    cases = [
        Case(*marks, anyio_backend=loop, store=kind, number=number)
        for loop, kind, number in product(loops, saver_markers.KINDS, numbers)
    ]
    for case in cases:
        case.nodeid = f"{saver_markers.FAULTS}test_a.py::test_a[x]"

    assert saver_markers.needed(cases, long=False, whole_files=True) == cases
