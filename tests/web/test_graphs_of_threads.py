"""Threads that several graphs have run, and ids that several threads have had."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.support.every_saver import saver, store
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS

pytestmark = pytest.mark.every_saver

__all__ = ["saver", "store"]


@asynccontextmanager
async def serving(saver: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server over a saver, with a thread."""
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
    transport = httpx.ASGITransport(GraphRoutes(system), raise_app_exceptions=False)
    with anyio.fail_after(PATIENCE_S):
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as made:
            await made.post("/threads", json={"thread_id": "t"})
            yield made
            await system.drain(0.1)


@pytest.fixture
async def client(saver) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(saver) as made:
        yield made


async def run(client: httpx.AsyncClient, graph: str, **more) -> httpx.Response:
    body = {"assistant_id": graph, "input": {"foo": "x"}, **more}
    return await client.post("/threads/t/runs/wait", json=body)


async def assert_it_waits_at(client: httpx.AsyncClient, node: str) -> None:
    """The thread, its state, its history and a search show that this node comes next."""
    thread = (await client.get("/threads/t")).json()
    state = await client.get("/threads/t/state")
    history = (await client.get("/threads/t/history")).json()
    found = (await client.post("/threads/search", json={"status": "interrupted"})).json()

    assert (thread["status"], thread["error"]) == ("interrupted", None)
    assert thread["values"]["foo"] == "x"
    assert (state.status_code, state.json()["next"]) == (200, [node])
    assert history[0]["next"] == [node]
    assert [one["thread_id"] for one in found] == ["t"]


class TestTwoGraphs:
    async def test_a_thread_paused_by_another_graph_is_read_by_that_graph(self, client):
        """
        A thread of one graph that another one has left in the middle shows its position, in
        every read; and an update goes on from there.
        """
        await run(client, "log")
        await run(client, "ask")

        await assert_it_waits_at(client, "ask")
        assert (await client.get("/threads/t")).json()["metadata"]["graph_id"] == "ask"
        updated = await client.post("/threads/t/state", json={"values": {"log": ["u"]}})
        assert updated.status_code == 200

    async def test_a_run_that_could_not_begin_changes_nothing(self, client):
        """
        A run of a graph that doesn't fit the thread fails, and the thread reads as before.
        """
        await run(client, "ask")
        failed = await run(client, "talk")

        assert failed.json()["__error__"]["error"] == "SchemaMismatchError"
        await assert_it_waits_at(client, "ask")

    async def test_a_run_that_waits_changes_nothing(self, client):
        """
        While the run of one graph goes on, and one of another graph waits, the thread is read by
        the first.
        """
        body = {"assistant_id": "sleep", "input": {"foo": "x"}}
        run = (await client.post("/threads/t/runs", json=body)).json()
        while (await client.get("/threads/t/state")).json()["next"] != ["sleep"]:
            await anyio.lowlevel.checkpoint()
        await client.post("/threads/t/runs", json={**body, "assistant_id": "ask"})
        thread = (await client.get("/threads/t")).json()
        state = await client.get("/threads/t/state")
        await client.post(f"/threads/t/runs/{run['run_id']}/cancel")

        assert (thread["status"], thread["error"]) == ("busy", None)
        assert (state.status_code, state.json()["next"]) == (200, ["sleep"])


class TestIdsThatAreUsedAgain:
    async def test_runs_of_a_removed_thread_are_gone_with_it(self, client):
        """
        A thread that gets the id of a removed one shows no run, result or event of that.
        """
        await self._assert_gone(client)

    async def test_runs_that_are_not_stored_too(self):
        """
        Over a saver that keeps no runs, those that the process remembers go with their thread.
        """
        async with serving(NoRuns()) as client:
            await self._assert_gone(client)

    async def _assert_gone(self, client: httpx.AsyncClient) -> None:
        told = await run(client, "log", input={"foo": "canary"})
        run_id = told.headers["content-location"].rpartition("/")[2]
        await client.delete("/threads/t")
        await client.post("/threads", json={"thread_id": "t"})
        path = f"/threads/t/runs/{run_id}"
        answers = [
            await client.get("/threads/t/runs"),
            await client.get(path),
            await client.get(f"{path}/join"),
            await client.get(f"{path}/stream"),
            await client.post(f"{path}/cancel"),
            await client.delete(path),
        ]

        assert told.json()["foo"] == "canary"
        assert answers[0].json() == []
        assert [answer.status_code for answer in answers[1:]] == [404] * 5


class NoRuns(InMemorySaver):
    """A saver with checkpoints alone."""

    keeps_runs = False
