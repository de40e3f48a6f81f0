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
    print(told(bare.invoke, {}))
    print(told(anyio.run, bare.ainvoke, {}), flush=True)
    os._exit(0)
os.wait()
"""
HELD = {"sqlite": "its thread and its connection", "memory": "the child's copy"}


@pytest.mark.parametrize("kind", HELD)
def test_a_forked_child_gets_errors_for_objects_that_it_can_not_use(kind, tmp_path: Path):
    """
    A saver and the blocking methods of the parent are refused in the child, and nothing hangs.
    """
    command = [sys.executable, "-c", PROGRAM, kind, str(tmp_path / "x.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    saver, blocking, free = done.stdout.splitlines()
    assert saver.startswith("SaverClosedError: this saver was in use when the process was forked")
    assert HELD[kind] in saver
    assert blocking.startswith("RunningLoopError: this process was forked")
    assert free == "['a', 'b']"
