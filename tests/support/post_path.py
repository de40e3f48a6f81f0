"""Count the way of a request that starts a run: from the ASGI application to the node's first line.

    python -m tests.support.post_path            # print a row per saver and request
    python -m tests.support.post_path --list     # print the functions, in the order of their calls
    python -m tests.support.post_path --json     # print the figures for a program

The request is `POST /threads/{id}/runs/wait`, or `POST /threads/{id}/runs`, for a graph of one
async node on a thread that exists. It is counted after others of its kind, in all threads. A call
is one of Python's profiler: a coroutine that goes on after a wait counts again.
"""

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypedDict

import anyio
import httpx
import msgspec

from actorgraph import ActorSystem, MemorySaver, SqliteSaver, StateGraph
from actorgraph.ports import Saver
from actorgraph.web import served
from actorgraph.web.lifespan import running

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = str(ROOT / "actorgraph") + os.sep
SECONDS_MAX = 60
WARM_UP = 5
SAVERS = ("memory", "sqlite")
REQUESTS = ("/wait", "")


class State(TypedDict, total=False):
    """The state of the graph."""

    count: int


class WayOfRequest(msgspec.Struct, frozen=True):
    """The calls from a request to the node that it starts.

    Attributes:
        calls: every call of the package, in order.
        queries: the names of the queries that the saver was asked, in order.
        requests: the names of the writes that were handed to it, in order.
    """

    calls: tuple[CodeType, ...]
    queries: tuple[str, ...]
    requests: tuple[str, ...]

    @property
    def functions(self) -> int:
        """Number of distinct functions."""
        return len(set(self.calls))

    @property
    def files(self) -> int:
        """Number of distinct files."""
        return len({code.co_filename for code in self.calls})

    @property
    def launches(self) -> int:
        """How often a launch is made."""
        return sum(code.co_name == "make_launch" for code in self.calls)


class _Recorder:
    """Records calls between `begin` and `end`, in all threads."""

    def __init__(self) -> None:
        self.calls: list[CodeType] = []
        self.queries: list[str] = []
        self.requests: list[str] = []
        self._runs = False
        self.ended = anyio.Event()

    def begin(self) -> None:
        self.calls, self.queries, self.requests = [], [], []
        self._runs, self.ended = True, anyio.Event()

    def end(self) -> None:
        self._runs = False
        self.ended.set()

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not self._runs or not code.co_filename.startswith(PACKAGE):
            return
        self.calls.append(code)
        if code.co_name == "checked_answers":
            asked = frame.f_locals["asked"]
            kept = self.queries if "query" in frame.f_locals["method"] else self.requests
            kept += [type(one).__name__ for one in asked]

    def way(self) -> WayOfRequest:
        return WayOfRequest(tuple(self.calls), tuple(self.queries), tuple(self.requests))


def way_of_post(saver: str, ending: str = "/wait") -> WayOfRequest:
    """Return the way of a POST to its node.

    Args:
        saver: one of `SAVERS`.
        ending: one of `REQUESTS`, after `/threads/{id}/runs`.
    """
    recorder = _Recorder()
    # Threads of the saver are recorded from their start.
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    gc.disable()  # finalizers of other objects are not the request's
    try:
        with tempfile.TemporaryDirectory() as folder:
            made = MemorySaver() if saver == "memory" else SqliteSaver(f"{folder}/runs.db")
            anyio.run(_post, recorder, made, ending)
    finally:
        gc.enable()
        sys.setprofile(None)
        threading.setprofile(None)
    return recorder.way()


async def _post(recorder: _Recorder, saver: Saver, ending: str) -> None:
    async def count(state: State) -> State:
        recorder.end()
        return {"count": state.get("count", 0) + 1}

    graph = StateGraph(State).add_node(count).set_entry_point("count")
    system = ActorSystem({"counter": graph.compile(checkpointer=saver)}, saver=saver)
    app: Any = served(system)
    body: Mapping[str, Any] = {"assistant_id": "counter", "input": {"count": 0}}
    transport = httpx.ASGITransport(app)
    async with (
        running(system),
        httpx.AsyncClient(transport=transport, base_url="http://way") as client,
    ):
        made = (await client.post("/threads", json={})).json()
        path = f"/threads/{made['thread_id']}/runs"
        for _ in range(WARM_UP):
            (await client.post(f"{path}/wait", json=body)).raise_for_status()
        await anyio.sleep(0.05)
        recorder.begin()
        (await client.post(f"{path}{ending}", json=body)).raise_for_status()
        await recorder.ended.wait()


class Figures(msgspec.Struct, frozen=True):
    """The figures of one way."""

    calls: int
    functions: int
    files: int
    launches: int
    queries: list[str]


def figures_of(way: WayOfRequest) -> Figures:
    """Count a way."""
    return Figures(len(way.calls), way.functions, way.files, way.launches, list(way.queries))


def figures_in_new_process() -> dict[tuple[str, str], Figures]:
    """Return the figures of each saver and request, whatever the caller has imported."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.post_path", "--json"],
        check=True,
        capture_output=True,
        cwd=ROOT,
        timeout=SECONDS_MAX,
    )
    found = msgspec.json.decode(done.stdout, type=list[Figures])
    return dict(zip(product(SAVERS, REQUESTS), found, strict=True))


def main() -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the functions")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    if arguments.json:
        ways = [way_of_post(saver, ending) for saver, ending in product(SAVERS, REQUESTS)]
        print(msgspec.json.encode([figures_of(way) for way in ways]).decode())
        return
    for saver in SAVERS:
        for ending in REQUESTS:
            way = way_of_post(saver, ending)
            print(
                f"{saver:6} POST .../runs{ending:5}: {len(way.calls)} calls, "
                f"{way.functions} functions, {way.files} files; "
                f"launches {way.launches}; reads {', '.join(way.queries)}"
            )
            if arguments.list:
                for code in way.calls:
                    print(f"    {code.co_filename.removeprefix(PACKAGE)}:{code.co_qualname}")


if __name__ == "__main__":
    main()
