"""Routes that read and change a subgraph whose nodes a migration has renamed."""

from typing import Any

import httpx
import pytest

from actorgraph import ActorSystem
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.support.every_saver import saver, store
from tests.support.renamed_subgraphs import NEW, OLD, ONCE, program

__all__ = ["saver", "store"]


def client(system: ActorSystem) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(GraphRoutes(system), raise_app_exceptions=False),
        base_url="http://t",
    )


async def posted(http: httpx.AsyncClient, path: str, **body: Any) -> Any:
    answer = await http.post(f"/threads/t{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.every_saver
async def test_routes_follow_the_names(saver):
    """
    States, histories, timelines and updates of a renamed subgraph are those of its rows, before a
    resume under the new names and by it; a name of no node is a bad request.
    """
    items = InMemoryStore()
    async with (
        ActorSystem({"p": program(saver, OLD)}, saver=saver, store=items) as system,
        client(system) as http,
    ):
        await http.post("/threads", json={"thread_id": "t"})
        await posted(http, "/runs/wait", assistant_id="p", input={"log": []})
    place = {"thread_id": "t", "checkpoint_ns": "|".join(NEW)}
    async with (
        ActorSystem({"p": program(saver, NEW, ONCE)}, saver=saver, store=items) as system,
        client(system) as http,
    ):
        state = await posted(http, "/state/checkpoint", checkpoint=place)
        assert (state["values"]["turns"], state["next"]) == (1, ["ask"])
        shown = await posted(http, "/history", checkpoint=place)
        assert [one["next"] for one in shown][:2] == [["ask"], ["count"]]
        query = {"checkpoint_ns": place["checkpoint_ns"]}
        steps = (await http.get("/threads/t/timeline", params=query)).json()
        assert [step["next"] for step in steps][:1] == [["ask"]]

        await posted(http, "/state", values={"turns": 6}, as_node="count", checkpoint=place)
        ended = await posted(http, "/runs/wait", assistant_id="p", command={"resume": "yes"})
        assert ended["log"][-1] == "yes6"

        wrong = {"thread_id": "t", "checkpoint_ns": "nothing"}
        for path in ("/state/checkpoint", "/history", "/state"):
            refused = await http.post(
                f"/threads/t{path}", json={"checkpoint": wrong, "values": {"turns": 1}}
            )
            assert refused.status_code in (400, 422), refused.text
            assert "'nothing'" in refused.text
