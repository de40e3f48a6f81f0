"""The same loop in other libraries: one node, or step, that counts, again and again.

Each program is written as that library's documentation writes a loop, with its defaults:

- Burr: an action with a condition on its transition back to itself; `run` and `arun` go on until
  a last action. Its SQLite persisters commit after each action.
- pydantic-graph: a node that returns itself or the end, always a coroutine; `run_sync` runs it on
  an event loop of the thread. It has no storage.
- LlamaIndex workflows: a step that returns the event that starts it again. Coroutines only; the
  context's state is not stored by the library itself.
- DBOS: a workflow that calls a step in a loop. It stores each step's result, always.

One process measures one library, in an environment of its own; nothing is imported before.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.bench.timing import measured, measured_blocking

WARM_UP_STEPS = 20


def blocking_loop(library: str, path: Path, *, steps: int, saver: str | None) -> dict:
    """`steps` steps with plain functions, from a program without an event loop."""
    with BLOCKING[library](path, saver) as count_to:
        assert count_to(WARM_UP_STEPS) == WARM_UP_STEPS
        counted, figures = measured_blocking(lambda: count_to(steps))
    assert counted == steps, counted
    return {**figures, "units": steps}


async def async_loop(library: str, path: Path, *, steps: int, saver: str | None) -> dict:
    """`steps` steps with async functions, on asyncio."""
    count_to, close = await ASYNC[library](path, saver)
    try:
        assert await count_to(WARM_UP_STEPS) == WARM_UP_STEPS
        counted, figures = await measured(lambda: count_to(steps))
    finally:
        await close()
    assert counted == steps, counted
    return {**figures, "units": steps}


async def _nothing() -> None:
    """The end of a library that holds nothing open."""


def _burr_application(count: Callable[..., Any], limit: int, name: str) -> Any:
    """The builder of an application that counts up to `limit`."""
    core = import_module("burr.core")

    @core.action(reads=["count"], writes=[])
    def done(state: Any) -> Any:
        return state

    counting = core.action(reads=["count"], writes=["count"])(count)
    return (
        core.ApplicationBuilder()
        .with_actions(count=counting, done=done)
        .with_transitions(
            ("count", "count", core.expr(f"count < {limit}")), ("count", "done", core.default)
        )
        .with_state(count=0)
        .with_entrypoint("count")
        .with_identifiers(app_id=name)
    )


@contextmanager
def _burr(path: Path, saver: str | None) -> Iterator[Callable[[int], int]]:
    names = itertools.count()
    persister = None
    if saver:
        persistence = import_module("burr.core.persistence")
        persister = persistence.SQLitePersister.from_values(str(path))
        persister.initialize()

    def count(state: Any) -> Any:
        return state.update(count=state["count"] + 1)

    def count_to(limit: int) -> int:
        builder = _burr_application(count, limit, f"app {next(names)}")
        if persister:
            builder = builder.with_state_persister(persister)
        _, _, state = builder.build().run(halt_after=["done"])
        return state["count"]

    yield count_to
    if persister:
        persister.connection.close()


async def _burr_async(path: Path, saver: str | None) -> Any:
    names = itertools.count()
    persister = None
    if saver:
        sqlite = import_module("burr.integrations.persisters.b_aiosqlite")
        persister = await sqlite.AsyncSQLitePersister.from_values(str(path))
        await persister.initialize()

    async def count(state: Any) -> Any:
        return state.update(count=state["count"] + 1)

    async def count_to(limit: int) -> int:
        builder = _burr_application(count, limit, f"app {next(names)}")
        if persister:
            builder = builder.with_state_persister(persister)
        _, _, state = await (await builder.abuild()).arun(halt_after=["done"])
        return state["count"]

    return count_to, persister.cleanup if persister else _nothing


@contextmanager
def _pydantic_graph_blocking(path: Path, saver: str | None) -> Iterator[Callable[[int], int]]:
    from tests.bench import peer_nodes

    graph, state = peer_nodes.pydantic_graph()
    yield lambda limit: graph.run_sync(state=state(limit))


async def _pydantic_graph_async(path: Path, saver: str | None) -> Any:
    from tests.bench import peer_nodes

    graph, state = peer_nodes.pydantic_graph()
    return lambda limit: graph.run(state=state(limit)), _nothing


async def _workflows_async(path: Path, saver: str | None) -> Any:
    from tests.bench import peer_nodes

    workflow = peer_nodes.workflow()

    async def count_to(limit: int) -> int:
        return await workflow.run(limit=limit)

    return count_to, _nothing


def _launch_dbos(path: Path) -> Any:
    """DBOS on a SQLite file; what counts is registered before."""
    dbos = import_module("dbos")
    config = {
        "name": "bench",
        "system_database_url": f"sqlite:///{path}",
        "application_version": "1",
        "log_level": "ERROR",
    }
    dbos.DBOS(config=config)
    return dbos.DBOS


@contextmanager
def _dbos(path: Path, saver: str | None) -> Iterator[Callable[[int], int]]:
    system = _launch_dbos(path)

    @system.step()
    def add(count: int) -> int:
        return count + 1

    @system.workflow()
    def count_to(limit: int) -> int:
        count = 0
        while count < limit:
            count = add(count)
        return count

    system.launch()
    yield count_to
    system.destroy()


async def _dbos_async(path: Path, saver: str | None) -> Any:
    system = _launch_dbos(path)

    @system.step()
    async def add(count: int) -> int:
        return count + 1

    @system.workflow()
    async def count_to(limit: int) -> int:
        count = 0
        while count < limit:
            count = await add(count)
        return count

    system.launch()

    async def close() -> None:
        system.destroy()

    return count_to, close


BLOCKING = {"burr": _burr, "pydantic-graph": _pydantic_graph_blocking, "dbos": _dbos}
ASYNC = {
    "burr": _burr_async,
    "pydantic-graph": _pydantic_graph_async,
    "workflows": _workflows_async,
    "dbos": _dbos_async,
}
