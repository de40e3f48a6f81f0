"""All that one tenant has is made of one word; another tenant asks everything; it never comes back.

The requests are made of the table of routes: for each route its path, query and body with every
wrong value in every place. So a new route, parameter or field is asked by itself, and one for which
nothing valid is known fails the test. Where a request has to name what is the first tenant's, it is
sent a second time with a name that doesn't exist: both answers must be the same.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple, get_args, get_origin
from urllib.parse import quote, urlencode
from uuid import uuid4

import anyio
import httpx
from msgspec.structs import fields

from actorgraph.api.system.thread_finder import assistant_id
from actorgraph.web.endpoints.endpoint import Endpoint
from actorgraph.web.routes import ENDPOINTS
from tests.web.canary_app import BODY_BYTES, OTHER, WORD

NEAR = WORD[:-1]
"""Like the word, but for its end: near enough for code that suggests names."""
ODD: list[Any] = [
    *(None, "", f"{NEAR}-thread", [], {}, -1, True, 0, 2**70, 1.5, "x", "\0", "\ud83d"),
    *([f"{NEAR}-node"], {NEAR: NEAR}, [[["x"]]], {"thread_id": f"{NEAR}-thread"}, {"a": [None]}),
]
TIMEOUT_S = 30.0
"""For one request."""
TAKEN = {("POST", "/threads", "thread_id"), ("POST", "/assistants", "assistant_id")}
"""Where a tenant can see that an id is taken, because it may choose ids: see docs/web.md."""


class Ask(NamedTuple):
    """A request.

    Attributes:
        named: what of the first tenant's it names, which its answer may say again.
    """

    endpoint: Endpoint
    method: str
    path: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    named: str = ""


class Place:
    """A server, with what the two tenants have there.

    Attributes:
        secrets: what the second tenant must never read.
        theirs: parameter or field -> one that is the first tenant's, one like it that doesn't
        exist.
        mine: parameter or field -> valid values for the second tenant; the first is the usual one.
        answered: endpoint -> how many answers there were of each status.
        leaks: what was wrong.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.secrets = {WORD, assistant_id(f"{WORD}-agent"), assistant_id(f"{WORD}-broken")}
        self.theirs: dict[str, tuple[Any, Any]] = {}
        self.mine: dict[str, list[Any]] = {}
        self.answered: dict[str, Counter[int]] = {}
        self.leaks: list[str] = []

    async def send(
        self, user: str, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        content = body if isinstance(body, bytes) else None if body is None else dumps(body)
        given = {"x-user": user, **headers}
        if content is not None:
            given.setdefault("content-type", "application/json")
        with anyio.fail_after(TIMEOUT_S):
            try:
                return await self.client.request(method, path, content=content, headers=given)
            except httpx.RemoteProtocolError:  # hypercorn may close a connection as it is reused
                return await self.client.request(method, path, content=content, headers=given)

    async def fill(self) -> None:
        """Give both tenants what there is."""
        await self._fill_theirs()
        item = {"namespace": [OTHER], "key": "k", "value": {}}
        await self._done(OTHER, "PUT", "/store/items", item)
        runs = (await self.send(WORD, "GET", f"/threads/{WORD}-thread/runs")).json()
        state = (await self.send(WORD, "GET", f"/threads/{WORD}-thread/state")).json()
        thread, cp = f"{WORD}-thread", state["checkpoint"]["checkpoint_id"]
        self.secrets |= {one["run_id"] for one in runs} | {cp}
        crons = (await self.send(WORD, "POST", "/runs/crons/search", b"{}")).json()
        self.secrets.add(crons[0]["cron_id"])
        nobody, other = str(uuid4()), f"1f0e0000{cp[8:]}"
        self.theirs = {
            "thread_id": (thread, "nobodys-thread"),
            "run_id": (runs[0]["run_id"], nobody),
            "checkpoint_id": (cp, other),
            "assistant_id": (f"{WORD}-own", "nobodys-own"),
            "graph_id": (f"{WORD}-agent", "nobodys-agent"),
            "agent_id": (f"{WORD}-agent", "nobodys-agent"),
            "cron_id": (crons[0]["cron_id"], nobody),
            "namespace": ([WORD], ["nobodys"]),
            "namespace_prefix": ([WORD], ["nobodys"]),
            "prefix": ([WORD], ["nobodys"]),
            "key": (f"{WORD}-key", "nobodys-key"),
            "thread_ids": ([thread], ["nobodys-thread"]),
            "ids": ([thread], ["nobodys-thread"]),
            "run_ids": ([runs[0]["run_id"]], [nobody]),
            "checkpoint": ({"checkpoint_id": cp, "thread_id": thread}, {"checkpoint_id": other}),
            "before": (cp, other),
            "last_event_id": (f"{runs[0]['run_id']}.1", f"{nobody}.1"),
            "interrupt_before": ([f"{WORD}-node"], ["nobodys-node"]),
            "as_node": (f"{WORD}-node", "nobodys-node"),
            "metadata": ({"graph_id": f"{WORD}-agent"}, {"graph_id": "nobodys-agent"}),
        }
        self.mine = {
            "thread_id": ["mine", f"{NEAR}-thread", "used-again", "unknown", "\0", "a" * 300],
            "run_id": ["", "unknown", nobody],
            "checkpoint_id": ["", other, "unknown"],
            "assistant_id": ["outer", f"{NEAR}-agent", "fail", "ask"],
            "agent_id": ["outer", f"{NEAR}-agent", "fail", "ask"],
            "cron_id": ["", "unknown", nobody],
            "namespace": ["inner", f"{NEAR}-node"],
        }

    async def _fill_theirs(self) -> None:
        thread = {"thread_id": f"{WORD}-thread", "metadata": {WORD: WORD}}
        await self._done(WORD, "POST", "/threads", thread)
        given = {"foo": WORD, "log": [WORD]}
        assistant = {"graph_id": "log", "assistant_id": f"{WORD}-own", "name": WORD}
        await self._done(WORD, "POST", "/assistants", assistant)
        cron = {"assistant_id": f"{WORD}-own", "schedule": "0 0 1 1 *", "input": given}
        await self._done(WORD, "POST", "/runs/crons", cron)
        for graph in (f"{WORD}-agent", f"{WORD}-broken"):
            body = {"assistant_id": graph, "input": given, "metadata": {WORD: WORD}}
            await self._done(WORD, "POST", f"/threads/{WORD}-thread/runs/wait", body)
            body |= {"if_not_exists": "create"}
            await self._done(WORD, "POST", f"/threads/{WORD}-{graph}/runs/wait", body)
        body = {"assistant_id": "sleep", "input": given, "if_not_exists": "create"}
        await self._done(WORD, "POST", f"/threads/{WORD}-busy/runs", body)
        item = {"namespace": [WORD, WORD], "key": f"{WORD}-key", "value": {WORD: WORD}}
        await self._done(WORD, "PUT", "/store/items", item)
        body |= {"assistant_id": "log", "metadata": {WORD: WORD}}
        await self._done(WORD, "POST", "/threads/used-again/runs/wait", body)
        await self._done(WORD, "DELETE", "/threads/used-again")

    async def refresh(self) -> None:
        """Give the second tenant anew what a request to the last route may have removed."""
        await self.send(OTHER, "DELETE", f"/threads/{NEAR}-thread")
        await self.send(OTHER, "DELETE", "/assistants/nobodys-own")
        if self.mine["cron_id"][0]:  # each is looked at again when another one is made
            await self.send(OTHER, "DELETE", f"/runs/crons/{self.mine['cron_id'][0]}")
        for name in ("mine", "used-again", f"{NEAR}-thread"):
            body = {"thread_id": name, "if_exists": "do_nothing"}
            await self._done(OTHER, "POST", "/threads", body)
        body = {"assistant_id": "log", "input": {"foo": "b"}}
        done = await self._done(OTHER, "POST", "/threads/mine/runs/wait", body)
        state = (await self._done(OTHER, "GET", "/threads/mine/state")).json()
        cron = {"assistant_id": "log", "schedule": "0 0 1 1 *"}
        made = (await self._done(OTHER, "POST", "/runs/crons", cron)).json()
        self.mine["cron_id"][0] = made["cron_id"]
        self.mine["run_id"][0] = done.headers["content-location"].rpartition("/")[2]
        self.mine["checkpoint_id"][0] = state["checkpoint"]["checkpoint_id"]

    async def collide(self, endpoint: Endpoint) -> None:
        """Start a run on the second tenant's own thread that has one, with each strategy."""
        asleep = {"assistant_id": "sleep", "input": {"foo": "b"}, "if_not_exists": "create"}
        body = {**asleep, "assistant_id": "log"}
        for strategy in ("reject", "interrupt", "rollback"):
            start = {**asleep, "multitask_strategy": "interrupt"}
            await self._done(OTHER, "POST", "/threads/busy/runs", start)
            path = endpoint.path.format(thread_id="busy")
            content = dumps({**body, "multitask_strategy": strategy})
            await self.ask(Ask(endpoint, endpoint.method, path, content))

    async def _done(self, user: str, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = await self.send(user, method, path, body)
        assert answer.status_code < 300, (method, path, answer.text)
        return answer

    async def ask(self, ask: Ask, user: str = OTHER) -> httpx.Response:
        """Send a request, and note what its answer holds."""
        headers = dict(ask.headers)
        answer = await self.send(user, ask.method, ask.path, ask.body, **headers)
        name = f"{ask.endpoint.method} {ask.endpoint.path}"
        self.answered.setdefault(name, Counter())[answer.status_code] += 1
        told = f"{answer.headers.raw!r} {answer.text}"
        for text in self.found_in(told.replace(ask.named, "") if ask.named else told):
            self.leaks.append(f"{text} in the answer to {ask[1:]}: {told[:2000]}")
        if answer.status_code >= 500:
            self.leaks.append(f"{answer.status_code} to {ask[1:]}")
        return answer

    def found_in(self, text: str) -> list[str]:
        """The secrets that a text holds."""
        low = text.lower()
        return [secret for secret in self.secrets if secret in low]

    async def observe(self, named: Sequence[str] = ()) -> None:
        """Look at what was logged and traced since the last time.

        Args:
            named: what requests have named, which runs in the background may still mention.
        """
        for told in (await self.send(OTHER, "GET", "/observed")).json():
            rest = told
            for text in named:
                rest = rest.replace(text, "")
            if self.found_in(rest):
                self.leaks.append(f"logged or traced: {told[:1000]}")

    async def ask_of_theirs(self, ask: Ask, other: Ask, key: str) -> None:
        """Name what is the first tenant's, then what doesn't exist: the answers are the same."""
        one = await self.ask(ask)
        await self.observe([name_in(theirs) for theirs, _ in self.theirs.values()])
        two = await self.ask(other)
        if (ask.method, ask.endpoint.path, key) in TAKEN:
            return
        texts = [one.text.replace(ask.named, ""), two.text.replace(other.named, "")]
        if one.status_code != two.status_code or (one.is_error and texts[0] != texts[1]):
            said = [(a.status_code, a.text[:300]) for a in (one, two)]
            self.leaks.append(f"{ask[1:]} tells that it is there: {said}")


def dumps(body: Any) -> bytes:
    return json.dumps(body).encode()


USUAL: dict[str, Any] = {
    "assistant_id": "log",
    "agent_id": "log",
    "thread_ids": [f"{NEAR}-thread"],
    "checkpoint": {},
    "key": "k",
    "namespace": [OTHER],
    "namespace_prefix": [OTHER],
    "prefix": [OTHER],
    "value": {"a": 1},
    "input": {"foo": "b"},
    "values": {"foo": "b"},
    "as_node": "first",
    "status": "error",
    "schedule": "0 0 1 1 *",
    "graph_id": "log",
    "version": 1,
    "ttl": 1,
    "channels": ["values", "lifecycle"],
    "id": 1,
    "method": "run.start",
    "params": {"assistant_id": "log", "input": {"foo": "b"}},
}
"""Field -> a valid value, for each that a body needs or that makes it do something."""
USED = ("input", "namespace", "namespace_prefix", "prefix", "agent_id")
"""Fields that a body may be without, but for which it does nothing."""


def usual(endpoint: Endpoint, kind: Any) -> Any:
    """A valid body, or query, of an endpoint's type.

    Raises:
        AssertionError: it needs a field for which no valid value is known: add one to `USUAL`.
    """
    if get_origin(kind) is list:
        return [usual(endpoint, get_args(kind)[0])]
    made: dict[str, Any] = {}
    for field in fields(kind):
        if field.required or field.name in USED:
            assert field.name in USUAL, f"{endpoint.path} needs {field.name!r}: say one in USUAL"
            made[field.name] = USUAL[field.name]
    if endpoint.path.endswith("/state"):
        made |= {"values": USUAL["values"], "as_node": "first"}
    if endpoint.path == "/runs/cancel":
        made |= {"status": "pending"}
    return made


def literals(kind: Any) -> list[Any]:
    """The words that a field may hold."""
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [word for part in get_args(kind) for word in literals(part)]


def wrong(kind: Any, few: int | None, first: int) -> Iterator[tuple[str, Any]]:
    """Field and value, for every field of a type.

    Args:
        few: how many values for each field; None for all. first: which ones, if few.
    """
    struct = get_args(kind)[0] if get_origin(kind) is list else kind
    for number, field in enumerate(fields(struct)):
        values = [*literals(field.type), *ODD]
        if few is None:
            yield from ((field.name, value) for value in values)
            continue
        for step in range(few):
            yield field.name, values[(first + number + step * 7) % len(values)]


def with_field(body: Any, name: str, value: Any) -> Any:
    """A body with another value in one field."""
    if isinstance(body, list):
        return [{**body[0], name: value}]
    return {**body, name: value}


def queried(endpoint: Endpoint, **more: Any) -> str:
    """A query string; lists and objects as text."""
    if endpoint.query is None:
        return ""
    given = {"key": "k", "namespace": OTHER} if endpoint.path == "/store/items" else {}
    given |= {k: v if isinstance(v, str) else dumps(v).decode() for k, v in more.items()}
    return "?" + urlencode(given, errors="replace") if given else ""


def path_of(endpoint: Endpoint, place: Place, **given: str) -> str:
    """The path with the second tenant's own ids but for those that are given."""
    names = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    for name in names:
        assert name in place.mine, f"{endpoint.path} has {name!r}: say some in Place.mine"
    chosen = {name: given.get(name, place.mine[name][0]) for name in names}
    return endpoint.path.format(**{k: quote(v, safe="") for k, v in chosen.items()})


def requests(endpoint: Endpoint, place: Place, few: int | None) -> Iterator[Ask]:
    """Every wrong request to an endpoint, and right ones, that name nothing of the others'."""
    method, path = endpoint.method, path_of(endpoint, place)
    usually = None if endpoint.body is None else usual(endpoint, endpoint.body)
    content = None if usually is None else dumps(usually)
    query = queried(endpoint)
    yield Ask(endpoint, method, path + query, content)
    names = [name for name in place.mine if f"{{{name}}}" in endpoint.path]
    for values in product(*(place.mine[name] for name in names)):
        where = path_of(endpoint, place, **dict(zip(names, values, strict=True)))
        if isinstance(usually, dict) and "input" in usually:  # first, on a thread without a state
            yield Ask(endpoint, method, where, dumps({**usually, "input": None}))
        yield Ask(endpoint, method, where, content)
    first = len(endpoint.path)  # so that each route begins with other values
    if endpoint.query is not None:
        for name, value in wrong(endpoint.query, few, first):
            yield Ask(endpoint, method, path + queried(endpoint, **{name: value}), content)
    if endpoint.body is None:
        return
    raws = (b"", b"{", b"null", b"[]", b'"x"', b"\xff", b"[" * 50 + b"]" * 50)
    for raw in (
        raws if few is None else [raws[(first + step * 3) % len(raws)] for step in range(few)]
    ):
        yield Ask(endpoint, method, path, raw)
    yield Ask(endpoint, method, path, b'{"a":"' + b"x" * BODY_BYTES + b'"}')
    yield Ask(endpoint, method, path, content, (("content-type", "text/plain"),))
    yield Ask(endpoint, method, path, content, (("content-encoding", "gzip"),))
    for name, value in wrong(endpoint.body, few, first):
        body = dumps(with_field(usually, name, value))
        for where in {path, path.replace("mine", "used-again")} if few is None else {path}:
            yield Ask(endpoint, method, where, body)


def requests_of_theirs(endpoint: Endpoint, place: Place) -> Iterator[tuple[Ask, Ask, str]]:
    """Pairs of requests: one names the first tenant's data, one missing data; and where."""
    usually = None if endpoint.body is None else usual(endpoint, endpoint.body)
    content = None if usually is None else dumps(usually)
    struct = get_args(endpoint.body)[0] if get_origin(endpoint.body) is list else endpoint.body
    in_body = [] if struct is None else [field.name for field in fields(struct)]
    in_query = [] if endpoint.query is None else [field.name for field in fields(endpoint.query)]
    for name, pair in place.theirs.items():
        asks: list[list[Ask]] = [[], [], []]
        for value in pair:
            text = name_in(value)
            if f"{{{name}}}" in endpoint.path and isinstance(value, str):
                path = path_of(endpoint, place, **{name: value}) + queried(endpoint)
                asks[0].append(Ask(endpoint, endpoint.method, path, content, named=text))
            if name in in_query:
                path = path_of(endpoint, place) + queried(endpoint, **{name: text})
                asks[1].append(Ask(endpoint, endpoint.method, path, content, named=text))
            if name in in_body:
                body = dumps(with_field(usually, name, value))
                path = path_of(endpoint, place)
                asks[2].append(Ask(endpoint, endpoint.method, path, body, named=text))
        for both in asks:
            if both:
                yield both[0], both[1], name


def name_in(value: Any) -> str:
    """The text in a value that names something."""
    while not isinstance(value, str):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


async def everything(
    place: Place, few: int | None, endpoints: Sequence[Endpoint] = ENDPOINTS
) -> None:
    """Ask every route everything; what is wrong is in `place.leaks`.

    Args:
        few: how many wrong values for each field; None for all.
    """
    await place.send(OTHER, "GET", "/observed")  # what came before
    last = ""
    for endpoint in endpoints:
        if last != "GET":  # which removes nothing
            await place.refresh()
        last = endpoint.method
        for ask in requests(endpoint, place, few):
            await place.ask(ask)
        if endpoint.may_create:
            await place.collide(endpoint)
        for method in ("HEAD", "OPTIONS"):
            await place.ask(Ask(endpoint, method, path_of(endpoint, place)))
        await place.ask(Ask(endpoint, endpoint.method, path_of(endpoint, place)), "")
    await place.observe()
    for endpoint in endpoints:
        if last != "GET":
            await place.refresh()
        last = endpoint.method
        for ask, other, name in requests_of_theirs(endpoint, place):
            await place.ask_of_theirs(ask, other, name)


def not_reached(place: Place, endpoints: Sequence[Endpoint] = ENDPOINTS) -> list[str]:
    """The routes of which no request got further than a refusal."""
    names = [f"{endpoint.method} {endpoint.path}" for endpoint in endpoints]
    return [n for n in names if not any(s < 400 for s in place.answered.get(n, ()))]
