"""Graphs that only some principals may know of."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.api.system.thread_finder import assistant_id
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes, Limits
from actorgraph.web.routes import ENDPOINTS
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS
from tests.web.test_access import BODIES, named

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


READING = [
    one
    for one in ENDPOINTS
    if one.action in ("threads.read", "threads.search", "runs.read", "runs.search")
]


def known(run: str) -> dict[str, str]:
    """Parameters of paths."""
    return {"run_id": run, "checkpoint_id": str(UUID(int=1)), "namespace": "none"}


@asynccontextmanager
async def thread_of_ann(
    shown: tuple[str, ...], graph: str = "ask"
) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A server where Bob may see some graphs, and a run of another one; its thread is `t`."""

    async def see(principal: str, graph: str) -> bool:
        return principal == "ann" or graph in shown

    saver = InMemorySaver()
    graphs = {name: GRAPHS[name].compile(checkpointer=saver) for name in {*shown, graph}}
    system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
    app = GraphRoutes(
        system,
        authenticate=lambda request: request.headers.get("x-user"),
        assistants=see,
        limits=Limits(stream_s=0.05),
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    with anyio.fail_after(PATIENCE_S):
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as made:
            await made.post("/threads", json={"thread_id": "t"}, headers=ANN)
            body = {"assistant_id": graph, "input": {"foo": "secret"}, "stream_resumable": True}
            started = await made.post("/threads/t/runs", json=body, headers=ANN)
            run = started.json()["run_id"]
            if graph != "sleep":
                await made.get(f"/threads/t/runs/{run}/join", headers=ANN)
            yield made, run


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


class TestRunsOfHiddenGraphs:
    @pytest.mark.parametrize("shown", [("log",), ("log", "talk")], ids=len)
    async def test_no_route_shows_what_they_did(self, shown):
        """
        A principal that may not see a thread's graph gets no value and no question by any route.
        """
        said: dict[str, str] = {}
        async with thread_of_ann(shown) as (client, run):
            for endpoint in READING:
                path = endpoint.path.format(thread_id="t", **known(run))
                body = BODIES.get(endpoint.path, {}) if endpoint.body else None
                for user in (ANN, BOB):
                    after = {**user, "last-event-id": f"{run}.0"}
                    answer = await client.request(endpoint.method, path, json=body, headers=after)
                    said[f"{user['x-user']} {named(endpoint)}"] = answer.text

        shows = {who for who, text in said.items() if "secret" in text or "why?" in text}
        assert {who for who in shows if who.startswith("bob")} == set()
        assert len(shows) > 8  # to Ann

    @pytest.mark.parametrize("way", ["POST cancel", "DELETE ", "GET join", "GET stream", "GET "])
    async def test_a_run_is_as_one_that_is_not_there(self, way):
        """
        It can't be read, waited for, cancelled or deleted, nor is it in the thread's list.
        """
        method, _, last = way.partition(" ")
        async with thread_of_ann(("log",)) as (client, run):
            address = f"/threads/t/runs/{{}}/{last}".rstrip("/")
            other = str(UUID(int=1))
            asked = [
                await client.request(method, address.format(one), headers=BOB)
                for one in (run, other)
            ]
            listed = await client.get("/threads/t/runs", headers=BOB)
            still = await client.get(f"/threads/t/runs/{run}", headers=ANN)

        assert asked[0].status_code == asked[1].status_code == 404
        assert asked[0].text.replace(run, other) == asked[1].text
        assert (listed.json(), still.status_code) == ([], 200)

    async def test_many_are_left_alone(self):
        """
        Cancelling all runs cancels those of the graphs that one sees.
        """
        async with thread_of_ann(("log",), graph="sleep") as (client, run):
            for body in ({"thread_id": "t", "run_ids": [run]}, {"status": "all"}):
                await client.post("/runs/cancel", json=body, headers=BOB)
            await anyio.wait_all_tasks_blocked()  # a cancelled run ends by itself
            still = await client.get(f"/threads/t/runs/{run}", headers=ANN)
            await client.post("/runs/cancel", json={"status": "all"}, headers=ANN)
            ended = await client.get(f"/threads/t/runs/{run}/join", headers=ANN)

        assert still.json()["status"] in ("pending", "running")
        assert ended.status_code == 200


class TestOrder:
    async def test_a_threads_absence_comes_first(self, client):
        """
        Where no thread is to be made, a run on one that isn't there is 404 about the thread,
        whatever else is wrong: as it is on another's.
        """
        body = {"assistant_id": "nobodys", "input": 1, "command": {}}
        answer = await client.post("/threads/none/runs", json=body, headers=ANN)

        assert (answer.status_code, answer.json()) == (404, {"detail": "thread 'none' not found"})
