"""What the server takes, and how it refuses the rest."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes, Limits
from tests.web.apps import GRAPHS


@pytest.fixture
async def client() -> AsyncIterator[Any]:
    saver = InMemorySaver()
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
    app = GraphRoutes(system, limits=Limits(body_bytes=10_000, requests_per_s=1000, burst=20))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    made: Any = httpx.AsyncClient(transport=transport, base_url="http://test")
    async with system, made:
        made.app = app
        yield made


async def post(client: httpx.AsyncClient, body: bytes, **headers: str) -> tuple[int, Any]:
    told = {"content-type": "application/json", **headers}
    answer = await client.post("/threads", content=body, headers=told)
    return answer.status_code, answer.json()["detail"]


class TestBodies:
    async def test_a_long_body_is_refused(self, client):
        """
        A body above the limit is 413, whether it tells its length or not.
        """
        said: list[Any] = []
        scope = {"type": "http", "method": "POST", "path": "/threads", "headers": []}
        scope |= {"query_string": b"", "client": None}

        async def receive() -> Any:
            return {"type": "http.request", "body": b" " * 1000, "more_body": True}

        async def send(message: Any) -> None:
            said.append(message)

        told = await post(client, b" " * 20_000)
        await client.app(scope, receive, send)

        assert told == (413, "the body has more than 10000 bytes")
        assert said[0]["status"] == 413

    async def test_a_deep_body_is_refused(self, client):
        """
        A body nested too deep is 422.
        """
        deep = b'{"metadata":' + b'{"a":' * 100 + b"1" + b"}" * 101
        deeper = b"[" * 5000

        assert await post(client, deep) == (422, "the body is nested more than 64 levels deep")
        assert (await post(client, deeper))[0] == 422

    async def test_a_compressed_body_is_refused(self, client):
        """
        A compressed body isn't unpacked: it is 415.
        """
        bomb = gzip.compress(b" " * 1_000_000)

        assert (await post(client, bomb, **{"content-encoding": "gzip"}))[0] == 415

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"{", "the body is no JSON"),
            (b"\xff", "the body is no JSON"),
            (b"[]", "the body can't be taken: Expected `object`"),
            (b'{"metadata": 1}', "at `$.metadata`"),
            (b'{"thread_id": "a\\u0000"}', "control characters"),
            (json.dumps({"thread_id": "ä" * 200}).encode(), "255 bytes"),
        ],
    )
    async def test_what_does_not_fit_is_named(self, client, body, words):
        """
        A body that can't be taken is 422, and the answer names the place.
        """
        status, detail = await post(client, body)

        assert status == 422
        assert words in detail


class TestRoutes:
    async def test_unknown_paths_and_methods(self, client):
        """
        What isn't served is 404 or 405, in the same form as other errors.
        """
        nowhere = await client.get("/nowhere")
        wrong = await client.put("/threads")

        assert (nowhere.status_code, nowhere.json()) == (404, {"detail": "Not Found"})
        assert (wrong.status_code, wrong.json()) == (405, {"detail": "Method Not Allowed"})

    async def test_unknown_things(self, client):
        """
        Threads, runs, assistants and graphs that aren't there are 404.
        """
        await client.post("/threads", json={"thread_id": "t"})
        paths = ["/threads/no", "/threads/t/runs/no", "/assistants/no", "/threads/t/state/no"]
        answers = [(await client.get(path)).status_code for path in paths]

        assert answers == [404, 404, 404, 404]
        body = {"assistant_id": "no"}
        assert (await client.post("/threads/t/runs", json=body)).status_code == 404

    async def test_a_run_needs_its_thread_unless_told(self, client):
        """
        A run on a thread that isn't there is 404; with `if_not_exists` the thread is made.
        """
        body = {"assistant_id": "log", "input": {"foo": "a"}}
        refused = await client.post("/threads/new/runs/wait", json=body)
        made = await client.post("/threads/new/runs/wait", json={**body, "if_not_exists": "create"})

        assert (refused.status_code, made.status_code) == (404, 200)

    async def test_a_bad_update_is_refused(self, client):
        """
        An update that the graph can't take is 422 and names the culprit.
        """
        body = {"assistant_id": "log", "input": {"foo": "a"}, "if_not_exists": "create"}
        await client.post("/threads/t/runs/wait", json=body)
        answer = await client.post("/threads/t/state", json={"values": {}, "as_node": "nope"})

        assert answer.status_code == 422
        assert "nope" in answer.json()["detail"]


class TestRates:
    async def test_who_asks_too_often_waits(self, client):
        """
        Above the burst a client is told to wait, and for how long.
        """
        answers = [await client.get("/info") for _ in range(60)]
        refused = [answer for answer in answers if answer.status_code == 429]

        assert refused
        assert {answer.headers["retry-after"] for answer in refused} == {"1"}
