"""A server for clients that aren't ours: runs that write when they are let, and a page.

    python -m tests.clients.app <server> <database> <lease_s> [<options as JSON>]

Options: `port`, `ping_s` of `/events/{run_id}`. `POST /open` lets a waiting node write one word.
"""

import json
import sys
from typing import Any

import anyio
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route

from actorgraph import ActorSystem, MessagesState, SqliteSaver
from actorgraph.runtime.task.messages import get_message_writer
from actorgraph.stores import SqliteStore
from actorgraph.web import EventStream, GraphRoutes, running
from tests.web import apps
from tests.web.inspected_app import graphs, serve_with

WORDS = ("It ", "rains ", "in ", "Bergen.")
CALL = {"name": "weather", "args": {"place": "Bergen"}, "id": "call", "type": "tool_call"}

CHUNK = "tool_call_chunk"

PAGE = """<!doctype html><title>events</title><script>
window.told = [];
window.failures = 0;
function follow(url, names) {
  window.source = new EventSource(url);
  source.onerror = (event) => { if (event.data === undefined) failures += 1; };
  for (const name of names) {
    source.addEventListener(name, (event) => {
      if (event.data !== undefined) told.push([event.lastEventId, name, JSON.parse(event.data)]);
    });
  }
}
</script>"""


class Words:
    """The graph "words": a call of a tool, whose pieces are streamed, and an answer.

    Args:
        opened: a word is written when it is released.
    """

    def __init__(self, opened: anyio.Semaphore) -> None:
        self.opened = opened
        self.graph = apps.chain(self.call, self.weather, self.answer, schema=MessagesState)

    async def call(self, state: MessagesState) -> dict[str, Any]:
        """Ask for the tool in two pieces."""
        write = get_message_writer()
        piece = {"name": "weather", "args": '{"place": ', "id": "call", "index": 0}
        rest = {"name": None, "args": '"Bergen"}', "id": None, "index": 0}
        for one in (piece, rest):
            write(AIMessageChunk("", id="asks", tool_call_chunks=[{**one, "type": CHUNK}]))
        return {"messages": [AIMessage("", id="asks", tool_calls=[CALL])]}

    async def weather(self, state: MessagesState) -> dict[str, Any]:
        """Answer the call."""
        return {"messages": [ToolMessage("rain", tool_call_id="call", id="tool")]}

    async def answer(self, state: MessagesState) -> dict[str, Any]:
        """Write a word whenever it is let."""
        write = get_message_writer()
        for word in WORDS:
            await self.opened.acquire()
            write(AIMessageChunk(word, id="answers"))
        return {"messages": [AIMessage("".join(WORDS), id="answers")]}


def application(path: str, lease_s: float, ping_s: float) -> Starlette:
    """LangGraph's routes and an `EventStream` over a file, with the page."""
    words = Words(anyio.Semaphore(0))
    made = {
        "words": words.graph,
        "steps": graphs()["steps"],
        "sleep": apps.GRAPHS["sleep"],
        "ask": apps.GRAPHS["ask"],
    }
    system = ActorSystem(
        {name: graph.compile() for name, graph in made.items()},
        saver=SqliteSaver(path),
        store=SqliteStore(path + ".store"),
        lease_s=lease_s,
    )

    async def let(_: Request) -> Response:
        words.opened.release()
        return Response(status_code=204)

    async def events(request: Request) -> Response:
        run = await system.run(request.path_params["run_id"])
        return EventStream(run, request, ping_s=ping_s)

    async def page(_: Request) -> Response:
        return HTMLResponse(PAGE)

    return Starlette(
        lifespan=lambda app: running(system),
        routes=[
            Route("/open", let, methods=["POST"]),
            Route("/events/{run_id}", events),
            Route("/page", page),
            Mount("/", GraphRoutes(system)),
        ],
    )


def main(server: str, path: str, lease_s: str, options: str = "{}") -> None:
    """Serve until SIGTERM."""
    given = json.loads(options)
    app = application(path, float(lease_s), given.get("ping_s", 10.0))
    serve_with(server, app, given.get("port", 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
