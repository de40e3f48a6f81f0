"""Crons: their routes, and one run for each tick, by a clock that the tests set."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from msgspec.structs import replace

from actorgraph import ActorSystem, PostgresSaver, SqliteSaver
from actorgraph.stores import PostgresStore, SqliteStore
from actorgraph.web import GraphRoutes
from actorgraph.web.cron_actor import CronActor
from actorgraph.web.jobs.cron_plan import WaitForTick
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS

MINUTE = timedelta(minutes=1)
TICK = datetime(2026, 1, 1, tzinfo=UTC)
"""In the past: runs begin at once."""
BODY = {"assistant_id": "log", "schedule": "* * * * *", "input": {"foo": "x"}}


class Server:
    """A server over files or a database, and its actor of crons."""

    def __init__(self, saver: Any, store: Any, **options: Any) -> None:
        graphs = {name: graph.compile() for name, graph in GRAPHS.items()}
        self.system = ActorSystem(graphs, saver=saver, store=store)
        self.routes = GraphRoutes(
            self.system, authenticate=lambda r: r.headers.get("x-user", "ann"), **options
        )
        transport = httpx.ASGITransport(self.routes, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://test")
        self.server = self.routes._server  # noqa: SLF001
        self.actor = CronActor(self.server)

    async def ask(self, method: str, path: str, body: Any = None, user: str = "ann") -> Any:
        """The answer to a request; its status where that isn't 200."""
        answer = await self.http.request(method, path, json=body, headers={"x-user": user})
        return answer.json() if answer.status_code == 200 else answer.status_code

    async def cron(self, body: Any = BODY, path: str = "/runs/crons") -> tuple[Any, datetime]:
        """Make a cron as if that had been half a minute before `TICK`; returns it and the tick."""
        made = await self.ask("POST", path, body)
        stored = await self.server.crons.get(made["cron_id"])
        assert stored is not None
        since = (TICK - MINUTE / 2).isoformat()
        await self.server.crons.put(replace(stored, since=since))
        return made, TICK

    async def ended(self) -> list[str]:
        """Wait for all runs; their threads."""
        with anyio.fail_after(PATIENCE_S):
            runs = await self.system.runs()
            for run in runs:
                await run.wait()
        return [run.thread_id for run in runs]


def over_files(path: Path, **options: Any) -> Server:
    """A server over two files."""
    return Server(SqliteSaver(path / "runs.db"), SqliteStore(path / "items.db"), **options)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A server over two files."""
    made = over_files(tmp_path)
    async with made.system:
        yield made


def next_of(cron: dict[str, Any]) -> datetime:
    """The time of a cron's next run."""
    return datetime.fromisoformat(cron["next_run_date"])


class TestRoutes:
    async def test_a_cron_is_made_found_changed_and_deleted(self, server):
        """
        A cron is shown with its next run, which follows its schedule, its end and its switch.
        """
        made = await server.ask("POST", "/runs/crons", {**BODY, "metadata": {"a": 1}})
        place = f"/runs/crons/{made['cron_id']}"
        now = datetime.now(UTC)
        found = await server.ask("POST", "/runs/crons/search", {"assistant_id": "log"})
        yearly = await server.ask("PATCH", place, {"schedule": "0 0 1 1 *"})
        past = await server.ask("PATCH", place, {"end_time": "2020-01-01T00:00:00Z"})
        open_end = await server.ask("PATCH", place, {"end_time": None})
        off = await server.ask("PATCH", place, {"enabled": False})

        assert now < next_of(made) <= now + MINUTE + timedelta(seconds=5)
        assert found == [made]
        assert made["payload"]["input"] == {"foo": "x"}
        assert (next_of(yearly).month, next_of(yearly).day) == (1, 1)
        assert (past["next_run_date"], off["next_run_date"]) == (None, None)
        assert next_of(open_end) == next_of(yearly)
        for body, count in (({}, 1), ({"metadata": {"a": 2}}, 0), ({"enabled": True}, 0)):
            assert await server.ask("POST", "/runs/crons/count", body) == count
        assert await server.ask("DELETE", place) == 204
        assert await server.ask("DELETE", place) == 404

    @pytest.mark.parametrize(
        "wrong",
        [
            {"schedule": "0 0 31 2 *"},
            {"timezone": "Mars/Olympus"},
            {"end_time": "soon"},
            {"input": {}, "command": {"resume": 1}},
            {"webhook": "https://example.com"},
            {"stream_mode": "lifecycle"},
        ],
    )
    async def test_bad_crons_are_refused(self, server, wrong):
        """
        A cron whose times or runs are invalid is refused, not stored.
        """
        assert await server.ask("POST", "/runs/crons", {**BODY, **wrong}) == 422
        assert await server.ask("POST", "/runs/crons/count", {}) == 0

    async def test_other_tenants_crons_are_not_there(self, tmp_path):
        """
        Another tenant finds, changes and deletes no cron, and its runs' threads are the owner's.
        """
        server = over_files(tmp_path, authorize=lambda user, *_: {"tenant": user})
        async with server.system:
            made, tick = await server.cron({**BODY, "on_run_completed": "keep"})
            place = f"/runs/crons/{made['cron_id']}"
            for method in ("PATCH", "DELETE"):
                assert await server.ask(method, place, {}, "bob") == 404
            assert await server.ask("POST", "/runs/crons/search", {}, "bob") == []
            await server.actor.look(tick)
            (thread_id,) = await server.ended()

            assert await server.ask("GET", f"/threads/{thread_id}", None, "bob") == 404
            thread = await server.ask("GET", f"/threads/{thread_id}")
            assert thread["metadata"]["tenant"] == "ann"


class TestTicks:
    async def test_each_tick_is_one_run(self, server):
        """
        A tick starts one run with the cron's input; the time before it starts none.
        """
        made, tick = await server.cron({**BODY, "on_run_completed": "keep"})
        assert 0 < await server.actor.look(tick - timedelta(seconds=3)) <= 3
        assert await server.ended() == []
        for number in range(3):
            await server.actor.look(tick + number * MINUTE)
            await server.actor.look(tick + number * MINUTE + timedelta(seconds=20))
        threads = await server.ended()
        state = await server.ask("GET", f"/threads/{threads[0]}/state")
        (run,) = await server.ask("GET", f"/threads/{threads[0]}/runs")

        assert len(set(threads)) == len(threads) == 3
        assert state["values"] == {"foo": "x", "log": ["first", "second"]}
        assert run["metadata"]["cron_id"] == made["cron_id"]

    async def test_a_cron_of_a_thread_uses_it(self, server):
        """
        The runs of a thread's cron are all on that thread, and end with it.
        """
        await server.ask("POST", "/threads", {"thread_id": "t"})
        made, tick = await server.cron(path="/threads/t/runs/crons")
        for number in range(2):
            await server.actor.look(tick + number * MINUTE)
            assert set(await server.ended()) == {"t"}
        state = await server.ask("GET", "/threads/t/state")
        await server.ask("DELETE", "/threads/t")

        assert made["thread_id"] == "t"
        assert state["values"]["log"] == ["first", "second"] * 2
        assert await server.ask("POST", "/runs/crons/count", {}) == 0

    async def test_missed_ticks_run_once(self, server):
        """
        After a break of all servers one run is started for all ticks that were missed.
        """
        made, tick = await server.cron()
        await server.actor.look(tick + 90 * MINUTE)
        assert len(await server.ended()) == 1
        cron = await server.server.crons.get(made["cron_id"])
        decision = await server.server.crons.decide(cron, tick + 90 * MINUTE)
        assert decision == WaitForTick(tick + 91 * MINUTE)

    async def test_an_assistants_settings_are_those_of_the_tick(self, server):
        """
        The run uses the assistant as it is at the tick; the crons of a deleted one go with it.
        """
        assistant = await server.ask("POST", "/assistants", {"graph_id": "log"})
        place = f"/assistants/{assistant['assistant_id']}"
        body = {**BODY, "assistant_id": assistant["assistant_id"], "on_run_completed": "keep"}
        _, tick = await server.cron(body)
        await server.ask("PATCH", place, {"metadata": {"new": True}})
        await server.actor.look(tick)
        (thread_id,) = await server.ended()
        (run,) = await server.ask("GET", f"/threads/{thread_id}/runs")
        await server.ask("DELETE", place)

        assert (run["assistant_id"], run["metadata"]["new"]) == (body["assistant_id"], True)
        assert await server.ask("POST", "/runs/crons/count", {}) == 0

    async def test_a_tick_that_would_fail_is_left_out(self, server):
        """
        A run that is refused, because its thread is busy, is not tried again at each look.
        """
        await server.ask("POST", "/threads", {"thread_id": "t"})
        body = {**BODY, "multitask_strategy": "reject"}
        made, tick = await server.cron(body, "/threads/t/runs/crons")
        await server.ask("POST", "/threads/t/runs", {"assistant_id": "sleep", "input": {}})
        await server.actor.look(tick)
        cron = await server.server.crons.get(made["cron_id"])

        assert len(await server.ask("GET", "/threads/t/runs")) == 1
        assert await server.server.crons.fired(cron) == tick
        await server.ask("POST", "/runs/cancel", {"status": "all"})


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A function that makes another server over the same files or the same database."""
    if request.param == "sqlite":
        return lambda: over_files(tmp_path)
    url = request.getfixturevalue("postgres").url
    schema = request.getfixturevalue("schema")
    return lambda: Server(
        PostgresSaver(url, schema=schema), PostgresStore(url, schema=f"{schema}_items")
    )


class TestServers:
    async def test_many_servers_start_a_tick_once(self, places):
        """
        However many servers look at a tick at once, and whenever they note it, it has one run.
        """
        one, two = places(), places()
        async with one.system, two.system:
            made, tick = await one.cron({**BODY, "on_run_completed": "keep"})
            async with anyio.create_task_group() as group:
                for server in (one, two) * 3:
                    group.start_soon(server.actor.look, tick)
            cron = await two.server.crons.get(made["cron_id"])
            assert cron is not None
            # As if the process had died between the run's start and the note of it.
            await two.server.crons.note_fired(cron, tick - MINUTE)
            await two.actor.look(tick)
            await one.ended()
            found = await two.system.runs()

        assert [run.status for run in found] == ["success"]

    async def test_a_ticks_thread_goes_when_it_is_noted(self, server, monkeypatch):
        """
        A thread that was made for a tick is kept until the tick is noted as started.
        """
        monkeypatch.setattr("actorgraph.web.registries.thread_registry.YOUNG_S", 0)
        made, tick = await server.cron({**BODY, "schedule": "0 0 1 1 *"})
        cron = await server.server.crons.get(made["cron_id"])
        await server.actor.look(tick)
        (thread_id,) = await server.ended()
        await server.server.crons.note_fired(cron, tick - MINUTE)
        await server.server.temporary.sweep()
        kept = await server.ask("GET", f"/threads/{thread_id}")
        await server.server.crons.note_fired(cron, tick)
        await server.server.temporary.sweep()

        assert kept["thread_id"] == thread_id
        assert await server.ask("GET", f"/threads/{thread_id}") == 404
