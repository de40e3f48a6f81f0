"""Routes for the server itself: liveness, readiness, version and metrics.

They need no permission, except the metrics, which need the action `metrics.read`.
"""

from typing import Any

from starlette.responses import Response

from actorgraph.internals import __version__, exposition
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.http import response_types
from actorgraph.web.http.problems import RESTART_S, problem


async def ok(_: ApiCall) -> response_types.Ok:
    """Report that the server is up."""
    return response_types.Ok()


async def ready(call: ApiCall) -> Any:
    """Report whether the server takes runs: 503 while it drains, or without usable storage."""
    now = call.server.system.statistics()
    if now.draining is not None:
        return problem(503, "The server is draining", {"Retry-After": str(RESTART_S)})
    if not await call.server.readiness.is_usable():  # the reason is in the log only: this is public
        return problem(503, "The storage is unavailable", {"Retry-After": str(RESTART_S)})
    if now.dispatch is None:
        return response_types.Ready(ok=True)
    return response_types.Ready(ok=True, dispatch="away" if now.dispatch.away_s else "ok")


async def info(_: ApiCall) -> response_types.Info:
    """Return version and features; not the graphs, because this is public."""
    flags = {"assistants": True, "crons": True, "langsmith": False, "strict_resume": True}
    return response_types.Info(__version__, __version__, flags, {})


async def metrics(call: ApiCall) -> Response:
    """Return the system's metrics for Prometheus; 501 where its client isn't installed.

    Those by graph are of the graphs that the client may see.
    """
    await call.server.system.thread_counter.look()
    text, media = exposition(call.server.system, call.graphs, call.server.refusals.counts)
    return Response(text, media_type=media)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/ok",
        None,
        ok,
        response_types.Ok,
        summary="Check that the server is up",
        rate_limited=False,
    ),
    Endpoint(
        "GET",
        "/ready",
        None,
        ready,
        response_types.Ready,
        summary="Check that the server takes runs",
        rate_limited=False,
    ),
    Endpoint("GET", "/info", None, info, response_types.Info, summary="Get the server's version"),
    Endpoint(
        "GET",
        "/metrics",
        "metrics.read",
        metrics,
        str,
        media="text/plain",
        summary="Get the system's metrics in Prometheus's text format",
    ),
)
