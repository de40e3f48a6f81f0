"""Servers whose application can't start: they end, and say why."""

import subprocess
import sys
import time

import pytest

from tests.web.processes import ROOT

CODE = """
import sys
import anyio
import uvicorn
from actorgraph import ActorSystem, SqliteSaver
from actorgraph.stores import SqliteStore
from actorgraph.web import serve, served
from tests.web.apps import GRAPHS

kind, path = sys.argv[1:]
saver = SqliteSaver(path + "/nowhere/runs.db")
graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
system = ActorSystem(graphs, saver=saver, store=SqliteStore(path + "/store.db"))
if kind == "uvicorn":
    uvicorn.run(served(system), port=0)
else:
    anyio.run(lambda: serve(system, bind="127.0.0.1:0"), backend=kind)
"""


@pytest.mark.parametrize("kind", ["uvicorn", "asyncio", "trio"])
def test_a_server_whose_system_cannot_be_opened_ends(kind, tmp_path):
    """
    A saver that can't be opened ends the server at once, with an error that names the file.
    """
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CODE, kind, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=ROOT,
    )

    assert done.returncode != 0
    assert "nowhere" in done.stdout + done.stderr
    assert time.monotonic() - began < 40
