"""Answers to clients when the storage fails, or a thread of another tenant is damaged."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, JsonlSaver, SqliteSaver, StateGraph
from actorgraph.errors import (
    DamagedRowError,
    SaverBrokenError,
    SaverClosedError,
    StorageBusyError,
    StorageError,
    StorageFullError,
)
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from actorgraph.web.endpoints.endpoint import Server
from actorgraph.web.http.problems import response_to
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS, Log, chain

RUN = {"assistant_id": "log", "input": {"foo": "a"}, "if_not_exists": "create"}


@asynccontextmanager
async def served(
    path: Path, saver: Any = SqliteSaver, **more: StateGraph
) -> AsyncIterator[httpx.AsyncClient]:
    """A server over a file, whose list of threads is its own."""
    saver = saver(path)
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in {**GRAPHS, **more}.items()}
    system = ActorSystem(graphs, saver=saver, store=InMemoryStore(), lease_s=3600)
    transport = httpx.ASGITransport(GraphRoutes(system), raise_app_exceptions=False)
    with anyio.fail_after(PATIENCE_S):
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            yield client


class TestTheStorage:
    @pytest.mark.parametrize("what", ["runs/wait", "runs/stream"])
    async def test_a_run_that_cannot_be_stored_names_no_place(self, what, tmp_path):
        """
        The client learns that the storage failed, and neither where it is nor what it said: that
        may be about rows of others in the same batch.
        """

        async def move(state: Log) -> Log:
            (tmp_path / "deep").rename(tmp_path / "away")
            return state

        (tmp_path / "deep").mkdir()
        async with served(tmp_path / "deep" / "secret.db", move=chain(move)) as client:
            body = {**RUN, "assistant_id": "move"}
            answers = [await client.post(f"/threads/t/{what}", json=body) for _ in range(2)]
            answers.append(await client.get("/threads/t/runs"))

        assert "the storage failed" in answers[0].text
        assert not any(
            "secret" in answer.text or str(tmp_path) in answer.text for answer in answers
        )

    @pytest.mark.parametrize(
        ("kind", "status"),
        [
            (StorageBusyError, 503),
            (StorageFullError, 507),
            (SaverClosedError, 503),
            (SaverBrokenError, 503),
            (StorageError, 503),
            (DamagedRowError, 500),
        ],
    )
    def test_texts_of_storage_errors_are_not_sent(self, kind, status):
        """
        An error of the storage keeps its status, and its text stays here.
        """
        answer = response_to(kind("row ('secret')", do="look at /secret"))

        assert answer.status_code == status
        assert "secret" not in bytes(answer.body).decode()


async def test_a_damaged_thread_hides_no_other(tmp_path):
    """
    When a server lists the threads of the one before it, a damaged one is shown as such, and the
    others are found.
    """
    async with served(tmp_path / "runs.db") as client:
        for name in ("bad", "good"):
            await client.post(f"/threads/{name}/runs/wait", json=RUN)

    with sqlite3.connect(tmp_path / "runs.db") as damage:
        damage.execute(
            "UPDATE checkpoints SET record = '{' "
            "WHERE thread = (SELECT thread FROM threads WHERE thread_id = 'bad')"
        )
    damage.close()
    async with served(tmp_path / "runs.db") as client:
        answer = await client.post("/threads/search", json={})

    threads = {thread["thread_id"]: thread["status"] for thread in answer.json()}
    assert threads == {"bad": "error", "good": "idle"}


async def test_a_thread_that_cannot_be_looked_for_hides_no_other(tmp_path, monkeypatch):
    """
    Over a saver without an index of threads, a server looks for those of the one before it; a
    thread of which not even the age can be read is left out.
    """
    async with served(tmp_path / "runs", saver=JsonlSaver) as client:
        for name in ("lost", "good"):
            await client.post(f"/threads/{name}/runs/wait", json=RUN)

    async def unreadable(self: Any, thread_id: str) -> Any:
        return await (found(self, thread_id) if thread_id != "lost" else no_row())

    async def no_row() -> None:
        msg = "a row that no error of ours names"
        raise sqlite3.DatabaseError(msg)

    found = Server._found  # noqa: SLF001
    monkeypatch.setattr(Server, "_found", unreadable)
    async with served(tmp_path / "runs", saver=JsonlSaver) as client:
        answer = await client.post("/threads/search", json={})

    assert [thread["thread_id"] for thread in answer.json()] == ["good"]
