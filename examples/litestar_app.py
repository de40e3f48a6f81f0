"""Durable runs inside a Litestar application: the twin of `fastapi_app.py`.

uvicorn --app-dir examples litestar_app:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Request, asgi, post
from litestar.types import ASGIApp, Receive, Scope, Send
from starlette.requests import Request as StarletteRequest

from actorgraph import ActorSystem, Command, SqliteSaver
from actorgraph.web import EventStream, GraphRoutes, running
from chat_graph import builder

saver = SqliteSaver(os.environ.get("CHAT_DB", "chat.db"))
system = ActorSystem(
    {"chat": builder.compile(checkpointer=saver)}, saver=saver, max_runs=200, drain_timeout_s=20
)
routes = GraphRoutes(system)


@asynccontextmanager
async def lifespan(_: Litestar) -> AsyncIterator[None]:
    """The system lives as long as the application, and is drained at its end."""
    async with running(system):
        yield


@post("/chat/{thread_id:str}")
async def chat(thread_id: str, data: dict[str, Any], request: Request[Any, Any, Any]) -> ASGIApp:
    """Start a run and stream it."""
    run = await system.start("chat", thread_id, data, durability="async", if_busy="enqueue")
    asked = StarletteRequest(request.scope, request.receive)  # type: ignore[arg-type]
    return EventStream(run, asked, on_disconnect="continue")  # type: ignore[return-value]


@post("/chat/{thread_id:str}/approve", status_code=200)
async def approve(thread_id: str, data: dict[str, str]) -> Any:
    """Answer the question that the run has asked, and return what it came to."""
    run = await system.start("chat", thread_id, Command(resume=data["verdict"]))
    return await run.result(timeout_s=30)


@asgi("/graph", is_mount=True, copy_scope=True)
async def graph(scope: Scope, receive: Receive, send: Send) -> None:
    """LangGraph's routes."""
    await routes(scope, receive, send)  # type: ignore[arg-type]


app = Litestar(route_handlers=[chat, approve, graph], lifespan=[lifespan])
