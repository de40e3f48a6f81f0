"""A server process of `tokens.py`: `python -m tests.bench.token_servers KIND PORT PLACE`.

FastAPI and uvicorn (h11, asyncio's loop, one worker) for all kinds and both libraries; SQLite at
PLACE. `floor` is a StreamingResponse over a bare generator. With LangGraph the stream of a graph is
wrapped as its users do it: an `astream` in a StreamingResponse.
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from tests.bench import token_graphs

EVENTS = "text/event-stream"


def asked(text: str) -> dict[str, Any]:
    """The input of a graph of any kind."""
    return {"text": text, "messages": [{"role": "user", "content": text}]}


def floor() -> FastAPI:
    """Nothing but the tokens, as events."""
    app = FastAPI()

    @app.post("/chats/{chat}")
    async def chat(chat: str, body: dict[str, str]) -> StreamingResponse:
        async def events() -> AsyncIterator[str]:
            async for text in token_graphs.tokens():
                yield f"event: custom\ndata: {json.dumps(text)}\n\n"
            yield "event: end\ndata: {}\n\n"

        return StreamingResponse(events(), media_type=EVENTS)

    return app


def actorgraph(kind: str, place: str) -> FastAPI:
    """An ActorSystem: `EventStream`, or its routes for `routes`, `protocol` and `silent`."""
    from actorgraph import ActorSystem, SqliteSaver
    from actorgraph.web import EventStream, GraphRoutes, running

    name, _, stored = kind.partition("-")
    of_routes = {"routes": "messages", "protocol": "messages", "silent": "silent"}
    graph_kind = of_routes.get(name, name)
    mode = "custom" if graph_kind == "custom" else "messages"
    saver = SqliteSaver(place)
    graph = token_graphs.made(graph_kind).compile(checkpointer=saver)
    system = ActorSystem({"chat": graph}, saver=saver)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with running(system):
            yield

    app = FastAPI(lifespan=lifespan)
    if name in of_routes:
        app.mount("/", GraphRoutes(system))
        return app

    @app.post("/chats/{chat}")
    async def chat(chat: str, body: dict[str, str], request: Request) -> EventStream:
        given = {key: asked(body["text"])[key] for key in inputs(graph_kind)}
        run = await system.start("chat", chat, given, stream_mode=mode, resumable=bool(stored))
        return EventStream(run, request)

    return app


def langgraph(kind: str, place: str) -> FastAPI:
    """`astream` over LangGraph's SQLite saver, each save before the next step."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    mode = "custom" if kind == "custom" else "messages"
    graphs: list[Any] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncSqliteSaver.from_conn_string(place) as saver:
            graphs.append(token_graphs.made(kind).compile(checkpointer=saver))
            yield

    app = FastAPI(lifespan=lifespan)

    def shown(chunk: Any) -> Any:
        return [chunk[0].model_dump(), chunk[1]] if mode == "messages" else chunk

    @app.post("/chats/{chat}")
    async def chat(chat: str, body: dict[str, str]) -> StreamingResponse:
        given = {key: asked(body["text"])[key] for key in inputs(kind)}
        config = {"configurable": {"thread_id": chat}}
        chunks = graphs[0].astream(given, config, stream_mode=mode, durability="sync")

        async def events() -> AsyncIterator[str]:
            async for chunk in chunks:
                yield f"event: {mode}\ndata: {json.dumps(shown(chunk))}\n\n"
            yield "event: end\ndata: {}\n\n"

        return StreamingResponse(events(), media_type=EVENTS)

    return app


def inputs(graph_kind: str) -> list[str]:
    """The keys of a graph's input."""
    return ["text"] if graph_kind in ("custom", "silent") else ["messages"]


def main() -> None:
    """Serve what the command line asks for, until a signal."""
    kind, port, place = sys.argv[1:]
    if kind == "floor":
        app = floor()
    elif token_graphs.LIBRARY == "langgraph":
        app = langgraph(kind, place)
    else:
        app = actorgraph(kind, place)

    @app.get("/ready-to-measure")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    # Ahead of a mounted application, which takes every path.
    app.router.routes.insert(0, app.router.routes.pop())
    options = {"log_level": "error", "access_log": False, "http": "h11", "loop": "asyncio"}
    uvicorn.run(app, host="127.0.0.1", port=int(port), **options)


if __name__ == "__main__":
    main()
