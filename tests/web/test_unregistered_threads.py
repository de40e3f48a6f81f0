"""Threads that the server's registry doesn't know: after a restart, or begun by the program."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.stores import SqliteStore
from actorgraph.web import GraphRoutes
from tests.web.apps import GRAPHS

TALK = {"assistant_id": "talk", "input": {"messages": []}, "if_not_exists": "create"}


@asynccontextmanager
async def served(saver: Any, **options: Any) -> AsyncIterator[Any]:
    """A server's life, with a registry in memory; its routes as an HTTP client."""
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    system = ActorSystem(graphs, saver=saver)
    transport = httpx.ASGITransport(GraphRoutes(system, **options), raise_app_exceptions=False)
    made: Any = httpx.AsyncClient(transport=transport, base_url="http://test")
    async with system, made:
        made.system = system
        yield made


async def found(client: Any, **wanted: Any) -> list[str]:
    """The ids of the threads that a search finds."""
    answer = await client.post("/threads/search", json=wanted)
    return sorted(thread["thread_id"] for thread in answer.json())


class TestAfterARestart:
    async def test_a_thread_is_of_the_graph_that_it_was_of(self):
        """
        Its state, its history and its next run are those of the graph of its first run, among
        several.
        """
        saver = InMemorySaver()
        async with served(saver) as first:
            await first.post("/threads/t/runs/wait", json=TALK)
        async with served(saver) as second:
            thread = (await second.get("/threads/t")).json()
            state = (await second.get("/threads/t/state")).json()
            history = (await second.get("/threads/t/history")).json()
            again = await second.post("/threads/t/runs/wait", json=TALK)

        assert thread["metadata"]["graph_id"] == "talk"
        assert thread["status"] == "idle"
        assert [m["content"] for m in state["values"]["messages"]] == ["Hello"]
        assert len(history) == 3
        assert "messages" in again.json()

    async def test_threads_are_searched_for(self):
        """
        A search finds those of which runs are stored, until they are deleted.
        """
        saver = InMemorySaver()
        async with served(saver) as first:
            for thread_id in ("a", "b", "gone"):
                await first.post(f"/threads/{thread_id}/runs/wait", json=TALK)
        async with served(saver) as second:
            await second.delete("/threads/gone")
            gone = (await second.get("/threads/gone")).status_code
            before = await found(second)
            await second.delete("/threads/b")
            after = await found(second, metadata={"graph_id": "talk"})

        assert (gone, before, after) == (404, ["a", "b"], ["a"])

    async def test_a_store_that_outlives_the_process_is_believed(self, tmp_path):
        """
        A thread that such a registry doesn't have is not put into it by a search.
        """
        saver = InMemorySaver()
        async with served(saver) as first:
            await first.post("/threads/t/runs/wait", json=TALK)
        async with served(saver, store=SqliteStore(tmp_path / "threads.db")) as second:
            assert await found(second) == []

    async def test_a_thread_without_a_stored_owner_is_hidden(self):
        """
        The owner is not stored with the thread: it is hidden from all, rather than shown to all.
        """
        saver = InMemorySaver()
        rules = {
            "authorize": lambda principal, *_: {"tenant": principal},
            "authenticate": lambda request: request.headers.get("x-user"),
        }
        async with served(saver, **rules) as first:
            first.headers["x-user"] = "ann"
            await first.post("/threads/t/runs/wait", json=TALK)
            assert (await first.get("/threads/t")).status_code == 200
        async with served(saver, **rules) as second:
            for second.headers["x-user"] in ("ann", "bob"):
                assert (await second.get("/threads/t/state")).status_code == 404
                assert await found(second) == []


class TestOfTheProgram:
    async def test_a_thread_without_runs_is_of_the_graph_that_has_written_it(self):
        """
        The program's own calls leave no run; the newest checkpoint says which graph it was.
        """
        saver = InMemorySaver()
        async with served(saver) as client:
            config = {"configurable": {"thread_id": "t"}}
            await client.system.graphs["talk"].ainvoke({"messages": []}, config)
            thread = (await client.get("/threads/t")).json()
            state = (await client.get("/threads/t/state")).json()

        assert thread["metadata"]["graph_id"] == "talk"
        assert [m["content"] for m in state["values"]["messages"]] == ["Hello"]

    async def test_a_registered_thread_that_the_program_has_run(self):
        """
        A thread that was made over HTTP is of the graph that the program has run on it.
        """
        async with served(InMemorySaver()) as client:
            await client.post("/threads", json={"thread_id": "t", "metadata": {"k": 1}})
            run = await client.system.start("talk", "t", {"messages": []})
            await run.result()
            thread = (await client.get("/threads/t")).json()

        assert thread["metadata"]["k"] == 1
        assert thread["metadata"]["graph_id"] == "talk"
        assert [m["content"] for m in thread["values"]["messages"]] == ["Hello"]
