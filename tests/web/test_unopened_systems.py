"""A server whose application forgot the lifespan says what to do, on each route."""

from typing import Any

import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.errors import SystemClosedError
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.web.apps import GRAPHS

ID = "11111111-1111-1111-1111-111111111111"


def unopened(saver: Any) -> ActorSystem:
    """A system that nothing opens."""
    graphs = {"log": GRAPHS["log"].compile(checkpointer=saver)}
    return ActorSystem(graphs, saver=saver, store=InMemoryStore())


async def test_every_route_says_that_the_system_is_not_open():
    """
    No request fails by an error of the server: it is served without the system, finds nothing, is
    invalid, or gets 503 and the way to open the system.
    """
    transport = httpx.ASGITransport(GraphRoutes(unopened(InMemorySaver())))
    found = dict[tuple[str, str], int]()
    async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        described = (await client.get("/openapi.json")).json()["paths"]
        for path, methods in described.items():
            address = path
            for name in ("thread_id", "run_id", "assistant_id", "cron_id", "checkpoint_id"):
                address = address.replace(f"{{{name}}}", ID)
            for method in methods.keys() & {"get", "post", "put", "patch", "delete"}:
                body = None if method in {"get", "delete"} else {"assistant_id": "log"}
                answer = await client.request(method, address, json=body)
                found[method, path] = answer.status_code
                if answer.status_code == 503:
                    assert "running(system)" in answer.text, path
        searched = await client.post("/threads/search", json={})

    assert {code for code in found.values() if code >= 500} == {503}
    assert searched.json()["detail"].startswith("the system is not open\n")


@pytest.mark.parametrize(
    "call",
    [
        lambda system: system.runs(),
        lambda system: system.threads(),
        lambda system: system.run(ID),
        lambda system: system.trim(1.0),
        lambda system: system.recover(),
    ],
    ids=["runs", "threads", "run", "trim", "recover"],
)
async def test_every_method_says_that_the_system_is_not_open(call, tmp_path):
    """
    A method that needs the saver names the block that opens the system.
    """
    with pytest.raises(SystemClosedError, match="async with"):
        await call(unopened(InMemorySaver()))
