"""Contexts and inputs of assistants and crons, under a graph that has changed since."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import httpx
import pydantic
import pytest
import structlog
from msgspec.structs import replace
from structlog.testing import capture_logs

from actorgraph import START, ActorSystem, Runtime, StateGraph
from actorgraph.types import Migration
from actorgraph.values.checked_threads import SettingsTally, ThreadCheckReport
from actorgraph.web import GraphRoutes
from actorgraph.web.cron_actor import CronActor
from actorgraph.web.jobs.cron_plan import StartTick
from actorgraph.web.stored_checks import check_stored
from tests.changes.test_changed_contexts import KINDS, made, vars_of
from tests.support.every_saver import Store, store
from tests.support.every_store import Items, Shelf, items_beside
from tests.support.gates import PATIENCE_S
from tests.support.structlog_setup import configured

__all__ = ["configured", "store"]

pytestmark = pytest.mark.usefixtures("configured")

NAME = "tests.changes.test_changed_contexts:Settings"
TICK = datetime(2026, 1, 1, tzinfo=UTC)
OLD, NEW = {"model": str, "limit": int}, {"engine": str, "limit": int}
GIVEN = {"model": "x", "limit": 7}
HOURLY = {"assistant_id": "good", "schedule": "0 * * * *"}


class State(TypedDict, total=False):
    """The lines that the run has said."""

    foo: str
    said: Annotated[list[str], add]


def graph_with(schema: Any, state: Any, migrations: tuple[Migration, ...]) -> Any:
    """A graph whose node says which context it has got."""

    def say(_: Any, runtime: Runtime[Any]) -> Any:
        context = runtime.context
        shown = context if isinstance(context, dict | None) else vars_of(context)
        return {"said": [str(sorted((shown or {}).items()))]}

    builder = StateGraph(state, context_schema=schema).add_node("say", say)
    return builder.add_edge(START, "say").compile(name="g", migrations=migrations)


class Server:
    """One version of the program, served."""

    def __init__(self, system: ActorSystem, client: httpx.AsyncClient, routes: Any) -> None:
        self.system, self.http, self.server = system, client, routes.server
        self.crons = CronActor(self.server)

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        answer = await self.http.request(method, path, json=body)
        return answer.status_code, answer.json() if answer.content else None

    async def make(self, context: Any, **more: Any) -> None:
        """Make an assistant "good" with a context."""
        body = {"graph_id": "g", "assistant_id": "good", "context": context, **more}
        assert (await self.ask("POST", "/assistants", body))[0] == 200

    async def cron(self, **body: Any) -> str:
        """Make a cron as if that had been before `TICK`; its id."""
        status, answer = await self.ask(
            "POST", "/runs/crons", {**HOURLY, "input": {"foo": ""}, **body}
        )
        assert status == 200, answer
        await self.backdate(answer["cron_id"])
        return answer["cron_id"]

    async def backdate(self, cron_id: str) -> None:
        """Let a cron's ticks count since before `TICK`."""
        stored = await self.server.crons.get(cron_id)
        assert stored is not None
        since = (TICK - timedelta(minutes=1)).isoformat()
        await self.server.crons.put(replace(stored, since=since))

    async def fire(self) -> list[list[str]]:
        """Let the crons start what is due at `TICK`; what those runs said, in order."""
        before = {run.id for run in await self.system.runs()}
        due, refused = await self.due(), await self.refused("cron")
        await self.crons.look(TICK)
        assert await self.due() == due & refused, "the check says what the look does"
        with anyio.fail_after(PATIENCE_S):
            runs = [run for run in await self.system.runs() if run.id not in before]
            return sorted([(await run.result())["said"] for run in runs])

    async def run(self, **body: Any) -> tuple[int, Any]:
        """Run the assistant on a new thread, and wait."""
        given = {"assistant_id": "good", "input": {"foo": ""}, **body}
        refused = "good" in await self.refused("assistant")
        status, answer = await self.ask("POST", "/runs/wait", given)
        if "context" not in body:
            assert (status != 200) == refused, "the check says what the route does"
        return status, answer

    async def due(self) -> set[str]:
        """Ids of the crons whose tick is due at `TICK`."""
        crons = self.server.crons
        found = [(one, await crons.decide(one, TICK)) for one in await crons.all(enabled=True)]
        return {one.cron_id for one, decision in found if isinstance(decision, StartTick)}

    async def refused(self, kind: str) -> set[str]:
        """Ids of what the check says that it can't run."""
        tally = SettingsTally()
        await check_stored(self.server.graphs, self.server.store, tally)
        groups = tally.added_to(ThreadCheckReport(0, 0, 0, (), {})).settings
        bad = [one for one in groups if one.kind == kind and one.verdict == "refused"]
        assert all(one.count == len(one.examples) for one in bad)
        return {identifier for one in bad for identifier in one.examples}


class Place:
    """The database of one program, of which versions serve one after another."""

    def __init__(self, store: Store, items: Items) -> None:
        self._store, self._items = store, items

    @asynccontextmanager
    async def served(
        self, schema: Any, *migrations: Migration, state: Any = State
    ) -> AsyncIterator[Server]:
        graph = graph_with(schema, state, migrations)
        saver, items = self._store.again(), self._items.again()
        async with ActorSystem({"g": graph}, saver=saver, store=items) as one:
            routes = GraphRoutes(one)
            transport = httpx.ASGITransport(routes)
            async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
                yield Server(one, client, routes)


@pytest.fixture
def place(request: pytest.FixtureRequest, store: Store, tmp_path: Any) -> Iterator[Place]:
    with items_beside(request, store, tmp_path) as items:
        yield Place(store, items)


@pytest.fixture
def memory(tmp_path: Any) -> Place:
    return Place(Store("memory", tmp_path), Items(Shelf("memory", tmp_path)))


def moved(after: Any) -> Migration:
    """The migration of a renamed field; it takes what assistants have of the context."""

    def of(fields: dict[str, Any]) -> Any:
        return after(engine=fields.get("model", "none"), limit=fields.get("limit", 0))

    return Migration(types={NAME: of})


def with_defaults(**fields: Any) -> Any:
    """A class of the name of those before, with defaults; it ignores other keys."""
    listed: Any = {name: (type(value), value) for name, value in fields.items()}
    return pydantic.create_model("Settings", __module__=NAME.partition(":")[0], **listed)


def said(**fields: Any) -> list[str]:
    return [str(sorted(fields.items()))]


@pytest.mark.every_saver
async def test_a_cron_whose_schema_has_changed(place):
    """
    Its tick is refused with the Migration to write, once in the log, and no run is stored; the
    others start. With the Migration the same tick runs with the new context.
    """
    before, after = made("dataclass", OLD), made("dataclass", NEW)
    async with place.served(before) as server:
        await server.make(None)
        bad = await server.cron(context=GIVEN)
    async with place.served(after) as server:
        await server.cron(context={"engine": "y", "limit": 1})
        structlog.reset_defaults()
        with capture_logs() as log:
            first, second = await server.fire(), await server.fire()
    named = [one for one in log if one["event"] == "cron.misfit"]

    assert (first, second) == ([said(engine="y", limit=1)], [])
    assert [(one["cron_id"], one["log_level"]) for one in named] == [(bad, "error")]
    assert f"the context of cron '{bad}'" in named[0]["reason"]
    assert f"Migration(types={{{NAME!r}: " in named[0]["reason"]
    async with place.served(after, moved(after)) as server:
        assert await server.fire() == [said(engine="x", limit=7)]
        assert await server.fire() == []


@pytest.mark.parametrize("kind", KINDS)
async def test_an_assistant_of_each_kind_of_schema(memory, kind):
    """
    A run of it is refused with the Migration, and stores nothing; with it the run has the new
    context, also where the request gives a part, and so does a client that reads it.
    """
    before, after = made(kind, OLD), made(kind, NEW)
    async with memory.served(before) as server:
        await server.make(GIVEN)
    async with memory.served(after) as server:
        status, answer = await server.run()
        _, shown = await server.ask("GET", "/assistants/good")
        runs = await server.system.runs()
    assert (status, runs) == (409, [])
    assert f"Migration(types={{{NAME!r}: " in str(answer)
    assert "the context of assistant 'good'" in str(answer)
    assert shown["context"] == GIVEN
    async with memory.served(after, moved(after)) as server:
        assert (await server.run())[1]["said"] == said(engine="x", limit=7)
        status, answer = await server.run(context={"limit": 1})
        _, shown = await server.ask("GET", "/assistants/good")
    assert answer["said"] == said(engine="x", limit=1)
    assert shown["context"] == {"engine": "x", "limit": 7}


@pytest.mark.every_saver
async def test_settings_of_both_versions(place):
    """
    A migration's function is not called for what was written under it, over or below an older
    part; an older part of which it makes defaults doesn't hide what others give.
    """
    before, after = with_defaults(model="", limit=0), with_defaults(engine="", limit=0)
    strict = Migration(types={NAME: lambda fields: after(engine=fields["model"])})
    async with place.served(before) as server:
        await server.make(None)
        await server.cron(context={"model": "x"})
    async with place.served(after, strict) as server:
        await server.ask("PATCH", "/assistants/good", {"context": {"limit": 3}})
        assert await server.fire() == [said(engine="x", limit=3)]
        await server.cron(context={"engine": "z"})
        assert await server.fire() == [said(engine="z", limit=3)]
        assert (await server.run(context={"engine": "w"}))[1]["said"] == said(engine="w", limit=3)


@pytest.mark.every_saver
async def test_an_old_assistant_below_an_old_cron(place):
    """
    A function that needs all fields gets those of both, as the older version would have had them.
    """
    before, after = made("dataclass", OLD), made("dataclass", NEW)
    whole = Migration(types={NAME: lambda old: after(engine=old["model"], limit=old["limit"])})
    async with place.served(before) as server:
        await server.make({"model": "x", "limit": 3})
        await server.ask("PATCH", "/assistants/good", {"context": {"limit": 3}})
        await server.cron(context={"model": "y"})
    async with place.served(after, whole) as server:
        assert await server.fire() == [said(engine="y", limit=3)]


@pytest.mark.parametrize("place", ["context", "config"])
async def test_a_part_that_would_be_left_out(memory, place):
    """
    Where today's schema has defaults for all that is missing, a key that it has lost is found all
    the same, also among the `configurable` that older clients set: no run has half a context.
    """
    before, after = with_defaults(model="", limit=0), with_defaults(engine="", limit=0)
    given = GIVEN if place == "context" else {"configurable": GIVEN}
    async with memory.served(before) as server:
        await server.make(None, **({} if place == "context" else {"config": given}))
        if place == "context":
            await server.ask("PATCH", "/assistants/good", {"context": given})
        assert (await server.run())[1]["said"] == said(model="x", limit=7)
        await server.cron()
    async with memory.served(after) as server:
        status, answer = await server.run()
        assert (status, await server.system.runs()) == (409, [])
        assert "it would leave out 'model'" in str(answer)
        structlog.reset_defaults()
        with capture_logs() as log:
            assert await server.fire() == []
    assert "the context of assistant 'good'" in log[-1]["reason"]
    async with memory.served(after, moved(after)) as server:
        assert (await server.run())[1]["said"] == said(engine="x", limit=7)
        assert await server.fire() == [said(engine="x", limit=7)]


@pytest.mark.every_saver
async def test_settings_without_a_note(place):
    """
    Settings that an older version of the library stored are taken as a call's: converted by the
    schema, or refused with the Migration, which then makes the context.
    """
    before, after = made("dataclass", OLD), made("dataclass", NEW)
    async with place.served(None) as server:
        await server.make(GIVEN)
        await server.cron(input={"foo": ""})
        assert await server.fire() == [said(**GIVEN)]
        for cron in await server.server.crons.all():
            await server.server.crons.put(replace(cron, note={}))
        assert (await server.server.assistants.get("good")).now.note == {}
    async with place.served(before) as server:
        assert (await server.run())[1]["said"] == said(**GIVEN)
    async with place.served(after) as server:
        status, answer = await server.run()
        assert status in (409, 422)
        assert f"Migration(types={{{NAME!r}: " in str(answer)
    async with place.served(after, moved(after)) as server:
        assert (await server.run())[1]["said"] == said(engine="x", limit=7)


class Renamed(TypedDict, total=False):
    """The state with another name for its key."""

    bar: str
    said: Annotated[list[str], add]


@pytest.mark.every_saver
async def test_the_input_of_a_cron(place):
    """
    Keys that the graph has lost are refused, as those of runs that wait, and migrated as those.
    """
    async with place.served(None) as server:
        await server.make(None)
        bad = await server.cron(input={"foo": "x"})
    async with place.served(None, state=Renamed) as server:
        structlog.reset_defaults()
        with capture_logs() as log:
            assert await server.fire() == []
    (named,) = [one for one in log if one["event"] == "cron.misfit"]
    assert f"the input of cron '{bad}'" in named["reason"]
    assert "Migration(channels={'foo': " in named["reason"]
    async with place.served(None, Migration(channels={"foo": "bar"}), state=Renamed) as server:
        (run,) = [await server.fire()]
        (one,) = await server.system.runs()
        assert (await one.result())["bar"] == "x"
        assert len(run) == 1


@pytest.mark.parametrize(
    "context", [{"model": "x"}, {"model": "x", "limit": "many"}, {**GIVEN, "x": 1}]
)
async def test_a_new_cron_that_could_never_run(memory, context):
    """
    A context that the schema refuses is refused when the cron is made or changed.
    """
    async with memory.served(made("pydantic" if "limit" in context else "dataclass", OLD)) as one:
        await one.make(None)
        status, _ = await one.ask("POST", "/runs/crons", {**HOURLY, "context": context})
        good = await one.cron(context=GIVEN)
        changed, _ = await one.ask("PATCH", f"/runs/crons/{good}", {"context": context})

    assert (status, changed) == ((200, 200) if "x" in context else (422, 422))


@pytest.mark.every_saver
async def test_a_changed_cron(place):
    """
    A context that a client writes is of the version that takes it, the rest of the one before. One
    that doesn't fit can be switched off.
    """
    before, after = made("dataclass", OLD), made("dataclass", NEW)
    strict = Migration(types={NAME: lambda old: after(engine=old["model"], limit=old["limit"])})
    async with place.served(before) as server:
        await server.make(None)
        cron = await server.cron(context=GIVEN)
    async with place.served(after) as server:
        off, _ = await server.ask("PATCH", f"/runs/crons/{cron}", {"enabled": False})
        again, _ = await server.ask("PATCH", f"/runs/crons/{cron}", {"input": {}})
        assert (off, again) == (200, 409)
        await server.ask("PATCH", f"/runs/crons/{cron}", {"enabled": True})
        await server.backdate(cron)
    async with place.served(after, strict) as server:
        _, shown = await server.ask("PATCH", f"/runs/crons/{cron}", {"metadata": {"a": 1}})
        assert shown["payload"]["context"] == {"engine": "x", "limit": 7}
        context = {"engine": "new", "limit": 1}
        _, shown = await server.ask("PATCH", f"/runs/crons/{cron}", {"context": context})
        assert shown["payload"]["context"] == context
        assert await server.fire() == [said(**context)]
