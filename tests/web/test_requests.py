"""Requests that the server takes, and how it refuses the rest."""

import gzip
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.values.ids import as_bytes, as_text
from actorgraph.values.systems import SetRun
from actorgraph.web import GraphRoutes, Limits
from tests.web.apps import GRAPHS


@pytest.fixture
async def client() -> AsyncIterator[Any]:
    saver = InMemorySaver()
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
    limits = Limits(body_bytes=10_000, body_s=0.2, streams=2)
    app = GraphRoutes(system, limits=limits)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    made: Any = httpx.AsyncClient(transport=transport, base_url="http://test")
    async with system, made:
        made.app, made.system = app, system
        yield made


async def post(client: httpx.AsyncClient, body: bytes, **headers: str) -> tuple[int, Any]:
    told = {"content-type": "application/json", **headers}
    answer = await client.post("/threads", content=body, headers=told)
    return answer.status_code, answer.json()["detail"]


class TestBodies:
    async def test_a_long_body_is_refused(self, client):
        """
        A body above the limit is 413, whether it has a length or not.
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

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
    async def test_only_json_is_taken(self, client, kind):
        """
        A body that isn't said to be JSON is 415: pages of other sites can send those unasked.
        """
        assert (await post(client, b"{}", **{"content-type": kind}))[0] == 415

    async def test_a_compressed_body_is_refused(self, client):
        """
        A compressed body isn't unpacked: it is 415.
        """
        bomb = gzip.compress(b" " * 1_000_000)

        assert (await post(client, bomb, **{"content-encoding": "gzip"}))[0] == 415

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"{", "the body is not valid JSON"),
            (b"\xff", "the body is not valid JSON"),
            (b"[]", "the body is invalid: Expected `object`"),
            (b'{"metadata": 1}', "at `$.metadata`"),
            (b'{"thread_id": "a\\u0000"}', "control characters"),
            (json.dumps({"thread_id": "ä" * 200}).encode(), "255 bytes"),
        ],
    )
    async def test_an_invalid_body_is_answered_with_the_place(self, client, body, words):
        """
        A body that can't be taken is 422, and the answer names the place.
        """
        status, detail = await post(client, body)

        assert status == 422
        assert words in detail


class TestRoutes:
    async def test_unknown_paths_and_methods(self, client):
        """
        Unknown paths and methods are 404 or 405, in the same form as other errors.
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

    async def test_a_run_needs_its_thread_by_default(self, client):
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

    async def test_a_wrong_method_is_answered_with_the_allowed_ones(self, client):
        """
        405 names every method of the path.
        """
        wrong = [await client.request(method, "/threads/t") for method in ("PUT", "OPTIONS")]

        assert {answer.status_code for answer in wrong} == {405}
        told = {frozenset(answer.headers["allow"].split(", ")) for answer in wrong}
        assert told == {frozenset({"GET", "HEAD", "PATCH", "DELETE"})}

    @pytest.mark.parametrize("name", ["a/b", "ä ö", "日本", "a%2Fb", "?#&", "..", "%00x"])
    async def test_ids_of_all_kinds(self, client, name):
        """
        A thread's id may have slashes, blanks and any alphabet, and comes back in the headers.
        """
        path = f"/threads/{quote(name, safe='').replace('.', '%2E')}"
        body = {"assistant_id": "log", "input": {"foo": "a"}}
        made = await client.post("/threads", json={"thread_id": name})
        ended = await client.post(f"{path}/runs/wait", json=body)
        state = await client.get(f"{path}/state")

        assert (made.status_code, ended.status_code) == (200, 200)
        assert state.json()["checkpoint"]["thread_id"] == name
        assert unquote(ended.headers["content-location"]).startswith(f"/threads/{name}/runs/")

    async def test_a_graph_is_drawn_for_any_depth(self, client):
        """
        Text that looks like a number and isn't one asks for no depth.
        """
        assert (await client.get("/assistants/log/graph?xray=²")).status_code == 200

    async def test_a_batch_is_started_whole_or_not_at_all(self, client):
        """
        One run that can't be started keeps the others from starting.
        """
        good, bad = {"assistant_id": "log", "input": {"foo": "a"}}, {"assistant_id": "no"}
        answer = await client.post("/runs/batch", json=[good, bad])

        assert answer.status_code == 404
        assert (await client.post("/threads/count", json={})).json() == 0

    @pytest.mark.parametrize(
        ("path", "more", "word"),
        [
            ("/runs", {"webhook": "http://a"}, "webhooks"),
            ("/threads", {"ttl": {"ttl": 0}}, "ttl"),
            ("/threads", {"supersteps": [{"updates": [{"values": {}}]}]}, "graph"),
        ],
    )
    async def test_unsupported_options_are_refused(self, client, path, more, word):
        """
        Waiting for what never comes is refused, and nothing is made.
        """
        answer = await client.post(path, json={"assistant_id": "log", **more})

        assert answer.status_code in (404, 422)
        assert word in answer.json()["detail"]
        assert (await client.post("/threads/count", json={})).json() == 0

    async def test_registered_threads_hide_no_items(self, client):
        """
        A search without a namespace finds items behind any number of registered threads.
        """
        for _ in range(15):
            await client.post("/threads", json={})
        await client.put("/store/items", json={"namespace": ["z"], "key": "k", "value": {"a": 1}})
        found = await client.post("/store/items/search", json={"limit": 5})
        spaces = await client.post("/store/namespaces", json={"limit": 1})

        assert [item["key"] for item in found.json()["items"]] == ["k"]
        assert spaces.json() == {"namespaces": [["z"]]}


class TestTime:
    async def test_a_body_has_to_arrive(self, client):
        """
        A body that dribbles is 408 after its time, and the connection is closed.
        """
        said: list[Any] = []
        scope = {"type": "http", "method": "POST", "path": "/threads", "headers": []}
        scope |= {"query_string": b"", "client": None, "http_version": "1.1"}

        async def receive() -> Any:
            await anyio.sleep(0.01)
            return {"type": "http.request", "body": b" ", "more_body": True}

        async def send(message: Any) -> None:
            said.append(message)

        await client.app(scope, receive, send)

        assert said[0]["status"] == 408
        assert (b"connection", b"close") in said[0]["headers"]


class TestPlaces:
    async def test_a_place_is_taken_before_a_run_is_started(self, client):
        """
        Above the limit of open streams and waits a client is asked to come later, and nothing is
        started for it.
        """
        body = {"assistant_id": "sleep", "input": {"foo": "a"}}
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(partial(client.post, "/runs/wait", json=body))
            while client.system.statistics().active < 2:
                await anyio.lowlevel.checkpoint()
            refused = await client.post("/runs/stream", json=body)
            started = client.system.statistics().started
            await client.post("/runs/cancel", json={"status": "all"})

        assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
        assert started == 2
        assert (await client.post("/runs/wait", json={"assistant_id": "log"})).status_code == 200


class TestParkedRuns:
    async def test_are_run_again(self, client):
        """
        All of a thread, or those with the given ids; the answer has the ids, and why others were
        left.
        """
        body = {"assistant_id": "log", "input": {"log": ["a"]}}
        made = (await client.post("/threads", json={})).json()["thread_id"]
        run = (await client.post(f"/threads/{made}/runs", json=body)).json()["run_id"]
        await client.get(f"/threads/{made}/runs/{run}/join")
        row = await client.system._row(as_bytes(run))  # noqa: SLF001
        parked = SetRun(row.run, made, row.owner, "parked", "deaths", 3, deaths=3)
        await client.system._host.writer.store(parked)  # noqa: SLF001
        client.system._actor.forget_ended(row.run)  # noqa: SLF001 - as a process that never had it

        elsewhere = await client.post("/runs/retry", json={"run_ids": [as_text(b"x" * 16)]})
        found = await client.post("/runs/retry", json={"thread_id": made})
        (again,) = await client.system.runs(thread_id=made)

        assert (elsewhere.status_code, elsewhere.json()) == (200, {"retried": [], "left": {}})
        assert (found.status_code, found.json()) == (200, {"retried": [run], "left": {}})
        assert (again.id, await again.wait()) == (run, "success")


class TestRates:
    async def test_health_checks_are_not_rate_limited(self, client):
        """
        A monitor of the server may ask as often as it likes.
        """
        assert {(await client.get("/ok")).status_code for _ in range(60)} == {200}

    async def test_features_that_clients_ask_for_are_reported(self, client):
        """
        The SDK looks there whether a server refuses answers to questions that don't wait.
        """
        assert (await client.get("/info")).json()["flags"]["strict_resume"] is True

    async def test_too_frequent_requests_wait(self, client):
        """
        Above the burst a client is asked to wait, and for how long.
        """
        app = GraphRoutes(client.system, limits=Limits(requests_per_s=0.01, burst=20))
        made = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
        async with made as often:
            answers = [await often.get("/info") for _ in range(21)]
        refused = [answer for answer in answers if answer.status_code == 429]

        assert len(refused) == 1
        assert 1 < int(refused[0].headers["retry-after"]) <= 100
