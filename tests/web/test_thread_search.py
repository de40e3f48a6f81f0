"""Searches of threads over HTTP: filters, pages, selected fields and extracted values."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver, SqliteSaver
from actorgraph.stores import SqliteStore
from actorgraph.web import GraphRoutes
from actorgraph.web.http.selection import extract_paths, value_at
from actorgraph.web.registries.thread_registry import NAMESPACE
from tests.support.every_saver import stored_in
from tests.web.apps import GRAPHS

TALK = {"assistant_id": "talk", "if_not_exists": "create"}


@asynccontextmanager
async def served(saver: Any, **options: Any) -> AsyncIterator[Any]:
    """The routes of a server over a saver, as an HTTP client."""
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    system = ActorSystem(graphs, saver=saver)
    transport: Any = httpx.ASGITransport(GraphRoutes(system, **options))
    async with system, httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        client.system = system  # type: ignore[attr-defined]
        yield client


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A saver without an index of threads, and one with it."""
    return InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "runs.db")


async def talk(client: Any, thread_id: str, **metadata: Any) -> None:
    """Register a thread and run the graph "talk" on it."""
    await client.post("/threads", json={"thread_id": thread_id, "metadata": metadata})
    await client.post(f"/threads/{thread_id}/runs/wait", json={**TALK, "input": {"messages": []}})


class TestPages:
    async def test_the_header_names_the_next_page(self, saver):
        """
        `X-Pagination-Next` is the offset of the next page, and absent on the last one.
        """
        async with served(saver) as client:
            for name in "abc":
                await client.post("/threads", json={"thread_id": name})
            body = {"limit": 2, "sort_by": "thread_id", "sort_order": "asc"}
            first = await client.post("/threads/search", json=body)
            last = await client.post("/threads/search", json={**body, "offset": 2})

        assert [thread["thread_id"] for thread in first.json()] == ["a", "b"]
        assert first.headers["x-pagination-next"] == "2"
        assert [thread["thread_id"] for thread in last.json()] == ["c"]
        assert "x-pagination-next" not in last.headers

    async def test_assistants_have_pages_too(self, saver):
        """
        A search of assistants selects fields and names its next page.
        """
        async with served(saver) as client:
            answer = await client.post(
                "/assistants/search", json={"limit": 1, "select": ["graph_id"]}
            )

        assert [list(one) for one in answer.json()] == [["graph_id"]]
        assert answer.headers["x-pagination-next"] == "1"


class TestFields:
    async def test_only_selected_fields_are_sent(self, saver):
        """
        `select` names the fields; those of the state can be left out.
        """
        async with served(saver) as client:
            await talk(client, "t", tenant="ann")
            some = await client.post("/threads/search", json={"select": ["thread_id", "status"]})
            state = await client.post("/threads/search", json={"select": ["values"]})
            wrong = await client.post("/threads/search", json={"select": ["secret"]})

        assert some.json() == [{"thread_id": "t", "status": "idle"}]
        assert [m["content"] for m in state.json()[0]["values"]["messages"]] == ["Hello"]
        assert wrong.status_code == 422

    async def test_values_are_extracted_by_paths(self, saver):
        """
        `extract` adds the values at its paths, and null where a thread has none.
        """
        paths = {
            "last": "values.messages[-1].content",
            "tenant": "metadata.tenant",
            "none": "values.messages[7].content",
        }
        async with served(saver) as client:
            await talk(client, "t", tenant="ann")
            body = {"select": ["thread_id"], "extract": paths}
            found = await client.post("/threads/search", json=body)
            wrong = await client.post("/threads/search", json={"extract": {"a": "values[."}})

        (thread,) = found.json()
        assert thread == {
            "thread_id": "t",
            "extracted": {"last": "Hello", "tenant": "ann", "none": None},
        }
        assert wrong.status_code == 422

    @pytest.mark.parametrize("path", ["", ".a", "a..b", "[0]", "a[x]", "a[1", "a]"])
    def test_a_path_that_is_none_is_refused(self, path):
        """
        A path begins with a field, and has names and indexes only.
        """
        with pytest.raises(Exception, match="is invalid"):
            extract_paths({"alias": path})

    def test_a_path_leads_through_lists_and_objects(self):
        """
        A negative index counts from the end.
        """
        (path,) = extract_paths({"x": "a[-1][0].b"}).values()

        assert value_at({"a": [[], [{"b": 5}]]}, path) == 5
        assert value_at({"a": {}}, path) is None


class TestFilters:
    async def test_metadata_is_compared_whole(self, saver):
        """
        Nested metadata must be equal; a merge is found at once, a removed thread no more.
        """
        nested = {"who": {"name": "ann", "age": 3}}
        async with served(saver) as client:
            for name in "ab":
                await client.post("/threads", json={"thread_id": name, "metadata": nested})
            await client.patch("/threads/a", json={"metadata": {"tag": 1}})
            await client.delete("/threads/b")

            async def found(**metadata: Any) -> Any:
                answer = await client.post("/threads/count", json={"metadata": metadata})
                return answer.json()

            assert await found(**nested) == 1
            assert await found(who={"name": "ann"}) == 0
            assert await found(tag=1, **nested) == 1
            assert await found(tag=True) == 0

    async def test_each_thread_is_authorized(self, saver):
        """
        A client may search, and sees only threads that it may read; pages count only those.
        """
        rules = {"authorize": lambda _, action, thread_id, __: thread_id not in ("b", "c")}
        async with served(saver) as client:
            for name in "abcd":
                await client.post("/threads", json={"thread_id": name})
        async with served(saver, **rules) as client:
            if isinstance(saver, InMemorySaver):  # whose registry was in memory
                for name in "ad":
                    await client.post("/threads", json={"thread_id": name})
            body = {"limit": 1, "offset": 1, "sort_by": "thread_id", "sort_order": "asc"}
            page = await client.post("/threads/search", json=body)
            count = await client.post("/threads/count", json={})

        assert [thread["thread_id"] for thread in page.json()] == ["d"]
        assert count.json() == 2

    async def test_threads_of_the_program_are_found(self, tmp_path):
        """
        A thread of a plain `ainvoke` in the same file is found by its status and graph.
        """
        async with served(SqliteSaver(tmp_path / "runs.db")) as client:
            config = {"configurable": {"thread_id": "plain"}}
            await client.system.graphs["talk"].ainvoke({"messages": []}, config)
            body = {"status": "idle", "metadata": {"graph_id": "talk"}}
            found = await client.post("/threads/search", json=body)

        assert [thread["thread_id"] for thread in found.json()] == ["plain"]

    async def test_registrations_of_an_earlier_version_are_moved(self, tmp_path):
        """
        Threads that a store has are found, with their metadata, and leave the store.
        """
        store = SqliteStore(tmp_path / "threads.db")
        value = {
            "created_at": "2026-01-02T03:04:05.000006+00:00",
            "updated_at": "2026-01-02T03:04:05.000006+00:00",
            "metadata": {"tenant": "ann"},
        }
        await store.aput(NAMESPACE, "old", value)
        async with served(SqliteSaver(tmp_path / "runs.db"), store=store) as client:
            found = await client.post("/threads/search", json={"metadata": {"tenant": "ann"}})
            left = await store.aget(NAMESPACE, "old")

        assert [thread["created_at"] for thread in found.json()] == [value["created_at"]]
        assert left is None


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_search_may_have_more_keys_than_a_statement_has_conditions(kind, tmp_path, request):
    """
    Threads are found and counted by 1,200 keys of their metadata, all of which they must have.
    """
    wanted = {f"k{number}": number for number in range(1200)}
    with stored_in(request, kind, tmp_path) as place:
        async with served(place.again()) as client:
            await client.post("/threads", json={"thread_id": "all", "metadata": wanted})
            less = {**wanted, "k1150": None}
            await client.post("/threads", json={"thread_id": "less", "metadata": less})
            found = await client.post("/threads/search", json={"metadata": wanted})
            idle = await client.post("/threads/search", json={"metadata": wanted, "status": "idle"})
            count = await client.post("/threads/count", json={"metadata": wanted})

    assert [one["thread_id"] for one in found.json()] == ["all"]
    assert [one["thread_id"] for one in idle.json()] == ["all"]
    assert count.json() == 1


class TestPhases:
    async def test_a_phase_is_beside_the_status_and_filters(self, saver):
        """
        A thread that waits for a person is "interrupted" for LangGraph's clients, as one at a
        breakpoint is; its phase, its filter and its count say which of both it is.
        """
        async with served(saver) as client:
            for thread_id, more in (("asks", {}), ("stops", {"interrupt_before": "*"})):
                await client.post("/threads", json={"thread_id": thread_id})
                body = {"assistant_id": "ask", "input": {"foo": "x"}, **more}
                await client.post(f"/threads/{thread_id}/runs/wait", json=body)
            both = (await client.post("/threads/search", json={"status": "interrupted"})).json()
            one = (await client.post("/threads/search", json={"phase": "waiting"})).json()
            count = (await client.post("/threads/count", json={"phase": "waiting"})).json()
            own = (await client.get("/threads/stops")).json()
            old = await client.post("/threads/search", json={"older_than_s": 3600})
            named = {"select": ["thread_id", "phase"], "phase": "unfinished"}
            selected = (await client.post("/threads/search", json=named)).json()

        assert {found["thread_id"]: found["phase"] for found in both} == {
            "asks": "waiting",
            "stops": "unfinished",
        }
        assert ([found["thread_id"] for found in one], count, old.json()) == (["asks"], 1, [])
        assert (own["status"], own["phase"]) == ("interrupted", "unfinished")
        assert selected == [{"thread_id": "stops", "phase": "unfinished"}]
