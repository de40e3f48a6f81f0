"""A chat for people: runs that survive closed pages and killed servers, behind one page.

    python -m chat [--port 8000] [--db chat.db]

A conversation is a thread, whose id begins with its user's name. A message starts a run and
returns its id; the page follows `/api/runs/{run_id}/events` until the run ends. Runs are
`resumable`: their events are stored, so that a page that lost its connection misses nothing, not
even when the server was killed meanwhile.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Body, Depends, FastAPI, HTTPException, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import FileResponse

from actorgraph import ActorSystem, CompiledStateGraph, SqliteSaver
from actorgraph.errors import InvalidResumeError, RunNotFoundError
from actorgraph.messages import BaseMessage, HumanMessage
from actorgraph.systems import Run
from actorgraph.web import EventStream, running
from chat.graph import make_graph
from chat.guard import Guard
from chat.login import COOKIE, USERS, Login

STATIC = Path(__file__).parent / "static"
TEXT_MAX = 4_000
CHATS_MAX = 50


class Chats:
    """The conversations of the users, and their runs."""

    def __init__(self, database: Path, *, word_s: float, resumable: bool) -> None:
        saver = SqliteSaver(str(database))
        self.graph: CompiledStateGraph[Any] = make_graph(word_s).compile(checkpointer=saver)
        self.system = ActorSystem({"chat": self.graph}, saver=saver, drain_timeout_s=10)
        self._resumable = resumable

    async def start(self, chat_id: str, text: str) -> dict[str, str]:
        """Start a run that answers a message; an answer that is being written goes first."""
        message = HumanMessage(text, id=str(uuid4()))
        run = await self.system.start(
            "chat",
            chat_id,
            {"messages": [message]},
            stream_mode=["messages"],
            resumable=self._resumable,
            if_busy="enqueue",
        )
        return {"run": run.id, "message": message.id or ""}

    async def answer(self, chat_id: str, answers: dict[str, Any]) -> dict[str, str]:
        """Start a run that goes on with a person's answers; wrong ones are refused before."""
        run = await self.system.resume(
            "chat",
            chat_id,
            answers=answers,
            stream_mode=["messages"],
            resumable=self._resumable,
        )
        return {"run": run.id}

    async def show(self, chat_id: str) -> dict[str, Any]:
        """Return what is stored of a conversation, and its open run."""
        open_runs = await self.system.runs(chat_id, statuses=["pending", "running"])
        state = await self.graph.aget_state(chat_id)
        asked = state.interrupts if state and not open_runs else ()
        return {
            "messages": [shown(one) for one in messages_of(state)],
            "questions": [
                {"id": one.id, "text": str(one.value), "schema": one.response_schema}
                for one in asked
            ],
            "run": open_runs[0].id if open_runs else None,
        }

    async def list_of(self, user: str) -> list[dict[str, str]]:
        """Return the newest conversations of a user."""
        found = await self.system.threads(prefix=f"{user}-", limit=CHATS_MAX)
        return [
            {"id": one.thread_id, "title": await self._title(one.thread_id), "phase": one.phase}
            for one in found
        ]

    async def _title(self, chat_id: str) -> str:
        messages = messages_of(await self.graph.aget_state(chat_id))
        return messages[0].text[:80] if messages else "New conversation"


def messages_of(state: Any) -> list[BaseMessage]:
    """Return the messages of a thread's state, if it has one."""
    return state.values.get("messages", []) if state else []


def shown(message: BaseMessage) -> dict[str, str | None]:
    """Return a message as the page needs it."""
    return {"id": message.id, "type": message.type, "content": message.text}


def api(chats: Chats, login: Login) -> APIRouter:
    """Return the routes that the page calls."""
    routes = APIRouter(prefix="/api")
    User = Annotated[str, Depends(login.user)]

    async def own_chat(chat_id: str, user: User) -> str:
        if not chat_id.startswith(f"{user}-"):
            raise HTTPException(404, "no such conversation")
        return chat_id

    async def own_run(run_id: str, user: User) -> Run:
        try:
            run = await chats.system.run(run_id)
        except RunNotFoundError:
            run = None
        if run is None or not run.thread_id.startswith(f"{user}-"):
            raise HTTPException(404, "no such run")
        return run

    OwnChat, OwnRun = Annotated[str, Depends(own_chat)], Annotated[Run, Depends(own_run)]

    @routes.get("/users")
    async def users() -> tuple[str, ...]:
        return USERS

    @routes.post("/login", status_code=204)
    async def log_in(
        user: Annotated[str, Body(embed=True)], request: Request, response: Response
    ) -> None:
        login.begin(user, response, https=request.url.scheme == "https")

    @routes.post("/logout", status_code=204)
    async def log_out(response: Response) -> None:
        response.delete_cookie(COOKIE)

    @routes.get("/chats")
    async def list_chats(user: User) -> dict[str, Any]:
        return {"user": user, "chats": await chats.list_of(user)}

    @routes.post("/chats")
    async def new_chat(user: User) -> dict[str, str]:
        return {"id": f"{user}-{uuid4()}"}

    @routes.get("/chats/{chat_id}")
    async def show(chat_id: OwnChat) -> dict[str, Any]:
        return await chats.show(chat_id)

    @routes.post("/chats/{chat_id}/messages")
    async def send(
        chat_id: OwnChat, text: Annotated[str, Body(embed=True, min_length=1, max_length=TEXT_MAX)]
    ) -> dict[str, str]:
        return await chats.start(chat_id, text)

    @routes.post("/chats/{chat_id}/answers")
    async def answer(
        chat_id: OwnChat, answers: Annotated[dict[str, Any], Body(embed=True)]
    ) -> dict[str, str]:
        try:
            return await chats.answer(chat_id, answers)
        except InvalidResumeError as error:
            raise HTTPException(422, str(error).splitlines()[0]) from error

    @routes.get("/runs/{run_id}/events")
    async def events(run: OwnRun, request: Request) -> EventStream:
        return EventStream(run, request, stream_mode=["messages"])

    @routes.post("/runs/{run_id}/cancel")
    async def cancel(run: OwnRun) -> dict[str, str]:
        return {"status": await run.cancel("stopped by its user")}

    return routes


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
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with running(chats.system):
            yield

    app = FastAPI(title="Chat", lifespan=lifespan, docs_url=None, redoc_url=None)
    app.include_router(api(chats, login))

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=STATIC))
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app.add_middleware(Guard)
    return app
