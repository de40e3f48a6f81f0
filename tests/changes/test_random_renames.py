"""Random histories of renames: all migrations at once do what they do one after the other."""

import itertools
from typing import Any, TypedDict

import anyio
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from actorgraph import END, START, Command, InMemorySaver, StateGraph, interrupt
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.errors import GraphBuildError, SchemaMismatchError
from actorgraph.types import Migration
from actorgraph.values.graph_changes import ResumeVerdict
from tests.support.graphs import at
from tests.support.known_types import same_types_afterwards

NAMES = "abcd"
ROUNDS = 3
Version = tuple[str, str, str]
"""Today's names of two keys, and of the node that asks."""


def graph(saver: Any, version: Version, migrations: list[Migration]) -> Any:
    """A graph that asks twice in each round, as many as its first key says, and multiplies."""
    one, two, node = version
    schema: Any = TypedDict("State", {one: int, two: int}, total=False)

    def ask(state: dict[str, int]) -> dict[str, int]:
        factors = interrupt("by what?") * interrupt("and then?")
        return {two: state[two] * factors, one: state[one] - 1}

    builder = StateGraph(schema).add_node(node, ask).add_edge(START, node)
    builder.add_conditional_edges(node, lambda state: node if state[one] else END, [node, END])
    return builder.compile(saver, name="g", migrations=migrations)


def migration(before: Version, after: Version) -> Migration:
    """The change from one version to the next."""
    keys = {old: new for old, new in zip(before[:2], after[:2], strict=True) if old != new}
    nodes = {before[2]: after[2]} if before[2] != after[2] else {}
    return Migration(channels=keys, nodes=nodes)


def begun(saver: Any, version: Version) -> None:
    """Run a thread of a version to its first question."""
    graph(saver, version, []).invoke({version[0]: ROUNDS, version[1]: 2}, at())


def compiled(saver: Any, history: list[Version]) -> Any:
    """The graph of the newest version, with all migrations.

    It is refused only where a name of today was renamed, so that a thread may mean either by it.
    """
    migrations = [migration(old, new) for old, new in itertools.pairwise(history)]
    now = history[-1]
    renamed = [
        (names is NODE, old)
        for version in history
        for names in (KEYS, NODE)
        for old, new in zip(version[names], now[names], strict=True)
        if old != new
    ]
    doubtful = any(old in now[NODE if is_node else KEYS] for is_node, old in renamed)
    try:
        return graph(saver, now, migrations)
    except GraphBuildError:
        assert doubtful
        reject()


KEYS, NODE = slice(0, 2), slice(2, 3)
versions = st.tuples(
    st.permutations(NAMES).map(lambda names: tuple(names[:2])), st.sampled_from("xyz")
).map(lambda parts: (*parts[0], parts[1]))


EXAMPLES = pytest.mark.parametrize("examples", [25, pytest.param(100, marks=pytest.mark.long)])


@EXAMPLES
def test_renames_compose(examples):
    """
    Whichever versions have touched a thread in between, and within one superstep, the newest has
    its values under today's names and its question; renames that fit two ways are refused when
    it is compiled.
    """
    histories = st.lists(versions, min_size=2, max_size=4)
    answers = st.lists(st.integers(0, 2), max_size=3)
    settings(max_examples=examples)(given(histories, answers)(go_on_under_the_newest))()


def go_on_under_the_newest(history, answers):
    """Touch a thread by each version in turn, then end it by the newest."""
    with same_types_afterwards():
        saver, asked = InMemorySaver(), 0
        begun(saver, history[0])
        for place, count in enumerate(answers[: len(history) - 1]):
            for _ in range(count):
                compiled(saver, history[: place + 1]).invoke(Command(resume=10), at())
                asked += 1
        now = compiled(saver, history)

        rounds = asked // 2
        if rounds < ROUNDS:
            (group,) = anyio.run(check_threads, {"g": now}, saver).groups
            assert group.verdict is not ResumeVerdict.REFUSED
        one, two, _ = history[-1]
        assert now.get_state(at()).values == {one: ROUNDS - rounds, two: 2 * 100**rounds}
        while now.get_state(at()).interrupts:
            now.invoke(Command(resume=10), at())
            asked += 1
        assert asked == 2 * ROUNDS
        assert now.get_state(at()).values == {one: 0, two: 2 * 100**ROUNDS}


@EXAMPLES
def test_the_check_says_the_deed(examples):
    """
    A thread goes on under another version exactly if the check has said so.
    """
    settings(max_examples=examples)(given(versions, versions, st.booleans())(do_as_checked))()


def do_as_checked(old, new, migrated):
    """Check a thread of one version under another, then go on with it."""
    with same_types_afterwards():
        saver = InMemorySaver()
        begun(saver, old)
        now = compiled(saver, [old, new] if migrated else [new])
        (group,) = anyio.run(check_threads, {"g": now}, saver).groups
        try:
            now.invoke(Command(resume=10), at())
            result = now.invoke(Command(resume=2), at())
        except SchemaMismatchError:
            assert group.verdict is ResumeVerdict.REFUSED
        else:
            assert group.verdict is not ResumeVerdict.REFUSED
            assert {
                new[0]: ROUNDS - 1,
                new[1]: 2 * 10 * 2,
            }.items() <= result.items() or not migrated
