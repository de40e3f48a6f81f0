"""Assistants: settings of a graph with versions, kept in the store, and merged into runs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypedDict

import httpx
import pytest

from actorgraph import ActorSystem, SqliteSaver, StateGraph
from actorgraph.runtime.task.runtime import Runtime
from actorgraph.stores import SqliteStore
from actorgraph.web import GraphRoutes


class Context(TypedDict, total=False):
    """The context of runs."""

    tone: str
    size: int


class Told(TypedDict, total=False):
    """The context and a value of the config, as a node has seen them."""

    foo: str
    context: dict[str, Any]
    flag: Any


async def see(state: Told, config: dict[str, Any], runtime: Runtime[Context]) -> dict[str, Any]:
    """Return the run's context and a value of its config."""
    return {"context": runtime.context, "flag": config["configurable"].get("flag")}


SEES = StateGraph(Told, context_schema=Context).add_node(see).set_entry_point("see")


class Client:
    """Requests of a tenant to a server.

    Attributes:
        routes: the server.
    """

    def __init__(self, path: Path, **options: Any) -> None:
        saver = SqliteSaver(path / "runs.db")
        graphs = {name: SEES.compile() for name in ("sees", "other")}
        self.system = ActorSystem(graphs, saver=saver, store=SqliteStore(path / "items.db"))
        self.routes = GraphRoutes(
            self.system, authenticate=lambda request: request.headers["x-user"], **options
        )
        transport = httpx.ASGITransport(self.routes, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://test")

    async def ask(self, method: str, path: str, body: Any = None, *, user: str = "ann") -> Any:
        """The answer to a request; its status where that isn't 200."""
        answer = await self.http.request(method, path, json=body, headers={"x-user": user})
        return answer.json() if answer.status_code == 200 else answer.status_code


def tenants(user: str, action: str, thread_id: str | None, metadata: Any) -> Any:
    """Each tenant has what bears its name."""
    return {"tenant": user}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A server over two files."""
    made = Client(tmp_path)
    async with made.system:
        yield made


SETTINGS = {"context": {"tone": "kind", "size": 1}, "config": {"configurable": {"flag": 7}}}


class TestVersions:
    async def test_an_update_makes_a_version(self, client):
        """
        A new version has the changes and merged metadata; the older one can be chosen again.
        """
        body = {"graph_id": "sees", "name": "one", "metadata": {"a": 1}, **SETTINGS}
        made = await client.ask("POST", "/assistants", body)
        place = f"/assistants/{made['assistant_id']}"
        changed = await client.ask("PATCH", place, {"name": "two", "metadata": {"b": 2}})
        versions = await client.ask("POST", place + "/versions", {})
        back = await client.ask("POST", place + "/latest", {"version": 1})

        assert (made["version"], made["name"], made["config"]) == (1, "one", SETTINGS["config"])
        assert (changed["version"], changed["name"]) == (2, "two")
        assert changed["metadata"] == {"a": 1, "b": 2}
        assert [(one["version"], one["name"]) for one in versions] == [(2, "two"), (1, "one")]
        assert (back["version"], back["name"]) == (1, "one")
        assert await client.ask("POST", place + "/latest", {"version": 3}) == 404
        assert await client.ask("GET", place) == back

    async def test_ids_are_taken_once(self, client):
        """
        An id that exists is a conflict, or returned if the client asks for that.
        """
        body = {"graph_id": "sees", "assistant_id": "mine", "name": "one"}
        made = await client.ask("POST", "/assistants", body)
        again = {**body, "name": "two", "if_exists": "do_nothing"}

        assert await client.ask("POST", "/assistants", body) == 409
        assert await client.ask("POST", "/assistants", again) == made
        assert await client.ask("POST", "/assistants", {**body, "assistant_id": "sees"}) == 409
        assert await client.ask("POST", "/assistants", {"graph_id": "none"}) == 404

    async def test_registered_graphs_stay_as_they_are(self, client):
        """
        The assistant of a registered graph can't be changed or deleted.
        """
        for method, path, body in (
            ("PATCH", "/assistants/sees", {"name": "x"}),
            ("DELETE", "/assistants/sees", None),
            ("POST", "/assistants/sees/latest", {"version": 2}),
        ):
            assert await client.ask(method, path, body) == 409
        assert len(await client.ask("POST", "/assistants/sees/versions", {})) == 1

    async def test_searches_find_by_graph_name_and_metadata(self, client):
        """
        Registered graphs come first; each filter leaves the assistants that fit.
        """
        for name, graph in (("Blue", "sees"), ("Red", "other")):
            body = {"graph_id": graph, "name": name, "metadata": {"colour": name}}
            await client.ask("POST", "/assistants", body)

        async def found(**body: Any) -> list[str]:
            names = [a["name"] for a in await client.ask("POST", "/assistants/search", body)]
            assert await client.ask("POST", "/assistants/count", body) == len(names)
            return names

        assert await found() == ["sees", "other", "Red", "Blue"]
        assert await found(graph_id="other") == ["other", "Red"]
        assert await found(name="bLU") == ["Blue"]
        assert await found(metadata={"colour": "Red"}) == ["Red"]
        by = {"sort_by": "name", "sort_order": "asc", "limit": 2, "offset": 1}
        page = await client.http.post("/assistants/search", json=by, headers={"x-user": "ann"})
        assert [one["name"] for one in page.json()] == ["Red", "other"]
        assert page.headers["x-pagination-next"] == "3"
        assert page.headers["x-pagination-total"] == "4"


class TestRuns:
    async def test_settings_are_under_those_of_the_run(self, client, tmp_path):
        """
        A run gets its assistant's context, config and metadata, with its own over them.
        """
        body = {"graph_id": "sees", "metadata": {"a": 1, "b": 1}, **SETTINGS}
        made = await client.ask("POST", "/assistants", body)
        identifier = made["assistant_id"]
        run = {"assistant_id": identifier, "input": {"foo": "x"}, "if_not_exists": "create"}
        mine = {**run, "context": {"size": 2}, "metadata": {"b": 2}}
        plain = await client.ask("POST", "/threads/t/runs/wait", run)
        over = await client.ask("POST", "/threads/t/runs/wait", mine)
        (newest, _) = await client.ask("GET", "/threads/t/runs")
        thread = await client.ask("GET", "/threads/t")

        assert (plain["context"], plain["flag"]) == ({"tone": "kind", "size": 1}, 7)
        assert over["context"] == {"tone": "kind", "size": 2}
        assert (newest["assistant_id"], newest["metadata"]) == (identifier, {"a": 1, "b": 2})
        assert thread["metadata"] == {"graph_id": "sees", "assistant_id": identifier}

    async def test_they_are_agents_of_the_agent_protocol(self, client, tmp_path):
        """
        A run of an agent gets its assistant's settings, and another server finds it, whole, by the
        agent's id alone.
        """
        made = await client.ask("POST", "/assistants", {"graph_id": "sees", **SETTINGS})
        kept = {"input": {"foo": "x"}, "on_completion": "keep"}
        said = {**kept, "agent_id": made["assistant_id"]}
        output = await client.ask("POST", "/runs/wait", said)
        await client.ask("POST", "/runs/wait", {**kept, "agent_id": "sees"})
        other = Client(tmp_path)
        async with other.system:
            both = await other.ask("POST", "/runs/search", {"status": "success"})
            asked = {"agent_id": made["assistant_id"], "status": "success"}
            (found,) = await other.ask("POST", "/runs/search", asked)
            again = await other.ask("POST", "/runs/search", {"offset": 1})

        assert output["values"]["context"] == SETTINGS["context"]
        assert found == both[1]
        assert again == both[1:]
        assert (found["agent_id"], found["input"]) == (made["assistant_id"], kept["input"])
        assert found["config"]["configurable"]["assistant_id"] == made["assistant_id"]

    async def test_they_survive_a_restart_until_they_are_deleted(self, client, tmp_path):
        """
        Another server over the same files has the assistant; a deleted one runs nothing.
        """
        made = await client.ask("POST", "/assistants", {"graph_id": "sees"})
        place = f"/assistants/{made['assistant_id']}"
        run = {"assistant_id": made["assistant_id"], "if_not_exists": "create", "input": {}}
        await client.ask("POST", "/threads/t/runs/wait", run)
        other = Client(tmp_path)
        async with other.system:
            assert await other.ask("GET", place) == made
            assert await other.ask("DELETE", place + "?delete_threads=true") == 204
            assert await other.ask("GET", place) == 404
            assert await other.ask("POST", "/threads/t/runs/wait", run) == 404
            assert await other.ask("GET", "/threads/t") == 404


class TestTenants:
    async def test_another_tenants_assistant_is_not_there(self, tmp_path):
        """
        Another tenant can't see, run, change, delete or take over an assistant.
        """
        client = Client(tmp_path, authorize=tenants)
        async with client.system:
            body = {"graph_id": "sees", "assistant_id": "anns", "metadata": {"tenant": "bob"}}
            made = await client.ask("POST", "/assistants", body)
            for method, path, said in (
                ("GET", "/assistants/anns", None),
                ("GET", "/assistants/anns/schemas", None),
                ("PATCH", "/assistants/anns", {"metadata": {"tenant": "bob"}}),
                ("POST", "/assistants/anns/versions", {}),
                ("POST", "/assistants/anns/latest", {"version": 1}),
                ("DELETE", "/assistants/anns", None),
                ("POST", "/runs/wait", {"assistant_id": "anns"}),
                ("POST", "/runs/crons", {"assistant_id": "anns", "schedule": "* * * * *"}),
            ):
                assert await client.ask(method, path, said, user="bob") == 404
            again = {**body, "if_exists": "do_nothing"}
            assert await client.ask("POST", "/assistants", again, user="bob") == 409
            assert made["metadata"] == {"tenant": "ann"}
            assert await client.ask("POST", "/assistants/count", {}) == 3
            assert await client.ask("POST", "/assistants/count", {}, user="bob") == 2
