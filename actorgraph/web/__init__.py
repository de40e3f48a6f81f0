"""The web: an actor system behind LangGraph's REST routes, and streams of runs for any application.

Needs the extra `web`. It runs wherever ASGI does: under uvicorn on asyncio, under hypercorn on
asyncio and trio; mounted into FastAPI, Starlette and Litestar, or alone.
"""

from actorgraph.web.access import Assistants, Authenticate, Authorize
from actorgraph.web.alone import serve
from actorgraph.web.app import GraphRoutes, served
from actorgraph.web.lifespans import running
from actorgraph.web.limits import Limits
from actorgraph.web.streams import EventStream
from actorgraph.web.table import ACTIONS

__all__ = [
    "ACTIONS",
    "Assistants",
    "Authenticate",
    "Authorize",
    "EventStream",
    "GraphRoutes",
    "Limits",
    "running",
    "serve",
    "served",
]
