"""Pages of another origin: what a browser lets them send and read."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.middleware.cors import CORSMiddleware

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.web.apps import GRAPHS
from tests.web.sdk import NEW

PAGE = "https://app.example"
EXPOSED = ("Location", "Content-Location", "X-Pagination-Next")
ALWAYS_READABLE = ("content-type", "cache-control", "content-length")


class BlockedByBrowserError(Exception):
    """The browser did not send the request, or does not show its response to the page."""


class Page:
    """A page of an origin: its requests are sent and its responses shown as a browser would.

    Every request with a JSON body or another header than a form's is asked for by a preflight.
    """

    def __init__(self, client: httpx.AsyncClient, origin: str) -> None:
        self.client = client
        self.origin = origin

    async def fetch(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, str, dict[str, str]]:
        """Returns status, text, and the headers that the page can read."""
        if body is not None:
            headers["content-type"] = "application/json"
        if headers or method not in ("GET", "POST"):
            await self._preflight(method, path, headers)
        answer = await self.client.request(
            method, path, json=body, headers={**headers, "origin": self.origin}
        )
        self._check_origin(answer)
        exposed = answer.headers.get("access-control-expose-headers", "").lower().split(", ")
        shown = {k: v for k, v in answer.headers.items() if k in (*exposed, *ALWAYS_READABLE)}
        return answer.status_code, answer.text, shown

    async def _preflight(self, method: str, path: str, headers: dict[str, str]) -> None:
        asked = {
            "origin": self.origin,
            "access-control-request-method": method,
            "access-control-request-headers": ",".join(sorted(headers)),
        }
        answer = await self.client.options(path, headers=asked)
        self._check_origin(answer)
        methods = answer.headers["access-control-allow-methods"].split(", ")
        allowed = answer.headers["access-control-allow-headers"].lower().replace(" ", "").split(",")
        if answer.status_code != 200 or method not in methods or headers.keys() - set(allowed):
            raise BlockedByBrowserError(answer.text)

    def _check_origin(self, answer: httpx.Response) -> None:
        if answer.headers.get("access-control-allow-origin") not in (self.origin, "*"):
            raise BlockedByBrowserError(answer.text)


@pytest.fixture
async def routes() -> AsyncIterator[GraphRoutes]:
    saver = InMemorySaver()
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    async with ActorSystem(graphs, saver=saver, store=InMemoryStore()) as system:
        yield GraphRoutes(system)


@pytest.fixture
async def page(routes: GraphRoutes) -> AsyncIterator[Page]:
    app = CORSMiddleware(
        routes,
        allow_origins=[PAGE],
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=EXPOSED,
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield Page(client, PAGE)


class TestThePage:
    async def test_it_runs_a_graph_and_reads_where_the_run_is(self, page):
        """
        A page starts and streams a run, and can read the headers that say where it is.
        """
        await page.fetch("POST", "/threads", {"thread_id": "t"})
        body = {"assistant_id": "log", "input": NEW}
        status, text, headers = await page.fetch("POST", "/threads/t/runs/stream", body)

        assert (status, "event: end" in text) == (200, True)
        assert headers["content-type"].startswith("text/event-stream")
        assert headers["content-location"].startswith("/threads/t/runs/")
        assert headers["location"] == headers["content-location"] + "/stream"

    async def test_it_comes_back_to_a_stream(self, page):
        """
        A page that reconnects may send Last-Event-ID and its credentials.
        """
        body = {"assistant_id": "log", "input": NEW, "if_not_exists": "create"}
        _, _, headers = await page.fetch("POST", "/threads/t/runs/wait", body)
        sent = {"last-event-id": "1", "authorization": "Bearer x", "x-api-key": "y"}
        status, text, _ = await page.fetch(
            "GET", headers["location"].replace("join", "stream"), **sent
        )

        assert (status, "event: end" in text, "event: metadata" in text) == (200, True, False)

    async def test_it_reads_refusals(self, page):
        """
        An error's text can be read by the page, and every method be sent.
        """
        for method in ("GET", "PATCH", "DELETE"):
            body = {"metadata": {}} if method == "PATCH" else None
            status, text, _ = await page.fetch(method, "/threads/missing", body)

            assert (status, "not found" in text) == (404, True)


class TestOthers:
    async def test_another_origin_is_kept_out(self, page):
        """
        A page of an origin that isn't allowed can send no JSON, and starts nothing.
        """
        other = Page(page.client, "https://other.example")
        with pytest.raises(BlockedByBrowserError):
            await other.fetch("POST", "/threads", {"thread_id": "theirs"})

        assert (await page.client.get("/threads/theirs")).status_code == 404

    async def test_without_the_middleware_no_page_is_let_in(self, routes):
        """
        The routes alone allow no other origin.
        """
        transport = httpx.ASGITransport(routes)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            with pytest.raises(BlockedByBrowserError):
                await Page(client, PAGE).fetch("POST", "/threads", {"thread_id": "t"})

            assert (await client.get("/threads/t")).status_code == 404
