"""Arguments of runs, for clients: `kwargs` in the form of LangGraph's server."""

from contextlib import suppress
from typing import Any

from actorgraph.errors import ActorGraphError
from actorgraph.internals import (
    DAMAGED,
    UNREADABLE,
    Namespace,
    SpanEvents,
    StartCall,
    assistant_id,
    graph_at,
    nodes_of,
    stored_call,
)
from actorgraph.systems import Run
from actorgraph.types import Command
from actorgraph.web.endpoints.endpoint import ApiCall
from actorgraph.web.endpoints.run_start import KEPT
from actorgraph.web.http.event_translator import EVENTS


def kwargs_of(call: ApiCall, run: Run) -> dict[str, Any]:
    """Return what a run was started with; only its stream modes if the rest can't be read.

    Keys of `configurable` that begin with two underscores are left out: they are the library's.
    """
    said: dict[str, Any] = run.metadata.get(KEPT, {})
    found: dict[str, Any] = {
        "stream_mode": said.get("stream_mode", []),
        "subgraphs": bool(said.get("subgraphs")),
        "webhook": said.get("webhook"),
    }
    graph = call.graphs.get(run.graph)
    if graph is None or not run.row.payload:
        return found
    with suppress(*UNREADABLE, *DAMAGED, ActorGraphError):  # a list must not fail for one run
        stored, _ = stored_call(graph, run.row, claimed=False)
        found = {**found, **_shown(stored, run)}
    return found


def assistant_of_run(run: Run) -> str:
    """Return the id of the assistant that a run was started with."""
    return run.metadata.get(KEPT, {}).get("assistant") or assistant_id(run.graph)


def spans_of(call: ApiCall, run: Run) -> SpanEvents | None:
    """Return what makes the events of mode "events" of a run's chunks; None for other modes."""
    graph = call.graphs.get(run.graph)
    if graph is None or EVENTS not in run.metadata.get(KEPT, {}).get("stream_mode", ()):
        return None
    found = kwargs_of(call, run)
    config = found.get("config") or {}

    def name_at(namespace: Namespace) -> str:
        inner: Any = graph_at(graph, nodes_of("|".join(namespace)))
        return run.graph if inner is None else inner.plan.name

    given, tags, metadata = found.get("input"), config.get("tags"), config.get("metadata")
    return SpanEvents(name_at, given, (), list(tags or ()), metadata or {}, run_id=run.id)


def _shown(stored: StartCall, run: Run) -> dict[str, Any]:
    options: dict[str, Any] = dict(stored.options)
    config, given = dict(stored.config), stored.given
    place: dict[str, Any] = config.get("configurable") or {}
    named = {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "graph_id": run.graph,
        "assistant_id": assistant_of_run(run),
    }
    shown = {key: value for key, value in place.items() if not key.startswith("__")}
    found: dict[str, Any] = {
        "input": given,
        "command": None,
        "config": {**config, "configurable": {**named, **shown}},
        "context": options.get("context"),
        "interrupt_before": options.get("interrupt_before"),
        "interrupt_after": options.get("interrupt_after"),
        "durability": options.get("durability"),
        "resumable": stored.resumable,
    }
    if isinstance(given, Command):
        parts = {"resume": given.resume, "update": given.update, "goto": given.goto or None}
        found["input"] = None
        found["command"] = {key: part for key, part in parts.items() if part is not None}
    return found
