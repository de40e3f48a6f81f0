"""Answers of a server to its clients while it shuts down."""

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.support.gates import PATIENCE_S, Turnstile, settled
from tests.support.systems import turnstile_first

BODY = {"assistant_id": "g", "input": {"bar": []}, "if_not_exists": "create"}


@pytest.mark.parametrize("path", ["/runs", "/runs/wait", "/runs/stream", "/ready"])
async def test_late_requests_are_answered_503(path):
    """
    While a run ends its superstep, new ones are answered 503 and when to come again.
    """
    slow = Turnstile({"bar": ["a"]})
    system = ActorSystem({"g": turnstile_first(slow)}, saver=InMemorySaver(), store=InMemoryStore())
    transport = httpx.ASGITransport(GraphRoutes(system))
    with anyio.fail_after(PATIENCE_S):
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            assert (await client.post("/threads/t/runs", json=BODY)).status_code == 200
            await slow.entered.wait()
            async with anyio.create_task_group() as group:
                group.start_soon(system.drain)
                await settled()
                method, whole = ("GET", path) if path == "/ready" else ("POST", f"/threads/u{path}")
                late = await client.request(method, whole, json=BODY)
                slow.out.set()

    assert (late.status_code, late.headers["retry-after"]) == (503, "5")
