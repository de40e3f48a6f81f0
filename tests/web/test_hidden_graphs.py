"""Graphs that only some principals may know of."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.api.system.thread_finder import assistant_id
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS

ANN, BOB = {"x-user": "ann"}, {"x-user": "bob"}


async def may(principal: str, graph: str) -> bool:
    """Ann may use all graphs, others only one."""
    return principal == "ann" or graph == "log"


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    saver = InMemorySaver()
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
    app = GraphRoutes(
        system, authenticate=lambda request: request.headers.get("x-user"), assistants=may
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    with anyio.fail_after(PATIENCE_S):
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as made:
            yield made


class TestHiddenGraphs:
    async def test_lists_leave_them_out(self, client):
        """
        A search and a count show the graphs that the principal may use, and no others.
        """
        told: list[Any] = []
        for user in (ANN, BOB):
            found = await client.post("/assistants/search", json={}, headers=user)
            count = await client.post("/assistants/count", json={}, headers=user)
            told.append(([one["graph_id"] for one in found.json()], count.json()))

        assert told == [(list(GRAPHS), len(GRAPHS)), (["log"], 1)]

    @pytest.mark.parametrize("name", ["ask", assistant_id("ask")])
    async def test_they_are_answered_as_ones_that_are_not_there(self, client, name):
        """
        By name or id, read or run, alone or in a batch, another graph is as unknown as one that
        is not registered; a principal that may use it is served.
        """
        await client.post("/threads", json={"thread_id": "t"}, headers=BOB)

        async def asked(user: dict[str, str], graph: str) -> list[tuple[int, str]]:
            body = {"assistant_id": graph, "input": {"foo": "x"}}
            answers = [
                await client.get(f"/assistants/{graph}", headers=user),
                await client.get(f"/assistants/{graph}/schemas", headers=user),
                await client.post("/threads/t/runs/wait", json=body, headers=user),
                await client.post("/runs/wait", json=body, headers=user),
                await client.post("/runs/batch", json=[body], headers=user),
            ]
            return [(one.status_code, one.text.replace(graph, "")) for one in answers]

        assert await asked(BOB, name) == await asked(BOB, "nobodys")
        assert [status for status, _ in await asked(ANN, name)] == [200] * 5

    async def test_metadata_give_no_access_to_a_graph(self, client):
        """
        A thread whose metadata name a hidden graph is not read by it: no name of a node or channel
        of that graph is shown.
        """
        await client.post("/threads", json={"thread_id": "t"}, headers=BOB)
        body = {"assistant_id": "log", "input": {"foo": "x"}, "interrupt_before": ["second"]}
        await client.post("/threads/t/runs/wait", json=body, headers=BOB)
        for graph in ("talk", "nobodys"):
            await client.patch("/threads/t", json={"metadata": {"graph_id": graph}}, headers=BOB)
            state = await client.get("/threads/t/state", headers=BOB)

            assert (state.status_code, state.json()["next"]) == (200, ["second"])


class TestOrder:
    async def test_a_threads_absence_comes_first(self, client):
        """
        Where no thread is to be made, a run on one that isn't there is 404 about the thread,
        whatever else is wrong: as it is on another's.
        """
        body = {"assistant_id": "nobodys", "input": 1, "command": {}}
        answer = await client.post("/threads/none/runs", json=body, headers=ANN)

        assert (answer.status_code, answer.json()) == (404, {"detail": "thread 'none' not found"})
