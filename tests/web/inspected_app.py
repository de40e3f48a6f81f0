"""A server whose inside can be looked at: `GET /inside` returns its tasks, figures and memory.

`POST /enough` lets the graph "steps" end at its next step.

    python -m tests.web.inspected_app <server> <database> <lease_s> [<limits as JSON>]

It prints its address, and ends at SIGTERM.
"""

import asyncio
import gc
import json
import sys
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from actorgraph import END, START, ActorSystem, SqliteSaver, StateGraph, get_stream_writer
from actorgraph.loops import on_trio
from actorgraph.runtime.system.journal import EventReader
from actorgraph.stores import SqliteStore
from actorgraph.web import GraphRoutes, Limits, running

KEEP_ALIVE_S = 30
"""After less a busy client may send a request just when the server closes the connection."""
SERVERS = ("uvicorn", "hypercorn on asyncio", "hypercorn on trio")


class Steps(TypedDict, total=False):
    """The numbers of the steps that were done, and how many there are to be."""

    most: int
    done: Annotated[list[int], add]


async def step(state: Steps) -> dict[str, Any]:
    """Take a moment, and note that it is over."""
    await anyio.sleep(0.01)
    return {"done": [len(state.get("done", ()))]}


ENOUGH = anyio.Event()


async def more(state: Steps) -> str:
    """Go on until there were enough."""
    if ENOUGH.is_set():
        return END
    return "step" if len(state["done"]) < state["most"] else END


async def flood(state: Steps) -> dict[str, Any]:
    """Write more than a slow reader can take."""
    write = get_stream_writer()
    for number in range(state["most"]):
        write({"number": number, "text": "x" * 200})
        if number % 100 == 0:
            await anyio.lowlevel.checkpoint()
    return {"done": [state["most"]]}


async def sleep(state: Steps) -> dict[str, Any]:
    """Go on until it is stopped."""
    await anyio.sleep_forever()
    return {}


def graphs() -> dict[str, StateGraph]:
    """Each of the nodes as a graph."""
    made = {}
    for node in (flood, sleep):
        made[node.__name__] = StateGraph(Steps).add_node(node).add_edge(START, node.__name__)
    steps = StateGraph(Steps).add_node(step).add_edge(START, "step")
    made["steps"] = steps.add_conditional_edges("step", more, ["step", END])
    return made


SERVERS_OWN = ("EventWrapper.wait", "_idle_timeout", "_server_callback", "_run_handler")
"""Of hypercorn: they watch each connection, also for some time after its end."""


def tasks() -> list[str]:
    """The names of what the event loop runs, for connections and for the application."""
    return sorted(name for name in _tasks() if not name.endswith(SERVERS_OWN))


def _tasks() -> list[str]:
    if on_trio():
        import trio

        found, todo = [], [trio.lowlevel.current_root_task()]
        while todo:
            task = todo.pop()
            if task is not None:
                found.append(task.name)
                todo += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        return found
    return [getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks()]


def open_readers() -> int:
    """The number of readers of events that are not closed."""
    found = (one for one in gc.get_objects() if isinstance(one, EventReader))
    return sum(not reader._left for reader in found)  # noqa: SLF001


def resident_bytes() -> int:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def application(path: str, lease_s: float, limits: Limits) -> Starlette:
    """The routes over a file, and those that show the inside."""
    system = ActorSystem(
        {name: graph.compile() for name, graph in graphs().items()},
        saver=SqliteSaver(path),
        store=SqliteStore(path + ".store"),
        lease_s=lease_s,
        attempts_max=1000,
    )

    async def inside(_: Request) -> JSONResponse:
        now = system.statistics()
        actor = system._actor  # noqa: SLF001
        journals = [job.journal for job in (*actor.jobs.values(), *actor.ended.values())]
        rows = await system.runs(statuses=("pending", "running"))
        return JSONResponse(
            {
                "tasks": tasks(),
                "active": now.active,
                "queued": now.queued,
                "threads": now.threads,
                "open_rows": [run.id for run in rows],
                "left": now.left,
                "resident": resident_bytes(),
                "unsaved_bytes": now.unsaved_bytes,
                "ring": max((len(one._ring) for one in journals), default=0),  # noqa: SLF001
                "last": max((one.last for one in journals), default=0),
                "held": any(one.is_full for one in journals),
                "readers": open_readers(),
                "streams": routes._server.streams.taken,  # noqa: SLF001
            }
        )

    async def enough(_: Request) -> JSONResponse:
        ENOUGH.set()
        return JSONResponse(None)

    routes = GraphRoutes(system, limits=limits)
    return Starlette(
        lifespan=lambda app: running(system),
        routes=[
            Route("/inside", inside),
            Route("/enough", enough, methods=["POST"]),
            Mount("/", routes),
        ],
    )


def main(server: str, path: str, lease_s: str, limits: str = "{}") -> None:
    """Serve until SIGTERM."""
    serve_with(server, application(path, float(lease_s), Limits(**json.loads(limits))))


def serve_with(server: str, app: Starlette, port: int = 0) -> None:
    """Serve an application with one of `SERVERS` until SIGTERM.

    Args:
        port: 0 for any that is free.
    """
    if server == "uvicorn":
        options = {"backlog": 4096, "timeout_keep_alive": KEEP_ALIVE_S}
        uvicorn.run(app, port=port, log_level="info", timeout_graceful_shutdown=5, **options)
        return
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.graceful_timeout = 5
    config.backlog = 4096
    config.keep_alive_timeout = KEEP_ALIVE_S
    backend = server.rsplit(maxsplit=1)[-1]
    if backend == "trio":
        from hypercorn.trio import serve
    else:
        from hypercorn.asyncio import serve

    async def serving() -> None:
        await serve(app, config)  # type: ignore[arg-type]

    anyio.run(serving, backend=backend)


if __name__ == "__main__":
    main(*sys.argv[1:])
