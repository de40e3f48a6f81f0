"""A web process that only accepts: its clients get the runs of a worker over the same database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, PostgresSaver
from actorgraph.dispatch import PGQueuerDispatcher
from actorgraph.web import GraphRoutes
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS


class Place:
    """Systems over one schema, as processes of their own would have them."""

    def __init__(self, url: str, schema: str) -> None:
        self._saver = lambda: PostgresSaver(url, schema=schema)

    def system(self, role: Any, **options: Any) -> ActorSystem:
        """Make a system with a saver and a dispatcher of its own."""
        dispatcher = PGQueuerDispatcher(poll_s=0.5)
        graphs = {name: graph.compile() for name, graph in GRAPHS.items()}
        return ActorSystem(
            graphs, saver=self._saver(), dispatcher=dispatcher, role=role, lease_s=6.0, **options
        )

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
        """Open an accepting system with routes, and a client of them."""
        async with self.system("accept", **options) as system:
            transport = httpx.ASGITransport(GraphRoutes(system), raise_app_exceptions=False)
            made = httpx.AsyncClient(transport=transport, base_url="http://test")
            with anyio.fail_after(PATIENCE_S * 3):
                async with made:
                    yield made


@pytest.fixture
def place(postgres, schema) -> Place:
    """
    An empty schema, without a system.
    """
    return Place(postgres.url, schema)


def body(graph: str = "log", **more: Any) -> dict[str, Any]:
    """The body of a request for a run on a thread that may not exist yet."""
    return {"assistant_id": graph, "input": {"foo": "x"}, "if_not_exists": "create", **more}


async def status_of(client: httpx.AsyncClient, path: str) -> str:
    """The status of a run."""
    return (await client.get(path)).json()["status"]


async def values_of(client: httpx.AsyncClient) -> Any:
    """The state of the thread "t"."""
    return (await client.get("/threads/t/state")).json()["values"]


class TestStarts:
    async def test_a_client_waits_for_a_workers_output(self, place):
        """
        `runs/wait` answers with the state that the worker has stored.
        """
        async with place.client() as client, place.system("work"):
            answer = await client.post("/threads/t/runs/wait", json=body())

        assert (answer.status_code, answer.json()["log"]) == (200, ["first", "second"])

    async def test_a_client_streams_a_workers_events(self, place):
        """
        `runs/stream` has each event of the run, none of them missed, although the client did not
        ask for a resumable stream.
        """
        async with place.client() as client, place.system("work"):
            told = body(stream_mode=["updates", "custom"])
            text = (await client.post("/threads/t/runs/stream", json=told)).text
        names = [line.removeprefix("event: ") for line in text.splitlines() if "event: " in line]

        assert names == ["metadata", "custom", "updates", "updates", "end"]

    async def test_a_run_in_the_background_is_joined(self, place):
        """
        A run that is started while no worker is there waits, and is joined when one has come.
        """
        async with place.client() as client:
            made = await client.post("/threads/t/runs", json=body())
            path = made.headers["content-location"]
            before = await status_of(client, path)
            async with place.system("work"):
                joined = await client.get(made.headers["location"])
            after = await status_of(client, path)

        assert (before, joined.json()["log"], after) == ("pending", ["first", "second"], "success")

    async def test_a_run_to_come_lets_others_go_first(self, place):
        """
        It leaves its thread idle for runs of now, which no worker holds back, and can be cancelled.
        """
        async with place.client() as client, place.system("work"):
            made = await client.post("/threads/t/runs", json=body(after_seconds=600))
            path = made.headers["content-location"]
            before = (await client.get("/threads/t")).json()["status"]
            told = body(multitask_strategy="reject")
            now = await client.post("/threads/t/runs/wait", json=told)
            waiting = await status_of(client, path)
            await client.post(path + "/cancel", params={"wait": True})

            assert (before, now.status_code, waiting) == ("idle", 200, "pending")
            assert now.json()["log"] == ["first", "second"]
            assert await status_of(client, path) == "interrupted"

    async def test_a_run_without_a_thread_leaves_none(self, place):
        """
        The thread that the server has made for a run is removed when a worker has ended it.
        """
        async with place.client() as client, place.system("work"):
            told = body(on_completion="delete")
            answer = await client.post("/runs/wait", json=told)
            thread = answer.headers["content-location"].removesuffix("/").split("/runs/")[0]
            while (await client.get(thread)).status_code != 404:  # noqa: ASYNC110 - asks a server
                await anyio.sleep(0.05)

        assert answer.json()["log"] == ["first", "second"]


class TestCancellations:
    async def test_a_waiting_run_is_cancelled(self, place):
        """
        A run that no worker has ends at once, and those that have joined it are answered.
        """
        async with place.client() as client:
            made = await client.post("/threads/t/runs", json=body())
            path = made.headers["content-location"]
            answer = await client.post(path + "/cancel", params={"wait": True})
            joined = await client.get(made.headers["location"])
            status = await status_of(client, path)

        assert (answer.status_code, status) == (200, "interrupted")
        assert "cancelled" in str(joined.json()["__error__"])

    @pytest.mark.one_loop
    async def test_a_workers_run_is_cancelled(self, place):
        """
        A run in another process ends by a request to the web process; its finished steps stay.
        """
        async with place.client() as client, place.system("work"):
            made = await client.post("/threads/t/runs", json=body("sleep"))
            path = made.headers["content-location"]
            while not (await values_of(client)).get("log"):  # noqa: ASYNC110 - asks a server
                await anyio.sleep(0.05)
            answer = await client.post(path + "/cancel", params={"wait": True})
            status = await status_of(client, path)
            values = await values_of(client)

        assert (answer.status_code, status) == (200, "interrupted")
        assert values["log"] == ["first"]


class TestFullQueues:
    @pytest.mark.one_loop
    async def test_a_full_queue_is_429(self, place):
        """
        Beyond `max_queued` a run is refused, with the time after which to try again; it is not
        stored, and a worker makes room.
        """
        async with place.client(max_queued=1, retry_after_s=7.0) as client:
            answers = [await client.post(f"/threads/t{n}/runs", json=body()) for n in range(3)]
            refused = await client.get("/threads/t2/runs")
            async with place.system("work"):
                await client.get(answers[1].headers["location"])
            again = await client.post("/threads/t2/runs", json=body())
            while again.status_code == 429:
                again = await client.post("/threads/t2/runs", json=body())

        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[2].headers["retry-after"] == "7"
        assert refused.json() == []
        assert again.status_code == 200
