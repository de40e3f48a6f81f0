"""The arguments of a run: they reach the graph, and are shown to clients."""

import operator
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
import msgspec
import pytest
from typing_extensions import TypedDict

from actorgraph import ActorSystem, Runtime, SqliteSaver, StateGraph
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.web.apps import Log, ask, chain, first, second


class Context(TypedDict, total=False):
    """The context of the graph `told`."""

    model: str
    temperature: float


@dataclass
class Limits:
    most: int


@dataclass
class Settings:
    """The context of the graph `named`."""

    limits: Limits


class Person(msgspec.Struct, rename="camel"):
    """The state of the graph `named`."""

    user_name: str
    log: Annotated[list[str], operator.add] = msgspec.field(default_factory=lambda: ["begin"])


async def name(person: Person, runtime: Runtime[Settings]) -> dict[str, Any]:
    """Write what the node sees."""
    return {"log": [f"{person.user_name} {person.log} {runtime.context.limits.most}"]}


async def tell(state: Log, runtime: Runtime[Context]) -> dict[str, Any]:
    """Write the context."""
    return {"log": [repr(runtime.context)]}


@pytest.fixture
async def client(tmp_path) -> AsyncIterator[httpx.AsyncClient]:
    saver = SqliteSaver(tmp_path / "runs.db")
    told = StateGraph(Log, context_schema=Context).add_node(tell).set_entry_point("tell")
    named = StateGraph(Person, Settings).add_node(name).set_entry_point("name")
    builders = {"told": told, "named": named, "log": chain(first, second), "ask": chain(first, ask)}
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in builders.items()}
    async with ActorSystem(graphs, saver=saver, store=InMemoryStore()) as system:
        transport = httpx.ASGITransport(GraphRoutes(system))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as made:
            yield made


async def post(client: httpx.AsyncClient, path: str, body: Any) -> Any:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_json_becomes_objects_of_the_declared_classes(client):
    """
    An input by aliases and a context with nested objects reach the node; the output has names.
    """
    body = {"input": {"userName": "Ada"}, "context": {"limits": {"most": 3}}}
    output = await post(client, "/runs/wait", {"assistant_id": "named", **body})
    schemas = (await client.get("/assistants/named/schemas")).json()

    assert output == {"user_name": "Ada", "log": ["begin", "Ada ['begin'] 3"]}
    assert "userName" in schemas["input_schema"]["properties"]
    assert "user_name" in schemas["output_schema"]["properties"]


class TestContext:
    async def test_configurable_reaches_the_context(self, client):
        """
        A graph with a context_schema gets its fields from `configurable`; others stay out.
        """
        configurable = {"model": "small", "temperature": 0.5, "user": "ann"}
        body = {"assistant_id": "told", "input": {}, "config": {"configurable": configurable}}

        output = await post(client, "/runs/wait", body)
        assert output["log"] == [repr({"model": "small", "temperature": 0.5})]

    async def test_a_given_context_wins(self, client):
        """
        A request with a context gets that one, whatever `configurable` has.
        """
        config = {"configurable": {"model": "small"}}
        body = {"assistant_id": "told", "input": {}, "config": config, "context": {"model": "big"}}

        assert (await post(client, "/runs/wait", body))["log"] == [repr({"model": "big"})]

    async def test_a_graph_without_a_schema_gets_none(self, client):
        """
        `configurable` is not the context of a graph without a context_schema, and no error.
        """
        body = {"assistant_id": "log", "input": {}, "config": {"configurable": {"model": "small"}}}

        assert (await post(client, "/runs/wait", body))["log"] == ["first", "second"]


class TestKwargs:
    async def test_a_run_shows_what_it_was_started_with(self, client):
        """
        Input, config, context and modes are in a run's kwargs: in its answer, list and page.
        """
        body = {
            "assistant_id": "told",
            "input": {"foo": "a"},
            "config": {"configurable": {"user": "ann"}, "tags": ["t"], "recursion_limit": 7},
            "context": {"model": "big"},
            "stream_mode": ["values", "messages-tuple"],
            "stream_subgraphs": True,
            "interrupt_before": ["tell"],
            "if_not_exists": "create",
        }
        made = await post(client, "/threads/t/runs", body)
        kwargs, config = made["kwargs"], made["kwargs"].pop("config")
        (listed,) = (await client.get("/threads/t/runs")).json()

        assert kwargs == {
            "input": {"foo": "a"},
            "command": None,
            "context": {"model": "big"},
            "stream_mode": ["values", "messages-tuple"],
            "subgraphs": True,
            "resumable": False,
            "interrupt_before": ["tell"],
            "interrupt_after": None,
            "durability": None,
            "webhook": None,
        }
        assert (config["tags"], config["recursion_limit"]) == (["t"], 7)
        assert config["configurable"]["user"] == "ann"
        assert config["configurable"]["thread_id"] == "t"
        assert listed["kwargs"]["config"] == config

    async def test_an_answer_is_a_command(self, client):
        """
        A run that answers a question shows its command, and no input.
        """
        body = {"assistant_id": "ask", "input": {"foo": "a"}, "if_not_exists": "create"}
        await post(client, "/threads/t/runs/wait", body)
        body = {"assistant_id": "ask", "command": {"resume": {"n": 1}}}
        made = await post(client, "/threads/t/runs", body)

        assert (made["kwargs"]["input"], made["kwargs"]["command"]) == (None, {"resume": {"n": 1}})


class TestModes:
    @pytest.mark.parametrize(
        "query",
        ['?stream_mode=["updates"]', "?stream_mode=updates", '?stream_mode=["updates"]&x=1'],
    )
    async def test_modes_of_a_query_may_be_json(self, client, query):
        """
        A stream is joined with modes in JSON, as the JavaScript client sends them, or with commas.
        """
        body = {"assistant_id": "log", "input": {}, "stream_mode": ["values", "updates"]}
        made = await post(client, "/threads/t/runs", {**body, "if_not_exists": "create"})
        answer = await client.get(f"/threads/t/runs/{made['run_id']}/stream{query}")

        names = [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]
        assert names == ["metadata", "updates", "updates", "end"]

    async def test_other_json_is_refused(self, client):
        """
        A text that begins as a list and isn't one of texts is refused, before anything else.
        """
        body = {"assistant_id": "log", "input": {}, "if_not_exists": "create"}
        made = await post(client, "/threads/t/runs", body)
        answer = await client.get(f"/threads/t/runs/{made['run_id']}/stream?stream_mode=[1")

        assert (answer.status_code, "stream_mode" in answer.text) == (422, True)
