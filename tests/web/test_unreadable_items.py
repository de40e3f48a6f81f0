"""An item of the server's that can't be read hides nothing but itself."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from actorgraph import ActorSystem, InMemorySaver, JsonlSaver, SqliteSaver
from actorgraph.stores import InMemoryStore, SqliteStore
from actorgraph.web import GraphRoutes, WebhookPolicy
from actorgraph.web.cron_actor import CronActor
from actorgraph.web.ttl_sweeper import TtlSweeper
from tests.support.structlog_setup import configured
from tests.web.apps import GRAPHS

__all__ = ["configured"]

pytestmark = pytest.mark.usefixtures("configured")

CRON: dict[str, Any] = {
    "cron_id": "bad",
    "assistant_id": "good",
    "thread_id": None,
    "schedule": "* * * * *",
    "timezone": None,
    "end_time": None,
    "enabled": True,
    "metadata": {},
    "wanted": {},
    "payload": {},
    "on_run_completed": "keep",
    "since": "2026-01-01T00:00:00+00:00",
    "created_at": "",
    "updated_at": "",
}
VERSION = {
    "version": 1,
    "graph_id": "log",
    "name": "n",
    "description": None,
    "config": {},
    "context": {},
    "metadata": {},
    "created_at": "",
}
ASSISTANT: dict[str, Any] = {
    "assistant_id": "bad",
    "latest": 1,
    "versions": [VERSION],
    "created_at": "",
    "updated_at": "",
}
BAD: list[tuple[str, dict[str, Any]]] = [
    ("assistants", {}),
    ("assistants", {**ASSISTANT, "latest": 2}),
    ("assistants", {**ASSISTANT, "versions": [{**VERSION, "config": {"tags": 7}}]}),
    ("crons", {"enabled": True}),
    ("crons", {**CRON, "timezone": "Mars/Base"}),
    ("crons", {**CRON, "schedule": "at noon, * *"}),
    ("crons", {**CRON, "since": "yesterday"}),
    ("crons", {**CRON, "end_time": "never"}),
    ("cron_ticks", {}),
    ("cron_ticks", {"since": "", "fired": "yesterday"}),
    ("thread_ttls", {}),
    ("webhooks", {}),
    ("webhooks", {"url": "x", "thread_id": "t", "armed_at": "yesterday"}),
]
LISTS = ("/assistants/search", "/assistants/count", "/agents/search", "/runs/crons/search")
REMOVED = {"assistants": "/assistants/bad", "crons": "/runs/crons/bad"}


class Place:
    """A server with a good item of each kind."""

    def __init__(self, client: httpx.AsyncClient, routes: GraphRoutes, store: Any) -> None:
        self.client = client
        self.server = routes.server
        self.store = store

    async def fill(self) -> None:
        made = {"graph_id": "log", "assistant_id": "good"}
        await self.client.post("/assistants", json=made)
        cron = {"assistant_id": "good", "schedule": "0 0 1 1 *"}
        await self.client.post("/runs/crons", json=cron)
        await self.client.post("/threads", json={"thread_id": "t", "ttl": {"ttl": 1000}})

    async def answers(self) -> list[Any]:
        """The lists' answers, after each job has looked."""
        found: list[Any] = []
        for path in LISTS:
            answer = await self.client.post(path, json={})
            assert answer.status_code == 200
            found.append(answer.json())
        await CronActor(self.server).look(datetime.now(UTC))
        await TtlSweeper(self.server).sweep(datetime.now(UTC))
        self.server.webhooks._again = 0.0  # noqa: SLF001
        await self.server.webhooks.look(datetime.now(UTC))
        await self.server.webhooks.capture("t")
        found.append(sorted(await self.server.ttls.all()))
        return found


@asynccontextmanager
async def served(store: Any, saver: Any = None, **options: Any) -> AsyncIterator[Place]:
    saver = saver or InMemorySaver()
    graphs = {"log": GRAPHS["log"].compile(checkpointer=saver)}
    async with ActorSystem(graphs, saver=saver, store=store) as system:
        policy = WebhookPolicy(hosts=["*"], secret=b"x" * 32)
        routes = GraphRoutes(system, webhooks=policy, **options)
        transport = httpx.ASGITransport(routes)
        async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            place = Place(client, routes, store)
            await place.fill()
            yield place


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return InMemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")


@pytest.mark.parametrize(("kind", "value"), BAD)
async def test_the_others_answers_are_the_same(store, kind, value):
    """
    Lists and jobs do with an unreadable item what they do without it, and the log names it once.
    """
    async with served(store) as place:
        before = await place.answers()
        key = before[3][0]["cron_id"] if kind == "cron_ticks" else "bad"
        structlog.reset_defaults()
        with capture_logs() as log:
            await store.aput(("actorgraph", kind), key, value)
            after = [await place.answers() for _ in range(2)]

    assert after == [before, before]
    named = [one for one in log if one["event"] == "web.unreadable_item"]
    assert [(one["kind"], one["key"], one["log_level"]) for one in named] == [(kind, key, "error")]


@pytest.mark.one_loop
@pytest.mark.parametrize("kind", ["assistants", "crons", "cron_ticks", "thread_ttls"])
async def test_a_damaged_row_is_unreadable_too(tmp_path, kind):
    """
    So it is with an item whose row was changed on the disk: it is left out, named, and removed.
    """
    store = SqliteStore(tmp_path / "store.db")
    async with served(store) as place:
        before = await place.answers()
        key = before[3][0]["cron_id"] if kind == "cron_ticks" else "bad"
        await store.aput(("actorgraph", kind), key, CRON if kind == "crons" else ASSISTANT)
        with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
            changed = "UPDATE memory_items SET value = value || ' ' WHERE namespace = ? AND key = ?"
            assert db.execute(changed, (f"actorgraph.{kind}", key)).rowcount == 1
        structlog.reset_defaults()
        with capture_logs() as log:
            after = [await place.answers() for _ in range(2)]
        assert after == [before, before]
        assert any(key in one["error"] for one in log if one["event"].endswith("damaged")) or any(
            one.get("key") == key for one in log
        )
        if kind in REMOVED:
            removed = [(await place.client.delete(REMOVED[kind])).status_code for _ in range(2)]
            assert removed == [204, 404]


@pytest.mark.one_loop
@pytest.mark.parametrize(
    "value", [{}, {"created_at": "then", "updated_at": "now", "metadata": {}}, {"metadata": 7}]
)
async def test_a_registration_that_cannot_be_read(tmp_path, value):
    """
    Where threads are registered in the store, one that can't be read is listed without metadata,
    beside the others, and can be deleted.
    """
    store = SqliteStore(tmp_path / "store.db")
    async with served(store, JsonlSaver(tmp_path / "threads")) as place:
        await store.aput(("actorgraph", "threads"), "bad", value)
        structlog.reset_defaults()
        with capture_logs() as log:
            found = (await place.client.post("/threads/search", json={})).json()
            assert {one["thread_id"]: one["metadata"] for one in found} == {"bad": {}, "t": {}}
            assert (await place.client.delete("/threads/bad")).status_code == 204
        found = (await place.client.post("/threads/search", json={})).json()
        assert [one["thread_id"] for one in found] == ["t"]
    assert ("web.unreadable_item", "bad") in [(one["event"], one.get("key")) for one in log]


@pytest.mark.parametrize("kind", REMOVED)
async def test_it_is_removed_by_its_id(store, kind):
    """
    An unreadable item can be deleted over HTTP, and is not found before and after.
    """
    path = REMOVED[kind]
    async with served(store) as place:
        await store.aput(("actorgraph", kind), "bad", {})
        if kind == "assistants":
            assert (await place.client.get(path)).status_code == 404
            again = await place.client.post("/assistants", json={**ASSISTANT, "graph_id": "log"})
            assert again.status_code == 409
        removed = [(await place.client.delete(path)).status_code for _ in range(2)]

        assert await store.aget(("actorgraph", kind), "bad") is None
    assert removed == [204, 404]


@pytest.mark.parametrize("kind", REMOVED)
async def test_no_tenant_removes_it(store, kind):
    """
    A client whose rules ask for metadata can't remove an unreadable item, which has none.
    """
    async with served(store, authorize=lambda *_: {"tenant": "a"}) as place:
        await store.aput(("actorgraph", kind), "bad", {})

        assert (await place.client.delete(REMOVED[kind])).status_code == 404
        assert await store.aget(("actorgraph", kind), "bad") is not None


@pytest.mark.one_loop
async def test_a_damaged_run_is_listed(tmp_path):
    """
    A search for runs has one whose stored input was damaged, without it, beside the others.
    """
    path = tmp_path / "runs.db"
    async with served(InMemoryStore(), SqliteSaver(path)) as place:
        for thread in ("t", "bad"):
            body = {"assistant_id": "log", "input": {"foo": thread}, "if_not_exists": "create"}
            await place.client.post(f"/threads/{thread}/runs/wait", json=body)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE system_runs SET payload = x'c1ff' WHERE thread_id = 'bad'")
    async with served(InMemoryStore(), SqliteSaver(path)) as place:
        structlog.reset_defaults()
        with capture_logs() as log:
            found = (await place.client.post("/runs/search", json={})).json()

    assert {one["thread_id"]: one["input"] for one in found} == {"bad": None, "t": {"foo": "t"}}
    named = [one["run_id"] for one in log if one["event"] == "web.unreadable_run"]
    assert named == [one["run_id"] for one in found if one["thread_id"] == "bad"]


THREAD = [
    ("GET", ""),
    ("GET", "/state"),
    ("GET", "/history"),
    ("POST", "/copy"),
    ("DELETE", ""),
    ("GET", ""),
]
"""Requests about a thread, in this order."""


@pytest.mark.one_loop
@pytest.mark.parametrize(
    ("wanted", "statuses"),
    [({}, [200, 500, 500, 500, 204, 404]), ({"tenant": "a"}, [404] * 6)],
    ids=["all", "tenant"],
)
async def test_a_thread_whose_id_was_damaged(tmp_path, wanted, statuses):
    """
    A thread that nothing names but its damaged id is shown with the reason and can be deleted by
    that; a client whose rules ask for metadata finds nothing, before and after.
    """
    path = tmp_path / "runs.db"
    graphs = {name: GRAPHS[name].compile() for name in ("log", "ask")}
    async with ActorSystem(graphs, saver=SqliteSaver(path)) as system:
        for thread in ("spoilt", "good"):
            await (await system.start("log", thread, {"foo": thread})).result()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE threads SET thread_id = 'spo' WHERE thread_id = 'spoilt'")
    system = ActorSystem(graphs, saver=SqliteSaver(path))
    app = GraphRoutes(system, authorize=lambda *_: wanted)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        structlog.reset_defaults()
        with capture_logs() as log:
            answers = [await client.request(m, f"/threads/spo{rest}") for m, rest in THREAD]
        left = await system.saver.alist_threads()

    assert [answer.status_code for answer in answers] == statuses
    assert all("spo" in str(one.get("error")) for one in log if one["event"] == "web.failed")
    assert "web.unreadable_item" in [one["event"] for one in log if one.get("key") == "spo"]
    assert left == (["good", "spo"] if wanted else ["good"])
    assert wanted or (answers[0].json()["status"], answers[0].json()["phase"]) == (
        "error",
        "failed",
    )
