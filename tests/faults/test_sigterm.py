"""SIGTERM under load, fifty times: what servers send their clients, and what they leave behind."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.crashes import report, row
from tests.web.shutdowns import (
    DEADLINE_S,
    SERVERS,
    finished_by_the_next,
    lost,
    stopped_under_load,
)

TIMES = dict(zip(SERVERS, (17, 17, 16), strict=True))
READERS, STARTERS = 8, 2


async def one_stop(server: str, path: Path, seen: Counter[str]) -> float:
    """Stop a server under load, look at what is stored, let the next one go on; its seconds."""
    stopped = stopped_under_load(server, path, READERS, STARTERS)
    assert stopped.code in (0, -signal.SIGTERM)
    for reader in stopped.readers:
        seen["cut" if reader.cut else f"by {reader.events[-1]}"] += 1
        seen["acknowledged"] += reader.acknowledged
    seen["lost"] += await lost(path, stopped.readers)
    for status, retry_after in stopped.refused:
        told = status in (429, 503) and retry_after is not None
        seen["refused" if told else "refused otherwise"] += 1
    seen["not taken"] += sum(starter.unheard for starter in stopped.starters)
    seen["accepted"] += len(stopped.accepted)
    seen["finished"] += finished_by_the_next(server, path, stopped.accepted, 60)
    return stopped.seconds


@pytest.mark.promise("T39")
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_is_asked_to_stop_loses_nothing(server, tmp_path, request):
    """
    At SIGTERM under load a server refuses runs, ends each stream with a word, and exits in time;
    what it had acknowledged is stored, and the next one ends every run that it had accepted.
    """
    seen: Counter[str] = Counter()
    seconds = [await one_stop(server, tmp_path / f"{n}.db", seen) for n in range(TIMES[server])]

    streams = ", ".join(str(seen[name]) for name in ("by drain", "by end", "cut"))
    figures = [seen[n] for n in ("accepted", "finished", "acknowledged", "lost", "refused")]
    rest = [seen[n] for n in ("refused otherwise", "not taken")]
    took = f"{sum(seconds) / len(seconds):.2f}, {max(seconds):.2f}"
    line = row(server, len(seconds), streams, *figures, *rest, took)
    report(request.config, "SIGTERM under load", line)
    assert max(seconds) < DEADLINE_S
    assert seen["by drain"] + seen["by end"] == READERS * len(seconds)
    assert (seen["lost"], seen["refused otherwise"]) == (0, 0)
    assert seen["finished"] == seen["accepted"]


@pytest.mark.promise("T39")
@pytest.mark.parametrize("graph", ["stuck", "blocked"])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_node_that_does_not_return_holds_up_no_exit(server, graph, tmp_path, request):
    """
    A node that waits for ever, or holds a thread, is left when the time is over: its reader is
    notified, and the process ends.
    """
    path = tmp_path / "runs.db"
    stopped = stopped_under_load(server, path, 2, graph=graph, drain_s=2)

    line = row(f"{server}, {graph} node", 1, "2, 0, 0", *["-"] * 7, f"{stopped.seconds:.2f}")
    report(request.config, "SIGTERM under load", line)
    assert [(reader.events[-1], reader.cut) for reader in stopped.readers] == [("drain", "")] * 2
    assert stopped.code in (0, -signal.SIGTERM)
    assert stopped.seconds < DEADLINE_S


@pytest.mark.promise("T39")
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_ctrl_c_loses_nothing(server, tmp_path):
    """
    SIGINT ends a server as SIGTERM does.
    """
    path = tmp_path / "runs.db"
    stopped = stopped_under_load(server, path, READERS, STARTERS, number=signal.SIGINT)

    assert {reader.cut for reader in stopped.readers} == {""}
    assert await lost(path, stopped.readers) == 0
    assert finished_by_the_next(server, path, stopped.accepted, 60) == len(stopped.accepted)
    assert stopped.seconds < DEADLINE_S
