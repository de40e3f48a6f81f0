"""A few random graphs of `make differential`: as LangGraph ran them, and under any schedule."""

import json

import pytest

from tests.differential.__main__ import RECORDED
from tests.differential.builder import OURS, Library, build
from tests.differential.changes import CHANGES, named_back
from tests.differential.compare import compare
from tests.differential.driver import drive
from tests.differential.extras import graphs_of
from tests.differential.rules import allowed
from tests.differential.schedules import disagreements
from tests.differential.specs import generate
from tests.differential.tools import TOOLS
from tests.differential.worker import traced

SEEN = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]
SCHEDULES = 30


@pytest.mark.one_loop
@pytest.mark.langgraph("F-C1", "F-C2", "F-G1", "L13", "L15", "L26", "L42")
@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: str(seen["spec"]["seed"]))
@pytest.mark.filterwarnings("ignore::actorgraph.UnreachableNodeWarning")
async def test_a_graph_runs_as_langgraph_ran_it(seen):
    """
    Output, questions, state and history of each turn are those that LangGraph 1.2.24 gave.
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
    decided = ["D37", "D140", "D138", "D138-objects", "D138-models", "D144", "ToolNode"]

    assert [*listed] == [*wanted, *decided]
    assert all(("rule" in entry) != ("never" in entry) for entry in listed.values())


def test_the_usual_seeds_have_every_kind():
    """
    Among three hundred specs are classes as states, hand-overs, tools and each kind of change.
    """
    specs = [generate(seed) for seed in range(300)]
    nodes = [n for s in specs for graph in graphs_of(s) for n in graph["nodes"].values()]

    assert {s.get("schema", "typed") for s in specs} == {"typed", "dataclass", "pydantic"}
    assert {n.get("form") for n in nodes} >= {"parent", "object"}
    assert {tool for n in nodes for tool in n.get("calls", ())} == {*TOOLS, "leave"}
    assert {n["by"] for n in nodes if "by" in n} == {"send", "message", "context"}
    assert {change[0] for s in specs for change in s.get("changes", ())} == {*CHANGES}
    assert any(s.get("migrates") for s in specs)


def a_pause(**of_change):
    """A spec whose node `a` is removed while it waits, and the trace of pause and change."""
    spec = {**generate(0), "nodes": {"a": {}, "b": {}}, "edges": [["__start__", "a"]]}
    spec |= {"branches": [], "before": [], "after": [], "turns": [], "changes": [["remove", "a"]]}
    waiting = {"given": "input", "outcome": {}, "state": {"next": ["a"], "tasks": []}, "ran": 1}
    change = {"given": "change", "outcome": {}, "state": {"next": []}, "ran": 0, **of_change}
    return spec, [waiting, change]


class TestChanges:
    def test_a_refusal_of_what_would_be_lost_is_excused(self):
        """
        A SchemaMismatchError is excused where the thread waits at a node that is gone.
        """
        spec, ours = a_pause(state={"error": "SchemaMismatchError"})
        _, theirs = a_pause()

        assert compare(spec, ours, theirs) == (None, ("D37",))

    def test_a_refusal_after_something_ran_is_a_difference(self):
        """
        It is one if nodes had run by then.
        """
        spec, ours = a_pause(state={"error": "SchemaMismatchError"}, ran=1)
        _, theirs = a_pause()

        assert compare(spec, ours, theirs).difference is not None

    def test_a_refusal_of_what_fits_is_a_difference(self):
        """
        It is one if the change has taken nothing away.
        """
        spec, ours = a_pause(state={"error": "SchemaMismatchError"})
        _, theirs = a_pause()
        spec["changes"] = [["key", "extra"]]

        assert compare(spec, ours, theirs).difference is not None

    def test_a_refusal_of_what_is_migrated_is_a_difference(self):
        """
        It is one if a Migration says where everything is.
        """
        spec, ours = a_pause(state={"error": "SchemaMismatchError"})
        _, theirs = a_pause(state={"next": ["a"]})
        spec |= {"changes": [["rename", "a"]], "migrates": True}

        assert compare(spec, ours, theirs).difference is not None

    def test_a_migrated_name_reads_as_the_old_one(self):
        """
        In a trace of migrated renames the new names read as the old ones, and nothing else changes.
        """
        told = {"a2/x": ["a2.3.1.", "in2", "re b2?0 at 2"]}

        assert named_back(told) == {"a/x": ["a.3.1.", "in2", "re b?0 at 2"]}

    def test_a_silent_loss_is_a_difference_even_if_langgraph_has_it_too(self):
        """
        Two equal traces that have lost a waiting node are a difference.
        """
        spec, trace = a_pause()

        assert "lost ['a']" in str(compare(spec, trace, trace).difference)


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
