"""Programs of plain functions that wait for each other, for tasks and for graphs: they end."""

import pytest

from tests.support.warm_processes import run

SECONDS_MAX = 60
ONE = {
    "results": (["2"], ["2", "2", "2", "2"]),
    "standard_tools": ([1, 2, 3], 0, [1, 2, 3]),
    "hidden_tools": (["(3, 1)", "[1, 2, 3]", "6"], "6"),
    "own_threads": ["[2, 3]"],
    "running_beside": ["True"],
    "loop_of_its_own": (["[2, 3]"], ["[2, 3]"]),
    "steps": (["7"], [1]),
    "nested_in_helpers": (20, 3),
}
SIDE_BY_SIDE = {
    "barrier": (8, 8, 8, 8, 8, 8),
    "barrier_of_retries": ["a", "b", "c", "d"],
    "many_threads": 200,
    "application_threads": 600,
}
READ = {
    "alternating_threads": [
        "{'a': {'bar': ['x', 'y']}}",
        "{'b': {'bar': ['b']}}",
        "{'c': {'bar': ['x', 'y']}}",
    ],
    "live_chunks": [("custom", "one"), ("updates", {"node": {"bar": ["True"]}})],
    "freed_generator": (["a", "b", "c"], ["a", "b", "c"]),
}
UNUSUAL = {"forked": (b"['a']", ["a"]), "greenlets": [["['x']", "between", "2"]]}


def printed(name: str) -> str:
    """The line that one of the programs prints; it fails after a limit of time."""
    done = run(["-m", "tests.api.plain_programs", name], timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", ONE)
def test_a_plain_node_waits_for_tasks_in_any_way(name):
    """
    Results, `wait`, `as_completed`, own threads, own loops: all get what the tasks return.
    """
    assert printed(name) == repr(ONE[name])


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_plain_functions_run_side_by_side(name):
    """
    Functions of one superstep that wait for each other end: nodes, subgraphs, retries, batches.
    """
    assert printed(name) == repr(SIDE_BY_SIDE[name])


@pytest.mark.parametrize("name", READ)
def test_a_stream_of_plain_functions_is_read_anywhere(name):
    """
    Read by alternating threads, while a node runs, or freed in an event loop, it gives all chunks.
    """
    assert printed(name) == repr(READ[name])


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_program_may_fork_and_use_greenlets(name):
    """
    A forked process makes calls of its own, and nodes may switch between greenlets.
    """
    assert printed(name) == repr(UNUSUAL[name])
