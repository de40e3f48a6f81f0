"""The server under clients that mean no good, or do several things at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver, InvalidConfigError, SqliteSaver
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.stores import InMemoryStore
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.values.thread_rows import PutThread
from actorgraph.web import GraphRoutes, Limits, running
from actorgraph.web.http.event_responses import frame
from actorgraph.web.registries.thread_registry import Registry, microseconds
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS

RUN = {"assistant_id": "log", "input": {"foo": "a"}, "if_not_exists": "create"}
OLD = "2020-01-01T00:00:00+00:00"


def system_of(saver: Any, store: Any = None) -> ActorSystem:
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    return ActorSystem(graphs, saver=saver, store=store or InMemoryStore())


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[Any]:
    """A client of a server; its `system` is the system."""
    system = system_of(InMemorySaver())
    app = GraphRoutes(system, **options)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    made: Any = httpx.AsyncClient(transport=transport, base_url="http://test")
    with anyio.fail_after(PATIENCE_S):
        async with system, made:
            made.system = system
            yield made
            await system.drain(0.1)  # runs that sleep would be waited for


@pytest.fixture
async def client() -> AsyncIterator[Any]:
    async with served() as made:
        yield made


class TestValues:
    async def test_a_thread_that_cannot_be_read_hides_no_other(self, client):
        """
        A thread whose checkpoints don't fit its graph any more is shown with the reason, in lists
        too, and its state is 409.
        """
        await client.post("/threads/t/runs/wait", json={**RUN, "interrupt_before": ["second"]})
        await client.post("/threads", json={"thread_id": "good"})
        await client.patch("/threads/t", json={"metadata": {"graph_id": "talk"}})
        del client.system.graphs["log"]  # the graph that has written it is served no more
        thread = (await client.get("/threads/t")).json()
        found = (await client.post("/threads/search", json={"sort_by": "status"})).json()

        assert thread["status"] == "error"
        assert "second" in thread["error"]
        assert sorted(one["thread_id"] for one in found) == ["good", "t"]
        assert (await client.get("/threads/t/state")).status_code == 409

    @pytest.mark.parametrize("path", ["/threads/t/state", "/threads"])
    async def test_values_that_a_reducer_refuses(self, client, path):
        """
        An error of the graph's own code about a client's values is the client's error.
        """
        await client.post("/threads/t/runs/wait", json=RUN)
        update = {"values": {"log": 5}, "as_node": "first"}
        whole = {"metadata": {"graph_id": "log"}, "supersteps": [{"updates": [update]}]}
        answer = await client.post(path, json=update if path.endswith("state") else whole)

        assert answer.status_code == 422
        assert "TypeError" in answer.json()["detail"]

    async def test_true_is_not_one(self, client):
        """
        Metadata is compared as JSON is, inside of lists and objects too.
        """
        await client.post("/threads", json={"metadata": {"a": 1, "b": [1], "c": {"d": 1}}})
        wanted = [{"a": 1}, {"b": [1]}, {"c": {"d": 1}}]
        other = [{"a": True}, {"b": [True]}, {"c": {"d": True}}]
        counts = [
            (await client.post("/threads/count", json={"metadata": one})).json()
            for one in (*wanted, *other)
        ]

        assert counts == [1, 1, 1, 0, 0, 0]

    @pytest.mark.parametrize(
        "body", [{}, {"thread_id": "t"}, {"run_ids": []}, {"thread_id": "\0", "status": "all"}]
    )
    async def test_cancelling_needs_named_runs(self, client, body):
        """
        Runs to cancel have to be named: by their ids on a thread, or by a status.
        """
        run = await client.system.start("sleep", "t", {"foo": "a"})

        assert (await client.post("/runs/cancel", json=body)).status_code == 422
        assert run.status in OPEN_STATUSES

    async def test_a_nul_beside_a_slash_names_no_other_thread(self, client):
        """
        Of a path with NUL and a slash inside of an id nothing is made that it doesn't say.
        """
        await client.post("/threads", json={"thread_id": "a/b/c"})

        assert (await client.get("/threads/a%2Fb%2Fc")).status_code == 200
        assert (await client.get("/threads/a%00b%2Fc")).status_code == 404

    def test_a_nodes_name_begins_no_event(self):
        """
        Line breaks in names, and what has no UTF-8, stay inside of the event's first line.
        """
        said = frame("values|a\n\nevent evil\rx\ud800", {"text": "\n"}, "5")

        assert said == b'id: 5\nevent: values|a  event evil x \ndata: {"text":"\\n"}\n\n'


class TestAtOnce:
    async def test_no_run_begins_on_a_thread_that_is_removed_meanwhile(self):
        """
        A run that was let in just before its thread went is refused, and leaves nothing behind.
        """

        async def removes(user: Any, action: str, thread_id: str | None, metadata: Any) -> bool:
            if action == "runs.create" and removing:
                await client.delete(f"/threads/{thread_id}")
            return True

        removing: list[bool] = []
        async with served(authorize=removes) as client:
            await client.post("/threads/t/runs/wait", json=RUN)
            removing.append(True)
            body = {"assistant_id": "sleep", "input": {"foo": "a"}}
            answer = await client.post("/threads/t/runs", json=body)

            assert answer.status_code == 404
            assert await client.system.runs(statuses=OPEN_STATUSES) == []
            assert (await client.get("/threads/t")).status_code == 404

    async def test_metadata_bring_no_removed_thread_back(self):
        """
        A thread that goes while its metadata are changed stays gone.
        """

        async def removes(user: Any, action: str, thread_id: str | None, metadata: Any) -> bool:
            if action == "threads.update":
                await client.delete(f"/threads/{thread_id}")
            return True

        async with served(authorize=removes) as client:
            await client.post("/threads", json={"thread_id": "t"})
            answer = await client.patch("/threads/t", json={"metadata": {"a": 1}})

            assert answer.status_code == 404
            assert (await client.get("/threads/t")).status_code == 404

    @pytest.mark.parametrize("how", ["revoked", "removed"])
    async def test_a_threads_stream_has_no_events_of_others(self, how):
        """
        The stream of a thread ends where its reader may see it no more, or another thread has
        got its id.
        """
        refused: list[bool] = []
        async with served(authorize=lambda *_: not refused) as client:
            await client.post("/threads", json={"thread_id": "t"})
            async with anyio.create_task_group() as group:
                answers: list[Any] = []

                async def read() -> None:
                    answers.append(await client.get("/threads/t/stream"))

                group.start_soon(read)
                while "t" not in client.system._actor.followers:  # noqa: SLF001
                    await anyio.lowlevel.checkpoint()
                if how == "removed":
                    await client.delete("/threads/t")
                    await client.post("/threads", json={"thread_id": "t"})
                else:
                    refused.append(True)
                await client.system.start("log", "t", {"foo": "secret"})

        assert answers[0].status_code == 200
        assert "secret" not in answers[0].text
        assert ("AccessRevoked" in answers[0].text) is (how == "revoked")


class TestRules:
    async def test_new_metadata_of_a_thread_are_authorized(self):
        """
        New metadata are asked about too: a thread can't be slipped into another's hands.
        """

        def may(user: Any, action: str, thread_id: str | None, metadata: Any) -> bool:
            return thread_id is None or metadata.get("owner") == "ann"

        async with served(authorize=may) as client:
            await client.post("/threads", json={"thread_id": "t", "metadata": {"owner": "ann"}})
            given = await client.patch("/threads/t", json={"metadata": {"owner": "bob"}})
            kept = await client.patch("/threads/t", json={"metadata": {"title": "x"}})

        assert (given.status_code, kept.status_code) == (404, 200)
        assert kept.json()["metadata"] == {"owner": "ann", "title": "x"}

    async def test_a_principal_without_a_name_has_no_rate_of_its_own(self):
        """
        Objects that are made anew for each request don't get around the rate.
        """
        limits = Limits(requests_per_s=0.01, burst=2)
        async with served(authenticate=lambda _: object(), limits=limits) as client:
            codes = [(await client.post("/threads/count", json={})).status_code for _ in "abc"]

        assert codes == [200, 200, 429]

    @pytest.mark.parametrize(
        "wrong", [{"body_bytes": 0}, {"streams": -1}, {"stream_s": 0}, {"when_full": "x"}]
    )
    def test_limits_that_cannot_be(self, wrong):
        """
        A limit out of range is refused when it is set.
        """
        with pytest.raises(InvalidConfigError):
            Limits(**wrong)

    @pytest.mark.parametrize("path", ["/threads/t/stream", "/threads/t/runs/{run}/stream"])
    async def test_streams_end_after_their_time(self, path):
        """
        With `stream_s` a stream ends by itself, and what it streams goes on.
        """
        async with served(limits=Limits(stream_s=0.01)) as client:
            await client.post("/threads", json={"thread_id": "t"})
            run = await client.system.start("sleep", "t", {"foo": "a"})
            answer = await client.get(path.format(run=run.id))

            assert answer.status_code == 200
            assert run.status in OPEN_STATUSES

    async def test_the_offset_may_be_in_the_query(self):
        """
        A client that can't set `Last-Event-ID` sends it in the address; the header comes first.
        """
        async with served() as client:
            await client.post("/threads", json={"thread_id": "t"})
            run = await client.system.start("log", "t", {"foo": "a"})
            await run.result()
            path = f"/threads/t/runs/{run.id}/stream"
            whole = (await client.get(path)).text.count("\nevent: ")
            rest = await client.get(f"{path}?last_event_id=2")
            first = await client.get(f"{path}?last_event_id=2", headers={"last-event-id": "1"})

        assert rest.text.count("\nevent: ") == whole - 2
        assert first.text.count("\nevent: ") == whole - 1


@pytest.mark.one_loop
class TestDeaths:
    """A server over a file, and the next one."""

    async def test_threads_made_for_a_run_go_after_a_death_too(self, tmp_path: Path):
        """
        A thread whose run has ended, and whose server died before it was removed, is removed by
        the next server; so is one whose run goes on there.
        """
        saver = SqliteSaver(tmp_path / "a.db")
        async with system_of(saver) as first:
            await (await first.start("log", "ended", {"foo": "a"})).result()
            await first.start("sleep", "open", {"foo": "a"})
            made = microseconds(OLD)
            for name in ("ended", "open", "kept"):
                put = PutThread(name, made, "{}", temporary=name != "kept")
                await host_of(saver).writer.store(put)
            await first.drain(0.2)

        second = system_of(SqliteSaver(tmp_path / "a.db"))
        threads = GraphRoutes(second).server.threads
        with anyio.fail_after(PATIENCE_S):
            async with running(second):
                await until_gone(threads, "ended")
                (run,) = await second.runs(thread_id="open")
                await run.cancel()
                await until_gone(threads, "open")
                assert await second.runs(thread_id="ended") == []
                assert await threads.registered("kept") is not None

    async def test_when_a_run_changed_last(self, tmp_path: Path):
        """
        `updated_at` is the time at which a run left; the next server knows it by what the run
        stored.
        """
        store = InMemoryStore()
        told: list[Any] = []
        for _ in range(2):
            system = system_of(SqliteSaver(tmp_path / "a.db"), store)
            transport = httpx.ASGITransport(GraphRoutes(system))
            http = httpx.AsyncClient(transport=transport, base_url="http://test")
            async with system, http as client:
                if not told:
                    await client.post("/threads/t/runs/wait", json=RUN)
                told += (await client.get("/threads/t/runs")).json()

        assert all(run["updated_at"] > run["created_at"] for run in told)
        assert len(told) == 2


async def until_gone(threads: Registry, name: str) -> None:
    while await threads.registered(name) is not None:  # noqa: ASYNC110
        await anyio.sleep(0.01)
