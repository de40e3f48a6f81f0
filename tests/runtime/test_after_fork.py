"""Objects that a process forked from a running one may still use."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
import anyio
from actorgraph import ActorGraphError, InMemorySaver, SqliteSaver
from tests.support.graphs import ab, at

def told(call, *args):
    try:
        return str(call(*args)["bar"])
    except ActorGraphError as error:
        return f"{type(error).__name__}: {error.what}"

saver = SqliteSaver(sys.argv[2]) if sys.argv[1] == "sqlite" else InMemorySaver()
graph, bare = ab(saver), ab(None)
anyio.run(graph.ainvoke, {}, at())
bare.invoke({})
if not os.fork():
    print(told(anyio.run, graph.ainvoke, {}, at()))
    print(told(graph.invoke, {}, at()))
    print(told(graph.get_state, at()))
    print(told(bare.invoke, {}))
    fresh = ab(SqliteSaver(sys.argv[2]) if sys.argv[1] == "sqlite" else InMemorySaver())
    print(told(fresh.invoke, {}, at("other")))
    print(told(anyio.run, bare.ainvoke, {}), flush=True)
    sys.exit(3)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]) != 3)
"""
HELD = {"sqlite": "its thread and its connection", "memory": "the child's copy"}


@pytest.mark.parametrize("kind", HELD)
def test_a_forked_child_may_use_all_but_the_savers_of_its_parent(kind, tmp_path: Path):
    """
    Each call over the parent's saver has the same error in the child; its advice, a new saver,
    works there, as do graphs without one, and nothing hangs.
    """
    command = [sys.executable, "-c", PROGRAM, kind, str(tmp_path / "x.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    *savers, blocking, fresh, free = done.stdout.splitlines()
    assert len(savers) == 3
    for saver in savers:
        assert saver.startswith("SaverClosedError: this saver was in use when the process was fork")
        assert HELD[kind] in saver
    assert {blocking, fresh, free} == {"['a', 'b']"}
