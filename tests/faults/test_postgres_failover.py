"""PostgreSQL is killed under load and its replica promoted, again and again."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from actorgraph import ActorSystem, PostgresSaver
from actorgraph.errors import ActorGraphError
from actorgraph.stores import PostgresStore
from tests.faults.crashes import report, row
from tests.faults.scenarios import MODES
from tests.support.graphs import ab, at, history
from tests.support.postgres_clusters import Cluster, address, clusters, lags, wait_for

__all__ = ["clusters"]

ROUNDS = 20
SAVERS = 2
BEFORE = 40
LAG_S = 1.5
WORKS_AGAIN_S = 10.0
IN_STEP = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


class Load:
    """Work that is done again and again until it is over, and its outcomes.

    Attributes:
        acknowledged: kind of work -> what was acknowledged.
        again: worker -> seconds from the promotion until the first thing that it began after that
            was acknowledged.
    """

    def __init__(self) -> None:
        self._mark = self._count = 0
        self._reached = anyio.Event()
        self._workers = 0
        self.acknowledged: dict[str, list[str]] = {}
        self.failed = Counter[str]()
        self.over = False
        self.promoted = 0.0
        self.again: dict[int, float] = {}

    async def work(self, kind: str, do: Callable[[str], Awaitable[Any]]) -> None:
        """Do something under new names until it is over."""
        self._workers += 1
        worker, number = self._workers, 0
        while not self.over:
            number += 1
            name, after = f"{kind}-{worker}-{number}", self.promoted
            try:
                await do(name)
            except ActorGraphError:
                self.failed[kind] += 1
                continue
            self.acknowledged.setdefault(kind, []).append(name)
            self._count += kind != "store"  # a thousand of them take as long as some runs
            if after:
                self.again.setdefault(worker, time.monotonic() - after)
            if self._count >= self._mark and (not after or len(self.again) == self._workers):
                self._reached.set()

    async def reaches(self, count: int) -> None:
        """Wait until so many more runs have ended; after the promotion, also for every worker."""
        self._mark, self._reached = self._count + count, anyio.Event()
        await self._reached.wait()


async def under_load(load: Load, url: str, primary: Cluster, replica: Cluster, kind: str) -> None:
    """Let savers in each mode, a store and a system work over a server that fails."""
    store = PostgresStore(url)
    async with AsyncExitStack() as stack:
        savers = [await stack.enter_async_context(PostgresSaver(url)) for _ in range(SAVERS)]
        system = ActorSystem({"g": ab()}, saver=PostgresSaver(url))
        await stack.enter_async_context(system)

        async def call(saver: PostgresSaver, mode: str, thread: str) -> None:
            await ab(saver).ainvoke({}, at(thread), durability=mode)

        async def put(name: str) -> None:
            await store.aput(("load",), name, {"name": name})

        async def start(thread: str) -> None:
            await (await system.start("g", thread, {})).result()

        workers = await stack.enter_async_context(anyio.create_task_group())
        for saver in savers:
            for mode in MODES:
                workers.start_soon(load.work, mode, partial(call, saver, mode))
        workers.start_soon(load.work, "store", put)
        workers.start_soon(load.work, "system", start)
        await fail_over(load, primary, replica, kind)


async def fail_over(load: Load, primary: Cluster, replica: Cluster, kind: str) -> None:
    """Kill the primary while the load runs, promote its replica, and let the load go on."""
    call = anyio.to_thread.run_sync
    await load.reaches(BEFORE)
    if kind == "asynchronous":
        await call(lags, primary, replica)
        await anyio.sleep(LAG_S)
    await call(primary.kill)
    await call(replica.promote)
    load.promoted = time.monotonic()
    await load.reaches(1)
    load.over = True


async def read(url: str, load: Load) -> Counter[str]:
    """Read all of the server with a new saver; count what is lost or can't be read, by kind."""
    found, store = Counter[str](), PostgresStore(url)
    async with PostgresSaver(url) as saver:
        known = set(await saver.alist_threads())
        for thread in known:
            try:
                points = await history(ab(saver), at(thread))
            except ActorGraphError:
                found["unreadable"] += 1
                continue
            kind = thread.partition("-")[0]
            whole = bool(points) and points[0].values["bar"] == ["a", "b"]
            whole = whole and (len(points) == 4 or kind == "exit")
            found[f"{kind} lost"] += thread in load.acknowledged.get(kind, ()) and not whole
    for kind in (*MODES, "system"):
        found[f"{kind} lost"] += len(set(load.acknowledged.get(kind, ())) - known)
    for name in load.acknowledged.get("store", ()):
        item = await store.aget(("load",), name)
        found["store lost"] += item is None or item.value != {"name": name}
    return found


async def one_round(clusters: Any, kind: str) -> tuple[Load, Counter[str]]:
    """One failover of new servers: the load, and what the new primary has of it."""
    primary = clusters.server()
    async with PostgresSaver(primary.url):
        PostgresStore(primary.url).put(("made",), "tables", {})
    replica = primary.replica()
    if kind == "synchronous":
        primary.set(synchronous_standby_names="replica")
        primary.reload()
        wait_for(lambda: primary.sql(IN_STEP))
    load, url = Load(), address(primary, replica)
    await under_load(load, url, primary, replica, kind)
    found = await read(url, load)
    primary.remove()
    return load, found


@pytest.mark.parametrize("kind", ["synchronous", "asynchronous"])
async def test_failovers_under_load(clusters, kind, request, anyio_backend):
    """
    All that the new primary has can be read, and savers in each mode, a store and a system work
    again soon after it takes writes; a synchronous replica has all that was acknowledged. An
    asynchronous one is 1.5 s behind.
    """
    total, longest = Counter[str](), 0.0
    for _ in range(ROUNDS):
        load, found = await one_round(clusters, kind)
        total += found
        longest = max(longest, *load.again.values())
        for work in (*MODES, "store", "system"):
            total[f"{work} acknowledged"] += len(load.acknowledged.get(work, ()))
            total[f"{work} failed"] += load.failed[work]
    for work in (*MODES, "store", "system"):
        counts = [total[f"{work} {name}"] for name in ("acknowledged", "lost", "failed")]
        line = row(kind, work, anyio_backend, ROUNDS, *counts)
        report(request.config, "failovers", f"{line} {total['unreadable']} | {longest:.1f} |")

    assert total["unreadable"] == 0
    assert longest <= WORKS_AGAIN_S
    if kind == "synchronous":
        bad = {name: total[name] for name in total if name.endswith(("lost", "failed"))}
        assert {name: count for name, count in bad.items() if count} == {}
