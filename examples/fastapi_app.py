"""Durable runs inside a FastAPI application.

    uvicorn examples.fastapi_app:app

`POST /chat/{thread_id}` starts a run and streams it; the run goes on when the client goes away,
and waits for `POST /chat/{thread_id}/approve`, tomorrow and after a restart too. The routes of
LangGraph's clients are under `/graph`.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request

from actorgraph import ActorSystem, Command, SqliteSaver
from actorgraph.web import EventStream, GraphRoutes, running
from chat_graph import builder

saver = SqliteSaver(os.environ.get("CHAT_DB", "chat.db"))
system = ActorSystem(
    {"chat": builder.compile(checkpointer=saver)}, saver=saver, max_runs=200, drain_timeout_s=20
)


async def current_user(request: Request) -> str:
    """Return the client's name; a real application checks a token here."""
    user = request.headers.get("x-user")
    if user is None:
        raise HTTPException(401, "sign in first")
    return user


def may_touch(user: Any, action: str, thread_id: str | None, metadata: Any) -> Any:
    """A user's threads are those that begin with the user's name."""
    return thread_id is None or thread_id.startswith(f"{user}-")


User = Annotated[str, Depends(current_user)]


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """The system lives as long as the application, and is drained at its end."""
    async with running(system):
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/graph", GraphRoutes(system, authenticate=current_user, authorize=may_touch))


@app.post("/chat/{thread_id}")
async def chat(thread_id: str, body: dict[str, Any], request: Request, user: User) -> EventStream:
    """Start a run and stream it."""
    _check(user, thread_id)
    run = await system.start("chat", thread_id, body, durability="async", if_busy="enqueue")
    return EventStream(run, request, on_disconnect="continue")


@app.post("/chat/{thread_id}/approve")
async def approve(thread_id: str, body: dict[str, str], user: User) -> Any:
    """Answer the question that the run has asked, and return what it came to."""
    _check(user, thread_id)
    run = await system.start("chat", thread_id, Command(resume=body["verdict"]))
    return await run.result(timeout_s=30)


def _check(user: str, thread_id: str) -> None:
    if not may_touch(user, "runs.create", thread_id, {}):
        raise HTTPException(404, "not found")
