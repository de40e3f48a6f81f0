"""A chat for people: runs that survive closed pages and killed servers, behind one page.

    python -m chat [--port 8000] [--db chat.db]

A conversation is a thread. A message starts a run and returns its id; the page follows
`/api/runs/{run_id}/events` until the run ends. The events are stored, so that a page that lost
its connection misses nothing, not even when the server was killed meanwhile.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Body, Depends, FastAPI, HTTPException, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware

from actorgraph.errors import InvalidResumeError, RunNotFoundError
from actorgraph.systems import Run
from actorgraph.web import EventStream, running
from chat.chats import Chats
from chat.guard import Guard
from chat.login import COOKIE, USERS, Login

STATIC = Path(__file__).parent / "static"
Text = Annotated[str, Body(embed=True, min_length=1, max_length=4_000)]
routes = APIRouter(prefix="/api")


async def current_user(request: Request) -> str:
    """Return the user of a request; 401 without one."""
    return request.app.state.login.user(request)


def all_chats(request: Request) -> Chats:
    """Return the conversations of the application."""
    return request.app.state.chats


User = Annotated[str, Depends(current_user)]
AllChats = Annotated[Chats, Depends(all_chats)]


async def own_chat(chat_id: str, user: User) -> str:
    """Return the id of a conversation, if it is the user's; another one doesn't exist for them."""
    if not chat_id.startswith(f"{user}-"):
        raise HTTPException(404, "no such conversation")
    return chat_id


async def own_run(run_id: str, user: User, chats: AllChats) -> Run:
    """Return a run, if it is of a conversation of the user."""
    try:
        run = await chats.system.run(run_id)
    except RunNotFoundError:
        raise HTTPException(404, "no such run") from None
    await own_chat(run.thread_id, user)
    return run


OwnChat = Annotated[str, Depends(own_chat)]


@routes.get("/users")
async def users() -> tuple[str, ...]:
    """Return who may log in."""
    return USERS


@routes.post("/login", status_code=204)
async def log_in(
    user: Annotated[str, Body(embed=True)], request: Request, response: Response
) -> None:
    """Set the cookie of a user."""
    request.app.state.login.begin(user, response, https=request.url.scheme == "https")


@routes.post("/logout", status_code=204)
async def log_out(response: Response) -> None:
    """Remove the cookie."""
    response.delete_cookie(COOKIE)


@routes.get("/chats")
async def list_chats(user: User, chats: AllChats) -> dict[str, Any]:
    """Return the user and the conversations, the newest first."""
    return {"user": user, "chats": await chats.list_of(user)}


@routes.post("/chats")
async def new_chat(user: User) -> dict[str, str]:
    """Return the id of a new conversation; it is stored with its first message."""
    return {"id": f"{user}-{uuid4()}"}


@routes.get("/chats/{chat_id}")
async def show_chat(chat_id: OwnChat, chats: AllChats) -> dict[str, Any]:
    """Return the messages, the open questions and the open run of a conversation."""
    return await chats.show(chat_id)


@routes.post("/chats/{chat_id}/messages")
async def send(chat_id: OwnChat, text: Text, chats: AllChats) -> dict[str, str]:
    """Start a run that answers a message; returns its id at once."""
    return await chats.start(chat_id, text)


@routes.post("/chats/{chat_id}/answers")
async def answer(
    chat_id: OwnChat, answers: Annotated[dict[str, Any], Body(embed=True)], chats: AllChats
) -> dict[str, str]:
    """Start a run that goes on with the answers to questions; wrong ones are refused before."""
    try:
        return await chats.answer(chat_id, answers)
    except InvalidResumeError as error:
        raise HTTPException(422, str(error).splitlines()[0]) from error


@routes.get("/runs/{run_id}/events")
async def events(run: Annotated[Run, Depends(own_run)], request: Request) -> EventStream:
    """Stream a run, to a client that comes back from the event after its last one."""
    return EventStream(run, request, stream_mode=["messages"])


@routes.post("/runs/{run_id}/cancel")
async def cancel(run: Annotated[Run, Depends(own_run)]) -> dict[str, str]:
    """Stop a run; what its finished nodes did stays."""
    return {"status": await run.cancel("stopped by its user")}


def make_app(
    database: Path | str = "chat.db", *, word_s: float = 0.045, resumable: bool = True
) -> FastAPI:
    """Return the application.

    Args:
        database: conversations, runs and their events; made if it isn't there.
        word_s: seconds between two words of an answer.
        resumable: whether events are stored; without, a page that reconnects after a restart gets
            a gap and the whole state.
    """
    path = Path(database)
    chats = Chats(path, word_s=word_s, resumable=resumable)
    login = Login(path.with_suffix(".secret"))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with running(chats.system):
            yield

    app = FastAPI(title="Chat", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.chats, app.state.login = chats, login
    app.include_router(routes)
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app.add_middleware(Guard)
    return app
