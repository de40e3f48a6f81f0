"""Objects of declared types in runs whose process was killed; another process goes on."""

import subprocess
import threading
from typing import Any

import anyio
import pytest

from actorgraph import InvalidResumeError
from tests.support.graphs import at
from tests.support.source_files import ROOT
from tests.support.system_worker import recover
from tests.support.typed_worker import GIVEN, KINDS, PLACES, system_over
from tests.support.warm_processes import popen

PATIENCE_S = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    server = request.getfixturevalue("postgres")
    return f"{server.url}#{request.getfixturevalue('schema')}"


def killed(*words: str) -> str:
    """Start the process and kill it once all of its runs wait; its line."""
    given = ["-m", "tests.support.typed_worker", *words]
    process: Any = popen(given, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    limit = threading.Timer(PATIENCE_S, process.kill)
    limit.start()
    try:
        return process.stdout.readline().strip()
    finally:
        limit.cancel()
        process.kill()
        process.wait()
        process.stdout.close()


async def lines(system: Any) -> list[str]:
    """The graph of each thread, and its line."""
    graphs = {run.thread_id: run.graph for run in await system.runs()}
    found: list[str] = []
    for thread, graph in graphs.items():
        values = (await system.graphs[graph].aget_state(at(thread))).values
        last = values["messages"][-1].content if "messages" in values else values.get("said")
        found.append(f"{graph}: {last}")
    return sorted(found)


@pytest.mark.every_saver
async def test_objects_come_back_after_a_kill(anyio_backend_name, place):
    """
    A cron's context, an answer and a tool's argument are objects of their classes again, with
    those in their fields; a question that still waits refuses an answer that doesn't fit its type.
    """
    said = await anyio.to_thread.run_sync(killed, anyio_backend_name, place)
    assert said == "started"
    with anyio.fail_after(PATIENCE_S):
        async with system_over(place) as system:
            await recover(system)
            for kind in KINDS:
                name, thread = f"answer {kind}", f"asks {kind}"
                (asked,) = (await system.graphs[name].aget_state(at(thread))).interrupts
                with pytest.raises(InvalidResumeError):
                    await system.resume(name, thread, answers={asked.id: {"limit": "many"}})
                run = await system.resume(name, thread, answers={asked.id: GIVEN})
                await run.result()
            found = await lines(system)

    line = {name: f"{kind.__name__} 7 Inner 3" for name, kind in KINDS.items()}
    assert found == sorted(
        f"{place} {name}: {line[name] if place in ('tool', 'agent') else [line[name]]}"
        for place in (*PLACES, "answer")  # its threads are two
        for name in KINDS
    )
