"""Permissions: every route of the table, asked by every principal."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.web import ACTIONS, GraphRoutes, Limits
from actorgraph.web.app import _routes  # pyright: ignore[reportPrivateUsage]
from actorgraph.web.endpoints.endpoint import Endpoint, PathEndpoints
from actorgraph.web.routes import ENDPOINTS
from tests.web.apps import GRAPHS

USED = [("log", GRAPHS["log"])]
"""The graph that the requests name: compiling all takes as long as a test."""
OWN = "the-owners-own"
PUBLIC = {"/ok", "/ready", "/info", "/openapi.json"}
_EVENTS = {"channels": ["values"]}
BODIES: dict[str, Any] = {
    "/threads/{thread_id}/stream": _EVENTS,
    "/threads/{thread_id}/stream/events": _EVENTS,
    "/threads/{thread_id}/commands": {
        "id": 1,
        "method": "run.start",
        "params": {"assistant_id": "log"},
    },
    "/threads/prune": {"thread_ids": ["owner"]},
    "/threads/{thread_id}/state/checkpoint": {"checkpoint": {}},
    "/threads/{thread_id}/state": {"values": {"foo": "x"}, "as_node": "first"},
    "/store/items": {"namespace": ["owner"], "key": "k", "value": {}},
    "/store/items/search": {"namespace_prefix": ["owner"]},
    "/store/namespaces": {"prefix": ["owner"]},
    "/runs/batch": [{"assistant_id": "log"}],
    "/runs/cancel": {"thread_id": "owner"},
    "/runs/crons": {"assistant_id": "log", "schedule": "0 0 1 1 *"},
    "/threads/{thread_id}/runs/crons": {"assistant_id": "log", "schedule": "0 0 1 1 *"},
    "/runs/crons/{cron_id}": {},
    "/assistants": {"graph_id": "log"},
    "/assistants/{assistant_id}/latest": {"version": 1},
}
GUARDED = [endpoint for endpoint in ENDPOINTS if endpoint.action is not None]


def named(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def tenants(principal: str, action: str, thread_id: str | None, metadata: Any) -> Any:
    """Each tenant has threads of its own; those of others are hidden."""
    if principal == "revoked":
        return False
    if action.startswith(("assistants.", "metrics.")):
        return True
    if action.startswith("store."):
        return metadata["namespace"][:1] == [principal]
    return {"tenant": principal}


class Place:
    """A server with a thread of `owner`, which has a finished run and a secret."""

    def __init__(self, client: httpx.AsyncClient, system: ActorSystem) -> None:
        self.client = client
        self.system = system
        self.run = self.checkpoint = ""

    async def fill(self) -> None:
        await self.ask("owner", "POST", "/threads", {"thread_id": "owner", "metadata": {"s": OWN}})
        body = {"assistant_id": "log", "input": {"foo": OWN}}
        started = await self.ask("owner", "POST", "/threads/owner/runs", body)
        self.run = started.json()["run_id"]
        await self.ask("owner", "GET", f"/threads/owner/runs/{self.run}/join")
        state = await self.ask("owner", "GET", "/threads/owner/state")
        self.checkpoint = state.json()["checkpoint"]["checkpoint_id"]

    async def ask(
        self, user: str | None, method: str, path: str, body: Any = None
    ) -> httpx.Response:
        headers = {"x-user": user} if user else {}
        return await self.client.request(method, path, json=body, headers=headers)

    async def visit(
        self, user: str | None, endpoint: Endpoint, method: str = "", prefix: str = ""
    ) -> httpx.Response:
        """A request to a route, about what `owner` has."""
        path = endpoint.path.format(
            thread_id="owner",
            run_id=self.run,
            checkpoint_id=self.checkpoint,
            assistant_id="log",
            agent_id="log",
            namespace="none",
            cron_id="none",
        )
        body = BODIES.get(endpoint.path, {"assistant_id": "log", "thread_id": user})
        if endpoint.query is not None and "key" in endpoint.query.__struct_fields__:
            path += "?namespace=owner&key=k"
        return await self.ask(
            user, method or endpoint.method, prefix + path, body if endpoint.body else None
        )


@asynccontextmanager
async def filled() -> AsyncIterator[Place]:
    saver = InMemorySaver()
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in USED}
    system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
    routes = GraphRoutes(
        system,
        authorize=tenants,
        authenticate=lambda request: request.headers.get("x-user"),
        limits=Limits(stream_s=0.05),  # streams of a thread end with their client, else
    )
    app = Starlette(routes=[Mount("/mounted", routes), Mount("/", routes)])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with system, httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        made = Place(client, system)
        await made.fill()
        yield made


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with filled() as made:
        yield made


@pytest.fixture(scope="module")
async def closed_place() -> AsyncIterator[Place]:
    """One for all tests of those who may change nothing of `owner`."""
    async with filled() as made:
        yield made


def open_routes(routes: list[Any]) -> set[str]:
    """The paths that are served without asking leave, beside those that need no permission."""
    found: set[str] = set()
    for route in routes:
        served = getattr(route, "app", None)
        if not (isinstance(route, Route) and isinstance(served, PathEndpoints)):
            found.add(getattr(route, "path", repr(route)))
            continue
        endpoints = served._endpoints  # noqa: SLF001
        methods = set(route.methods or ()) - {"HEAD"}
        if methods != set(endpoints) or any(e.action is None for e in endpoints.values()):
            found.add(route.path)
    return found - PUBLIC


class TestTheTable:
    def test_every_route_has_an_action(self):
        """
        Only what needs no permission is without one, so that a new route can't be left open. T35.
        """
        assert open_routes(_routes(cast("Any", None))) == set()
        assert {e.path for e in ENDPOINTS if e.action is None} == PUBLIC
        assert set(ACTIONS) == {e.action for e in GUARDED}

    def test_a_route_without_a_policy_is_found(self, monkeypatch):
        """
        A route without an action is found, whether it is in the table or beside it. T35.
        """

        async def leak(_: Any) -> PlainTextResponse:
            return PlainTextResponse(OWN)

        planted = Endpoint("GET", "/threads/{thread_id}/leak", None, leak)
        monkeypatch.setattr("actorgraph.web.app.ENDPOINTS", (*ENDPOINTS, planted))
        routes = [*_routes(cast("Any", None)), Route("/leak", leak), Mount("/files", leak)]

        assert open_routes(routes) == {"/threads/{thread_id}/leak", "/leak", "/files"}


@pytest.mark.one_loop
@pytest.mark.parametrize("endpoint", GUARDED, ids=named)
class TestEveryRoute:
    async def test_unknown_clients_are_refused(self, closed_place, endpoint):
        """
        An unknown client is asked to sign in.
        """
        assert (await closed_place.visit(None, endpoint)).status_code == 401

    async def test_no_other_method_and_no_mount_goes_around(self, closed_place, endpoint):
        """
        HEAD is refused as GET is, OPTIONS returns methods only, and a mount changes nothing. T35.
        """
        for user in (None, "other"):
            head = await closed_place.visit(user, endpoint, "HEAD")
            assert OWN not in head.text
            if endpoint.method == "GET":
                asked = await closed_place.visit(user, endpoint)
                assert head.status_code == asked.status_code
        options = await closed_place.visit("other", endpoint, "OPTIONS")
        mounted = await closed_place.visit(None, endpoint, prefix="/mounted")
        others = await closed_place.visit("other", endpoint, prefix="/mounted")

        assert (options.status_code, mounted.status_code) == (405, 401)
        assert OWN not in options.text + mounted.text + others.text
        if "{thread_id}" in endpoint.path or "{run_id}" in endpoint.path:
            assert others.status_code == 404

    async def test_another_tenant_sees_nothing(self, closed_place, endpoint):
        """
        Another tenant's thread isn't there, and no byte of it is shown.
        """
        answer = await closed_place.visit("other", endpoint)

        assert OWN not in answer.text
        if "{thread_id}" in endpoint.path or "{run_id}" in endpoint.path:
            assert answer.status_code == 404
        assert (await closed_place.ask("owner", "GET", "/threads/owner/state")).status_code == 200

    async def test_a_principal_without_rights_is_refused_everywhere(self, closed_place, endpoint):
        """
        A principal whose rights were taken is refused everywhere.
        """
        answer = await closed_place.visit("revoked", endpoint)

        assert OWN not in answer.text
        assert answer.status_code in (403, 404)

    async def test_the_owner_gets_an_answer(self, place, endpoint):
        """
        The owner is refused by no rule.
        """
        assert (await place.visit("owner", endpoint)).status_code not in (401, 403)


class TestTheRest:
    @pytest.mark.parametrize("path", sorted(PUBLIC))
    async def test_health_routes_need_no_rights(self, place, path):
        """
        Whether the server lives, and what it serves, isn't secret.
        """
        assert (await place.ask(None, "GET", path)).status_code == 200

    async def test_lists_show_ones_own(self, place):
        """
        A search shows a tenant's own threads only.
        """
        mine = await place.ask("owner", "POST", "/threads/search", {})
        others = await place.ask("other", "POST", "/threads/search", {})

        assert ([t["thread_id"] for t in mine.json()], others.json()) == (["owner"], [])

    async def test_ids_of_other_tenants_can_not_be_taken(self, place):
        """
        An id that is another tenant's can't be taken, and shows nothing of its thread.
        """
        for if_exists in ("do_nothing", "raise"):
            body = {"thread_id": "owner", "if_exists": if_exists}
            answer = await place.ask("other", "POST", "/threads", body)
            assert answer.status_code == 404
            assert OWN not in answer.text

    async def test_two_at_once_make_one_thread(self, place):
        """
        Of two tenants who want an id at the same time one gets it.
        """
        codes: list[int] = []

        async def ask(user: str) -> None:
            answer = await place.ask(user, "POST", "/threads", {"thread_id": "new"})
            codes.append(answer.status_code)

        async with anyio.create_task_group() as group:
            group.start_soon(ask, "owner")
            group.start_soon(ask, "other")
        seen = [(await place.ask(u, "GET", "/threads/new")).status_code for u in ("owner", "other")]

        assert sorted(seen) == [200, 404]
        assert codes.count(200) == 1

    async def test_a_thread_gets_its_owner(self, place):
        """
        The required metadata of a thread is put there when it is made.
        """
        made = await place.ask("other", "POST", "/threads", {"metadata": {"tenant": "owner"}})

        assert made.json()["metadata"]["tenant"] == "other"


class TestRulesByName:
    @pytest.fixture
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        """A server where a user's threads are those that begin with the user's name."""

        def who(request: Any) -> str:
            if "x-user" not in request.headers:
                raise HTTPException(401, "sign in first")
            return request.headers["x-user"]

        def may(user: str, action: str, thread_id: str | None, metadata: Any) -> bool:
            return thread_id is None or thread_id.startswith(f"{user}-")

        saver = InMemorySaver()
        graphs = {name: graph.compile(checkpointer=saver) for name, graph in USED}
        system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
        limits = Limits(requests_per_s=0.01, burst=20)
        app = GraphRoutes(system, authorize=may, authenticate=who, limits=limits)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            yield client

    async def test_a_search_shows_ones_own(self, client):
        """
        Where a search as such is allowed, each thread is asked for before it is shown or counted.
        """
        for user in ("ann", "bob"):
            body = {"thread_id": f"{user}-1"}
            await client.post("/threads", json=body, headers={"x-user": user})
        ann = {"x-user": "ann"}
        found = await client.post("/threads/search", json={}, headers=ann)
        taken = await client.post("/threads", json={"thread_id": "bob-2"}, headers=ann)

        assert [thread["thread_id"] for thread in found.json()] == ["ann-1"]
        assert (await client.post("/threads/count", json={}, headers=ann)).json() == 1
        assert taken.status_code == 404

    async def test_the_frameworks_own_refusals_are_answers(self, client):
        """
        `authenticate` may raise the framework's exception; who guesses is held up too.
        """
        answers = [await client.get("/threads/x") for _ in range(22)]

        assert (answers[0].status_code, answers[0].json()) == (401, {"detail": "sign in first"})
        assert answers[-1].status_code == 429
