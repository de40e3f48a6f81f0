"""A worker that is really killed: does another process take its run over?

`check_killed_worker` starts a process that runs a run over a saver, kills it, and goes on with the
run. That process calls `work`.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from operator import add
from typing import IO, Annotated, Any, TypedDict
from uuid import uuid4

import anyio
import anyio.to_thread

from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.api.system.run_handle import Run
from actorgraph.api.system.system import ActorSystem
from actorgraph.errors import InvalidConfigError
from actorgraph.graph import StateGraph
from actorgraph.loops import on_trio
from actorgraph.ports import Saver
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.testing.conformance.harness import NotOfferedError, holds, same
from actorgraph.values.constants import START
from actorgraph.values.systems import ListRuns

LEASE_S = 2.0
PATIENCE_S = 60.0
_READY = "in the second node"


class _Log(TypedDict, total=False):
    log: Annotated[list[str], add]


def _graph(*, hangs: bool) -> Any:
    """Two nodes, of which the second never ends if it `hangs`."""

    async def first(_: _Log) -> Mapping[str, list[str]]:
        return {"log": ["first"]}

    async def second(_: _Log) -> Mapping[str, list[str]]:
        if hangs:
            print(_READY, flush=True)  # noqa: T201 - the other process waits for it
            await anyio.sleep_forever()
        return {"log": ["second"]}

    builder = StateGraph(_Log).add_node(first).add_node(second)
    return builder.add_edge(START, "first").add_edge("first", "second").compile()


def _system(saver: str, *, hangs: bool) -> ActorSystem:
    return ActorSystem({"two": _graph(hangs=hangs)}, saver=_made(saver), lease_s=LEASE_S)


def _made(name: str) -> Any:
    """The saver of a name.

    Raises:
        InvalidConfigError: it names no saver.
        NotOfferedError: the saver stores no runs.
    """
    module, _, attribute = name.partition(":")
    found = getattr(import_module(module), attribute, None) if attribute else None
    made: Any = found() if callable(found) and not isinstance(found, Saver) else found
    if not isinstance(made, Saver):
        raise InvalidConfigError(
            f"{name!r} names no saver",
            do="name a saver, or a function without arguments that makes one: module:name",
        )
    if not getattr(made, "keeps_runs", False):
        raise NotOfferedError("its keeps_runs is false")
    return adapt_checkpointer(made)


async def check_killed_worker(saver: str) -> None:
    """Kill a process (SIGKILL) in the middle of a run; this process takes the run over.

    It must end with the first node's result from the killed process, and be the second attempt. A
    thread and a run are left behind. It takes some seconds: the time of the killed one's lease.

        await check_killed_worker("app:make_saver")

    Args:
        saver: `module:name` of a saver, or of a function that makes one, in a module that another
            process can import too: both savers are over one storage.
    Raises:
        ContractBrokenError: the run was lost, repeated or changed.
        NotOfferedError: the saver stores no runs of systems (`keeps_runs`).
        InvalidConfigError: `saver` names no saver.
        TimeoutError: it took longer than a minute.
    """
    thread_id = f"killed-{uuid4()}"
    _made(saver)
    with anyio.fail_after(PATIENCE_S):
        await _left_behind(saver, thread_id)
        async with _system(saver, hangs=False) as system:
            run = await _taken_over(system, thread_id)
            same(await run.wait(), "success", "the status of the run that was taken over")
            state = await system.graphs["two"].aget_state(_config(thread_id))
            same(state.values, {"log": ["first", "second"]}, "the state at its end")
            rows = await host_of(system.saver).reader.ask(ListRuns(thread_id=thread_id))
            same([(r.status, r.attempts) for r in rows], [("success", 2)], "the stored runs")


async def _taken_over(system: ActorSystem, thread_id: str) -> Run[Any]:
    """Look for the killed worker's run until its lease has ended."""
    while True:
        for run in await system.recover():
            if run.thread_id == thread_id:
                return run
        await anyio.sleep(LEASE_S / 10)


async def _left_behind(saver: str, thread_id: str) -> None:
    """Start a run in another process, and kill that in the middle."""
    backend = "trio" if on_trio() else "asyncio"
    program = f"from {__name__} import work; work({saver!r}, {thread_id!r}, {backend!r})"
    command = [sys.executable, "-c", program]
    paths = os.pathsep.join(filter(None, sys.path))
    child = subprocess.Popen(  # noqa: S603, ASYNC220 - Python itself; it answers at once
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert child.stdout is not None
    try:
        line = await anyio.to_thread.run_sync(_line, child.stdout, abandon_on_cancel=True)
    finally:
        child.kill()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(child.wait)
        child.stdout.close()
    holds(line == _READY, f"the worker ended before its second node: {line}")


def _line(output: IO[str]) -> str:
    return output.readline().strip()


def _config(thread_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id}}


def work(saver: str, thread_id: str, backend: str) -> None:
    """Run a run until the process is killed."""
    anyio.run(_work, saver, thread_id, backend=backend)


async def _work(saver: str, thread_id: str) -> None:
    async with _system(saver, hangs=True) as system:
        run = await system.start("two", thread_id, {"log": []})
        await run.wait()
