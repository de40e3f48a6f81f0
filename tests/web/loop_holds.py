"""How long a request holds the event loop: CPU time of the loop's thread between two looks.

CPU time, because on a machine with other work the clock says more about that work: what a thread
waits for the interpreter or a processor isn't counted. A look comes every millisecond, so the time
between two of them is the longest time in which no other task could run, and a millisecond more.
"""

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from operator import add
from typing import Annotated, Any, NamedTuple, TypedDict
from urllib.parse import urlsplit

import anyio
import msgspec

from actorgraph import ActorSystem, StateGraph
from actorgraph.stores import PostgresStore, SqliteStore
from actorgraph.web import GraphRoutes, Limits, running
from actorgraph.web.endpoints.endpoint import Endpoint
from actorgraph.web.routes import ENDPOINTS
from tests.support.every_saver import Store
from tests.web.canary import USUAL, queried
from tests.web.largest import SPARE, SPARE_BYTES, Filled, Largest

LIMIT_S = 0.05
LOOK_S = 0.001
STREAM_S = 0.2
"""After this the client of a request that stays open leaves."""
REQUEST_S = 120.0
REST_S = 60.0
CRON = {"assistant_id": "log", "schedule": USUAL["schedule"]}
TRIES = 3
"""Of these the best counts: the interpreter collects its garbage in whichever request it likes."""


class Log(TypedDict, total=False):
    """The state of runs of the served graph."""

    foo: Any
    log: Annotated[list[Any], add]


async def first(state: Log) -> dict[str, Any]:
    """Write."""
    return {"log": ["first"]}


async def second(state: Log) -> dict[str, Any]:
    """Write."""
    return {"log": ["second"]}


class Answer(NamedTuple):
    """The answer to a request.

    Attributes:
        held_s: the longest time for which the event loop was held meanwhile.
    """

    status: int
    body: bytes
    held_s: float


@asynccontextmanager
async def watched(found: list[float]) -> AsyncGenerator[None]:
    """Append the longest hold of the event loop in the body of the context."""
    longest, last = 0.0, time.thread_time()

    async def look() -> None:
        nonlocal longest, last
        while True:
            await anyio.sleep(LOOK_S)
            now = time.thread_time()
            longest, last = max(longest, now - last), now

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        yield
        await anyio.sleep(LOOK_S)
        group.cancel_scope.cancel()
    found.append(max(longest, time.thread_time() - last))


def slowness() -> float:
    """How many times as long as usual this machine takes for a fixed piece of work."""
    took = []
    for _ in range(5):
        began = time.thread_time()
        sum(number * number for number in range(200_000))
        took.append(time.thread_time() - began)
    return min(took) / 0.008


class Served:
    """Routes over a saver and a store, with what clients have there; asked without sockets."""

    def __init__(self, system: ActorSystem, limits: Limits, store: Any) -> None:
        self.system, self.limits = system, limits
        self.routes = GraphRoutes(system, limits=limits, store=store)
        self.ids: dict[str, str] = {}
        self.many: dict[str, list[str]] = {"thread_ids": [], "run_ids": []}
        self.document: dict[str, Any] = {}

    async def ask(self, method: str, target: str, body: bytes = b"") -> Answer:
        """Ask, and wait until nothing runs any more because of it."""
        held: list[float] = []
        async with watched(held):
            status, parts = await self._ask(method, target, body)
            await self.at_rest()
        # Joined afterwards: a copy of megabytes in the client isn't the server's work.
        return Answer(status, b"".join(parts), held[0])

    async def _ask(self, method: str, target: str, body: bytes) -> tuple[int, list[bytes]]:
        place, status, parts = urlsplit(target), [0], [b""]
        begun, left = False, anyio.Event()

        async def receive() -> dict[str, Any]:
            nonlocal begun
            if not begun:
                begun = True
                return {"type": "http.request", "body": body}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
            else:
                parts.append(message.get("body", b""))
            await anyio.lowlevel.checkpoint()

        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": place.path,
            "http_version": "1.1",
            "asgi": {"version": "3.0"},
            "scheme": "http",
            "root_path": "",
            "query_string": place.query.encode(),
            "headers": [(b"content-type", b"application/json"), (b"host", b"h")],
        }

        async def leave() -> None:
            await anyio.sleep(STREAM_S)
            left.set()

        with anyio.fail_after(REQUEST_S):
            async with anyio.create_task_group() as group:
                group.start_soon(leave)
                await self.routes(scope, receive, send)
                group.cancel_scope.cancel()
        return status[0], parts

    async def at_rest(self) -> None:
        """Wait until no run is active."""
        with anyio.move_on_after(REST_S):
            while True:
                if not self.system.statistics().active:
                    return
                await anyio.sleep(0.01)

    async def made(self, method: str, target: str, body: Any = None) -> Any:
        """Ask for what must succeed."""
        sent = b"" if body is None else msgspec.json.encode(body)
        answer = await self.ask(method, target, sent)
        assert answer.status < 300, (method, target, answer.status, answer.body[:500])
        return msgspec.json.decode(answer.body or b"null")

    async def fill(self, threads: int, points: int, values: int) -> None:
        """Store threads, a long one and a large one, items, crons and assistants.

        Args:
            threads: how many, with a run each.
            points: checkpoints of the long thread.
            values: in the state of the large one.
        """
        self.document = await self.made("GET", "/openapi.json")
        step = {"updates": [{"values": {"log": ["x"] * 10}, "as_node": "first"}]}
        steps = {
            "thread_id": "mine",
            "metadata": {"graph_id": "log"},
            "supersteps": [step] * points,
        }
        await self.made("POST", "/threads", steps)
        large = {"assistant_id": "log", "input": {"foo": ["y"] * values}}
        for _ in range(5):
            await self.made(
                "POST", "/threads/large/runs/wait", {**large, "if_not_exists": "create"}
            )
        body = {"assistant_id": "log", "input": {"foo": "b"}, "on_completion": "keep"}
        for run in await self.made("POST", "/runs/batch", [body] * threads):
            self.many["thread_ids"].append(run["thread_id"])
            self.many["run_ids"].append(run["run_id"])
        for number in range(threads):
            item = {"namespace": ["other"], "key": f"k{number}", "value": {"a": ["z"] * 20}}
            await self.made("PUT", "/store/items", item)
        cron = {**CRON, "input": {"foo": ["b"] * values}}
        for _ in range(5):
            await self.made("POST", "/runs/crons", cron)
        await self.refresh()

    async def refresh(self) -> None:
        """Make anew what a request may have removed."""
        body = {"thread_id": "mine", "metadata": {"graph_id": "log"}, "if_exists": "do_nothing"}
        await self.made("POST", "/threads", body)
        run = {"assistant_id": "log", "input": {"foo": "b"}}
        await self.made("POST", "/threads/mine/runs/wait", run)
        runs = await self.made("GET", "/threads/mine/runs")
        state = await self.made("GET", "/threads/mine/state")
        cron = await self.made(
            "POST", "/runs/crons", {"assistant_id": "log", "schedule": "0 0 1 1 *"}
        )
        await self.ask("DELETE", "/assistants/own")  # its versions are large
        assistant = {"graph_id": "outer", "assistant_id": "own"}
        await self.made("POST", "/assistants", assistant)
        self.ids = {
            "thread_id": "mine",
            "run_id": runs[0]["run_id"],
            "checkpoint_id": state["checkpoint"]["checkpoint_id"],
            "cron_id": cron["cron_id"],
            "assistant_id": "own",
            "agent_id": "log",
            "namespace": "inner",
        }

    def requests(self, endpoint: Endpoint) -> Iterator[tuple[str, Filled]]:
        """Target and body of every largest request to an endpoint."""
        items = self.limits.items
        most, text = self.limits.values - SPARE, self.limits.body_bytes - SPARE_BYTES
        send = [{"node": "second", "input": {"foo": "b"}}] * items
        many = {name: ids[:items] for name, ids in self.many.items()}
        superstep = {"updates": [{"values": {"log": ["x"]}, "as_node": "first"}]}
        known: dict[str, list[Any]] = {
            **{name: [ids] for name, ids in many.items()},
            "ids": [many["thread_ids"]],
            "input": [{"foo": [0] * most}, {"foo": "x" * text}],
            "resume": [[0] * most, "x" * text],
            "goto": [send],
            "assistant_id": ["log"],
            "graph_id": ["log"],
            "agent_id": ["log"],
            "thread_id": ["mine"],
            "checkpoint_id": [self.ids["checkpoint_id"]],
            "before": [self.ids["checkpoint_id"]],
            "supersteps": [[superstep] * items, [{"updates": superstep["updates"] * items}]],
            "webhook": [None],
            "schedule": [USUAL["schedule"]],
            "timezone": ["Europe/Paris"],
            "end_time": [None],
        }
        largest = Largest(self.document, self.limits, known)
        filled = list(largest.bodies(endpoint)) or [Filled("", None)]
        threads = ("mine", "large") if reads(endpoint) else ("mine",)
        for thread in threads:
            path = endpoint.path.format(**{**self.ids, "thread_id": thread}) + self._query(endpoint)
            yield from ((path, one) for one in filled)

    def _query(self, endpoint: Endpoint) -> str:
        names = getattr(endpoint.query, "__struct_fields__", ())
        return queried(endpoint, **({"limit": "1000"} if "limit" in names else {}))


def reads(endpoint: Endpoint) -> bool:
    """Whether it changes nothing of a thread."""
    return endpoint.method == "GET" or endpoint.action in ("threads.read", "runs.read")


@asynccontextmanager
async def served(store: Store, limits: Limits) -> AsyncGenerator[Served]:
    """Routes over a place for checkpoints, and a store of the same kind."""
    saver = store.again()
    graph = StateGraph(Log).add_sequence([first, second]).set_entry_point("first")
    outer = StateGraph(Log).add_node("inner", graph.compile()).set_entry_point("inner")
    graphs = {"log": graph, "outer": outer}
    system = ActorSystem(
        {name: one.compile(checkpointer=saver) for name, one in graphs.items()}, saver=saver
    )
    items: Any = SqliteStore(store.path.with_name("items.db"))
    if store.kind == "postgres":
        items = PostgresStore(store.url, schema=store.schema + "_items")
    async with items, running(system):
        yield Served(system, limits, items)


async def everything(
    place: Served, limit_s: float, each: Callable[[int], bool] = lambda _: True
) -> tuple[list[tuple[float, str]], list[str]]:
    """Ask every route its largest bodies; returns the holds with their requests, and the routes
    that refused all of them.

    Args:
        limit_s: a request that holds the loop for longer is asked again.
        each: whether to ask the request of this number.
    """
    holds: list[tuple[float, str]] = []
    refused: list[str] = []
    number, changed = 0, False
    for endpoint in ENDPOINTS:
        name = f"{endpoint.method} {endpoint.path}"
        if changed:
            await place.refresh()
        changed = not reads(endpoint)
        reached = False
        for target, filled in place.requests(endpoint):
            number += 1
            if not filled.field or each(number):
                held, status = await _best_of(place, endpoint, target, filled.body, limit_s)
                holds.append((held, f"{name} {filled.field}: {status}"))
                reached = reached or status < 400
        if not reached:
            refused.append(name)
    return holds, refused


async def _best_of(
    place: Served, endpoint: Endpoint, target: str, body: bytes, limit_s: float
) -> tuple[float, int]:
    """The least time for which one of some same requests held the loop, and the first status."""
    best, first = float("inf"), 0
    for _ in range(TRIES):
        answer = await place.ask(endpoint.method, target, body)
        first = first or answer.status
        best = min(best, answer.held_s)
        if endpoint.method == "POST" and endpoint.path.endswith("/crons") and answer.status < 300:
            made = msgspec.json.decode(answer.body)["cron_id"]
            await place.ask("DELETE", f"/runs/crons/{made}")
        if best <= limit_s:
            break
        if not reads(endpoint):
            await place.refresh()
    return best, first
