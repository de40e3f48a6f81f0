"""PostgreSQL is killed under load and its replica promoted, again and again."""

import time
from collections import Counter

import anyio
import anyio.to_thread
import pytest

from actorgraph import PostgresSaver
from actorgraph.errors import ActorGraphError
from tests.faults.crashes import report, row
from tests.support.graphs import ab, at, history
from tests.support.postgres_clusters import Cluster, address, clusters, lags, wait_for

__all__ = ["clusters"]

ROUNDS = 20
WORKERS = 4
BEFORE = 40
AFTER = 20
WORKS_AGAIN_S = 10.0
IN_STEP = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


class Load:
    """Runs threads one after the other on several workers; counts what becomes of them."""

    def __init__(self, saver: PostgresSaver) -> None:
        self._saver = saver
        self._started = self._mark = 0
        self._reached = anyio.Event()
        self.acknowledged: list[str] = []
        self.failed = 0
        self.over = False
        self.promoted = 0.0
        self.again_s = 0.0

    async def work(self) -> None:
        """Run threads until it is over."""
        while not self.over:
            self._started += 1
            thread = f"t{self._started}"
            try:
                await ab(self._saver).ainvoke({}, at(thread))
            except ActorGraphError:
                self.failed += 1
                continue
            self.acknowledged.append(thread)
            if len(self.acknowledged) >= self._mark:
                self._reached.set()
            if self.promoted and not self.again_s:
                self.again_s = time.monotonic() - self.promoted

    async def reaches(self, count: int) -> None:
        """Wait until so many more have been acknowledged."""
        self._mark, self._reached = len(self.acknowledged) + count, anyio.Event()
        await self._reached.wait()


async def fail_over(load: Load, primary: Cluster, replica: Cluster, *, in_step: bool) -> None:
    """Kill the primary while the load runs, promote its replica, and let the load go on."""
    call = anyio.to_thread.run_sync
    await load.reaches(BEFORE)
    if not in_step:
        await call(lags, primary, replica)
        await load.reaches(BEFORE)
    await call(primary.kill)
    await call(replica.promote)
    load.promoted = time.monotonic()
    await load.reaches(AFTER)
    load.over = True


async def read(url: str, load: Load) -> Counter[str]:
    """Read all threads of the server with a new saver; count what is lost or can't be read."""
    found = Counter[str]()
    async with PostgresSaver(url) as saver:
        known = set(await saver.alist_threads())
        found["lost"] = len(set(load.acknowledged) - known)
        for thread in known:
            try:
                points = await history(ab(saver), at(thread))
            except ActorGraphError:
                found["unreadable"] += 1
                continue
            whole = len(points) == 4 and points[0].values["bar"] == ["a", "b"]
            found["lost"] += thread in load.acknowledged and not whole
    return found


@pytest.mark.parametrize("kind", ["synchronous", "asynchronous"])
async def test_failovers_under_load(clusters, kind, request, anyio_backend):
    """
    All that the new primary has can be read, and open savers work again soon after it takes
    writes; of what was acknowledged a synchronous replica has everything.
    """
    in_step = kind == "synchronous"
    total, longest = Counter[str](), 0.0
    for _ in range(ROUNDS):
        primary = clusters.server()
        async with PostgresSaver(primary.url):
            pass
        replica = primary.replica()
        if in_step:
            primary.set(synchronous_standby_names="replica")
            primary.reload()
            wait_for(lambda server=primary: server.sql(IN_STEP))
        url = address(primary, replica)
        async with PostgresSaver(url) as saver:
            load = Load(saver)
            async with anyio.create_task_group() as workers:
                for _ in range(WORKERS):
                    workers.start_soon(load.work)
                await fail_over(load, primary, replica, in_step=in_step)
        total += await read(url, load)
        total += Counter(acknowledged=len(load.acknowledged), failed=load.failed)
        longest = max(longest, load.again_s)
        replica.stop()
    counts = [total[name] for name in ("acknowledged", "lost", "unreadable", "failed")]
    line = row(kind, anyio_backend, ROUNDS, *counts, f"{longest:.1f}")
    report(request.config, "failovers", line)

    assert total["unreadable"] == 0
    assert longest <= WORKS_AGAIN_S
    if in_step:
        assert total["lost"] == total["failed"] == 0
