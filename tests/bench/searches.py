"""Searches of threads over HTTP: `python -m tests.bench.searches`.

A database is filled with threads, a hundredth of which have metadata of their own, and served by
uvicorn in a process of its own. Each kind of search asks for a page of ten, one request at a time.
The floor is a request that reads nothing, `GET /ok`, measured in the same run.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from actorgraph import END, START, ActorSystem, PostgresSaver, SqliteSaver, StateGraph
from actorgraph.web import GraphRoutes, running
from tests.bench.server import Server, ServerMissing

KINDS = ("sqlite", "postgres")
REGISTERED_AT_ONCE = 16
READY_S = 60
FIRST_S = 600
"""Seconds for the first search, which reads each thread once."""
RARE = 500
"""One thread of so many has the values and the metadata that searches look for."""


class Order(TypedDict, total=False):
    """The state of a thread."""

    number: int
    customer: str


def system_of(kind: str, place: str) -> ActorSystem:
    """A system with one graph of one node over a database."""
    builder = StateGraph(Order).add_node("note", lambda state: {"customer": _customer(state)})
    builder.add_edge(START, "note").add_edge("note", END)
    saver = SqliteSaver(place) if kind == "sqlite" else PostgresSaver(place)
    return ActorSystem({"orders": builder.compile(checkpointer=saver)}, saver=saver)


def _customer(state: Order) -> str:
    number = state.get("number", 0)
    return "rare" if number % RARE == 0 else f"c{number % 97}"


async def fill(kind: str, place: str, count: int) -> None:
    """Run one thread for each number."""
    async with system_of(kind, place) as system:
        inputs = [{"number": number} for number in range(count)]
        batch = system.map("orders", inputs, key=lambda order: f"t{order['number']}")
        await batch.summary()


def serve(kind: str, place: str, port: int) -> None:
    """Serve the database until the process is ended."""
    system = system_of(kind, place)
    routes = [Mount("/", GraphRoutes(system))]
    application = Starlette(routes=routes, lifespan=lambda _: running(system))
    uvicorn.run(application, port=port, log_level="error")


async def register(url: str, count: int) -> None:
    """Create threads with metadata over HTTP."""
    limit = anyio.CapacityLimiter(REGISTERED_AT_ONCE)
    async with httpx.AsyncClient(base_url=url, timeout=READY_S) as client:

        async def one(number: int) -> None:
            async with limit:
                team = "rare" if number % RARE == 0 else f"team{number % 31}"
                made = await client.post("/threads", json={"metadata": {"team": team}})
                made.raise_for_status()

        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(one, number)


def searches(url: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of each request, by its kind."""
    page = {"limit": 10, "select": ["thread_id", "status", "metadata"]}
    bodies: dict[str, dict[str, Any]] = {
        "newest": {},
        "by status": {"status": "idle"},
        "by values": {"values": {"customer": "rare"}},
        "by metadata": {"metadata": {"team": "rare"}},
        "oldest first": {"sort_by": "created_at", "sort_order": "asc"},
        "with values": {"select": ["thread_id", "values"]},
    }
    found: dict[str, list[float]] = {"floor: GET /ok": []}
    with httpx.Client(base_url=url, timeout=FIRST_S) as client:
        # The first one of a database that was filled without a server reads each thread once.
        found["first"] = [_seconds(lambda: client.post("/threads/search", json=page))]
        for _ in range(rounds):
            found["floor: GET /ok"].append(_seconds(lambda: client.get("/ok")))
            for name, body in bodies.items():
                asked = {**page, **body}
                took = _seconds(lambda asked=asked: client.post("/threads/search", json=asked))
                found.setdefault(name, []).append(took)
    return found


def _seconds(request: Callable[[], httpx.Response]) -> float:
    began = time.perf_counter()
    request().raise_for_status()
    return time.perf_counter() - began


def measure(kind: str, count: int, rounds: int, databases: Server) -> None:
    """Fill a database, serve it, and print the figures of its searches."""
    folder = Path(tempfile.mkdtemp())
    place = str(folder / "runs.db") if kind == "sqlite" else databases.new_database()
    began = time.monotonic()
    anyio.run(fill, kind, place, count)
    filled_s, port = time.monotonic() - began, 18_600 + KINDS.index(kind)
    command = [sys.executable, "-m", "tests.bench.searches", "--serve", kind, place, str(port)]
    server, url = subprocess.Popen(command), f"http://127.0.0.1:{port}"
    try:
        _await_server(url)
        anyio.run(register, url, count // 100)
        for name, times in searches(url, rounds).items():
            ordered = sorted(times)
            p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
            print(f"| {kind} | {count} | {name} | {p50 * 1e3:.1f} | {p99 * 1e3:.1f} |", flush=True)
        print(f"{kind}: filled in {filled_s:.0f} s", file=sys.stderr)
    finally:
        server.terminate()
        server.wait(READY_S)
        shutil.rmtree(folder, ignore_errors=True)


def _await_server(url: str) -> None:
    end = time.monotonic() + READY_S
    while True:
        try:
            httpx.get(url + "/ok").raise_for_status()
        except httpx.HTTPError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def main() -> int:
    """Measure what the command line asks for; returns 1 if a database is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--serve", nargs=3, metavar=("KIND", "PLACE", "PORT"))
    parser.add_argument("--only", choices=KINDS)
    options = parser.parse_args()
    if options.serve:
        kind, place, port = options.serve
        serve(kind, place, int(port))
        return 0
    print("| store | threads | search | p50 ms | p99 ms |\n|---|---|---|---|---|")
    databases = Server()
    try:
        for kind in KINDS if options.only is None else (options.only,):
            measure(kind, options.threads, options.rounds, databases)
    except ServerMissing as reason:
        print(f"not measured: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
