"""The Agent Protocol: each of its operations, and the bodies of its responses."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import jsonschema_rs
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from actorgraph.web.routes import ENDPOINTS
from tests.web.agent_protocol import DIFFERENT, RESPONSES, STREAM, STREAMING
from tests.web.apps import GRAPHS
from tests.web.sdk import NEW

SAID = {"role": "user", "content": "hello", "id": "u"}


class Api:
    """A client that holds each response against the protocol."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.asked: set[str] = set()

    async def ask(self, operation: str, body: Any = None, query: str = "", **place: str) -> Any:
        """Send a request; returns the body of its response."""
        self.asked.add(operation)
        method, path = operation.split(" ")
        answer = await self.client.request(method, path.format(**place) + query, json=body)
        expected = RESPONSES[operation]
        if expected is None:
            assert (answer.status_code, answer.content) == (204, b""), answer.text
            return None
        assert answer.status_code == 200, answer.text
        if expected == STREAM:
            assert answer.headers["content-type"].startswith(STREAM)
            return [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]
        if operation not in DIFFERENT:
            jsonschema_rs.validate(expected, answer.json(), validate_formats=True)
        return answer.json()

    async def status(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """Send a request that is refused; returns the status and the text."""
        answer = await self.client.request(method, path, json=body)
        return answer.status_code, answer.text


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    saver = InMemorySaver()
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    async with ActorSystem(graphs, saver=saver, store=InMemoryStore()) as system:
        transport = httpx.ASGITransport(GraphRoutes(system))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            yield Api(client)


async def agents(api: Api) -> None:
    (found,) = await api.ask("POST /agents/search", {"name": "talk"})
    assert found["capabilities"] == {"ap.io.messages": True}
    assert await api.ask("GET /agents/{agent_id}", agent_id="talk") == found
    schemas = await api.ask("GET /agents/{agent_id}/schemas", agent_id=found["agent_id"])
    assert "messages" in schemas["input_schema"]["properties"]


async def threads(api: Api) -> None:
    place = (await api.ask("POST /threads", {"thread_id": str(uuid4())}))["thread_id"]
    run = {"agent_id": "log", "thread_id": place, "input": NEW}
    assert (await api.ask("POST /runs/wait", run))["run"]["status"] == "success"
    assert (await api.ask("GET /threads/{thread_id}", thread_id=place))["status"] == "idle"
    history = await api.ask("GET /threads/{thread_id}/history", thread_id=place)
    patched = await api.ask(
        "PATCH /threads/{thread_id}",
        {"values": {"log": ["patched"]}, "metadata": {"n": 1}},
        thread_id=place,
    )
    assert (patched["values"]["log"][-1], patched["metadata"]["n"]) == ("patched", 1)
    older = {"values": {"log": ["again"]}, "checkpoint": history[0]["checkpoint"]}
    branch = await api.ask("PATCH /threads/{thread_id}", older, thread_id=place)
    assert branch["values"]["log"] == [*history[0]["values"]["log"], "again"]
    copied = await api.ask("POST /threads/{thread_id}/copy", thread_id=place)
    assert copied["values"] == branch["values"]
    assert len(await api.ask("POST /threads/search", {"status": "idle"})) == 2
    await api.ask("DELETE /threads/{thread_id}", thread_id=place)


async def runs(api: Api) -> None:
    kept = {"agent_id": "log", "input": NEW, "on_completion": "keep", "metadata": {"n": 1}}
    made = await api.ask("POST /runs", kept)
    here = {"run_id": made["run_id"]}
    output = await api.ask("GET /runs/{run_id}/wait", **here)
    assert (output["run"]["status"], output["values"]["log"][-1]) == ("success", "second")
    read = await api.ask("GET /runs/{run_id}", **here)
    assert (read["input"], read["kwargs"]["stream_mode"]) == (NEW, ["values"])
    (found,) = await api.ask("POST /runs/search", {"metadata": {"n": 1}, "agent_id": "log"})
    assert found == read
    joined = await api.ask("GET /runs/{run_id}/stream", query="?stream_mode=values", **here)
    assert joined[-1] == "end"
    assert (await api.ask("POST /runs/stream", {"agent_id": "log", "input": NEW}))[-1] == "end"
    await api.ask("DELETE /runs/{run_id}", **here)
    assert (await api.status("GET", f"/runs/{made['run_id']}"))[0] == 404
    slow = await api.ask("POST /runs", {"agent_id": "sleep", "input": NEW, "on_completion": "keep"})
    code, text = await api.status("DELETE", f"/runs/{slow['run_id']}")
    assert (code, "cancel it first" in text) == (409, True)
    await api.ask("POST /runs/{run_id}/cancel", query="?wait=true", run_id=slow["run_id"])
    ended = await api.ask("GET /runs/{run_id}", run_id=slow["run_id"])
    assert (ended["status"], ended["cancel_reason"]) == ("interrupted", "cancelled")


async def store(api: Api) -> None:
    item = {"namespace": ["users", "ann"], "key": "k", "value": {"colour": "red"}}
    await api.ask("PUT /store/items", item)
    for query in ("?key=k&namespace=users&namespace=ann", "?key=k&namespace=users.ann"):
        assert (await api.ask("GET /store/items", query=query))["value"] == item["value"]
    found = await api.ask("POST /store/items/search", {"namespace_prefix": ["users"]})
    assert [one["key"] for one in found["items"]] == ["k"]
    names = await api.ask("POST /store/namespaces", {"prefix": ["users"]})
    assert names == {"namespaces": [["users", "ann"]]}
    await api.ask("DELETE /store/items", {"namespace": ["users", "ann"], "key": "k"})


class TestEveryOperation:
    async def test_each_response_is_as_the_protocol_has_it(self, api):
        """
        Agents, threads, runs and items are used by every operation; each body fits its schema.
        """
        for part in (agents, threads, runs, store):
            await part(api)

        assert api.asked == RESPONSES.keys() - STREAMING

    def test_the_table_has_all_operations(self):
        """
        The protocol has 27 operations; those that stream have a protocol of their own.
        """
        served = {f"{endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS}

        assert len(RESPONSES) == 27
        assert RESPONSES.keys() - served <= STREAMING


class TestRuns:
    async def test_messages_are_input_and_output(self, api):
        """
        A run takes messages, and its output has them with their roles.
        """
        output = await api.ask("POST /runs/wait", {"agent_id": "talk", "messages": [SAID]})

        told = [(one["role"], one["content"]) for one in output["messages"]]
        assert told == [("user", "hello"), ("assistant", "Hello")]

    async def test_a_graph_without_messages_refuses_them(self, api):
        """
        Messages for an agent whose state has none are refused, naming it.
        """
        body = {"agent_id": "log", "messages": [SAID]}

        code, text = await api.status("POST", "/runs", body)
        assert (code, "'log' takes no messages" in text) == (422, True)

    async def test_of_several_agents_one_must_be_named(self, api):
        """
        The default agent is the only one there is; with several a run must name it.
        """
        code, text = await api.status("POST", "/runs", {"input": NEW})

        assert (code, "agent_id is required" in text) == (422, True)

    async def test_a_missing_thread_is_refused_or_made(self, api):
        """
        A run on a thread that doesn't exist is refused, or makes it if asked to.
        """
        place = str(uuid4())
        body = {"agent_id": "log", "thread_id": place, "input": NEW}

        assert (await api.status("POST", "/runs/wait", body))[0] == 404
        made = await api.ask("POST /runs/wait", {**body, "if_not_exists": "create"})
        assert made["run"]["thread_id"] == place

    async def test_a_failed_run_has_its_error(self, api):
        """
        The output of a run that failed has its error, and its status.
        """
        output = await api.ask("POST /runs/wait", {"agent_id": "fail", "input": NEW})

        assert output["run"]["status"] == "error"
        assert output["error"] == {"error": "ValueError", "message": "broken"}

    async def test_langgraphs_requests_are_answered_as_before(self, api):
        """
        A request with assistant_id is LangGraph's: its answer is the values alone.
        """
        answer = await api.client.post("/runs/wait", json={"assistant_id": "log", "input": NEW})

        assert answer.json() == {"foo": "a", "log": ["input", "first", "second"]}

    async def test_searches_have_pages_and_filters(self, api):
        """
        Runs are found newest first, by thread and status, page by page; later times come last.
        """
        place = str(uuid4())
        body = {"thread_id": place, "input": NEW, "if_not_exists": "create"}
        await api.ask("POST /runs", {**body, "agent_id": "log", "after_seconds": 600})
        for agent in ("log", "log", "fail"):
            await api.ask("POST /runs/wait", {**body, "agent_id": agent})
        everything = await api.ask("POST /runs/search", {"thread_id": place})
        page = await api.ask("POST /runs/search", {"thread_id": place, "limit": 1, "offset": 1})
        failed = await api.ask("POST /runs/search", {"thread_id": place, "status": "error"})

        assert [run["status"] for run in everything] == ["error", "success", "success", "pending"]
        assert (page, failed) == (everything[1:2], everything[:1])
