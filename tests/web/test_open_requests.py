"""Access is asked for again while a request is open; the requests are those of the table."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import httpx
import pytest
from starlette.requests import Request

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.errors import InvalidConfigError
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from actorgraph.web.endpoints.endpoint import Endpoint
from actorgraph.web.routes import ENDPOINTS
from tests.web.apps import Log, chain, first
from tests.web.test_access import BODIES, named

pytestmark = pytest.mark.every_case

OPEN = [endpoint for endpoint in ENDPOINTS if endpoint.stays_open]
OF_A_RUN = [e for e in OPEN if "{run_id}" in e.path or e.action == "runs.create"]
SLEEPS = {"assistant_id": "sleep", "input": {"foo": "a"}}
EVERY_S = 0.02
ASKED_MAX = 4
"""Times that a rule is asked, counted from an open request's begin, until it denies."""
WAYS = {"authenticate": 401, "authorize": 404, "assistants": 404}


class Rules:
    """Rules that allow all, until they are asked often enough after `begin`."""

    def __init__(self) -> None:
        self.denies = ""
        self._left = 0

    def begin(self, denies: str, left: int = ASKED_MAX) -> None:
        self.denies, self._left = denies, left

    def _may(self, rule: str) -> bool:
        if rule == self.denies:
            self._left -= 1
        return rule != self.denies or self._left >= 0

    async def authenticate(self, _: Request) -> str | None:
        return "bob" if self._may("authenticate") else None

    def authorize(self, *_: Any) -> bool:
        return self._may("authorize")

    def assistants(self, _: str, graph: str) -> bool:
        return graph != "sleep" or self._may("assistants")

    def options(self, every_s: float = EVERY_S) -> dict[str, Any]:
        return {
            "authenticate": self.authenticate,
            "authorize": self.authorize,
            "assistants": self.assistants,
            "reauthorize_s": every_s,
        }


async def sleep(state: Log) -> dict[str, Any]:
    """Go on until it is stopped, but not with a secret."""
    if state.get("foo") != "secret":
        await anyio.sleep_forever()
    return {}


class Place:
    """A server with the thread `t`, whose run lasts until it is cancelled."""

    def __init__(self, client: httpx.AsyncClient, system: ActorSystem, rules: Rules) -> None:
        self.client = client
        self.system = system
        self.rules = rules
        self.run = ""

    async def fill(self) -> None:
        await self.client.post("/threads", json={"thread_id": "t"})
        started = await self.client.post("/threads/t/runs", json=SLEEPS)
        self.run = started.json()["run_id"]

    async def visit(self, endpoint: Endpoint) -> httpx.Response:
        starts = endpoint.action == "runs.create"
        path = endpoint.path.format(thread_id="new" if starts else "t", run_id=self.run)
        if starts and "{thread_id}" in endpoint.path:
            await self.client.post("/threads", json={"thread_id": "new"})
        body = SLEEPS if starts else BODIES.get(endpoint.path)
        return await self.client.request(
            endpoint.method, path, json=body if endpoint.body else None
        )


@asynccontextmanager
async def served(every_s: float) -> AsyncIterator[Place]:
    """A server that asks again at an interval."""
    saver, rules = InMemorySaver(), Rules()
    graph = chain(first, sleep).compile(checkpointer=saver)
    system = ActorSystem({"sleep": graph}, saver=saver, store=InMemoryStore())
    app = GraphRoutes(system, **rules.options(every_s))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with system, httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        made = Place(client, system, rules)
        await made.fill()
        yield made
        for run in await system.runs(statuses=("pending", "running")):
            await run.cancel()


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with served(EVERY_S) as made:
        yield made


def farewell(response: httpx.Response) -> tuple[str, Any]:
    """How a response ended: the name of its last event, and its data."""
    if response.headers["content-type"].startswith("application/json"):
        return "error", json.loads(response.text)["__error__"]
    last = response.text.strip().split("\n\n")[-1].split("\n")
    said = {name: text for name, _, text in (line.partition(": ") for line in last)}
    return said["event"], json.loads(said["data"])


async def check_it_ends(place: Place, endpoint: Endpoint, rule: str) -> None:
    """Visit an endpoint while a rule begins to deny."""
    place.rules.begin(rule)
    with anyio.fail_after(20):
        response = await place.visit(endpoint)

    knows_thread = "{" in endpoint.path  # of others it is said that they are forbidden
    status = WAYS[rule] if knows_thread or rule != "authorize" else 403
    name, said = farewell(response)
    assert (response.status_code, name) == (200, "error")
    if said.get("type") == "error":  # the streaming protocol's own form
        assert said["error"] == "permission_denied"
    else:
        assert (said["error"], said["status"]) == ("AccessRevoked", status)


class TestEveryStream:
    @pytest.mark.parametrize("endpoint", OPEN, ids=named)
    @pytest.mark.parametrize("rule", ["authenticate", "authorize"])
    async def test_access_that_is_taken_away_ends_it(self, place, endpoint, rule):
        """
        A stream or wait ends with an error when a rule denies it in the middle of a run.
        """
        await check_it_ends(place, endpoint, rule)

    @pytest.mark.parametrize("endpoint", OF_A_RUN, ids=named)
    async def test_a_graph_that_is_hidden_ends_it(self, place, endpoint):
        """
        The stream of a run, or the wait for it, ends when the principal may not see its graph.
        """
        await check_it_ends(place, endpoint, "assistants")

    @pytest.mark.parametrize("rule", ["authenticate", "authorize"])
    async def test_the_run_goes_on(self, place, rule):
        """
        A run whose stream was ended goes on, even one that its client's leaving would cancel.
        """
        place.rules.begin(rule)
        body = {**SLEEPS, "on_disconnect": "cancel"}
        await place.client.post("/threads", json={"thread_id": "left"})
        with anyio.fail_after(20):
            await place.client.post("/threads/left/runs/stream", json=body)

        (run,) = await place.system.runs(thread_id="left")
        assert run.status == "running"

    @pytest.mark.parametrize("kind", ["thread", "events", "run", "join"])
    async def test_each_run_is_asked_for(self, kind):
        """
        Nothing is said of a run that still waited when access was taken away.
        """
        heard: list[httpx.Response] = []
        async with served(1000) as place:
            body = {"assistant_id": "sleep", "input": {"foo": "secret"}}
            queued = await place.client.post(
                "/threads/t/runs", json={**body, "multitask_strategy": "enqueue"}
            )
            identifier = queued.json()["run_id"]
            asks = {
                "thread": ("GET", f"/threads/t/stream?last_event_id={place.run}.0"),
                "events": ("POST", "/threads/t/stream/events"),
                "run": ("GET", f"/threads/t/runs/{identifier}/stream"),
                "join": ("GET", f"/threads/t/runs/{identifier}/join"),
            }

            async def read() -> None:
                method, path = asks[kind]
                wanted = {"channels": ["values"]} if kind == "events" else None
                heard.append(await place.client.request(method, path, json=wanted))

            with anyio.fail_after(20):
                async with anyio.create_task_group() as group:
                    group.start_soon(read)
                    await anyio.wait_all_tasks_blocked()
                    place.rules.begin("authorize", 0)
                    await (await place.system.run(place.run)).cancel()

        assert "secret" not in heard[0].text
        assert farewell(heard[0])[0] == "error"

    async def test_a_rule_that_fails_allows_nothing(self, place):
        """
        A stream ends when the rules raise an error, whose text is not sent.
        """

        def broken(rule: str) -> bool:
            if rule == "authorize" and (left := next(asks, None)) is None:
                raise ConnectionError("secret", left)
            return True

        asks = iter(range(ASKED_MAX))
        place.rules._may = broken  # noqa: SLF001
        with anyio.fail_after(20):
            response = await place.client.get(f"/threads/t/runs/{place.run}/stream")

        assert farewell(response)[1]["status"] == 500
        assert "secret" not in response.text


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), float("nan")])
def test_an_interval_that_never_ends_is_refused(wrong):
    """
    The interval must be above 0 and finite.
    """
    with pytest.raises(InvalidConfigError, match="reauthorize_s"):
        GraphRoutes(cast("Any", None), reauthorize_s=wrong)
