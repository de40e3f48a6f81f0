"""Runs over HTTP, many at once: `python -m tests.bench --only web`.

Each figure is of a server process of its own: uvicorn with one worker over SQLite or PostgreSQL, or
`langgraph dev`. This process opens so many streams of runs at once, each of 10 steps and 20 custom
chunks, and measures. CPU and memory are the server's, from /proc. Its event loop's stalls are
those of a task that sleeps for 5 ms; those of `langgraph dev` are unknown. Their floor is of as
many requests at once that run nothing, `GET /ok`. The system has the `gc_threshold` that
docs/embedding.md advises for thousands of runs.
"""

import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from tests.bench import rival
from tests.bench.served import ServerProcess, dev_command, free_port
from tests.bench.server import Server, ServerMissing

AT_ONCE = (100, 500, 1000)
DATABASES = Server()
CHUNKS = 20
PATIENCE_S = 180
BODY = {
    "assistant_id": "steps",
    "input": {"n": 0, "log": []},
    "stream_mode": ["updates", "custom"],
    "if_not_exists": "create",
}
GRAPH = """
import operator
from typing import Annotated, TypedDict

from {library} import END, START, StateGraph
from {writer} import get_stream_writer


class State(TypedDict):
    n: int
    log: Annotated[list[int], operator.add]


def node(number):
    async def step(state: State) -> dict:
        write = get_stream_writer()
        write({{"step": number, "part": 0}})
        write({{"step": number, "part": 1}})
        return {{"n": state["n"] + 1, "log": [number]}}

    return step


builder = StateGraph(State)
for number in range(10):
    builder.add_node(f"step{{number}}", node(number))
    builder.add_edge(f"step{{number - 1}}" if number else START, f"step{{number}}")
builder.add_edge("step9", END)
"""
APP = """
import asyncio
import json
import sys
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from actorgraph import ActorSystem, PostgresSaver, SqliteSaver
from actorgraph.web import GraphRoutes, running
from graph import builder

kind, place, port = sys.argv[1:]
saver = SqliteSaver(place) if kind == "sqlite" else PostgresSaver(place)
graphs = {"steps": builder.compile(checkpointer=saver)}
system = ActorSystem(graphs, saver=saver, gc_threshold=50_000)
stalls = []


async def watch():
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(0.005)
        stalls.append(loop.time() - before - 0.005)


@asynccontextmanager
async def lifespan(app):
    async with running(system):
        task = asyncio.create_task(watch())
        yield
        task.cancel()


async def told(request):
    found, stalls[:] = sorted(stalls), []
    return JSONResponse(found[int(len(found) * 0.99)] if found else 0.0)


routes = [Route("/stalls", told), Mount("/", GraphRoutes(system))]
uvicorn.run(Starlette(lifespan=lifespan, routes=routes), port=int(port), log_level="error")
"""


def main(*, quick: bool, peers: bool) -> int:
    """Measure and print a table; returns 1 if a run was lost.

    Args:
        quick: few runs, to see that it works.
        peers: whether to measure `langgraph dev` too.
    """
    counts = (20,) if quick else AT_ONCE
    print(
        "| server | at once | finished | first event p50 / p99 s | completion p50 / p99 s |", end=""
    )
    print(" CPU ms a run | memory MB | stall p99 ms (floor) |\n|---|---|---|---|---|---|---|---|")
    lost = 0
    for kind in ("sqlite", "postgres", *(("langgraph dev",) if peers else ())):
        folder = Path(tempfile.mkdtemp(dir=rival.make_folder()))
        try:
            with _Served(kind, folder) as server:
                for count in counts:
                    figures = asyncio.run(server.load(count))
                    lost += count - figures["finished"] if kind != "langgraph dev" else 0
                    print(_line(kind, count, figures), flush=True)
        except (rival.RivalMissing, ServerMissing, TimeoutError) as reason:
            print(f"not measured: {kind}: {reason}", file=sys.stderr)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if lost else 0


def _line(kind: str, count: int, figures: dict[str, Any]) -> str:
    def of(name: str) -> str:
        found = sorted(figures[name]) or [float("nan")]
        return f"{statistics.median(found):.2f} / {found[int(len(found) * 0.99)]:.2f}"

    stall = "-"
    if figures["stall"] is not None:
        stall = f"{figures['stall'] * 1e3:.0f} ({figures['floor'] * 1e3:.0f})"
    return (
        f"| {kind} | {count} | {figures['finished']} | {of('first')} | {of('whole')} | "
        f"{figures['cpu'] / count * 1e3:.1f} | {figures['memory'] / 1e6:.0f} | {stall} |"
    )


class _Served:
    """A server process over a folder, as a context manager."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._folder = folder
        self._port: int = free_port()
        self._server: ServerProcess | None = None

    def __enter__(self) -> Self:
        own = self._kind != "langgraph dev"
        library, writer = ("actorgraph", "actorgraph")
        if not own:
            library, writer = "langgraph.graph", "langgraph.config"
        text = GRAPH.format(library=library, writer=writer)
        environment = {**os.environ, "PYTHONPATH": f"{rival.ROOT}{os.pathsep}{self._folder}"}
        if own:
            (self._folder / "graph.py").write_text(text, encoding="utf-8")
            (self._folder / "app.py").write_text(APP, encoding="utf-8")
            place = str(self._folder / "runs.db")
            if self._kind == "postgres":
                place = DATABASES.new_database()
            command = [sys.executable, "app.py", self._kind, place, str(self._port)]
        else:
            python = rival.ensure_dev()
            text += "\ngraph = builder.compile()\n"
            (self._folder / "graph.py").write_text(text, encoding="utf-8")
            setup = {"dependencies": ["."], "graphs": {"steps": "./graph.py:graph"}}
            (self._folder / "langgraph.json").write_text(json.dumps(setup), encoding="utf-8")
            command = dev_command(python, self._port)
            del environment["PYTHONPATH"]
        self._server = ServerProcess(command, self._port, self._folder, environment)
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.__exit__()

    async def load(self, count: int) -> dict[str, Any]:
        """Stream so many runs at once; the figures."""
        server = self._server
        assert server is not None
        own = self._kind != "langgraph dev"
        floor = None
        if own:
            await self._get("/stalls")
            await asyncio.gather(*[self._get("/ok") for _ in range(count)])
            floor = json.loads(await self._get("/stalls"))
        before = server.cpu_s()
        first: list[float] = []
        whole: list[float] = []
        outcomes = await asyncio.gather(*[self._stream(first, whole) for _ in range(count)])
        return {
            "finished": sum(outcomes),
            "first": first,
            "whole": whole,
            "cpu": server.cpu_s() - before,
            "memory": server.memory_bytes(),
            "stall": json.loads(await self._get("/stalls")) if own else None,
            "floor": floor,
        }

    async def _stream(self, first: list[float], whole: list[float]) -> bool:
        """Run one run without a thread; whether it has ended with all of its chunks."""
        begun = time.monotonic()
        body = json.dumps(BODY).encode()
        head = f"POST /runs/stream HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        head += "Content-Type: application/json\r\nConnection: close\r\n\r\n"
        got = bytearray()
        try:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(head.encode() + body)
                while part := await reader.read(65536):
                    if b"event:" in part and b"event:" not in got:
                        first.append(time.monotonic() - begun)
                    got += part
                writer.close()
        except (OSError, TimeoutError):
            return False
        whole.append(time.monotonic() - begun)
        return got.count(b"event: custom") == CHUNKS

    async def _get(self, path: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        got = await reader.read()
        writer.close()
        return got.partition(b"\r\n\r\n")[2]
