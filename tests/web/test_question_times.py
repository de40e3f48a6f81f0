"""Clients see the times of questions wherever they see questions."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, TypedDict

import httpx
import pytest

from actorgraph import START, ActorSystem, InMemorySaver, StateGraph, interrupt, sleep
from actorgraph.compat.parts.remote_runs import interrupts
from actorgraph.web import GraphRoutes
from actorgraph.web.http.jsonable import to_plain
from tests.web.clients import Events

TIMES = {"due", "remind", "reminded", "asked", "expires", "sleeps"}


class State(TypedDict, total=False):
    said: str


async def asks(_: State) -> State:
    """Ask what reminds, and answers itself."""
    hours = [timedelta(hours=n) for n in (1, 2, 3)]
    answer = interrupt("go?", due=hours[2], otherwise="secret", remind=hours[:2])
    return {"said": answer}


async def sleeps(_: State) -> State:
    """Sleep for a day."""
    await sleep(timedelta(days=1))
    return {"said": "awake"}


async def waits(_: State) -> State:
    """Ask what only waits."""
    return {"said": interrupt("go?")}


class Api:
    """A client of routes for one thread of each graph."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def get(self, path: str) -> Any:
        answer = await self._http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: Any) -> httpx.Response:
        answer = await self._http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer

    async def run(self, graph: str, how: str, **more: Any) -> Any:
        body = {"assistant_id": graph, "input": {}, "if_not_exists": "create", **more}
        return await self.post(f"/threads/{graph}/runs/{how}", body)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    saver = InMemorySaver()
    nodes = {"asks": asks, "sleeps": sleeps, "waits": waits}
    graphs = {
        name: StateGraph(State).add_node("n", node).add_edge(START, "n").compile()
        for name, node in nodes.items()
    }
    async with ActorSystem(graphs, saver=saver) as system:
        transport = httpx.ASGITransport(GraphRoutes(system))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield Api(client)


def checked(question: dict[str, Any]) -> set[str]:
    """The keys of a question; its times are text in UTC, hours after it was asked."""
    if "asked" in question:
        start = datetime.fromisoformat(question["asked"])
        times = [datetime.fromisoformat(text) for text in (*question["remind"], question["due"])]
        hours = [24] if question["sleeps"] else [1, 2, 3]
        assert [round((at - start) / timedelta(hours=1), 3) for at in times] == hours
        assert (start.utcoffset(), question["reminded"]) == (timedelta(), [])
    assert "secret" not in str(question)
    return {*question} - {"value", "id"}


@pytest.mark.parametrize("name", ["asks", "sleeps", "waits"])
async def test_states_threads_and_streams_show_them(name, api):
    """
    Each place that shows a question has its times beside its value; one that only waits has none.
    """
    streamed = await api.run(name, "stream", stream_mode=["updates", "values", "tasks"])
    waited = (await api.post(f"/threads/{name}/history", {})).json()
    state, thread = await api.get(f"/threads/{name}/state"), await api.get(f"/threads/{name}")
    (found,) = (await api.post("/threads/search", {"ids": [name]})).json()

    events = Events()
    events.read(iter(streamed.text.splitlines()))
    data = [data for _, data in events.told if isinstance(data, dict)]
    shown = [question for one in data for question in one.get("__interrupt__", ())]
    tasks = [question for one in data for question in one.get("interrupts", ())]
    (listed,) = thread["interrupts"].values()
    shown += [*state["interrupts"], *state["tasks"][0]["interrupts"], *listed]
    shown += [*waited[0]["interrupts"], *(*found["interrupts"].values(),)[0]]
    wanted = set() if name == "waits" else TIMES
    assert (len(shown), [checked(one) for one in shown]) == (7, [wanted] * 7)
    assert [checked(one) for one in tasks] == [wanted | {"response_schema"}]
    assert shown[0]["id"] == state["interrupts"][0]["id"]
    assert state["interrupts"][0].get("sleeps") is ({"sleeps": True, "asks": False}.get(name))


async def test_the_output_of_a_run_shows_them(api):
    """
    A client that waits for a run gets the questions with their times.
    """
    output = (await api.run("asks", "wait")).json()

    assert checked(output["__interrupt__"][0]) == TIMES


async def test_the_document_describes_them(api):
    """
    The OpenAPI document has the fields of questions, and says which are always there.
    """
    schemas = (await api.get("/openapi.json"))["components"]["schemas"]

    assert {*schemas["Interrupt"]["properties"]} == {"value", "id", "response_schema", *TIMES}
    assert schemas["Interrupt"]["required"] == ["value", "id"]


async def test_a_remote_graph_reads_them(api):
    """
    A question that came over HTTP has its times again, but not the answer that it gives itself.
    """
    await api.run("asks", "wait")
    shown = (await api.get("/threads/asks/state"))["interrupts"]

    (question,) = interrupts(shown)
    assert to_plain(question) == shown[0]
    assert question.timing.otherwise == (None,)
