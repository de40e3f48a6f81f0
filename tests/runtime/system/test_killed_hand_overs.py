"""A process is killed between two hand-overs of one superstep; another process goes on."""

import subprocess
import threading
from itertools import product
from typing import Any, NamedTuple

import anyio
import pytest

from tests.support.graphs import at
from tests.support.handover_worker import (
    GIVEN,
    LOG,
    NAMES,
    Between,
    graph_of,
    saver_at,
    system_over,
)
from tests.support.source_files import ROOT
from tests.support.system_worker import recover
from tests.support.warm_processes import popen

PATIENCE_S = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    server = request.getfixturevalue("postgres")
    return f"{server.url}#{request.getfixturevalue('schema')}"


def killed(*words: str) -> list[str]:
    """Start the process and kill it once it is held; what it has said."""
    given = ["-m", "tests.support.handover_worker", *words]
    process: Any = popen(given, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    limit = threading.Timer(PATIENCE_S, process.kill)
    limit.start()
    said: list[str] = []
    try:
        while not said or said[-1] not in ("held", ""):
            said.append(process.stdout.readline().strip())
    finally:
        limit.cancel()
        process.kill()
        process.wait()
        process.stdout.close()
    return said


class Noted(Between):
    """The tasks that run here, in this process."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        super().__init__(note=lambda _, name: self.ran.append(name))


class Case(NamedTuple):
    """The form of the graph, the durability, and which task hands over before the kill."""

    form: str
    durability: str
    first: str

    @property
    def runs_again(self) -> list[str]:
        """The tasks after the kill: those that were not stored, so all of them in "exit"."""
        again = NAMES if self.durability == "exit" else NAMES.replace(self.first, "")
        return sorted([*again, "after a", "after b"])


CASES = [Case(*each) for each in product(("subgraphs", "nodes"), ("sync", "async", "exit"), NAMES)]
FEW = [
    Case("subgraphs", "sync", "b"),
    Case("nodes", "async", "a"),
    Case("subgraphs", "exit", "a"),
    Case("nodes", "exit", "b"),
]


async def next_call(loop: str, how: str, place: str, case: Case) -> None:
    """Kill a call, and judge what the next one makes of what was left."""
    said = await anyio.to_thread.run_sync(killed, loop, how, place, *case)
    noted = Noted()
    async with saver_at(place) as saver:
        graph = graph_of(case.form, noted, saver, plain=how == "blocking")
        given = GIVEN if case.durability == "exit" else None
        result = await graph.ainvoke(given, at("t"))
    assert said[-1] == "held"
    assert sorted(said[:-1]) == ["ran a", "ran b"]
    assert result["log"] == LOG
    assert sorted(noted.ran) == case.runs_again


@pytest.mark.every_saver
class TestKilledBetween:
    @pytest.mark.parametrize("case", CASES, ids="-".join)
    async def test_the_next_call_goes_on(self, anyio_backend_name, place, case):
        """
        A hand-over that was stored is neither lost nor made again, the other one is made once, and
        both land in path order, whichever came first.
        """
        await next_call(anyio_backend_name, "graph", place, case)

    @pytest.mark.parametrize("case", FEW, ids="-".join)
    async def test_so_does_it_after_a_blocking_call(self, anyio_backend_name, place, case):
        """
        The same if a blocking call was killed, whose nodes are plain functions.
        """
        await next_call(anyio_backend_name, "blocking", place, case)

    @pytest.mark.parametrize("case", FEW, ids="-".join)
    async def test_another_system_takes_the_run_up(self, anyio_backend_name, place, case):
        """
        The same for the run of a system, which another one recovers with its input.
        """
        said = await anyio.to_thread.run_sync(killed, anyio_backend_name, "system", place, *case)
        noted = Noted()
        with anyio.fail_after(PATIENCE_S):
            async with system_over(place, case.form, noted) as system:
                await recover(system)
                state = await system.graphs["g"].aget_state(at("t"))

        assert said[-1] == "held"
        assert state.values["log"] == LOG
        assert state.next == ()
        assert sorted(noted.ran) == case.runs_again
