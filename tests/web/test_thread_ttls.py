"""Times to live of threads, and runs that begin later, over a server and its restart."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, SqliteSaver
from actorgraph.stores import InMemoryStore, SqliteStore
from actorgraph.web import GraphRoutes
from actorgraph.web.jobs.thread_ttls import StoredTtl, ThreadTtls
from actorgraph.web.ttl_sweeper import TtlSweeper
from tests.support.gates import PATIENCE_S
from tests.support.wall_clock import forward
from tests.web.apps import GRAPHS

__all__ = ["forward"]

BODY = {"assistant_id": "log", "input": {"foo": "x"}, "if_not_exists": "create"}


class Server:
    """A server over two files, and its sweeper."""

    def __init__(self, path: Path) -> None:
        graphs = {name: graph.compile() for name, graph in GRAPHS.items()}
        saver, store = SqliteSaver(path / "runs.db"), SqliteStore(path / "items.db")
        self.system = ActorSystem(graphs, saver=saver, store=store, lease_s=0.6)
        routes = GraphRoutes(self.system)
        transport = httpx.ASGITransport(routes, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://test")
        self.sweeper = TtlSweeper(routes._server)  # noqa: SLF001

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to a request; its status where that isn't 200."""
        answer = await self.http.request(method, path, json=body)
        return answer.json() if answer.status_code == 200 else answer.status_code

    async def sweep(self, minutes: float) -> None:
        """Sweep as if it was so many minutes later."""
        await self.sweeper.sweep(datetime.now(UTC) + timedelta(minutes=minutes))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server over two files."""
    made = Server(tmp_path)
    async with made.system:
        yield made


class TestTtls:
    async def test_a_thread_is_deleted_after_its_time(self, server, tmp_path):
        """
        A thread without a change for its minutes is deleted, by another server too, not sooner.
        """
        made = {"thread_id": "t", "ttl": {"ttl": 10, "strategy": "delete"}}
        await server.ask("POST", "/threads", made)
        await server.ask("POST", "/threads", {"thread_id": "u"})
        await server.ask("POST", "/threads/t/runs/wait", BODY)
        await server.sweep(9)
        assert (await server.ask("GET", "/threads/t"))["thread_id"] == "t"

        other = Server(tmp_path)
        async with other.system:
            await other.sweep(11)
            assert await other.ask("GET", "/threads/t") == 404
            assert (await other.ask("GET", "/threads/u"))["thread_id"] == "u"

    async def test_only_the_newest_checkpoint_is_kept(self, server):
        """
        With "keep_latest" the thread keeps its state, once for each change.
        """
        await server.ask("POST", "/threads/t/runs/wait", BODY)
        ttl = {"ttl": {"ttl": 10, "strategy": "keep_latest"}}
        await server.ask("PATCH", "/threads/t", ttl)
        before = await server.ask("GET", "/threads/t/history")
        for _ in range(2):
            await server.sweep(11)
        after = await server.ask("GET", "/threads/t/history")

        assert len(before) > 1
        assert [one["values"] for one in after] == [before[0]["values"]]

    @pytest.mark.parametrize("minutes", [-5, 0, 1e12, 1e300])
    @pytest.mark.parametrize("form", ["number", "object"])
    async def test_minutes_out_of_range_are_refused(self, server, minutes, form):
        """
        A time to live that is over already, or ends after ten years, changes nothing.
        """
        await server.ask("POST", "/threads", {"thread_id": "t"})
        ttl = minutes if form == "number" else {"ttl": minutes}

        assert await server.ask("PATCH", "/threads/t", {"ttl": ttl}) == 422
        await server.sweep(11)
        assert (await server.ask("GET", "/threads/t"))["thread_id"] == "t"

    async def test_an_open_run_keeps_its_thread(self, server):
        """
        A thread is not deleted under a run, however long that takes.
        """
        await server.ask("POST", "/threads", {"thread_id": "t", "ttl": {"ttl": 1}})
        run = await server.ask("POST", "/threads/t/runs", {**BODY, "assistant_id": "sleep"})
        await server.sweep(100)
        assert (await server.ask("GET", "/threads/t"))["status"] == "busy"

        await server.ask("POST", f"/threads/t/runs/{run['run_id']}/cancel?wait=true")
        await server.ask("PATCH", "/threads/t", {"ttl": 200})
        await server.sweep(150)
        assert (await server.ask("GET", "/threads/t"))["status"] != "busy"
        await server.sweep(300)
        assert await server.ask("GET", "/threads/t") == 404


class CountingStore(InMemoryStore):
    """Counts what is read of it."""

    reads = 0

    async def aget(self, *args: Any, **options: Any) -> Any:
        """Count one item."""
        self.reads += 1
        return await super().aget(*args, **options)

    async def asearch(self, *args: Any, **options: Any) -> Any:
        """Count the items that are found."""
        found = await super().asearch(*args, **options)
        self.reads += len(found)
        return found


class TestReads:
    @pytest.mark.parametrize("count", [600, pytest.param(10_000, marks=pytest.mark.long)])
    async def test_a_sweep_reads_threads_that_are_due(self, count):
        """
        After the first sweep, one reads a page and the threads that are due, however many there
        are; a time to live that another process has changed is found by the pages.
        """
        store = CountingStore()
        system = ActorSystem({"log": GRAPHS["log"].compile()}, store=store)
        server = GraphRoutes(system)._server  # noqa: SLF001
        sweeper, now, reads = TtlSweeper(server), datetime.now(UTC), []

        async def swept(minutes: float) -> int:
            before = store.reads
            await sweeper.sweep(now + timedelta(minutes=minutes))
            return store.reads - before

        async with system:
            for number in range(count):
                await server.threads.make(str(number), {}, new=True)
                await server.ttls.put(str(number), StoredTtl(60, "delete"))
            first = await swept(1)
            reads = [await swept(minutes) for minutes in (2, 3)]
            await server.ttls.put("7", StoredTtl(5, "delete"))
            reads += [await swept(minutes) for minutes in (4, 6)]
            own = await server.threads.get("7")
            await ThreadTtls(store).put("8", StoredTtl(5, "delete"))
            reads += [await swept(7) for _ in range(count // 200 + 1)]
            others = await server.threads.get("8")

        assert first >= count
        assert max(reads) <= 220
        assert (own, others) == (None, None)


class TestDelays:
    async def test_a_run_begins_after_its_seconds(self, server):
        """
        A delayed run is pending, can be joined, and goes with its temporary thread.
        """
        before = anyio.current_time()
        run = await server.ask("POST", "/runs", {**BODY, "after_seconds": 0.2})
        place = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
        with anyio.fail_after(PATIENCE_S):
            joined = await server.ask("GET", f"{place}/join")

        assert run["status"] == "pending"
        assert joined["log"] == ["first", "second"]
        assert anyio.current_time() - before >= 0.2

    async def test_a_restart_keeps_it(self, server, tmp_path):
        """
        Another server lists the run as pending, and cancels it.
        """
        run = await server.ask("POST", "/threads/t/runs", {**BODY, "after_seconds": 600})
        place = f"/threads/t/runs/{run['run_id']}"
        other = Server(tmp_path)
        async with other.system:
            await other.system.recover()
            assert (await other.ask("GET", place))["status"] == "pending"
            await other.ask("POST", f"{place}/cancel?wait=true")
            assert (await other.ask("GET", place))["status"] == "interrupted"

    async def test_a_thread_is_used_until_then(self, server, forward):
        """
        A reminder for tomorrow leaves its thread idle: later runs go first, with any strategy.
        """
        delayed = {**BODY, "after_seconds": 86_400, "input": {"foo": "late"}}
        late = [await server.ask("POST", "/threads/t/runs", delayed) for _ in "ab"]
        places = [f"/threads/t/runs/{run['run_id']}" for run in late]
        assert (await server.ask("GET", "/threads/t"))["status"] == "idle"
        found = await server.ask("POST", "/threads/search", {"ids": ["t"]})
        assert [thread["status"] for thread in found] == ["idle"]
        assert await server.ask("POST", "/threads/search", {"status": "busy"}) == []
        for how in ("reject", "enqueue", "interrupt", "rollback"):
            body = {**BODY, "multitask_strategy": how}
            values = await server.ask("POST", "/threads/t/runs/wait", body)
            assert values["foo"] == "x"
        assert {(await server.ask("GET", one))["status"] for one in places} == {"pending"}

        forward(90_000)
        await server.system.recover()
        with anyio.fail_after(PATIENCE_S):
            for one in places:
                assert (await server.ask("GET", f"{one}/join"))["foo"] == "late"

    async def test_it_keeps_its_thread_and_goes_with_it(self, server):
        """
        A thread with a run to come doesn't expire; a deleted one leaves no run behind.
        """
        await server.ask("POST", "/threads", {"thread_id": "t", "ttl": {"ttl": 1}})
        run = await server.ask("POST", "/threads/t/runs", {**BODY, "after_seconds": 600})
        await server.sweep(100)
        assert (await server.ask("GET", "/threads/t"))["status"] == "idle"

        await server.ask("DELETE", "/threads/t")
        assert await server.ask("GET", f"/threads/t/runs/{run['run_id']}") == 404
        assert await server.system.runs() == []

    @pytest.mark.parametrize("seconds", [-1, 1e12, "x"])
    async def test_bad_delays_are_refused(self, server, seconds):
        """
        A delay that is negative or longer than ten years is refused.
        """
        assert await server.ask("POST", "/runs", {**BODY, "after_seconds": seconds}) == 422
