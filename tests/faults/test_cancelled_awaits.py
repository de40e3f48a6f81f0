"""Every call, cancelled at each of its suspensions: `cancels.py` says how."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from actorgraph import Command
from tests.faults.cancels import JUDGED, UPDATE, Call, cancel_everywhere
from tests.faults.crashes import report, row
from tests.faults.oracle import Oracle
from tests.faults.scenarios import CONFIG, INPUT, MODES, NAMED, call, run_through

CHAIN, FAN_OUT, QUESTION, STEPS = (
    NAMED[name] for name in ("chain", "fan-out", "interrupt", "calls")
)


async def finished(graph: Any, oracle: Oracle) -> None:
    await run_through(graph, INPUT, "sync", oracle)


async def asked(graph: Any, oracle: Oracle) -> None:
    await call(graph, INPUT, "sync", oracle)


def invoke(mode: str) -> Call:
    return Call(f"ainvoke {mode}", lambda graph, _: graph.ainvoke(INPUT, CONFIG, durability=mode))


async def levels(graph: Any, _: Oracle) -> None:
    """Read the graph and those inside of it."""
    modes = ["updates", "tasks", "custom"]
    async with graph.astream(INPUT, CONFIG, stream_mode=modes, subgraphs=True) as stream:
        assert [chunk async for chunk in stream]


async def update(graph: Any, oracle: Oracle) -> None:
    await graph.aupdate_state(CONFIG, {"log": [UPDATE]})
    oracle.write("ack", UPDATE)


async def listing(graph: Any, _: Oracle) -> None:
    assert [c async for c in graph.checkpointer.alist(CONFIG)]


async def delete(graph: Any, _: Oracle) -> None:
    await graph.checkpointer.adelete_thread("thread")


async def own_saver(graph: Any, oracle: Oracle) -> None:
    """Open a second saver of the same store, run, close it."""
    async with graph.checkpointer.again() as saver:
        other = type(graph)(graph.plan, saver)
        await run_through(other, INPUT, "sync", oracle)


CALLS = [
    *((FAN_OUT, invoke(mode)) for mode in MODES),
    (CHAIN, replace(invoke("sync"), name="ainvoke sync, a node in a thread")),
    (FAN_OUT, Call("astream", lambda graph, oracle: call(graph, INPUT, "sync", oracle))),
    (
        QUESTION,
        Call("resume", lambda g, o: call(g, Command(resume="yes"), "sync", o), asked),
    ),
    *((STEPS, replace(invoke(mode), name=f"ainvoke {mode}, calls of tasks")) for mode in MODES),
    (
        STEPS,
        Call(
            "resume, calls of tasks",
            lambda g, o: call(g, Command(resume="yes"), "sync", o),
            asked,
        ),
    ),
    (CHAIN, Call("aupdate_state", update, finished)),
    (CHAIN, Call("aget_state", lambda graph, _: graph.aget_state(CONFIG), finished)),
    (CHAIN, Call("alist", listing, finished)),
    (CHAIN, Call("adelete_thread", delete, finished, deletes=True)),
    (FAN_OUT, Call("open, run, close", own_saver)),
]
INSIDE = [
    (NAMED["program"], replace(invoke("sync"), name="ainvoke sync, calls")),
    (NAMED["retried"], Call("astream, a retried node", levels)),
    (NAMED["handler"], replace(invoke("exit"), name="ainvoke exit, a handler")),
    (NAMED["stateful"], replace(invoke("async"), name="ainvoke async, a graph in a node")),
]
"""Too many awaits for every change: calls, retries, handlers, graphs in graphs."""
EVERY = [*CALLS, *INSIDE]
HOW = {"asyncio": ("scope", "native", "twice"), "trio": ("scope",)}


@pytest.mark.promise("B3", "B6")
@pytest.mark.parametrize("kind", ["memory", "memory, by actor", "sqlite"])
@pytest.mark.parametrize(("scenario", "cancelled"), EVERY, ids=[c.name for _, c in EVERY])
async def test_a_cancelled_call_leaves_nothing_behind(
    scenario, cancelled, kind, *, tmp_path, request, anyio_backend
):
    """
    Cancelled at any await, a call leaves no transaction, no lock and no task; the store doesn't
    change later, nothing acknowledged is lost, and the thread goes on.
    """
    seen: Counter[str] = Counter()
    for how in HOW[anyio_backend]:
        path = tmp_path / "store.db"
        seen += await cancel_everywhere(cancelled, scenario, kind, how, path)

    figures = [seen[name] for name in ("awaits", *JUDGED)]
    line = row(cancelled.name, kind, anyio_backend, *figures)
    report(request.config, "cancelled awaits", line)
    assert {name: seen[name] for name in JUDGED if seen[name]} == {}
    assert seen["awaits"] > 0 or (kind, cancelled.name) in NEVER_WAITS


NEVER_WAITS = {("memory", name) for name in ("aupdate_state", "aget_state", "alist")} | {
    ("memory", "adelete_thread")
}
