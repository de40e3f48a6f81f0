"""Clients that leave at the k-th suspension of their request, for every k; and what is left of it.

A request is given up as servers and middleware do it: the application's task is cancelled, or it
is informed that the client has disconnected. `tests/faults/cancels.py` counts the suspensions.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any
from weakref import WeakSet

import anyio
import httpx

from actorgraph import ActorSystem, SqliteSaver
from actorgraph.runtime.system.journal import EventReader
from actorgraph.stores import SqliteStore
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web import GraphRoutes
from actorgraph.web.http.jsonable import dumps
from tests.faults.cancels import Meter, cancel_at
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS

READERS: WeakSet[EventReader] = WeakSet()
"""Those that were made while `noting_readers` goes on."""

EVENT, START = b"event:", b""
JUDGED = ("hangs", "places", "locks", "readers", "followers", "runs", "threads", "refused")
HOW = {"asyncio": ("scope", "native", "disconnect"), "trio": ("scope", "disconnect")}
INPUT = {"foo": "x"}


@dataclass(frozen=True)
class Request:
    """A request to leave.

    Args:
        path: with {thread}, {run} and {asleep}: a thread with a finished run, and with one that
            sleeps.
        leaves_at: the client leaves when this is sent, as the answer has no end.
    """

    method: str
    path: str
    body: Any = None
    leaves_at: bytes | None = None


RUN = {"assistant_id": "log", "input": INPUT}
MAKES = {**RUN, "if_not_exists": "create"}
SLEEPS = {**MAKES, "assistant_id": "sleep", "on_disconnect": "cancel"}
PAUSES = {**MAKES, "assistant_id": "sleep", "interrupt_before": ["sleep"]}
STEPS = [{"updates": [{"values": {"log": ["a"]}, "as_node": "first"}]}]
WAITS = [
    Request("POST", "/threads/{new}/runs", MAKES),
    Request("POST", "/threads/{new}/runs/wait", MAKES),
    Request("POST", "/threads/{new}/runs/wait", {**MAKES, "on_disconnect": "cancel"}),
    Request("POST", "/threads/{thread}/runs/stream", RUN),
    Request("POST", "/threads/{new}/runs/stream", {**MAKES, "on_disconnect": "cancel"}),
    Request("POST", "/threads/{asleep}/runs", {**RUN, "multitask_strategy": "interrupt"}),
    Request("POST", "/threads/{asleep}/runs/wait", {**RUN, "multitask_strategy": "rollback"}),
    Request("POST", "/threads/{gone}/runs/wait", SLEEPS, leaves_at=START),
    Request("POST", "/threads/{gone}/runs/stream", SLEEPS, leaves_at=EVENT),
    Request("POST", "/runs/stream", SLEEPS, leaves_at=EVENT),
    Request("POST", "/runs", RUN),
    Request("POST", "/runs/wait", RUN),
    Request("POST", "/runs/stream", {**RUN, "on_disconnect": "cancel"}),
    Request("POST", "/runs/batch", [RUN, RUN]),
    Request("GET", "/threads/{thread}/runs/{run}/join"),
    Request("GET", "/threads/{thread}/runs/{run}/stream"),
    Request("GET", "/threads/{asleep}/runs/{sleeping}/stream", leaves_at=EVENT),
    Request("GET", "/threads/{asleep}/stream", leaves_at=EVENT),
    Request("POST", "/threads/{asleep}/runs/{sleeping}/cancel?wait=true"),
    Request("POST", "/threads/{asleep}/runs/{sleeping}/cancel?wait=true&action=rollback"),
    Request("DELETE", "/threads/{asleep}/runs/{sleeping}"),
    Request("POST", "/threads/search", {"status": "idle"}),
    Request("POST", "/threads/count", {}),
    Request("GET", "/threads/{thread}/history"),
    Request("GET", "/threads/{thread}/state"),
    Request("POST", "/threads/{thread}/state", {"values": {"log": ["u"]}, "as_node": "first"}),
    Request("POST", "/threads", {"metadata": {"graph_id": "log"}, "supersteps": STEPS}),
    Request("PATCH", "/threads/{thread}", {"metadata": {"a": 1}}),
    Request("POST", "/threads/{thread}/copy"),
    Request("DELETE", "/threads/{asleep}"),
    Request("GET", "/ready"),
]


class Place:
    """A server in this process, and how to look into it."""

    def __init__(self, system: ActorSystem, routes: GraphRoutes, client: httpx.AsyncClient) -> None:
        self.system = system
        self.routes = routes
        self.client = client
        self._made = 0

    async def ready(self, request: Request) -> dict[str, str]:
        """The threads and runs that a request is about: new ones for each."""
        self._made += 1
        self.routes._server.readiness._looked_at = -inf  # noqa: SLF001 - no answer of before
        names = {"new": f"new-{self._made}", "gone": f"gone-{self._made}"}
        if "{thread}" in request.path:
            names["thread"] = f"done-{self._made}"
            run = await self.system.start("log", names["thread"], INPUT)
            await run.wait()
            names["run"] = run.id
        if "{asleep}" in request.path:
            names["asleep"] = f"asleep-{self._made}"
            names["sleeping"] = (await self.system.start("sleep", names["asleep"], INPUT)).id
        return names

    async def send(self, request: Request, path: str, left: anyio.Event) -> int:
        """Send a request to the application itself; its status, 0 without one.

        Args:
            left: the client leaves when it is set.
        """
        body = b"" if request.body is None else dumps(request.body)
        sent: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]
        status = [0]

        async def receive() -> Any:
            if sent:
                await anyio.lowlevel.checkpoint()
                return sent.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            await anyio.lowlevel.checkpoint()
            if message["type"] == "http.response.start":
                status[0] = message["status"]
            if request.leaves_at is not None and request.leaves_at in message.get("body", b""):
                left.set()

        bare, _, query = path.partition("?")
        scope = {"type": "http", "method": request.method, "path": bare, "root_path": ""}
        scope |= {"query_string": query.encode(), "client": ("t", 1), "http_version": "1.1"}
        scope["headers"] = [(b"content-type", b"application/json")]
        await self.routes(scope, receive, send)
        return status[0]

    async def leave(
        self, request: Request, k: int, how: str, *, goes_on: bool = True
    ) -> tuple[bool, Counter[str]]:
        """Leave a request at its k-th suspension; whether it came to that, and what is left.

        Args:
            goes_on: whether to see that the server serves others.
        """
        found: Counter[str] = Counter()
        names = await self.ready(request)
        path, left = request.path.format(**names), anyio.Event()
        fired = False
        with anyio.move_on_after(PATIENCE_S) as patience:
            if how == "disconnect":
                meter = Meter(k, left.set)
                with meter.watching():  # counts the steps of tasks that start now
                    async with anyio.create_task_group() as group:
                        group.start_soon(self.send, request, path, left)
                fired = meter.fired
            else:
                fired = await cancel_at(lambda: self.send(request, path, left), k, how)
        found["hangs"] += patience.cancelled_caught
        found += self._held()
        if goes_on:
            found += await self._after(names)
        return fired, found

    def _held(self) -> Counter[str]:
        """The objects that a finished request still has."""
        found: Counter[str] = Counter()
        server, actor = self.routes._server, self.system._actor  # noqa: SLF001
        found["places"] = server.streams.taken
        found["locks"] = int(server.threads._turn.statistics().locked)  # noqa: SLF001
        found["followers"] = sum(map(len, actor.followers.values()))
        found["readers"] = sum(not reader._left for reader in READERS)  # noqa: SLF001
        return +found

    async def _after(self, names: dict[str, str]) -> Counter[str]:
        """Whether its runs end, what stays of them, and whether others are served."""
        found: Counter[str] = Counter()
        with anyio.move_on_after(PATIENCE_S) as patience:
            for run in await self.system.runs(statuses=OPEN_STATUSES):
                if run.thread_id == names.get("asleep") and run.graph == "sleep":
                    await run.cancel()
                await run.wait()
            for name in {"new", "thread", "asleep"} & names.keys():
                path = f"/threads/{names[name]}/runs/wait"
                body = PAUSES if name == "asleep" else MAKES
                answer = await self.client.post(path, json=body)
                found["refused"] += answer.status_code != 200 or "__error__" in answer.text
                await self.client.delete(f"/threads/{names[name]}")
            found["threads"] = await self._threads_left()
        found["runs"] += patience.cancelled_caught
        return +found

    async def _threads_left(self) -> int:
        """Threads made by the server: those of runs without a thread go with these."""
        threads = self.routes._server.threads  # noqa: SLF001
        with anyio.move_on_after(1):
            while await threads.temporary():
                await anyio.lowlevel.checkpoint()
        known = {one.thread_id for one in await threads.all({})}
        return len(await threads.temporary()) + len(
            set(await self.system.saver.alist_threads()) - known
        )


@contextmanager
def noting_readers() -> Iterator[None]:
    """Note each reader of events that is made; a system knows only those that it waits for."""

    def made(self: EventReader, *args: Any, **options: Any) -> None:
        plain(self, *args, **options)
        READERS.add(self)

    plain, EventReader.__init__ = EventReader.__init__, made  # type: ignore[method-assign]
    try:
        yield
    finally:
        EventReader.__init__ = plain  # type: ignore[method-assign]
        READERS.clear()


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Place]:
    """A server over files."""
    saver = SqliteSaver(folder / "runs.db")
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    store = SqliteStore(folder / "store.db")
    system = ActorSystem(graphs, saver=saver, store=store, lease_s=3600, drain_timeout_s=1)
    routes = GraphRoutes(system)
    transport = httpx.ASGITransport(routes, raise_app_exceptions=False)
    with noting_readers():
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            yield Place(system, routes, client)


async def leave_everywhere(
    place: Place, request: Request, how: str, numbers: Iterable[int], tell: Callable[[str], object]
) -> Counter[str]:
    """Leave a request at each of these suspensions, until the last; what was left."""
    seen: Counter[str] = Counter()
    for k in numbers:
        fired, found = await place.leave(request, k, how)
        if found:
            tell(f"{request.method} {request.path}, {how}, at suspension {k}: {dict(found)}")
        seen += found
        if not fired:
            break
        seen["awaits"] += 1
    return seen
