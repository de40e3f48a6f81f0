"""Routes about the server itself. Whether it lives and is ready, everybody may ask.

What it does, in figures, is told to those who may know: `metrics.read`.
"""

from typing import Any

from starlette.responses import Response

from actorgraph.api.system_metrics import exposition
from actorgraph.web import answers
from actorgraph.web.endpoint import Call, Endpoint
from actorgraph.web.openapi import document
from actorgraph.web.problems import RESTART_S, problem

VERSION = "0.1.0"


async def ok(_: Call) -> answers.Ok:
    """It answers."""
    return answers.Ok()


async def ready(call: Call) -> Any:
    """It takes runs: 503 while it drains, or where its storage can't be used."""
    if call.serving.system.statistics().draining is not None:
        return problem(503, "draining", {"Retry-After": str(RESTART_S)})
    if not await call.serving.readiness.is_usable():  # why is in the log: everybody may ask
        return problem(503, "the storage can't be used", {"Retry-After": str(RESTART_S)})
    return answers.Ok()


async def info(_: Call) -> answers.Info:
    """What serves; not which graphs, as everybody may ask."""
    flags = {"assistants": True, "crons": False, "langsmith": False}
    return answers.Info(VERSION, VERSION, flags, {})


async def metrics(call: Call) -> Response:
    """The system's figures, for Prometheus; 501 where its client isn't installed."""
    text, media = exposition(call.serving.system)
    return Response(text, media_type=media)


async def openapi(_: Call) -> Any:
    """The description of all routes."""
    from actorgraph.web.table import ENDPOINTS as ALL

    return document(ALL, version=VERSION)


ENDPOINTS = (
    Endpoint("GET", "/ok", None, ok, answers.Ok, summary="Whether the server lives", rated=False),
    Endpoint(
        "GET",
        "/ready",
        None,
        ready,
        answers.Ok,
        summary="Whether the server takes runs",
        rated=False,
    ),
    Endpoint("GET", "/info", None, info, answers.Info, summary="What serves"),
    Endpoint(
        "GET",
        "/metrics",
        "metrics.read",
        metrics,
        str,
        media="text/plain",
        summary="The system's figures, in Prometheus's text format",
    ),
    Endpoint("GET", "/openapi.json", None, openapi, dict[str, Any], summary="This description"),
)
