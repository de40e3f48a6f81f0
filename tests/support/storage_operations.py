"""Every operation of a saver or a store, by name, for tests whose server stops answering.

Every operation is either answered or fails with an error of the library's own, in time. A test says
when the peer is silent, how long that may take, and that all is well once it speaks again.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from actorgraph import PostgresSaver
from actorgraph.errors import StorageError
from actorgraph.stores import PostgresStore
from tests.support.graphs import ab, at, history

LIMITS = {"busy_timeout_s": 0.3, "answer_timeout_s": 0.5, "reconnect_timeout_s": 0.5}
CONNECT_S = 2.0
"""The minimum time for which libpq waits for a connection."""
WAIT_MAX_S = 3 * LIMITS["answer_timeout_s"] + LIMITS["reconnect_timeout_s"] + 2 * CONNECT_S
"""As docs/operations.md says, and half of it for a machine that does other things."""

Operation = Callable[[], Awaitable[object]]


async def outcome_of(operation: Operation) -> tuple[str, float]:
    """The outcome of an operation: "ok", or what its error says; and how long it took."""
    began = time.monotonic()
    try:
        with anyio.fail_after(WAIT_MAX_S * 3):
            await operation()
    except StorageError as error:
        return f"{type(error).__name__}: {error.what}", time.monotonic() - began
    return "ok", time.monotonic() - began


async def works(operation: Operation) -> bool:
    """Whether an operation succeeds now; at the third attempt, on a machine that is busy."""
    for _ in range(3):
        said, _ = await outcome_of(operation)
        if said == "ok":
            return True
    return False


def of_a_saver(saver: PostgresSaver, folder: Any) -> dict[str, Operation]:
    """Calls of a saver, async and from a thread of a blocking program."""
    graph = ab(saver)
    hop = anyio.to_thread.run_sync

    def sync(work: Callable[..., object], *args: Any) -> Operation:
        return lambda: hop(partial(work, *args))

    async def backup() -> None:
        await saver.abackup(folder / f"{time.monotonic_ns()}.db")

    return {
        "run": lambda: graph.ainvoke({}, at("t")),
        "state": lambda: graph.aget_state(at("t")),
        "history": lambda: history(graph, at("t")),
        "update": lambda: graph.aupdate_state(at("updated"), {"foo": "x"}, as_node="b"),
        "get": lambda: saver.aget_tuple(at("t")),
        "delete": lambda: saver.adelete_thread("gone"),
        "copy": lambda: saver.acopy_thread("t", f"u{time.monotonic_ns()}"),
        "prune": lambda: saver.aprune(["updated"]),
        "threads": saver.alist_threads,
        "count": lambda: saver.acount("t"),
        "vacuum": saver.avacuum,
        "backup": backup,
        "sync threads": sync(saver.list_threads),
        "sync delete": sync(saver.delete_thread, "gone"),
    }


def of_a_store(store: PostgresStore) -> dict[str, Operation]:
    """Calls of a store, async and from threads."""
    hop = anyio.to_thread.run_sync

    def sync(work: Callable[..., object], *args: Any) -> Operation:
        return lambda: hop(partial(work, *args))

    return {
        "put": lambda: store.aput(("a",), "k", {"n": 1}),
        "get": lambda: store.aget(("a",), "k"),
        "search": lambda: store.asearch(("a",), filter={"n": 1}),
        "list": store.alist_namespaces,
        "delete": lambda: store.adelete(("a",), "other"),
        "sync put": sync(store.put, ("a",), "k", {"n": 1}),
        "sync get": sync(store.get, ("a",), "k"),
        "sync search": sync(store.search, ("a",)),
        "sync sweep": sync(store.sweep_ttl),
        "setup": sync(store.setup),
    }


async def all_work(operations: dict[str, Operation]) -> bool:
    """Whether each operation succeeds now, one after the other."""
    return all([await works(operation) for operation in operations.values()])


async def together(operations: dict[str, Operation]) -> dict[str, tuple[str, float]]:
    """The outcomes of all operations, begun at once."""
    found: dict[str, tuple[str, float]] = {}

    async def run(name: str) -> None:
        found[name] = await outcome_of(operations[name])

    async with anyio.create_task_group() as group:
        for name in operations:
            group.start_soon(run, name)
    return found
