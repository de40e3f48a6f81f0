"""A server of runs that say numbered words, for clients whose connections break.

    python -m tests.web.token_app <server> <place> <lease_s> [<limits as JSON>]

The place is a file, or a URL of PostgreSQL with `#` and a schema. Beside the routes:

- `GET /events/{run}`: an `EventStream`, and with `?full=1` one with each piece as LangGraph's
- `GET /read/{run}?after=7`: what `Run.events` returns, a line of JSON for each event
- `GET /memory`: the bytes that the process has

A word is `name·7é𝄞 `: its name is the run's, with what wrote it and a tag of that attempt.
"""

import json
import sys
from collections.abc import AsyncIterator
from operator import add
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from actorgraph import (
    START,
    ActorSystem,
    PostgresSaver,
    SqliteSaver,
    StateGraph,
    add_messages,
    get_stream_writer,
)
from actorgraph.messages import AIMessage, AIMessageChunk
from actorgraph.stores import InMemoryStore
from actorgraph.streams import get_message_writer
from actorgraph.web import EventStream, GraphRoutes, Limits, running
from actorgraph.web.http.jsonable import dumps
from tests.web.inspected_app import resident_bytes, serve_with


class Words(TypedDict, total=False):
    """What a run says, and what it has said.

    `name` is in each word, `most` how many words each node says, `pace_s` the time for a word,
    `size` the bytes that are added to it, though not in the state.
    """

    name: str
    most: int
    pace_s: float
    size: int
    texts: Annotated[list[str], add]
    messages: Annotated[list[Any], add_messages]


async def say(state: Words, who: str) -> dict[str, Any]:
    """Say words one by one, as a message and as custom chunks."""
    message, chunk = get_message_writer(), get_stream_writer()
    identifier = f"{state['name']}-{who}-{uuid4().hex[:6]}"
    said: list[str] = []
    for number in range(state["most"]):
        await anyio.sleep(state.get("pace_s", 0.0))
        said.append(f"{identifier}·{number}é𝄞 ")
        word = said[-1] + "x" * state.get("size", 0)
        await chunk.asend(word)
        await message.asend(AIMessageChunk(word, id=identifier))
    text = "".join(said)
    return {"texts": [text], "messages": [AIMessage(text, id=identifier)]}


async def left(state: Words) -> dict[str, Any]:
    """Speak beside `right`."""
    return await say(state, "left")


async def right(state: Words) -> dict[str, Any]:
    """Speak beside `left`."""
    return await say(state, "right")


async def last(state: Words) -> dict[str, Any]:
    """Speak after both."""
    return await say(state, "last")


def graph() -> StateGraph:
    """Two that speak at once, and one after them."""
    builder = StateGraph(Words).add_node(left).add_node(right).add_node(last)
    builder.add_edge(START, "left").add_edge(START, "right")
    return builder.add_edge(["left", "right"], "last")


def saver_of(place: str) -> SqliteSaver | PostgresSaver:
    """The saver over a file, or over a schema of PostgreSQL."""
    url, _, schema = place.partition("#")
    return PostgresSaver(url, schema=schema) if schema else SqliteSaver(place)


def application(place: str, lease_s: float, limits: Limits) -> Starlette:
    """The routes, and those of the module's docstring."""
    saver = saver_of(place)
    system = ActorSystem(
        {"words": graph().compile(checkpointer=saver)},
        saver=saver,
        store=InMemoryStore(),
        lease_s=lease_s,
        attempts_max=1000,
    )

    async def events(request: Request) -> Response:
        run = await system.run(request.path_params["run"])
        full = "full" in request.query_params
        return EventStream(run, request, messages="full" if full else "compact")

    async def read(request: Request) -> Response:
        run = await system.run(request.path_params["run"])
        after = int(request.query_params["after"])

        async def lines() -> AsyncIterator[bytes]:
            async with run.events(after) as found:
                async for one in found:
                    yield dumps([one.offset, one.kind, one.data]) + b"\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def memory(_: Request) -> Response:
        return JSONResponse(resident_bytes())

    return Starlette(
        lifespan=lambda app: running(system),
        routes=[
            Route("/events/{run}", events),
            Route("/read/{run}", read),
            Route("/memory", memory),
            Mount("/", GraphRoutes(system, limits=limits)),
        ],
    )


def main(server: str, place: str, lease_s: str, limits: str = "{}") -> None:
    """Serve until SIGTERM."""
    serve_with(server, application(place, float(lease_s), Limits(**json.loads(limits))))


if __name__ == "__main__":
    main(*sys.argv[1:])
