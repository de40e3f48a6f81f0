"""PgBouncer between savers, dispatchers and their servers, killed in the middle of what they do."""

import os
import time
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import psycopg
import pytest

from actorgraph import ActorSystem, PostgresSaver, StorageError
from actorgraph.dispatch import PGQueuerDispatcher
from actorgraph.runtime.mailbox import Mailbox
from actorgraph.systems import ShardedSystem
from actorgraph.values.dispatch import Hint, News
from actorgraph.values.shards import bucket_of
from tests.faults.crashes import report, row
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, history
from tests.support.poolers import pooled
from tests.support.postgres_clusters import clusters

__all__ = ["clusters"]

RUNS = 1000
ROUNDS = 3
AT_ONCE = 50


@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_all_runs_finish(clusters, mode, number, request, anyio_backend):
    """
    Runs over two savers all finish, and each checkpoint is stored once, though the pooler is
    killed when a third of them has ended.
    """
    server = clusters.server()
    began = time.monotonic()
    ended: list[str] = []
    third = anyio.Event()
    with pooled(server, mode) as pooler:
        async with PostgresSaver(pooler.url) as one, PostgresSaver(pooler.url) as other:
            free = anyio.CapacityLimiter(AT_ONCE)

            async def run(place: int) -> None:
                async with free:
                    thread = f"t{place}"
                    await ab((one, other)[place % 2]).ainvoke({}, at(thread))
                    ended.append(thread)
                    if len(ended) == RUNS // 3:
                        third.set()

            async with anyio.create_task_group() as runs:
                for place in range(RUNS):
                    runs.start_soon(run, place)
                await third.wait()
                pooler.kill()
                pooler.start()
            found = [len(await history(ab(one), at(thread))) for thread in ended]
    ((rows, different),) = server.sql(
        "SELECT count(*), count(DISTINCT (thread, id)) FROM actorgraph.points"
    )
    seconds = f"{time.monotonic() - began:.1f}"
    line = row(mode, anyio_backend, number + 1, len(ended), RUNS - found.count(4), seconds)
    report(request.config, "poolers", line)

    assert len(ended) == RUNS
    assert found == [4] * RUNS
    assert rows == different == 4 * RUNS


NO_POLL_S = 600.0
"""A link that looks for hints so rarely finds them by LISTEN alone."""


class Linked:
    """Two links over one database: what one announces and publishes, the other waits for."""

    def __init__(self, sends, takes, heard) -> None:
        self._sends = sends
        self._takes = takes
        self._heard = heard

    async def carries(self) -> None:
        """Return when a hint that came while the other link waited has arrived; then news, too."""
        run = os.urandom(16)

        async def take() -> None:
            found: list[bytes] = []
            while run not in found:
                hints = await self._takes.take(["g"], 1)
                found += [hint.run for hint in hints]
                await self._takes.settle(hints)

        async with anyio.create_task_group() as group:
            group.start_soon(take)
            await self._sends.announce([Hint(run, "g")])
        while run not in await self._news(run):
            pass

    async def _news(self, run: bytes) -> tuple[bytes, ...]:
        """News that came; sent again by each call, since none comes to a link that connects."""
        await self._sends.publish(News(cancelled=(run,)))
        with anyio.move_on_after(1.0):
            return (await self._heard.get()).cancelled
        return ()


@asynccontextmanager
async def linked(url, address=None):
    """Links of a saver's server, whose address may be another one."""
    heard: Mailbox[News] = Mailbox()  # a link calls from its engine's thread
    dispatcher = PGQueuerDispatcher(address, poll_s=NO_POLL_S)
    async with AsyncExitStack() as stack:
        saver = await stack.enter_async_context(PostgresSaver(url))
        links = [await dispatcher.open(saver, lambda _: None)]
        stack.push_async_callback(links[0].close)
        links.append(await dispatcher.open(saver, heard.put))
        stack.push_async_callback(links[1].close)
        yield Linked(*links, heard)


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_hints_come_by_listening(clusters, mode):
    """
    Behind a pooler in session mode hints and news come by LISTEN, and so they do after it was
    killed; where transactions are pooled they do if the dispatcher has an address of its own.
    """
    server = clusters.server()
    with pooled(server, mode) as pooler:
        async with linked(pooler.url, server.url if mode == "transaction" else None) as links:
            with anyio.fail_after(PATIENCE_S):
                await links.carries()
            pooler.kill()
            pooler.start()
            with anyio.fail_after(3 * PATIENCE_S):
                while not await carries_again(links):
                    pass


async def carries_again(links: Linked) -> bool:
    """Whether hints arrive; the first calls after a loss may fail."""
    try:
        await links.carries()
    except (ExceptionGroup, StorageError):
        return False
    return True


@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_threads_over_several_databases(clusters, mode):
    """
    A ShardedSystem works behind a pooler: runs in each of its databases, and moves between them;
    also when the pooler was killed.
    """
    server = clusters.server()
    server.sql("CREATE DATABASE second")
    threads = [f"t{number}" for number in range(8)]
    with pooled(server, mode) as pooler:
        urls = {"one": pooler.url}
        urls["two"] = psycopg.conninfo.make_conninfo(pooler.url, dbname="second")
        systems = {
            name: ActorSystem({"g": ab()}, saver=PostgresSaver(url)) for name, url in urls.items()
        }
        with anyio.fail_after(6 * PATIENCE_S):
            async with ShardedSystem(systems) as system:
                await system.balance()
                for turn in range(2):
                    runs = [await system.start("g", thread, {}) for thread in threads]
                    found = [(await run.result())["bar"] for run in runs]
                    assert found == [["a", "b"] * (turn + 1)] * len(threads)
                    pooler.kill()
                    pooler.start()
                homes = {id(system.system_of(thread)) for thread in threads}
                moved = [await system.move([bucket_of("t0")], name) for name in urls]
                ended = await (await system.start("g", "t0", {})).result()

    assert len(homes) == 2
    assert sorted(moved) == [0, 1]
    assert ended["bar"] == ["a", "b"] * 3
