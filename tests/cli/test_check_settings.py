"""`actorgraph check` and `doctor`: stored assistants and crons against a new version of a graph."""

import json
from types import SimpleNamespace
from typing import Any, TypedDict

import anyio
import httpx
import pytest

from actorgraph import START, ActorSystem, SqliteSaver, StateGraph
from actorgraph.cli.command_line import main
from actorgraph.stores import SqliteStore
from actorgraph.types import Migration
from actorgraph.values.checked_threads import ThreadCheckReport
from actorgraph.web import GraphRoutes
from tests.changes.test_changed_contexts import made
from tests.cli.command_runs import Ran
from tests.support.every_saver import store
from tests.support.every_store import items_beside

__all__ = ["store"]

NAME = "tests.changes.test_changed_contexts:Settings"
OLD, NEW = {"model": str}, {"engine": str}
HOURLY = {"schedule": "0 * * * *"}
versions = SimpleNamespace()
"""The program's system, as the commands find it."""


class State(TypedDict, total=False):
    foo: str


class Renamed(TypedDict, total=False):
    bar: str


def graph_with(schema, migrations=(), state=State):
    """A graph with a context schema."""
    builder = StateGraph(state, context_schema=schema).add_node("say", lambda _: {})
    return builder.add_edge(START, "say").compile(name="g", migrations=migrations)


class Place:
    """The database and the store of a program, of which versions are deployed."""

    def __init__(self, store, items):
        self._store, self.items = store, items

    def deploy(self, schema, *migrations, state=State, name="g"):
        """Let the commands find a version; its system."""
        graphs = {name: graph_with(schema, migrations, state)}
        versions.system = ActorSystem(graphs, saver=self._store.again(), store=self.items.again())
        return versions.system

    def serve(self, schema, *requests, state=State):
        """Serve a version, and send it requests to POST."""

        async def work():
            async with self.deploy(schema, state=state) as system:
                transport = httpx.ASGITransport(GraphRoutes(system))
                async with httpx.AsyncClient(transport=transport, base_url="http://t") as client:
                    for path, body in requests:
                        answer = await client.post(path, json=body)
                        assert answer.status_code == 200, answer.text

        anyio.run(work)


@pytest.fixture
def place(request, store, tmp_path):
    with items_beside(request, store, tmp_path) as items:
        yield Place(store, items)


@pytest.fixture
def check(capsys):
    """Check a version; by default its system."""

    def run(*words, what="system"):
        code = main(["check", f"{__name__}:versions.{what}", *words])
        return Ran(code, *capsys.readouterr())

    return run


def assistant(name, context, **more: Any):
    return "/assistants", {"graph_id": "g", "assistant_id": name, "context": context, **more}


def cron(of, **more: Any):
    return "/runs/crons", {**HOURLY, "assistant_id": of, "input": {}, **more}


def groups(ran):
    """Kind, verdict, count and reasons of each group."""
    report = ran.json(ThreadCheckReport)
    return [
        (one.kind, one.verdict, one.count, [reason.text for reason in one.reasons])
        for one in report.settings
    ]


def refusal(what):
    return f"{what}, a {NAME!r}, was for another version, which graph 'g"


@pytest.mark.every_saver
def test_settings_that_no_longer_fit(place, check):
    """
    They are counted by what becomes of them, with ids, the words of waiting runs and the Migration
    to write, and make the exit code 1; with the Migration they go on, and nothing is changed.
    """
    old = {"model": "x"}
    place.serve(
        made("dataclass", OLD),
        *(assistant(name, old) for name in ("a1", "a2", "a3", "a4")),
        assistant("bare", {}),
        cron("a1"),
        cron("g", context=old),
        cron("g", context=old, enabled=False),
    )
    before = place.items.again().search(("actorgraph",), limit=100)
    after = made("dataclass", NEW)
    place.deploy(after)
    refused, shown = check("--json"), check()
    place.deploy(after, Migration(types={NAME: lambda old: after(engine=old["model"])}))
    fixed = check("--json")

    found = {(kind, verdict, count) for kind, verdict, count, _ in groups(refused)}
    assert found == {("assistant", "refused", 4), ("assistant", "fits", 1), ("cron", "refused", 1)}
    assert groups(refused)[0][3][0].startswith(refusal("an assistant is stored whose context"))
    assert {texts[0].split(",")[0] for kind, *_, texts in groups(refused) if kind == "cron"} == {
        "a cron is stored whose assistant's context",
        "a cron is stored whose context",
    }
    assert (refused.code, shown.code, fixed.code) == (1, 1, 0)
    assert "4 refused  assistants of graph g" in shown.out
    assert "ids: a1, a2, a3, ..." in shown.out
    assert shown.out.count(f"\n  Migration(types={{{NAME!r}: ") == 1
    assert {one[:3] for one in groups(fixed)} == {
        ("assistant", "migrated", 4),
        ("assistant", "fits", 1),
        ("cron", "migrated", 2),
    }
    assert place.items.again().search(("actorgraph",), limit=100) == before


@pytest.fixture
def served(tmp_path):
    """A program's place without a saver's kind: files of SQLite."""
    items = SimpleNamespace(again=lambda: SqliteStore(tmp_path / "items.db"))
    return Place(SimpleNamespace(again=lambda: SqliteSaver(tmp_path / "runs.db")), items)


def test_the_input_of_a_cron(served, check):
    """
    A key that the state has lost is a reason with its Migration, and a renamed one is migrated.
    """
    served.serve(None, cron("g", input={"foo": "x"}))
    served.deploy(None, state=Renamed)
    refused = check("--json")
    served.deploy(None, Migration(channels={"foo": "bar"}), state=Renamed)

    ((kind, verdict, count, (reason,)),) = groups(refused)
    assert (refused.code, kind, verdict, count) == (1, "cron", "refused", 1)
    assert reason.startswith("a cron is stored whose input was for another version")
    assert "Migration(channels={'foo': " in refused.json(ThreadCheckReport).cures[0]
    assert [one[:3] for one in groups(check("--json"))] == [("cron", "migrated", 1)]


def test_a_migration_that_raises(served, check):
    """
    A context that a function can't convert is refused, and the others are checked.
    """
    served.serve(made("dataclass", OLD), assistant("bad", {"model": "x"}), assistant("ok", {}))
    served.deploy(made("dataclass", NEW), Migration(types={NAME: lambda old: old["absent"]}))
    ran = check("--json")

    assert ran.code == 1
    assert [one[:3] for one in groups(ran)] == [
        ("assistant", "refused", 1),
        ("assistant", "fits", 1),
    ]
    assert "can't be read" in groups(ran)[0][3][0]


@pytest.mark.parametrize("kind", ["system", "routes", "application", "graph"])
def test_each_kind_of_target(served, check, kind):
    """
    A system, its routes and an application that mounts them have a store; a graph alone has none.
    """
    from starlette.applications import Starlette
    from starlette.routing import Mount

    served.serve(made("dataclass", OLD), assistant("a", {"model": "x"}))
    system = served.deploy(made("dataclass", NEW))
    versions.graph = system.graphs["g"]
    versions.routes = GraphRoutes(system)
    versions.application = Starlette(routes=[Mount("/api", app=versions.routes)])
    ran = check("--json", what=kind)

    assert ran.code == (0 if kind == "graph" else 1)
    assert len(groups(ran)) == (0 if kind == "graph" else 1)


def test_settings_of_other_graphs(served, check):
    """
    Assistants and crons of graphs that the program doesn't have are counted, and not checked.
    """
    served.serve(None, assistant("a", {}), cron("a"), cron("g"))
    served.deploy(None, name="other")
    ran, shown = check("--json"), check()

    assert (ran.code, groups(ran)) == (0, [])
    assert ran.json(ThreadCheckReport).other_settings == {"": 1, "g": 2}
    assert "2 of the assistants and crons are of graph g, which isn't among these" in shown.out


def test_a_store_that_was_never_used(served, check, tmp_path):
    """
    Its file isn't made.
    """
    with SqliteSaver(tmp_path / "runs.db"):
        served.deploy(None)
    ran = check("--json")

    assert (ran.code, groups(ran)) == (0, [])
    assert not (tmp_path / "items.db").exists()


def test_the_doctor_names_them(served, capsys, tmp_path):
    """
    `doctor` with the system reports the assistants that its graph refuses.
    """
    served.serve(made("dataclass", OLD), assistant("a", {"model": "x"}))
    served.deploy(made("dataclass", NEW))
    words = ["doctor", str(tmp_path / "runs.db"), "--app", f"{__name__}:versions.system", "--json"]
    code = main(words)
    found = json.loads(capsys.readouterr().out)["findings"]
    (named,) = [one for one in found if one["code"] == "settings.refused"]

    assert code == 1
    assert named["text"].startswith(
        refusal("1 assistant of graph g can't run, such as a: an assistant is stored whose context")
    )
    assert f"Migration(types={{{NAME!r}: " in named["do"]
