"""Clients that connect again, from their last event on, after their access was taken away."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes, Limits
from tests.web.apps import GRAPHS, application
from tests.web.sdk import anyio_backend
from tests.web.server import running
from tests.web.test_access import OWN, tenants
from tests.web.test_open_requests import EVERY_S, OF_A_RUN, OPEN, WAYS, Place, Rules, named, served
from tests.web.test_open_sockets import NAMES
from tests.web.test_wire_sockets import START, ask, socket

__all__ = ["anyio_backend"]

EVENTS = {"channels": ["values", "updates", "lifecycle"], "since": 0}
VISITS = [
    *((endpoint, rule) for endpoint in OPEN for rule in ("authenticate", "authorize")),
    *((endpoint, "assistants") for endpoint in OF_A_RUN),
]
PATIENCE_S = 20


async def refused(place: Place, endpoint: Any, rule: str) -> httpx.Response:
    """Visit an endpoint until a rule ends that, and once more from the last event on."""
    place.rules.begin(rule)
    with anyio.fail_after(PATIENCE_S):
        ended = await place.visit(endpoint)
        ids = [line[4:] for line in ended.text.split("\n") if line.startswith("id: ")]
        place.client.headers["last-event-id"] = ids[-1] if ids else f"{place.run}.0"
        return await place.visit(endpoint)


class TestEveryStream:
    @pytest.mark.parametrize(
        ("endpoint", "rule"), VISITS, ids=[f"{named(e)} {rule}" for e, rule in VISITS]
    )
    async def test_a_client_that_connects_again_is_refused(self, endpoint, rule):
        """
        A client that was sent away gets a status and a reason, and no event: an EventSource gives
        up then.
        """
        async with served(EVERY_S) as place:
            again = await refused(place, endpoint, rule)

        assert again.status_code in {WAYS[rule], 403}
        assert again.headers["content-type"].startswith("application/json")
        assert list(again.json()) == ["detail"]


class Tenants:
    """A server of tenants, one of which has a thread with a secret."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.given_to: dict[str, str] = {}
        self.run = ""

    async def ask(self, user: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A request of a tenant."""
        named = {"x-user": user, **headers}
        with anyio.fail_after(PATIENCE_S):
            return await self.client.request(method, path, json=body, headers=named)

    async def fill(self, user: str, thread_id: str, word: str) -> str:
        """Give a tenant a thread with a run, whose id is returned."""
        await self.ask(user, "POST", "/threads", {"thread_id": thread_id})
        body = {"assistant_id": "log", "input": {"foo": word}, "stream_resumable": True}
        made = await self.ask(user, "POST", f"/threads/{thread_id}/runs", body)
        run = made.json()["run_id"]
        await self.ask(user, "GET", f"/threads/{thread_id}/runs/{run}/join")
        return run

    async def read(self, user: str, thread_id: str, *runs: str) -> list[httpx.Response]:
        """Connect again to all that is open about a thread, as if it had begun with these runs."""
        answers: list[httpx.Response] = []
        thread, events = f"/threads/{thread_id}", {**EVENTS}
        for run in runs:
            after = {"last-event-id": f"{run}.0"}
            answers += [
                await self.ask(user, "GET", f"{thread}/stream", **after),
                await self.ask(user, "GET", f"{thread}/stream?last_event_id={run}.0"),
                await self.ask(user, "POST", f"{thread}/stream/events", events, **after),
                await self.ask(
                    user, "GET", f"{thread}/runs/{run}/stream", **{"last-event-id": "0"}
                ),
                await self.ask(user, "GET", f"{thread}/runs/{run}/join"),
            ]
        return answers


@asynccontextmanager
async def tenants_server() -> AsyncIterator[Tenants]:
    """A server whose streams of threads end soon."""
    given_to: list[dict[str, str]] = []

    def may(principal: str, action: str, thread_id: str | None, metadata: Any) -> Any:
        """Those of `tenants`, but for threads that were given to another one."""
        owner = given_to[0].get(thread_id or "")
        return tenants(principal, action, thread_id, metadata) if not owner else principal == owner

    saver = InMemorySaver()
    system = ActorSystem(
        {"log": GRAPHS["log"].compile(checkpointer=saver)}, saver=saver, store=InMemoryStore()
    )
    app = GraphRoutes(
        system,
        authorize=may,
        authenticate=lambda request: request.headers.get("x-user"),
        limits=Limits(stream_s=0.05),
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with system, httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        made = Tenants(client)
        given_to.append(made.given_to)
        made.run = await made.fill("owner", "t", OWN)
        yield made


class TestTenants:
    async def test_the_owner_gets_the_events_again(self):
        """
        The owner's own reconnection has what the others' must not have.
        """
        async with tenants_server() as server:
            answers = await server.read("owner", "t", server.run)

        assert [one.status_code for one in answers] == [200] * len(answers)
        assert all(OWN in one.text for one in answers)

    async def test_ids_of_events_open_no_other_thread(self):
        """
        With the id of another tenant's event a stream of an own thread has its own events only.
        """
        async with tenants_server() as server:
            await server.fill("other", "mine", "x")
            answers = await server.read("other", "mine", server.run)
            theirs = await server.read("other", "t", server.run)

        assert OWN not in "".join(one.text for one in answers + theirs)
        assert {one.status_code for one in theirs} == {404}

    @pytest.mark.parametrize("new", ["owner", "other"])
    async def test_a_removed_thread_stays_silent(self, new):
        """
        Ids of events of a removed thread bring nothing of it, to the owner of a new one of its
        name neither.
        """
        async with tenants_server() as server:
            await server.ask("owner", "DELETE", "/threads/t")
            gone = await server.read("owner", "t", server.run)
            await server.fill(new, "t", "x")
            again = await server.read(new, "t", server.run)
            others = await server.read("owner", "t", server.run) if new == "other" else []

        assert OWN not in "".join(one.text for one in gone + again + others)
        assert {one.status_code for one in gone + others} == {404}

    async def test_a_thread_that_was_given_away_is_silent(self):
        """
        When a thread is another tenant's, the former one's reconnection is refused.
        """
        async with tenants_server() as server:
            server.given_to["t"] = "other"
            former = await server.read("owner", "t", server.run)
            now = await server.read("other", "t", server.run)

        assert {one.status_code for one in former} == {404}
        assert OWN not in "".join(one.text for one in former)
        assert {one.status_code for one in now} == {200}


@pytest.mark.parametrize("rule", ["authenticate", "authorize"])
@pytest.mark.parametrize("name", NAMES)
async def test_sockets_are_refused_again(tmp_path: Path, name, rule):
    """
    A socket that was closed for its rights, and is opened again, gets no event: it is closed, or
    its subscription refused.
    """
    rules, heard = Rules(), list[Any]()
    watch = {"id": 2, "method": "subscription.subscribe", "params": EVENTS}
    with running(application(tmp_path / "runs.db", **rules.options())) as address:
        async with socket(address, "s", name) as made:
            assert (await ask(made, START))["type"] == "success"
            assert (await ask(made, watch))["type"] == "success"
            rules.begin(rule, 0)
            with anyio.fail_after(PATIENCE_S):
                await made.wait_closed()
            assert made.close_code == 4000 + WAYS[rule]
        with suppress(ConnectionClosed):
            async with socket(address, "s", name) as again:
                heard.append(await ask(again, watch))
        rules.begin("")

    assert [(one["type"], one["error"]) for one in heard] in ([], [("error", "permission_denied")])
