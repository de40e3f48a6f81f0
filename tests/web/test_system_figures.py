"""Routes about the whole system."""

import httpx

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.web.apps import GRAPHS
from tests.web.test_requests import client

__all__ = ["client"]


def may(principal, action, thread_id, metadata):
    return {"tenant": principal}


async def who(request):
    return request.headers.get("x-user")


class TestRuns:
    async def test_runs_of_all_threads_are_paged(self, client):
        """
        Runs come newest first with their status; a cursor continues the list.
        """
        for thread, graph in (("a", "log"), ("b", "fail")):
            await client.post("/threads", json={"thread_id": thread})
            body = {"assistant_id": graph, "input": {}}
            await client.post(f"/threads/{thread}/runs/wait", json=body)
        first = (await client.get("/runs?limit=1")).json()
        rest = (await client.get(f"/runs?limit=1&cursor={first['cursor']}")).json()
        failed = (await client.get("/runs?status=error,timeout&graph_id=fail")).json()

        assert [run["thread_id"] for run in first["runs"] + rest["runs"]] == ["b", "a"]
        assert failed["runs"] == first["runs"]
        assert (failed["runs"][0]["reason"], failed["cursor"]) == ("ValueError: broken", None)
        assert (await client.get("/runs?status=nonsense")).status_code == 422

    async def test_runs_of_other_tenants_are_left_out(self):
        """
        A client gets the runs of its own threads alone, on full pages.
        """
        saver = InMemorySaver()
        graphs = {"log": GRAPHS["log"].compile(checkpointer=saver)}
        system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
        app = GraphRoutes(system, authorize=may, authenticate=who)
        transport = httpx.ASGITransport(app)
        async with system, httpx.AsyncClient(transport=transport, base_url="http://test") as web:
            for number in range(6):
                user = {"x-user": "ada" if number % 2 else "bob"}
                thread = {"thread_id": str(number)}
                await web.post("/threads", json=thread, headers=user)
                body = {"assistant_id": "log", "input": {}}
                await web.post(f"/threads/{number}/runs/wait", json=body, headers=user)
            seen = (await web.get("/runs?limit=3", headers={"x-user": "ada"})).json()

        assert [run["thread_id"] for run in seen["runs"]] == ["5", "3", "1"]


class TestStatistics:
    async def test_figures_come_with_history_and_systems(self, client):
        """
        One answer has the figures of now, a list of samples, and the systems over the saver.
        """
        told = (await client.get("/statistics")).json()

        assert told["now"]["active"] == 0
        assert all(sample["backlog"] == 0 for sample in told["history"])
        assert [owner["is_this"] for owner in told["owners"]] == [True]
