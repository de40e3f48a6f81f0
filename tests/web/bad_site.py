"""A server with what is good and what is bad, and every question that can be asked of it.

Two clients have the same: threads, runs, questions, assistants, crons, webhooks, items. A row of
one of them is damaged. The answers about the other must be the same as without.
Routes come from their table, pages from the studio, jobs from the system: a new one is asked too.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from operator import add
from typing import Annotated, Any, TypedDict

import anyio
import anyio.to_thread
import httpx

from actorgraph import ActorSystem, StateGraph, sleep
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.studio import Studio
from actorgraph.values.ids import as_bytes
from actorgraph.values.systems import AskCancel
from actorgraph.web import GraphRoutes, Limits, WebhookPolicy
from actorgraph.web.endpoints.endpoint import Endpoint
from actorgraph.web.jobs.background import _JOBS
from actorgraph.web.registries.thread_registry import _BY_SYSTEM
from actorgraph.web.routes import ENDPOINTS
from tests.web.apps import GRAPHS
from tests.web.canary import dumps, path_of, usual
from tests.web.planted_rows import BAD, REMAINS

GOOD = "sound"
WHO = (GOOD, BAD)
READS = (".read", ".search", ".get", ".namespaces")
_CHANGING = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s)\b"), "SECONDS"),
    (re.compile(r"\b(now|(in )?\d+ (second|minute|hour)s?( ago)?)</time>"), "AGE</time>"),
]


_ROW = re.compile(r"<tr.*?</tr>", re.DOTALL)
"""Of a table in a page."""


class Said(TypedDict, total=False):
    """Of a value in a row of its own, and a growing list."""

    foo: str
    log: Annotated[list[str], add]


class Late:
    """A node that ends only in a later process than the one that started it."""

    filling = False

    async def __call__(self, state: Said) -> dict[str, Any]:
        if Late.filling:
            await anyio.sleep_forever()
        return {"log": ["late"]}


def sleep_long(state: Said) -> None:
    """A node that sleeps for a day."""
    sleep(86_400)


def embedded(texts: list[str]) -> list[list[float]]:
    """Vectors of texts."""
    return [[float(len(text)), 1.0] for text in texts]


INDEX: Any = {"dims": 2, "embed": embedded, "fields": ["text"]}
LASTING: Any = {"default_ttl": 100_000, "refresh_on_read": True}


def graphs() -> dict[str, Any]:
    late = StateGraph(Said).add_node("late", Late()).set_entry_point("late")
    made: dict[str, Any] = {name: GRAPHS[name] for name in ("log", "ask", "fail")}
    nap = StateGraph(Said).add_node("nap", sleep_long).set_entry_point("nap")
    made |= {"late": late, "nap": nap}
    return {name: graph.compile() for name, graph in made.items()}


class Site:
    """A server over a saver and a store that are opened anew.

    Attributes:
        mine: parameter -> its value for the requests to a path, as `tests.web.canary` takes it.
    """

    def __init__(self, system: ActorSystem) -> None:
        self.system = system
        policy = WebhookPolicy(hosts=["*"], secret=b"x" * 32)
        self.routes = GraphRoutes(system, webhooks=policy, limits=Limits(stream_s=30))
        self.brief = GraphRoutes(system, webhooks=policy, limits=Limits(stream_s=0.001))
        self.studio = Studio(system, authorize=lambda *_: True)
        self.client = _client(self.routes, "http://t")
        self.briefly = _client(self.brief, "http://t")
        self.pages = _client(self.studio, "http://127.0.0.1")
        self.pages.headers["Sec-Fetch-Site"] = "same-origin"
        self.mine: dict[str, list[Any]] = {}

    async def send(
        self, method: str, path: str, body: Any = None, *, briefly: bool = False
    ) -> httpx.Response:
        headers = {"content-type": "application/json"} if body is not None else {}
        content = None if body is None else dumps(body)
        with anyio.fail_after(30):
            client = self.briefly if briefly else self.client
            return await client.request(method, path, content=content, headers=headers)

    async def done(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self.send(method, path, body)
        assert answer.status_code < 300, (method, path, answer.text)
        return answer.json() if answer.content else None

    async def fill(self, who: str) -> dict[str, Any]:
        """Make one of each kind; returns the ids of what has no id of its own choice."""
        about = {"metadata": {"who": who}}
        made: dict[str, Any] = {}
        thread = {"thread_id": who, "ttl": {"ttl": 100_000}, **about}
        await self.done("POST", "/threads", thread)
        given = {"foo": f"{who} {'x' * 40}", "log": [who]}
        run = {"assistant_id": "log", "input": given, **about}
        await self.done("POST", f"/threads/{who}/runs/wait", {**run, "stream_resumable": True})
        runs = await self.done("GET", f"/threads/{who}/runs")
        made["run_id"] = runs[0]["run_id"]
        state = await self.done("GET", f"/threads/{who}/state")
        made["checkpoint_id"] = state["checkpoint"]["checkpoint_id"]
        for name in ("ask", "fail", "late", "nap"):
            body = {**run, "assistant_id": name, "if_not_exists": "create"}
            wait = "" if name == "late" else "/wait"
            await self.done("POST", f"/threads/{who}-{name}/runs{wait}", body)
        body = {**run, "if_not_exists": "create", "after_seconds": 86_400}
        body["webhook"] = f"https://{who}.example.com/x"
        due = await self.done("POST", f"/threads/{who}-due/runs", body)
        asked = AskCancel(as_bytes(due["run_id"]), f"{who}-due", who)
        await host_of(self.system.saver).writer.store(asked)
        assistant = {"graph_id": "log", "assistant_id": who, "name": who, **about}
        await self.done("POST", "/assistants", assistant)
        cron = {"assistant_id": who, "schedule": "0 0 1 1 *", **about}
        made["cron_id"] = (await self.done("POST", "/runs/crons", cron))["cron_id"]
        item = {"namespace": [who], "key": who, "value": {"who": who, "text": who}, "ttl": 9999}
        await self.done("PUT", "/store/items", item)
        return made

    async def refresh(self) -> None:
        """Make anew what requests may change or remove."""
        await self.send("DELETE", "/threads/mine")
        await self.done("POST", "/threads", {"thread_id": "mine", "metadata": {"who": "mine"}})
        body = {"assistant_id": "log", "input": {"foo": "mine"}}
        await self.done("POST", "/threads/mine/runs/wait", body)
        self.mine["run_id"] = [(await self.done("GET", "/threads/mine/runs"))[0]["run_id"]]
        state = await self.done("GET", "/threads/mine/state")
        self.mine["checkpoint_id"] = [state["checkpoint"]["checkpoint_id"]]
        if "cron_id" in self.mine:
            await self.send("DELETE", f"/runs/crons/{self.mine['cron_id'][0]}")
        cron = {"assistant_id": "log", "schedule": "0 0 1 1 *", "metadata": {"who": "mine"}}
        self.mine["cron_id"] = [(await self.done("POST", "/runs/crons", cron))["cron_id"]]
        await self.send("DELETE", "/assistants/mine")
        await self.done("POST", "/assistants", {"graph_id": "log", "assistant_id": "mine"})


def _client(app: Any, url: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=url)


@asynccontextmanager
async def opened(saver: Any, store: Any) -> AsyncIterator[Site]:
    """A server over a place."""
    system = ActorSystem(graphs(), saver=saver, store=store, drain_timeout_s=0.05, lease_s=600)
    with closing(store):
        async with system:
            site = Site(system)
            async with site.client, site.briefly, site.pages:
                yield site


class Asked:
    """The answers of a server to everything, without what is said of the bad.

    Attributes:
        answers: question -> its answer.
        of_bad: question about the bad -> status.
        log: the warnings and errors that were logged meanwhile.
    """

    def __init__(self, site: Site, made: dict[str, dict[str, Any]]) -> None:
        self.site = site
        self.made = made
        self.names = set(map(str, made[BAD].values()))
        self.answers: dict[str, Any] = {}
        self.of_bad: dict[str, int] = {}
        self.log: list[Any] = []
        self._stale = True

    async def everything(self, only: Callable[[str], bool] = lambda _: True) -> None:
        """Ask the routes, the pages, the jobs and the sweeps."""
        for name, ask in self._asks():
            if only(name):
                try:
                    self.answers[name] = await ask()
                except Exception as error:  # noqa: BLE001 - an answer like others
                    self.answers[name] = error

    def _asks(self) -> Iterator[tuple[str, Callable[[], Awaitable[Any]]]]:
        reads = [e for e in ENDPOINTS if (e.action or ".read").endswith(READS)]
        yield "recover", self._recover
        yield "settle", self._settle
        for job in list(_JOBS[self.site.system]):
            yield f"job {type(job).__name__}", lambda job=job: self._job(job)
        for one in list(_BY_SYSTEM[self.site.system]):
            yield f"sweep {type(one).__name__}", one.sweep
        for endpoint in reads:
            yield named(endpoint), lambda endpoint=endpoint: self._read(endpoint)
        for path, methods in self._pages():
            if "GET" in methods:
                yield f"page {path}", lambda path=path: self._page(path)
        for endpoint in ENDPOINTS:
            if endpoint not in reads:
                yield named(endpoint), lambda endpoint=endpoint: self._change(endpoint)
        for name, sweep in SWEEPS.items():
            yield name, lambda sweep=sweep: self._sweep(sweep)

    def _pages(self) -> list[tuple[str, set[str]]]:
        app: Any = self.site.studio._app  # noqa: SLF001
        return [
            (r.path, r.methods)
            for r in app._app.routes  # noqa: SLF001
            if getattr(r, "methods", None) and ":path" not in r.path
        ]

    async def _recover(self) -> Any:
        runs = await self.site.system.recover()
        return sorted(run.thread_id for run in runs if not self.is_bad(run.thread_id))

    async def _settle(self) -> Any:
        runs = await self.site.system.runs(thread_id=f"{GOOD}-late")
        return [await run.wait() for run in runs]

    async def _job(self, job: Any) -> Any:
        job._again = 0.0  # noqa: SLF001 - look at all, not at what is due
        return await job.look(datetime.now(UTC)) > 0

    async def _sweep(self, sweep: Any) -> Any:
        return self.clean(await sweep(self.site))

    async def _read(self, endpoint: Endpoint) -> Any:
        about = {"thread_id": GOOD, "assistant_id": GOOD, "agent_id": "log", "namespace": "x"}
        self.site.mine = {k: [v] for k, v in (about | self.made[GOOD]).items()}
        answer = await self._ask(endpoint)
        if "{" in endpoint.path:
            about |= {"thread_id": BAD, "assistant_id": BAD}
            self.site.mine = {k: [v] for k, v in (about | self.made[BAD]).items()}
            self.of_bad[named(endpoint)] = (await self._send(endpoint)).status_code
        return answer

    async def _change(self, endpoint: Endpoint) -> Any:
        self.site.mine |= {"thread_id": ["mine"], "assistant_id": ["mine"]}
        if self._stale and "{" in endpoint.path:
            await self.site.refresh()
        self._stale = endpoint.method == "DELETE" or "{" not in endpoint.path
        return await self._ask(endpoint)

    async def _ask(self, endpoint: Endpoint) -> Any:
        answer = await self._send(endpoint)
        counts = endpoint.path.endswith(("/statistics", "/count", "/runs/batch"))
        if counts or lasts(endpoint):
            return answer.status_code
        return answer.status_code, self.shown(answer)

    async def _send(self, endpoint: Endpoint) -> httpx.Response:
        body = None if endpoint.body is None else usual(endpoint, endpoint.body)
        if endpoint.path in BODIES:
            body = {**body, **BODIES[endpoint.path]} if body is not None else body
        path = path_of(endpoint, self.site)
        if endpoint.query is not None and endpoint.path == "/store/items":
            path += f"?namespace={GOOD}&key={GOOD}"
        return await self.site.send(endpoint.method, path, body, briefly=lasts(endpoint))

    async def _page(self, path: str) -> Any:
        found = path.replace("{thread_id}", GOOD).replace("{name}", "log")
        answer = await self.site.pages.get(found)
        found = _ROW.findall(answer.text)
        rows = [row for row in found if GOOD in row and not self.is_bad(row)]
        return answer.status_code, settled("".join(rows))

    def shown(self, answer: httpx.Response) -> Any:
        kind = answer.headers.get("content-type", "")
        if kind.startswith("application/json"):
            return self.clean(answer.json())
        return (
            "" if "openmetrics" in kind or kind.startswith("text/plain") else settled(answer.text)
        )

    def differences(self, others: "Asked") -> list[str]:
        """The questions that are answered otherwise than there.

        A sweep over all threads of a saver may fail with an error that names the bad one.
        """
        found: list[str] = []
        for name, answer in self.answers.items():
            before = others.answers[name]
            if isinstance(answer, Exception):
                if name not in SWEEPS or not self.is_bad(str(answer)):
                    found.append(f"{name}: {answer!r:.300}")
            elif answer != before:
                found.append(f"{name}: {answer!r:.300} instead of {before!r:.300}")
        return found

    def named(self) -> set[str]:
        """The events of the log that name the bad."""
        return {one["event"] for one in self.log if self.is_bad(one)}

    def clean(self, value: Any) -> Any:
        """An answer without what changes, and without entries about the bad."""
        return without(value, self.is_bad)

    def is_bad(self, value: Any) -> bool:
        return mentions(value, self.names)


def without(value: Any, is_bad: Callable[[Any], bool]) -> Any:
    """An answer without what changes, and without the items of lists about the bad."""
    if isinstance(value, dict):
        kept = {
            k: v for k, v in value.items() if k != "status" or "multitask_strategy" not in value
        }
        return {k: without(v, is_bad) for k, v in kept.items()}
    if isinstance(value, list | tuple):
        return [without(one, is_bad) for one in value if not is_bad(one)]
    return settled(value) if isinstance(value, str) else value


def mentions(value: Any, ids: set[str]) -> bool:
    """Whether a value has one of the bad's ids, or the remains of one: not in an id of others."""
    text = value if isinstance(value, str) else dumps_any(value)
    return any(one in text for one in ids) or any(one in settled(text) for one in REMAINS)


def dumps_any(value: Any) -> str:
    return json.dumps(value, default=repr, ensure_ascii=False)


def named(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def settled(text: str) -> str:
    """A text without ids and times."""
    for pattern, shown in _CHANGING:
        text = pattern.sub(shown, text)
    return text


def lasts(endpoint: Endpoint) -> bool:
    """Whether a response stays open without a run: then its status is compared alone."""
    return (
        endpoint.stays_open
        and "{run_id}" not in endpoint.path
        and endpoint.action == "threads.read"
    )


BODIES: dict[str, Any] = {
    "/store/items/search": {"namespace_prefix": [GOOD]},
}


async def _retention(site: Site) -> Any:
    saver: Any = site.system.saver
    await saver.aretention(3600)


async def _vacuum(site: Site) -> Any:
    saver: Any = site.system.saver
    await saver.avacuum()


async def _trim(site: Site) -> Any:
    await site.system.trim(3600)


async def _items(site: Site) -> Any:
    await anyio.to_thread.run_sync(site.system.store.sweep_ttl)


async def _found(site: Site) -> Any:
    found = [one.thread_id for one in await site.system.threads()]
    return sorted(one for one in found if one.startswith(GOOD))


async def _runs(site: Site) -> Any:
    found = [one.thread_id for one in await site.system.runs()]
    return sorted(one for one in found if one.startswith(GOOD))


async def _listed(site: Site) -> Any:
    saver: Any = site.system.saver
    found = [one.config["configurable"]["thread_id"] async for one in saver.alist(None)]
    return sorted(one for one in found if one.startswith(GOOD))


async def _ids(site: Site) -> Any:
    saver: Any = site.system.saver
    return [one for one in await saver.alist_threads() if one.startswith(GOOD)]


SWEEPS: dict[str, Any] = {
    "saver.alist_threads": _ids,
    "saver.alist": _listed,
    "system.runs": _runs,
    "system.threads": _found,
    "saver.aretention": _retention,
    "system.trim": _trim,
    "store.sweep_ttl": _items,
    "saver.avacuum": _vacuum,
}
