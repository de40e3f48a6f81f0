"""Refusals by limits: each is counted by its name, and bodies can't be added up to pass one."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver, SqliteSaver
from actorgraph.stores import InMemoryStore, SqliteStore
from actorgraph.web import GraphRoutes, Limits, WebhookPolicy
from actorgraph.web.http.problems import Limit
from actorgraph.web.http.request_limits import Limits as Fields
from actorgraph.web.registries import assistant_registry
from actorgraph.web.stream_protocol.protocol_sockets import SUBSCRIPTIONS_MAX
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS

RUN: dict[str, Any] = {"assistant_id": "log", "input": {}}
SLEEP = {**RUN, "assistant_id": "sleep", "webhook": "https://hooks.example.com/"}
CRON = {"assistant_id": "log", "schedule": "0 0 1 1 *"}
NO_REFUSALS = {"stream_s", "burst", "buffer", "buffer_bytes", "when_full", "clients"}
"""Fields of `Limits` that refuse nothing by themselves."""


class Site:
    """Routes over a system, with a client.

    Args:
        system: more of its options.
        pending_max: of the policy of webhooks.
    """

    def __init__(
        self,
        limits: dict[str, Any],
        system: dict[str, Any] | None = None,
        pending_max: int = 100,
        kept: tuple[Any, Any] | None = None,
    ) -> None:
        saver, store = kept or (InMemorySaver(), InMemoryStore())
        graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
        self.system = ActorSystem(graphs, saver=saver, store=store, **(system or {}))
        hooks = WebhookPolicy(hosts=["*"], secret=b"x" * 32, pending_max=pending_max)
        self.routes = GraphRoutes(
            self.system,
            authenticate=lambda request: "secret-name",
            limits=Limits(**limits),
            webhooks=hooks,
        )
        transport = httpx.ASGITransport(self.routes)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://t")

    async def post(self, path: str, body: Any = None) -> int:
        """The status of the answer."""
        return (await self.http.post(path, json=body)).status_code

    async def refused(self) -> dict[str, float]:
        """Limit -> refusals, as the server's own metrics have them, without the zeros."""
        text, found = (await self.http.get("/metrics")).text, {}
        assert "secret-name" not in text
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith("actorgraph_requests_refused_total") and float(value):
                found[name.partition('limit="')[2].partition('"')[0]] = float(value)
        return found

    async def socket(self, *texts: str) -> list[dict[str, Any]]:
        """Send messages to a thread's socket; returns what came back."""
        sent = [{"type": "websocket.connect"}]
        sent += [{"type": "websocket.receive", "text": text} for text in texts]
        came: list[dict[str, Any]] = []
        headers = [(b"host", b"t")]
        scope = {"type": "websocket", "path": "/threads/t/stream/events", "raw_path": b""}
        scope |= {"query_string": b"", "headers": headers, "subprotocols": [], "scheme": "ws"}

        async def receive() -> Any:
            return sent.pop(0) if sent else {"type": "websocket.disconnect", "code": 1000}

        async def send(message: Any) -> None:
            came.append(message)

        await self.routes(scope, receive, send)
        return came


@asynccontextmanager
async def opened(site: Site) -> AsyncIterator[Site]:
    """A site with a thread "t", while its system is open."""
    async with site.system:
        with anyio.fail_after(PATIENCE_S):
            await site.post("/threads", {"thread_id": "t"})
            yield site
        await site.system.drain(0.1)


async def large(site: Site) -> None:
    await site.post("/threads", {"metadata": {"a": "x" * 500}})


async def large_message(site: Site) -> None:
    await site.socket("x" * 500)


async def slow(site: Site) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    await site.http.post("/threads", content=body())


async def deep(site: Site) -> None:
    await site.post("/threads", {"metadata": {"a": {"b": {"c": {"d": 1}}}}})


async def deep_message(site: Site) -> None:
    await site.socket(json.dumps({"a": {"b": {"c": {"d": 1}}}}))


async def many_items(site: Site) -> None:
    await site.post("/runs/batch", [RUN] * 5)


async def many_targets(site: Site) -> None:
    goto = {"interrupt_id": "x", "response": 1, "goto": ["first"] * 5}
    body = {"id": 1, "method": "input.respond", "params": goto}
    await site.post("/threads/t/commands", body)


async def many_requests(site: Site) -> None:
    for _ in range(2):
        await site.post("/threads/search", {})


async def many_messages(site: Site) -> None:
    await site.socket("{}", "{}")


async def two_waits(site: Site) -> None:
    """Wait for a run while a client waits for another one."""
    async with anyio.create_task_group() as group:
        group.start_soon(site.post, "/runs/wait", SLEEP)
        while site.system.statistics().active < 1:
            await anyio.lowlevel.checkpoint()
        await site.post("/runs/wait", RUN)
        group.cancel_scope.cancel()


async def socket_beside_a_wait(site: Site) -> None:
    """Open a socket while a client waits for a run."""
    async with anyio.create_task_group() as group:
        group.start_soon(site.post, "/runs/wait", SLEEP)
        while site.system.statistics().active < 1:
            await anyio.lowlevel.checkpoint()
        await site.socket()
        group.cancel_scope.cancel()


async def many_subscriptions(site: Site) -> None:
    one = {"id": 2, "method": "subscription.subscribe", "params": {"channels": ["lifecycle"]}}
    await site.socket(*[json.dumps(one)] * (SUBSCRIPTIONS_MAX + 1))


async def two_crons(site: Site) -> None:
    for _ in range(2):
        await site.post("/runs/crons", CRON)


async def two_runs(site: Site) -> None:
    for _ in range(2):
        await site.post("/runs", SLEEP)


async def two_versions(site: Site) -> None:
    await site.post("/assistants", {"assistant_id": ID, "graph_id": "log"})
    for _ in range(2):
        await site.http.patch(f"/assistants/{ID}", json={"name": "x"})


ID = "6e4be25d-0ed1-4a0b-8e0c-4c1b0ff93a0e"
CASES: list[tuple[Limit, Callable[[Site], Awaitable[None]], dict[str, Any]]] = [
    ("body_bytes", large, {"limits": {"body_bytes": 400}}),
    ("body_bytes", large_message, {"limits": {"body_bytes": 400}}),
    ("body_s", slow, {"limits": {"body_s": 0.01}}),
    ("depth", deep, {"limits": {"depth": 3}}),
    ("depth", deep_message, {"limits": {"depth": 3}}),
    ("values", deep, {"limits": {"values": 4}}),
    ("items", many_items, {"limits": {"items": 4}}),
    ("items", many_targets, {"limits": {"items": 4}}),
    ("requests_per_s", many_requests, {"limits": {"requests_per_s": 0.01, "burst": 2}}),
    ("requests_per_s", many_items, {"limits": {"requests_per_s": 0.01, "burst": 3}}),
    ("requests_per_s", many_messages, {"limits": {"requests_per_s": 0.01, "burst": 2}}),
    ("streams", two_waits, {"limits": {"streams": 1}}),
    ("streams", socket_beside_a_wait, {"limits": {"streams": 1}}),
    ("streams_per_client", two_waits, {"limits": {"streams_per_client": 1}}),
    ("streams_per_client", socket_beside_a_wait, {"limits": {"streams_per_client": 1}}),
    ("subscriptions", many_subscriptions, {"limits": {}}),
    ("crons_per_client", two_crons, {"limits": {"crons_per_client": 1}}),
    ("webhooks", two_runs, {"limits": {}, "pending_max": 1}),
    ("webhooks_per_client", two_runs, {"limits": {"webhooks_per_client": 1}}),
    ("assistant_versions", two_versions, {"limits": {}}),
    ("runs", two_runs, {"limits": {}, "system": {"max_runs": 1, "max_queued": 0}}),
]


class TestMetric:
    @pytest.mark.parametrize(
        ("limit", "act", "options"), CASES, ids=[f"{one[0]}-{one[1].__name__}" for one in CASES]
    )
    async def test_a_refusal_is_counted_by_its_limit(self, limit, act, options, monkeypatch):
        """
        A refusal, over HTTP or a socket, is counted once under its name and no other.
        """
        monkeypatch.setattr(assistant_registry, "VERSIONS_MAX", 2)
        site = Site(**options)
        async with opened(site):
            await act(site)
            site.routes._server.clients = Site({}).routes._server.clients  # noqa: SLF001

            assert await site.refused() == {limit: 1}

    def test_each_limit_has_a_case(self):
        """
        Each field of `Limits` that refuses has a name in the metrics, and each name a case above.
        """
        assert {case[0] for case in CASES} == set(get_args(Limit))
        assert set(Fields.__struct_fields__) - NO_REFUSALS <= set(get_args(Limit))

    async def test_other_errors_count_nothing(self):
        """
        Conflicts, missing things and invalid bodies are not counted.
        """
        async with opened(Site({})) as site:
            assert await site.post("/threads", {"thread_id": "t"}) == 409
            assert await site.post("/threads/none/runs", RUN) == 404
            assert await site.post("/threads", [1]) == 422

            assert await site.refused() == {}


@pytest.fixture(params=["memory", "sqlite"])
def site(request, tmp_path) -> Site:
    """A site whose bodies may have 1,000 bytes."""
    kept = (InMemorySaver(), InMemoryStore())
    if request.param == "sqlite":
        kept = (SqliteSaver(tmp_path / "r.db"), SqliteStore(tmp_path / "i.db"))
    return Site({"body_bytes": 1000}, kept=kept)


async def _made(site: Site, kind: str) -> str:
    """Make a thread, a cron or an assistant; returns its path."""
    if kind == "crons":
        return "/runs/crons/" + (await site.http.post("/runs/crons", json=CRON)).json()["cron_id"]
    if kind == "assistants":
        await site.post("/assistants", {"assistant_id": ID, "graph_id": "log"})
        return f"/assistants/{ID}"
    return "/threads/t"


class TestMerging:
    @pytest.mark.parametrize("kind", ["threads", "crons", "assistants"])
    async def test_bodies_cant_be_added_up(self, site, kind):
        """
        Metadata that many changes merge has no more bytes than one body; a smaller one is taken.
        """
        async with opened(site):
            place = await _made(site, kind)

            async def change(name: str, size: int) -> int:
                body = {"metadata": {name: "x" * size}}
                return (await site.http.patch(place, json=body)).status_code

            first = await change("a", 600)
            codes: list[int] = []

            async def change_too(name: str) -> None:
                codes.append(await change(name, 300))

            async with anyio.create_task_group() as group:
                for name in "bcdef":
                    group.start_soon(change_too, name)
            smaller = await change("a", 1)
            refused = await site.refused()

        assert (first, smaller) == (200, 200)
        assert codes.count(413) >= 4
        assert codes.count(413) + codes.count(200) == 5
        assert refused == {"body_bytes": codes.count(413)}

    async def test_the_parts_of_a_cron_are_one_body(self, site):
        """
        Input and metadata of a cron that come one after the other have the limit of one body.
        """
        async with opened(site):
            place = await _made(site, "crons")
            codes: list[int] = []
            for body in ({"input": {"foo": "x" * 700}}, {"metadata": {"a": "x" * 700}}):
                answer = await site.http.patch(place, json=body)
                codes.append(answer.status_code)

        assert codes == [200, 413]
        assert "may have 1000" in answer.json()["detail"]

    async def test_a_value_that_was_too_large_can_be_changed(self):
        """
        A thread whose metadata is above a lowered limit may be changed as long as it doesn't grow.
        """
        kept = (InMemorySaver(), InMemoryStore())
        async with opened(Site({}, kept=kept)) as before:
            body = {"metadata": {"a": "x" * 2000, "b": 1}}
            assert (await before.http.patch("/threads/t", json=body)).status_code == 200
        async with opened(Site({"body_bytes": 1000}, kept=kept)) as after:
            codes = [
                (await after.http.patch("/threads/t", json={"metadata": said})).status_code
                for said in ({"b": 2}, {"c": 1}, {"a": ""}, {"c": 1})
            ]

        assert codes == [200, 413, 200, 200]

    async def test_values_are_counted_together(self):
        """
        Metadata that many changes merge has no more values than one body.
        """
        async with opened(Site({"values": 60})) as site:
            codes = [
                (await site.http.patch("/threads/t", json={"metadata": said})).status_code
                for said in ({f"{part}{n}": n for n in range(40)} for part in "ab")
            ]

        assert codes == [200, 422]
