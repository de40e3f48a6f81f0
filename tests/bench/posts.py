"""CPU of an accepted run over HTTP: `python -m tests.bench.posts`.

POSTs of a graph of one async node that writes no tokens, each the first on a thread that exists,
straight to the ASGI application: no socket, no server. `wait` answers when the run has ended, and
`again` is the same on threads that have a run; `background` answers at once, and its run is waited
for apart; `start` is the same run by `system.start`, without HTTP. The CPU is the whole process's:
of the POST, the run and the saver's threads together.
"""

import argparse
import cProfile
import json
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

import anyio

from actorgraph import ActorSystem, MemorySaver, SqliteSaver, StateGraph
from actorgraph.web import served
from actorgraph.web.lifespan import running

WARM_UP = 50
BODY = json.dumps({"assistant_id": "counter", "input": {"count": 0}}).encode()
HEADERS = [(b"host", b"bench"), (b"content-type", b"application/json")]


class State(TypedDict, total=False):
    """The state of the graph."""

    count: int


async def count(state: State) -> State:
    """Count one."""
    return {"count": state.get("count", 0) + 1}


async def post(app: Any, path: str, body: bytes) -> Any:
    """Send one request and return the decoded response."""
    status, parts, ended = 0, [], anyio.Event()
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await ended.wait()
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                ended.set()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [*HEADERS, (b"content-length", b"%d" % len(body))],
        "client": ("127.0.0.1", 1),
        "server": ("bench", 80),
    }
    await app(scope, receive, send)
    if status != 200:
        raise RuntimeError(status, b"".join(parts))
    return json.loads(b"".join(parts))


async def cpu_ms(work: Callable[[str], Awaitable[None]], threads: list[str], at_once: int) -> float:
    """Return the CPU milliseconds of each call, so many at once."""

    async def some(mine: list[str]) -> None:
        for thread in mine:
            await work(thread)

    before = time.process_time()
    async with anyio.create_task_group() as group:
        for first in range(at_once):
            group.start_soon(some, threads[first::at_once])
    return (time.process_time() - before) / len(threads) * 1e3


async def measure(saver: str, options: argparse.Namespace) -> dict[str, float]:
    """Return the CPU milliseconds of a POST with a saver, by kind."""
    with tempfile.TemporaryDirectory() as folder:
        kept = MemorySaver() if saver == "memory" else SqliteSaver(f"{folder}/runs.db")
        graph = StateGraph(State).add_node(count).set_entry_point("count").compile()
        system = ActorSystem({"counter": graph}, saver=kept)
        app: Any = served(system)

        async def wait(thread: str) -> None:
            if (await post(app, f"/threads/{thread}/runs/wait", BODY)) != {"count": 1}:
                raise RuntimeError(thread)

        async def again(thread: str) -> None:
            await post(app, f"/threads/{thread}/runs/wait", BODY)

        async def background(thread: str) -> None:
            made = await post(app, f"/threads/{thread}/runs", BODY)
            await (await system.run(made["run_id"])).wait()

        async def start(thread: str) -> None:
            run = await system.start("counter", thread, {"count": 0})
            await run.wait()

        found: dict[str, float] = {}
        async with running(system):
            for name, work in (("wait", wait), ("background", background), ("start", start)):
                if options.kind not in (None, name):
                    continue
                made = [await post(app, "/threads", b"{}") for _ in range(options.posts + WARM_UP)]
                threads = [one["thread_id"] for one in made]
                await cpu_ms(work, threads[:WARM_UP], options.at_once)
                profile = cProfile.Profile(time.process_time)
                if options.profile:
                    profile.enable()
                found[name] = await cpu_ms(work, threads[WARM_UP:], options.at_once)
                if options.profile:
                    profile.disable()
                    pstats.Stats(profile).sort_stats(options.profile).print_stats(70)
                if name == "wait":
                    found["again"] = await cpu_ms(again, threads[WARM_UP:], options.at_once)
    return found


def main() -> None:
    """Print a row for each saver and kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--posts", type=int, default=500)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--backend", default="asyncio", choices=("asyncio", "trio"))
    parser.add_argument("--saver", choices=("memory", "sqlite"))
    parser.add_argument("--kind", choices=("wait", "background", "start"))
    parser.add_argument("--profile", choices=("tottime", "cumtime"), help="print a profile")
    options = parser.parse_args()
    for saver in ("memory", "sqlite"):
        if options.saver not in (None, saver):
            continue
        rounds = [
            anyio.run(measure, saver, options, backend=options.backend)
            for _ in range(options.repeat)
        ]
        for kind in rounds[0]:
            each = [one[kind] for one in rounds]
            print(
                f"{saver:6} {kind:10} CPU ms a POST: median {statistics.median(each):.2f}, "
                f"lowest {min(each):.2f}"
            )


if __name__ == "__main__":
    sys.exit(main())
