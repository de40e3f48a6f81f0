"""A few random graphs of `make differential`: as LangGraph ran them, and under any schedule."""

import json

import pytest

from tests.differential.__main__ import RECORDED
from tests.differential.builder import OURS, Library, build
from tests.differential.compare import compare
from tests.differential.driver import drive
from tests.differential.rules import allowed
from tests.differential.schedules import disagreements
from tests.differential.specs import generate
from tests.differential.worker import traced

SEEN = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
SCHEDULES = 30


@pytest.mark.one_loop
@pytest.mark.langgraph("F-C1", "F-C2", "F-G1", "L13", "L15", "L26", "L42")
@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: str(seen["spec"]["seed"]))
@pytest.mark.filterwarnings("ignore::actorgraph.UnreachableNodeWarning")
async def test_a_graph_runs_as_langgraph_ran_it(seen):
    """
    Output, questions, state and history of each turn are those that LangGraph 1.2.22 gave.
    """
    library = Library(OURS)
    trace = await drive(library, build(library, seen["spec"]), seen["spec"])

    assert compare(seen["spec"], trace, seen["trace"]).difference is None


@pytest.mark.langgraph("F-C3", "L15", "L115")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.filterwarnings("ignore::actorgraph.UnreachableNodeWarning")
def test_every_schedule_ends_the_same(seed):
    """
    In any order of completion of parallel tasks, the state and the questions are the same.
    """
    assert disagreements(generate(seed), SCHEDULES) == []


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore::actorgraph.UnreachableNodeWarning")
def test_a_blocking_run_of_plain_functions_does_the_same(seed):
    """
    Invoked or streamed without an event loop, a graph gives what it gives in one.
    """
    spec, library = generate(seed), Library(OURS)

    blocking = traced(library, spec, "blocking")

    assert compare(spec, blocking, traced(library, spec, "plain")).difference is None


def test_each_allowed_difference_has_a_rule_or_a_reason():
    """
    The list names each defect and each resolution once, with its sign or a reason.
    """
    listed = allowed()
    wanted = [*(f"L{n}" for n in range(105, 118)), *(f"C{n}" for n in (5, 6, 7, *range(28, 34)))]

    assert [*listed] == wanted
    assert all(("rule" in entry) != ("never" in entry) for entry in listed.values())


def test_a_difference_is_found():
    """
    A trace that differs in one value is detected, with the place.
    """
    seen = SEEN[0]
    other = json.loads(json.dumps(seen["trace"]))
    other[-1]["state"]["values"]["n"] += 1

    found = compare(seen["spec"], seen["trace"], other).difference

    assert found is not None
    assert "state.values.n" in found
