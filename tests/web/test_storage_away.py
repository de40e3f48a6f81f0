"""Answers of every route while the database is away."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import httpx
import psycopg
import pytest

from actorgraph import ActorSystem, PostgresSaver, SqliteSaver
from actorgraph.stores import InMemoryStore, PostgresStore, SqliteStore
from actorgraph.studio import Studio
from actorgraph.web import GraphRoutes
from actorgraph.web.endpoints import storage_patience
from actorgraph.web.endpoints.endpoint import Endpoint
from actorgraph.web.endpoints.storage_patience import AWAY_S
from actorgraph.web.routes import ENDPOINTS
from tests.support.gates import PATIENCE_S
from tests.support.tcp_proxy import proxied
from tests.web.apps import GRAPHS

WITHOUT_STORAGE = {"/ok", "/info", "/metrics", "/openapi.json", "/agents/{agent_id}"} | {
    "/agents/{agent_id}/schemas"
}
"""Paths whose answers are made of what the process has."""

PAGES = ("/threads", "/runs")
"""Pages of the studio that read the database."""

LOCAL = "http://127.0.0.1:8124"
CHECKPOINT = "1f0c9e3c-5a5e-6b3a-8000-0f3f6f6d2a11"
FIELDS: dict[str, Any] = {
    "assistant_id": "log",
    "graph_id": "log",
    "thread_id": "t",
    "schedule": "0 9 * * *",
    "namespace": ["a"],
    "key": "k",
    "value": {},
    "thread_ids": ["t"],
    "version": 1,
    "checkpoint": {"checkpoint_id": CHECKPOINT},
    "channels": ["values"],
    "id": 1,
    "method": "run.start",
    "params": {"assistant_id": "log", "input": {}},
}
"""Fields of bodies; routes ignore those of others."""
OWN: dict[str, dict[str, Any]] = {
    "/threads": {"thread_id": "new"},
    "/assistants": {"assistant_id": "new"},
    "/runs/cancel": {"status": "all"},
}


def body_of(endpoint: Endpoint) -> Any:
    """A body that the route takes; None if it takes none."""
    if endpoint.body is None:
        return None
    body = {**FIELDS, **OWN.get(endpoint.path, {})}
    return [body] if endpoint.path == "/runs/batch" else body


def path_of(endpoint: Endpoint, run_id: str) -> str:
    """A path of the route; the run is one of thread "t"."""
    names = {"thread_id": "t", "run_id": run_id, "checkpoint_id": CHECKPOINT, "agent_id": "log"}
    path = re.sub(r"{(\w+)}", lambda found: names.get(found[1], CHECKPOINT), endpoint.path)
    return path + ("?key=k&namespace=a" if path == "/store/items" else "")


@asynccontextmanager
async def served(saver: Any, store: Any) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A server whose thread "t" has had a run: a client, and the run's id."""
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    system = ActorSystem(graphs, saver=saver, store=store, lease_s=3600)
    transport = httpx.ASGITransport(GraphRoutes(system), raise_app_exceptions=False)
    with anyio.fail_after(2 * PATIENCE_S):
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            await client.post("/threads", json={"thread_id": "t"})
            await client.post("/threads/t/runs/wait", json={"assistant_id": "log", "input": {}})
            (run,) = (await client.get("/threads/t/runs")).json()
            yield client, run["run_id"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_route_says_to_come_again_while_postgresql_is_away(postgres, schema):
    """
    Each route that needs the database answers 503 and when to come again, and works after that.
    """
    with proxied(postgres.socket) as proxy:
        limits: Any = {"schema": schema, "reconnect_timeout_s": 0.01}
        saver, store = PostgresSaver(proxy.url, **limits), PostgresStore(proxy.url, **limits)
        async with served(saver, store) as (client, run_id):
            proxy.stall(refuses=True)
            proxy.reset()
            answers = {
                (one.method, one.path): await client.request(
                    one.method, path_of(one, run_id), json=body_of(one)
                )
                for one in ENDPOINTS
                if one.path not in WITHOUT_STORAGE
            }
            proxy.resume()
            again = await client.get("/threads/t")

    wrong = {
        route: (answer.status_code, answer.text)
        for route, answer in answers.items()
        if (answer.status_code, answer.headers.get("retry-after")) != (503, "5")
    }
    assert wrong == {}
    assert again.status_code == 200


WAITS_S = AWAY_S + 2.0
"""Seconds within which an answer must come; the time limits of the saver are 30."""


async def test_every_short_route_says_so_within_seconds(postgres, schema):
    """
    With default limits no short route waits longer for PostgreSQL than `AWAY_S`; none has written.
    """
    answers: dict[Any, httpx.Response] = {}
    took_s: dict[Any, float] = {}
    with proxied(postgres.socket) as proxy:
        saver = PostgresSaver(proxy.url, schema=schema)
        store = PostgresStore(proxy.url, schema=schema)
        async with served(saver, store) as (client, run_id):

            async def ask(one: Endpoint) -> None:
                began = anyio.current_time()
                answer = await client.request(one.method, path_of(one, run_id), json=body_of(one))
                answers[one.method, one.path] = answer
                took_s[one.method, one.path] = anyio.current_time() - began

            proxy.stall(refuses=True)
            proxy.reset()
            async with anyio.create_task_group() as group:
                for one in ENDPOINTS:
                    if one.path not in WITHOUT_STORAGE and not one.stays_open:
                        group.start_soon(ask, one)
            proxy.resume()
            made = await client.get("/threads/new")
            again = await client.get("/threads/t")

    assert {
        route: answer.text for route, answer in answers.items() if answer.status_code != 503
    } == {}
    assert {route: s for route, s in took_s.items() if s > WAITS_S} == {}
    assert (made.status_code, again.status_code) == (404, 200)


async def test_a_slow_answer_of_a_server_that_is_there_is_waited_for(postgres, schema, monkeypatch):
    """
    A request isn't given up for its length alone: only while the server can't be reached.
    """
    monkeypatch.setattr(storage_patience, "AWAY_S", 0.05)
    monkeypatch.setattr(storage_patience, "LOOK_S", 0.01)
    saver = PostgresSaver(postgres.url, schema=schema)
    locked = anyio.Event()

    def lock(connection: Any) -> None:
        connection.execute("SELECT set_config('search_path', %s, false)", (schema,))
        connection.execute("LOCK TABLE threads IN ACCESS EXCLUSIVE MODE")
        anyio.from_thread.run_sync(locked.set)
        connection.execute("SELECT pg_sleep(0.5)")
        connection.commit()

    async with served(saver, InMemoryStore()) as (client, _):
        with psycopg.connect(postgres.url) as connection:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, lock, connection)
                await locked.wait()
                began = anyio.current_time()
                answer = await client.get("/threads/t")
                took_s = anyio.current_time() - began

    assert answer.status_code == 200
    assert took_s > 0.3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_pages_of_the_studio_say_to_come_again(postgres, schema):
    """
    A page that needs the database is a 503 with `Retry-After` too.
    """
    with proxied(postgres.socket) as proxy:
        saver = PostgresSaver(proxy.url, schema=schema, reconnect_timeout_s=0.01)
        graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
        system = ActorSystem(graphs, saver=saver, store=InMemoryStore(), lease_s=3600)
        transport = httpx.ASGITransport(Studio(system, authorize=lambda *_: True))
        with anyio.fail_after(PATIENCE_S):
            async with system, httpx.AsyncClient(transport=transport, base_url=LOCAL) as client:
                here = [(await client.get(page)).status_code for page in PAGES]
                proxy.stall(refuses=True)
                proxy.reset()
                away = [await client.get(page) for page in PAGES]
                proxy.resume()

    assert here == [200] * len(PAGES)
    told = [(page.status_code, page.headers.get("retry-after")) for page in away]
    assert told == [(503, "5")] * len(PAGES)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_route_fails_while_a_file_is_away(tmp_path: Path):
    """
    A route that writes answers 503 while the database's folder has another name.
    """
    place = tmp_path / "here"
    place.mkdir()
    saver, store = SqliteSaver(place / "runs.db"), SqliteStore(place / "items.db")
    async with served(saver, store) as (client, run_id):
        place.rename(tmp_path / "away")
        answers = {
            (one.method, one.path): await client.request(
                one.method, path_of(one, run_id), json=body_of(one)
            )
            for one in ENDPOINTS
            if not one.stays_open or (one.method == "POST" and "runs" in one.path)
        }
        (tmp_path / "away").rename(place)

    failed = {
        route: answer.text
        for route, answer in answers.items()
        if answer.status_code >= 500
        and (answer.status_code, answer.headers.get("retry-after")) != (503, "5")
    }
    assert failed == {}
    assert {answers["POST", path].status_code for path in ("/threads", "/runs")} == {503}
