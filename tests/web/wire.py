"""A bare client of the streaming protocol: what a thread's stream says, event by event."""

import json
from typing import Any, NamedTuple

import httpx
from langgraph_sdk.client import LangGraphClient

from actorgraph.web.stream_protocol.subscriptions import CHANNELS
from tests.web.sdk import NEW

TERMINAL = ("completed", "failed", "interrupted")


class WireThread(NamedTuple):
    """A thread with one finished run, and what the stream said about it."""

    thread_id: str
    events: list[dict[str, Any]]

    def of(self, method: str) -> list[Any]:
        """The data of the events of one kind."""
        return [one["params"]["data"] for one in self.events if one["method"] == method]

    async def send(self, address: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a command, and return the answer."""
        said = {"id": 7, "method": method, "params": params}
        async with httpx.AsyncClient(base_url=address, trust_env=False) as client:
            response = await client.post(f"/threads/{self.thread_id}/commands", json=said)
        assert response.status_code == 200, response.text
        return response.json()


async def thread_of(client: LangGraphClient, graph: str) -> WireThread:
    """Make a thread by a run that has ended, or asks."""
    made = await client.threads.create()
    thread = WireThread(made["thread_id"], [])
    address = str(client.http.client.base_url).rstrip("/")
    given = {"messages": [{"role": "user", "content": "hi"}]} if graph == "talk" else NEW
    await thread.send(address, "run.start", {"assistant_id": graph, "input": given})
    thread.events.extend(await events_of(address, thread.thread_id))
    return thread


async def events_of(
    address: str, thread_id: str, path: str = "stream/events", **wanted: Any
) -> list[dict[str, Any]]:
    """Read a thread's stream to the end of the first run."""
    body = {"channels": CHANNELS, **wanted}
    found: list[dict[str, Any]] = []
    async with (
        httpx.AsyncClient(base_url=address, trust_env=False) as client,
        client.stream("POST", f"/threads/{thread_id}/{path}", json=body) as response,
    ):
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            found.append(event)
            data = event["params"]["data"]
            is_life = event["method"] == "lifecycle" and not event["params"]["namespace"]
            if is_life and data["event"] in TERMINAL:
                return found
    return found
