"""Serve an actor system over HTTP: LangGraph's REST routes, and run streams for ASGI applications.

Needs the extra `web`. Runs under uvicorn on asyncio and under hypercorn on asyncio and trio:
mounted into FastAPI, Starlette or Litestar, or as an application of its own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from actorgraph.errors import MissingExtraError

if TYPE_CHECKING:
    # Imported at their first use, so that files that need no starlette can be imported without it.
    from actorgraph.web.app import GraphRoutes, serve, served
    from actorgraph.web.http.access import Assistants, Authenticate, Authorize
    from actorgraph.web.http.event_responses import EventStream
    from actorgraph.web.http.problems import AccessRevoked
    from actorgraph.web.http.request_limits import Limits
    from actorgraph.web.jobs.webhook_policy import WebhookPolicy
    from actorgraph.web.lifespan import running
    from actorgraph.web.routes import ACTIONS

_HOMES = {
    "ACTIONS": "actorgraph.web.routes",
    "AccessRevoked": "actorgraph.web.http.problems",
    "Assistants": "actorgraph.web.http.access",
    "Authenticate": "actorgraph.web.http.access",
    "Authorize": "actorgraph.web.http.access",
    "EventStream": "actorgraph.web.http.event_responses",
    "GraphRoutes": "actorgraph.web.app",
    "Limits": "actorgraph.web.http.request_limits",
    "WebhookPolicy": "actorgraph.web.jobs.webhook_policy",
    "running": "actorgraph.web.lifespan",
    "serve": "actorgraph.web.app",
    "served": "actorgraph.web.app",
}

__all__ = [
    "ACTIONS",
    "AccessRevoked",
    "Assistants",
    "Authenticate",
    "Authorize",
    "EventStream",
    "GraphRoutes",
    "Limits",
    "WebhookPolicy",
    "running",
    "serve",
    "served",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        home = import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("actorgraph"):
            raise
        raise MissingExtraError(
            f"actorgraph.web needs the package {error.name}, which isn't installed",
            do="pip install 'actorgraph[web]'",
        ) from error
    found = globals()[name] = getattr(home, name)
    return found
