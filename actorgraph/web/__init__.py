"""Serve an actor system over HTTP: LangGraph's REST routes, and run streams for ASGI applications.

Needs the extra `web`. Runs under uvicorn on asyncio and under hypercorn on asyncio and trio:
mounted into FastAPI, Starlette or Litestar, or as an application of its own.
"""

from actorgraph.errors import MissingExtraError

try:
    __import__("starlette")
except ImportError as _error:
    raise MissingExtraError(
        f"actorgraph.web needs the package {_error.name}, which isn't installed",
        do="pip install 'actorgraph[web]'",
    ) from _error

from actorgraph.web.app import GraphRoutes, serve, served
from actorgraph.web.jobs.webhook_policy import WebhookPolicy
from actorgraph.web.lifespan import running
from actorgraph.web.requests.access import Assistants, Authenticate, Authorize
from actorgraph.web.requests.event_responses import EventStream
from actorgraph.web.requests.request_limits import Limits
from actorgraph.web.routes import ACTIONS

__all__ = [
    "ACTIONS",
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
