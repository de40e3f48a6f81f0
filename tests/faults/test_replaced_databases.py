"""Databases that are replaced under a store, a system or a map of buckets, which remember them.

An older dump is put back by `pg_restore --clean`: tables have other numbers, prepared statements
are of tables that are gone, threads, items and buckets are those of then.
"""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from actorgraph import ActorSystem, PostgresSaver
from actorgraph.dispatch import PGQueuerDispatcher
from actorgraph.stores import PostgresStore
from actorgraph.systems import ShardedSystem
from actorgraph.values.shards import bucket_of
from tests.support.gates import PATIENCE_S
from tests.support.graphs import in_a_row, writer
from tests.support.postgres_clusters import Cluster, clusters

__all__ = ["clusters"]

END = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
call = anyio.to_thread.run_sync


async def replace(server: Cluster, sessions: str) -> None:
    """Put the dump back, and end the sessions of others before it if asked to."""
    if sessions == "ended":
        await call(server.sql, END)
    await call(server.restore, "dump")


@asynccontextmanager
async def opened(*parts: Any) -> Any:
    """Enter several context managers."""
    async with AsyncExitStack() as stack:
        for part in parts:
            await stack.enter_async_context(part)
        yield


async def works_again(work: Callable[[], Awaitable[Any]]) -> Any:
    """Call until it succeeds: the call that finds the database replaced may fail."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            try:
                return await work()
            except Exception:  # noqa: BLE001 - asserted by the time limit
                await anyio.sleep(0.05)


def system_over(server: Cluster, **options: Any) -> ActorSystem:
    """A system of one graph."""
    graph = in_a_row({"a": writer("a")})
    saver = PostgresSaver(server.url)
    return ActorSystem({"g": graph}, saver=saver, lease_s=2.0, **options)


@pytest.mark.parametrize("sessions", ["kept", "ended"])
class TestReplaced:
    async def test_a_store(self, clusters, sessions):
        """
        Items of the dump are there, later ones are gone, and new ones are stored and found.
        """
        server = await call(clusters.server)
        async with PostgresStore(server.url) as store:
            await store.aput(("n",), "before", {"x": 1})
            await call(server.dump, "dump")
            for _ in range(8):  # until statements are prepared
                await store.aput(("n",), "gone", {"x": 2})
                await store.asearch(("n",))
            await replace(server, sessions)
            await works_again(lambda: store.aput(("n",), "after", {"x": 3}))
            found = sorted(item.key for item in await store.asearch(("n",)))

        assert found == ["after", "before"]

    @pytest.mark.parametrize("dispatched", [False, True])
    async def test_a_system(self, clusters, sessions, dispatched):
        """
        A system whose own row is gone with the newer rows takes runs again, with a dispatcher too,
        and the run of the dump is the only older one.
        """
        server = await call(clusters.server)
        options = {"dispatcher": PGQueuerDispatcher(poll_s=0.1, again_s=1.0)} if dispatched else {}
        system = system_over(server, **options)
        async with system:
            before = await system.start("g", "before", {"bar": []})
            await before.result()
            await call(server.dump, "dump")
            for number in range(4):
                gone = await system.start("g", f"gone{number}", {"bar": []})
                await gone.result()
            await replace(server, sessions)

            async def again() -> Any:
                run = await system.start("g", None, {"bar": []})
                return await run.result(timeout_s=10)

            assert (await works_again(again))["bar"] == ["a"]
            threads = {run.thread_id for run in await works_again(system.runs)}

        assert "before" in threads
        assert not any(name.startswith("gone") for name in threads)

    async def test_a_map_of_buckets(self, clusters, sessions):
        """
        Both databases are put back to a time before a bucket moved: a process with the newer map
        finds the thread where it is now, and starts its runs there.
        """
        one, two = [await call(clusters.server) for _ in range(2)]
        bucket = bucket_of("t")
        sharded = ShardedSystem({"one": system_over(one), "two": system_over(two)})
        async with sharded:
            await (await sharded.start("g", "t", {"bar": []})).result()
            for server in (one, two):
                await call(server.dump, "dump")
            await sharded.move([bucket], "two")
            assert sharded.shard_map.holders[bucket] == "two"
            for server in (one, two):
                await replace(server, sessions)

            async def again() -> Any:
                run = await sharded.start("g", "t", {"bar": []})
                return await run.result(timeout_s=10)

            found = await works_again(again)
            holder = sharded.shard_map.holders[bucket]

        assert (found["bar"], holder) == (["a", "a"], "one")
