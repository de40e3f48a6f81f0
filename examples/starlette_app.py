"""Durable runs inside a Starlette application: the twin of `fastapi_app.py`.

uvicorn --app-dir examples starlette_app:app
hypercorn --worker-class trio starlette_app:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from actorgraph import ActorSystem, Command, SqliteSaver
from actorgraph.web import EventStream, GraphRoutes, running
from chat_graph import builder

saver = SqliteSaver(os.environ.get("CHAT_DB", "chat.db"))
system = ActorSystem(
    {"chat": builder.compile(checkpointer=saver)}, saver=saver, max_runs=200, drain_timeout_s=20
)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """The system lives as long as the application, and is drained at its end."""
    async with running(system):
        yield


async def chat(request: Request) -> Response:
    """Start a run and stream it."""
    thread_id, body = request.path_params["thread_id"], await request.json()
    run = await system.start("chat", thread_id, body, durability="async", if_busy="enqueue")
    return EventStream(run, request, on_disconnect="continue")


async def approve(request: Request) -> Response:
    """Answer the question that the run has asked, and return what it came to."""
    thread_id, body = request.path_params["thread_id"], await request.json()
    run = await system.start("chat", thread_id, Command(resume=body["verdict"]))
    return JSONResponse(await run.result(timeout_s=30))


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/chat/{thread_id}", chat, methods=["POST"]),
        Route("/chat/{thread_id}/approve", approve, methods=["POST"]),
        Mount("/graph", GraphRoutes(system)),
    ],
)
