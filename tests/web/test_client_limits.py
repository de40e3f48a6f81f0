"""Limits of one client: what it asks for is weighed, and others are answered meanwhile."""

import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Union, get_args, get_origin

import anyio
import httpx
import msgspec
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes, Limits, WebhookPolicy
from actorgraph.web.http.weights import weight_of
from actorgraph.web.routes import ENDPOINTS
from actorgraph.web.stream_protocol.protocol_commands import RespondParams
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS

RUN: dict[str, Any] = {"assistant_id": "log", "input": {}}
GOTO: dict[str, Any] = {"assistant_id": "log", "command": {"goto": ["first"] * 5}}
STEPS: dict[str, Any] = {
    "metadata": {"graph_id": "log"},
    "supersteps": [{"updates": [{"values": {"log": ["x"]}, "as_node": "first"}]}] * 5,
}
WEIGHED: dict[str, Any] = {
    "/runs/batch": [RUN] * 5,
    "/threads": STEPS,
    "/threads/t/runs": GOTO,
    "/runs/wait": GOTO,
    "/threads/prune": {"thread_ids": ["x"] * 5},
    "/runs/cancel": {"thread_id": "t", "run_ids": ["x"] * 5},
    "/runs/retry": {"run_ids": ["x"] * 5},
    "/threads/t/commands": {
        "id": 1,
        "method": "input.respond",
        "params": {"interrupt_id": "x", "response": 1, "goto": ["first"] * 5},
    },
}
"""Path -> a body that counts as five requests."""
VALUES = {
    *("messages", "update", "values"),  # data of a state: `Limits.values`
    *("tags", "index", "stream_mode", "interrupt_before", "interrupt_after", "select"),
    *("ids", "namespace", "namespace_prefix", "prefix", "suffix", "responses", "keys"),
    *("channels", "namespaces"),
}
"""Fields with lists whose items make no work of their own."""


@asynccontextmanager
async def served(**limits: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server whose principals are named by a header, with a thread "t"."""
    saver = InMemorySaver()
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    async with ActorSystem(graphs, saver=saver, store=InMemoryStore()) as system:
        routes = GraphRoutes(
            system,
            authenticate=lambda request: {
                "identity": request.headers.get("x-user", "ann"),
                "request": str(id(request)),
            },
            limits=Limits(**limits),
            webhooks=WebhookPolicy(hosts=["*"], secret=b"x" * 32),
        )
        transport = httpx.ASGITransport(routes)
        async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            await client.post("/threads", json={"thread_id": "t"}, headers={"x-user": "admin"})
            with anyio.fail_after(PATIENCE_S):
                yield client
            await system.drain(0.1)


class TestRates:
    @pytest.mark.parametrize("path", WEIGHED)
    async def test_a_body_counts_as_what_it_asks_for(self, path):
        """
        A body of five items takes five of a client's burst: a second one has to wait.
        """
        async with served(requests_per_s=0.01, burst=8) as client:
            answers = [await client.post(path, json=WEIGHED[path]) for _ in range(2)]
            other = await client.post(path, json=WEIGHED[path], headers={"x-user": "bob"})

        assert answers[0].status_code != 429
        assert answers[1].status_code == 429
        assert int(answers[1].headers["retry-after"]) >= 100
        assert other.status_code != 429

    @pytest.mark.parametrize("path", WEIGHED)
    async def test_a_body_may_ask_for_so_much(self, path):
        """
        A body of more items than `Limits.items` is refused, and nothing of it is done.
        """
        async with served(items=4) as client:
            answer = await client.post(path, json=WEIGHED[path])
            runs = (await client.get("/threads/t/runs")).json()

        assert "5 items" in answer.text
        assert answer.status_code == 422 or answer.json()["error"] == "invalid_argument"
        assert runs == []

    def test_an_answer_to_a_question_is_weighed(self):
        """
        Targets of a command of the streaming protocol count too.
        """
        assert weight_of(RespondParams("x", 1, goto=["a", "b", "c"])) == 3

    def test_each_list_of_a_body_is_weighed_or_known_as_data(self):
        """
        No body has a list of items that count as nothing.
        """
        kinds = {one.body for one in ENDPOINTS if one.body is not None}
        lists = {name for kind in (*kinds, RespondParams) for name in _lists(kind)}
        weighed = {"", "supersteps", "updates", "goto", "thread_ids", "run_ids"}

        assert lists <= weighed | VALUES
        assert weighed <= lists


def _lists(kind: Any, name: str = "") -> set[str]:
    """The names of the fields of a type, and of types in it, that may be lists."""
    origin = get_origin(kind)
    if origin is list:
        return {name}.union(*(_lists(one, name) for one in get_args(kind)))
    if origin in (Union, types.UnionType) or origin is not None:
        return set[str]().union(*(_lists(one, name) for one in get_args(kind)))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        fields = msgspec.structs.fields(kind)
        return set[str]().union(*(_lists(one.type, one.name) for one in fields))
    return set()


class TestStreams:
    async def test_a_client_leaves_streams_to_others(self):
        """
        One client can't have all open streams; what it has given back it may take again.
        """
        async with served(streams=3, streams_per_client=2) as client:
            sleeping = {"assistant_id": "sleep", "input": {}, "on_disconnect": "cancel"}
            async with anyio.create_task_group() as group:

                async def wait() -> None:
                    await client.post("/runs/wait", json=sleeping)

                for _ in range(2):
                    group.start_soon(wait)
                while await _running(client) < 2:
                    await anyio.lowlevel.checkpoint()
                refused = await client.post("/runs/wait", json=RUN)
                other = await client.post("/runs/wait", json=RUN, headers={"x-user": "bob"})
                group.cancel_scope.cancel()
            again = await client.post("/runs/wait", json=RUN)

        assert (refused.status_code, other.status_code, again.status_code) == (429, 200, 200)
        assert refused.headers["retry-after"]
        assert "a client may have 2" in refused.json()["detail"]


async def _running(client: httpx.AsyncClient) -> int:
    answer = await client.get("/runs", params={"status": "running"})
    return len(answer.json()["runs"])


class TestWebhooks:
    async def test_webhooks_of_one_client_that_wait(self):
        """
        Runs with more webhooks than a client may have waiting are refused, all of a batch or none.
        """
        hooked = {**RUN, "webhook": "https://hooks.example.com/"}
        sleeping = {**hooked, "assistant_id": "sleep"}
        async with served(webhooks_per_client=3) as client:
            made = await client.post("/runs/batch", json=[sleeping] * 2)
            refused = await client.post("/runs/batch", json=[sleeping] * 2)
            fits = await client.post("/runs/batch", json=[sleeping, RUN])
            last = await client.post("/threads/t/runs", json=hooked)
            other = await client.post("/threads/t/runs", json=sleeping, headers={"x-user": "bob"})

        codes = [one.status_code for one in (made, refused, fits, last, other)]
        assert codes == [200, 429, 200, 429, 200]
        assert int(refused.headers["retry-after"]) > 0
