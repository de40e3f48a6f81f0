"""The server alone names the user of a run; the ways in are those of the routes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypedDict, get_args

import httpx
import msgspec
import pytest
from msgspec.structs import fields

from actorgraph import ActorSystem, InMemorySaver, Runtime, StateGraph
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from actorgraph.web.endpoints.endpoint import Endpoint
from actorgraph.web.http.identity import CLAIMS, identity_of, user_of
from actorgraph.web.routes import ENDPOINTS
from actorgraph.web.stream_protocol.protocol_commands import (
    _HANDLERS,  # pyright: ignore[reportPrivateUsage]
)
from tests.web.test_access import BODIES, named

pytestmark = pytest.mark.each_value

MALLORY = {"x-user": "mallory"}
FILTERS = ("search", "count", "history", "versions")
"""Ends of the paths whose metadata only select."""
PLACES = ("context", "metadata")


@dataclass
class Settings:
    """A context that has a name of the server's."""

    user_id: str = ""
    model: str = "small"


class Told(TypedDict, total=False):
    """The identity that the node got."""

    config: Any
    info: Any
    context: Any


async def look(state: Told, config: Any, runtime: Runtime[Settings]) -> Told:
    """Write the identity that the node got."""
    info = runtime.server_info
    assert info is not None
    user = info.user and [info.user.identity, info.user["identity"], info.user.permissions]
    place = {k: v for k, v in config["configurable"].items() if k in CLAIMS}
    context = [runtime.context.user_id, runtime.context.model]
    return {"config": place, "info": [info.assistant_id, info.graph_id, user], "context": context}


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[httpx.AsyncClient]:
    graph = StateGraph(Told, context_schema=Settings).add_sequence([look])
    saver = InMemorySaver()
    compiled = graph.set_entry_point("look").compile(checkpointer=saver)
    async with ActorSystem({"log": compiled}, saver=saver, store=InMemoryStore()) as system:
        routes = GraphRoutes(system, authenticate=lambda r: r.headers.get("x-user"), **options)
        transport = httpx.ASGITransport(routes)
        async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            client.headers.update(MALLORY)
            yield client


def ways_in(endpoint: Endpoint) -> list[str]:
    """The fields of an endpoint's body that may hold names of the server's."""
    kind = (get_args(endpoint.body) or (endpoint.body,))[0]
    return [] if kind is None or endpoint.path.endswith(FILTERS) else places_of(kind)


def places_of(kind: Any) -> list[str]:
    """The fields of a type that may hold names of the server's."""
    known = {one.name for one in fields(kind)}
    deep = ["config.configurable", "config.metadata"] if "config" in known else []
    return [*deep, *(place for place in PLACES if place in known)]


WAYS = [(endpoint, place) for endpoint in ENDPOINTS for place in ways_in(endpoint)]

COMMANDS = [(name, place) for name, (kind, _) in _HANDLERS.items() for place in places_of(kind)]


def with_claim(body: Any, place: str, claim: str) -> Any:
    """A body that says who runs it."""
    if isinstance(body, list):
        return [with_claim(one, place, claim) for one in body]
    outer, _, inner = place.partition(".")
    said = {claim: "admin"}
    return {**body, outer: {inner: said} if inner else said}


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("endpoint", "place"), WAYS, ids=[f"{named(one)} {place}" for one, place in WAYS]
    )
    async def test_no_client_says_who_it_is(self, endpoint, place):
        """
        A body with a name that the server fills is refused on every route that takes one.
        """
        async with served() as client:
            await client.post("/threads", json={"thread_id": "t"})
            made = {"graph_id": "log", "assistant_id": "own"}
            assert (await client.post("/assistants", json=made)).status_code == 200
            path = endpoint.path.format(
                thread_id="t", run_id="r", assistant_id="own", cron_id="c", namespace="n"
            )
            body = BODIES.get(endpoint.path, {"assistant_id": "log"})
            answers: dict[str, int] = {}
            for claim in (*CLAIMS, "langgraph_auth_anything"):
                if "/threads" in path and "runs" not in path and claim == "graph_id":
                    continue  # with it LangGraph's clients choose the graph that reads a thread
                said = with_claim(body, place, claim)
                answer = await client.request(endpoint.method, path, json=said)
                answers[claim] = answer.status_code
                assert claim in answer.text

        assert set(answers.values()) == {422}

    @pytest.mark.parametrize(("method", "place"), COMMANDS)
    async def test_no_command_says_who_sends_it(self, method, place):
        """
        A command of the streaming protocol with such a name is refused.
        """
        params = {"assistant_id": "log", "checkpoint_id": "x", "interrupt_id": "x", "response": 1}
        for claim in CLAIMS:
            said = {"id": 1, "method": method, "params": with_claim(params, place, claim)}
            async with served() as client:
                answer = await client.post("/threads/t/commands", json=said)
            assert (answer.json()["error"], claim in answer.text) == ("invalid_argument", True)

    async def test_a_client_may_send_back_what_it_read(self):
        """
        Metadata that a client has read from the server are taken back.
        """
        async with served() as client:
            ran = await client.post("/threads", json={"thread_id": "t", "metadata": {"a": 1}})
            await client.post("/threads/t/runs/wait", json={"assistant_id": "log", "input": {}})
            read = (await client.get("/threads/t")).json()["metadata"]
            again = await client.patch("/threads/t", json={"metadata": {**read, "a": 2}})

        assert ran.status_code == 200
        assert {"assistant_id", "graph_id"} <= set(read)
        assert again.json()["metadata"] == {**read, "a": 2}


class TestWhatIsFilled:
    @pytest.mark.parametrize("path", ["/runs/wait", "/threads/t/runs/wait"])
    async def test_nodes_get_the_servers_names(self, path):
        """
        A node of a served run gets its user, assistant and graph, in all places.
        """
        async with served() as client:
            await client.post("/threads", json={"thread_id": "t"})
            made = {"graph_id": "log", "assistant_id": "own", "context": {"model": "big"}}
            await client.post("/assistants", json=made)
            told = (await client.post(path, json={"assistant_id": "own", "input": {}})).json()

        assert told["info"] == ["own", "log", ["mallory", "mallory", []]]
        assert told["context"] == ["mallory", "big"]
        assert told["config"]["langgraph_auth_user"]["identity"] == "mallory"
        assert told["config"]["user_id"] == "mallory"
        assert told["config"]["langgraph_request_id"]

    async def test_the_creator_of_a_cron_is_the_user_of_its_runs(self):
        """
        A cron says for whom its runs are.
        """
        async with served() as client:
            made = {"assistant_id": "log", "schedule": "0 0 1 1 *"}
            cron = (await client.post("/runs/crons", json=made)).json()

        assert cron["user_id"] == "mallory"

    @pytest.mark.parametrize(
        ("principal", "identity"),
        [
            (None, None),
            ("ada", "ada"),
            (7, "7"),
            ({"sub": "ada", "org": "x"}, "ada"),
            ({"org": "x"}, None),
            (object(), None),
        ],
    )
    def test_principals_of_all_kinds(self, principal, identity):
        """
        A user's identity is text, or that of the mapping or object; other principals have none.
        """
        user = user_of(principal)

        assert (user and user["identity"]) == identity
        assert identity_of(principal, "a", "g").get("user_id") == identity
        assert msgspec.json.encode(user)
