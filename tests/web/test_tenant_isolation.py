"""No answer, event, log line, metric or span of one tenant holds anything of another's."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from msgspec.structs import replace
from opentelemetry import trace

from actorgraph.api.system.thread_finder import ThreadFinder
from actorgraph.errors import EmptyInputError, did_you_mean
from actorgraph.runtime.log import event
from actorgraph.runtime.run import start as runs
from actorgraph.values.retention import ListThreads
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.http.problems import Forbidden
from actorgraph.web.routes import ENDPOINTS
from tests.support.structlog_setup import configured
from tests.web.canary import NEAR, Place, everything, not_reached
from tests.web.canary_app import Observed, application

__all__ = ["configured"]

pytestmark = pytest.mark.usefixtures("configured")


@asynccontextmanager
async def served(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """A server in this process, with what both tenants have."""
    observed = Observed()
    structlog.configure(processors=[observed.hear])
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", observed.provider)
    app = application(path / "runs.db", observed)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://t") as client,
    ):
        place = Place(client)
        await place.fill()
        yield place


def at(*paths: str) -> list[Endpoint]:
    """The endpoints of these paths."""
    return [endpoint for endpoint in ENDPOINTS if endpoint.path in paths]


@pytest.mark.one_loop
async def test_the_word_never_comes_back(tmp_path, monkeypatch):
    """
    After any request of another tenant to any route, nothing that a tenant has comes back,
    and an id of that one's is answered as one that doesn't exist.
    """
    async with served(tmp_path, monkeypatch) as place:
        await everything(place, few=1)

    assert not place.leaks, "\n".join([str(len(place.leaks)), *place.leaks[:20]])
    assert not_reached(place) == []


def near_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that suggests ids of threads."""
    load = runs.load

    async def suggests(host: Any, codec: Any, plan: Any, address: Any, **more: Any) -> Any:
        found = await load(host, codec, plan, address, **more)
        if found.restored is None and address.thread_id == f"{NEAR}-thread":
            known = await host.reader.ask(ListThreads())
            raise EmptyInputError("no input", do=did_you_mean(address.thread_id, known))
        return found

    monkeypatch.setattr(runs, "load", suggests)


def handled(monkeypatch: pytest.MonkeyPatch, path: str, handle: Any) -> None:
    """Another function behind a path."""
    table = [replace(one, handle=handle) if one.path == path else one for one in ENDPOINTS]
    monkeypatch.setattr("actorgraph.web.app.ENDPOINTS", table)


def names_of_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route without permissions that names all graphs."""

    async def info(call: ApiCall) -> Any:
        return sorted(call.server.graphs)

    handled(monkeypatch, "/info", info)


def search_without_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that forgets whose threads to look through."""
    find = ThreadFinder.find
    monkeypatch.setattr(
        ThreadFinder, "find", lambda self, query: find(self, replace(query, facts=()))
    )


def a_line_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route that logs what others have."""

    async def ok(call: ApiCall) -> Any:
        event(
            "info", "served", threads=[one.thread_id for one in await call.server.threads.all({})]
        )
        return {}

    handled(monkeypatch, "/ok", ok)


def a_status_that_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A route that refuses another's thread otherwise than one that isn't there."""

    async def prune(call: ApiCall) -> Any:
        for one in call.body.thread_ids:
            if await call.server.threads.get(one) is not None:
                raise Forbidden("threads.delete")
        return {"pruned_count": 0}

    handled(monkeypatch, "/threads/prune", prune)


@pytest.mark.one_loop
@pytest.mark.parametrize(
    ("plant", "path"),
    [
        (near_ids, "/threads/{thread_id}/runs/wait"),
        (near_ids, "/threads/{thread_id}/runs/stream"),
        (names_of_graphs, "/info"),
        (search_without_rules, "/threads/search"),
        (a_line_in_the_log, "/ok"),
        (a_status_that_tells, "/threads/prune"),
    ],
)
async def test_a_leak_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], path: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """
    A leak of each kind, planted in a route, is found by the same requests.
    """
    plant(monkeypatch)
    async with served(tmp_path, monkeypatch) as place:
        await everything(place, 1, at(path))

    assert place.leaks


class TestNewRoutes:
    async def test_one_that_cannot_be_asked_is_found(self, tmp_path, monkeypatch):
        """
        A route with a parameter of which no value is known, or that refuses all, is reported.
        """

        async def refuses(_: ApiCall) -> None:
            raise Forbidden("anything")

        unknown = Endpoint("GET", "/secrets/{secret_id}", "threads.read", refuses)
        closed = Endpoint("GET", "/closed", None, refuses)
        monkeypatch.setattr("actorgraph.web.app.ENDPOINTS", [*ENDPOINTS, unknown, closed])
        async with served(tmp_path, monkeypatch) as place:
            with pytest.raises(AssertionError, match="secret_id"):
                await everything(place, 1, [unknown])
            await everything(place, 1, [closed])

        assert not_reached(place, [closed]) == ["GET /closed"]
