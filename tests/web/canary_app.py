"""A server for two tenants, one of whose things are all made of one word; it shows what it logs.

`GET /observed` answers with the events at info and above and the spans since the last such
request. The principal is the header `x-user`; the tenant named `WORD` has graphs of its own.

    python -m tests.web.canary_app <server> <database> <lease_s> [<limits as JSON>]
"""

import json
import sys
from collections.abc import Mapping
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from actorgraph import ActorSystem, SqliteSaver, StateGraph, interrupt
from actorgraph.stores import SqliteStore
from actorgraph.web import GraphRoutes, Limits, running
from tests.web.apps import GRAPHS, Log
from tests.web.inspected_app import serve_with

WORD = "zanzibar"
"""Of the tenant whose things must stay hidden."""
OTHER = "other"
BODY_BYTES = 20_000
QUIET = ("debug",)

Owned = TypedDict("Owned", {"foo": str, "log": Annotated[list[str], add], WORD: str})


async def asks(state: Owned) -> dict[str, Any]:
    """Ask, in the tenant's words."""
    return {WORD: interrupt(f"{WORD}?")}


async def fails(state: Owned) -> dict[str, Any]:
    """Fail, in the tenant's words."""
    msg = f"{WORD} is broken"
    raise ValueError(msg)


def graphs() -> dict[str, StateGraph]:
    """Those shared by all, and those of the one tenant, whose names hold the word."""
    own = StateGraph(Owned).add_sequence([(f"{WORD}-node", asks)])
    bad = StateGraph(Owned).add_sequence([(f"{WORD}-node", fails)])
    inner = StateGraph(Log).add_node("inner", GRAPHS["log"].compile())
    made: dict[str, Any] = {"outer": inner.set_entry_point("inner")}
    made |= {name: GRAPHS[name] for name in ("log", "ask", "fail", "sleep")}
    made[f"{WORD}-agent"] = own.set_entry_point(f"{WORD}-node")
    made[f"{WORD}-broken"] = bad.set_entry_point(f"{WORD}-node")
    return made


def tenants(principal: str, action: str, thread_id: str | None, metadata: Mapping[str, Any]) -> Any:
    """Each principal has threads, assistants, crons and items of its own, and may read figures."""
    if action.startswith("metrics."):
        return True
    if action.startswith("store."):
        return metadata["namespace"][:1] == [principal]
    return {"tenant": principal}


class Observed:
    """The events that were logged, and the spans that have ended."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.events: list[str] = []

    def hear(self, _: Any, level: str, said: dict[str, Any]) -> dict[str, Any]:
        """A processor of structlog's."""
        if level not in QUIET:
            self.events.append(repr({"level": level, **said}))
        raise structlog.DropEvent

    def take(self) -> list[str]:
        """The log as text; it is emptied."""
        told = [span.to_json() for span in self.spans.get_finished_spans()] + self.events
        self.spans.clear()
        self.events.clear()
        return told


def application(path: Path, observed: Observed, **options: Any) -> Starlette:
    """The routes over a file, and those that show the inside."""
    saver = SqliteSaver(path)
    made = {name: graph.compile(checkpointer=saver) for name, graph in graphs().items()}
    system = ActorSystem(
        made, saver=saver, store=SqliteStore(f"{path}.store"), lease_s=600, drain_timeout_s=0.2
    )
    routes = GraphRoutes(
        system,
        authorize=tenants,
        authenticate=lambda request: request.headers.get("x-user"),
        assistants=lambda principal, name: principal == WORD or WORD not in name,
        limits=Limits(**{"stream_s": 0.05, "body_bytes": BODY_BYTES, "depth": 20, **options}),
    )

    async def tell(_: Request) -> JSONResponse:
        return JSONResponse(observed.take())

    return Starlette(
        lifespan=lambda app: running(system),
        routes=[Route("/observed", tell), Mount("/", routes)],
    )


def main(server: str, path: str, lease_s: str, limits: str = "{}") -> None:
    """Serve until SIGTERM."""
    observed = Observed()
    trace.set_tracer_provider(observed.provider)
    structlog.configure(processors=[observed.hear])
    serve_with(server, application(Path(path), observed, **json.loads(limits)))


if __name__ == "__main__":
    main(*sys.argv[1:])
