"""Endpoints: how a request is decoded, authorized and answered.

A request passes these steps, in this order: authentication, rate limit, body (size, JSON, shape,
depth), the thread that its path names, authorization, the endpoint's own handler. `Server` is
the state that all endpoints of one server share.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import unquote

import anyio
import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actorgraph.errors import SchemaMismatchError, SystemClosedError
from actorgraph.graph import CompiledStateGraph
from actorgraph.internals import assistant_id, beside
from actorgraph.internals import log_event as event
from actorgraph.systems import ActorSystem
from actorgraph.web.endpoints.readiness import Readiness
from actorgraph.web.endpoints.request_threads import admit_to_thread
from actorgraph.web.endpoints.state_updates import StateUpdates
from actorgraph.web.endpoints.storage_patience import StoragePatience
from actorgraph.web.endpoints.webhook_body import described
from actorgraph.web.http.access import Access
from actorgraph.web.http.client_limits import SOON, ClientLimits, client_of
from actorgraph.web.http.jsonable import dumps
from actorgraph.web.http.large_values import LARGE_BYTES, encoded
from actorgraph.web.http.problems import (
    Forbidden,
    NotFound,
    TooLarge,
    TooMany,
    TooSlow,
    Unprocessable,
    Unsupported,
)
from actorgraph.web.http.refusals import Refusals
from actorgraph.web.http.request_limits import Limits, StreamSlots, check_values
from actorgraph.web.http.weights import weight_of
from actorgraph.web.jobs.cron_registry import CronRegistry
from actorgraph.web.jobs.thread_ttls import ThreadTtls
from actorgraph.web.jobs.webhook_policy import WebhookPolicy
from actorgraph.web.jobs.webhooks import WebhookSender
from actorgraph.web.registries.assistant_registry import AssistantRegistry
from actorgraph.web.registries.indexed_threads import IndexedRegistry
from actorgraph.web.registries.thread_registry import (
    GRAPH,
    Registry,
    StoredThread,
    TemporaryThreads,
    find_thread,
    graph_that_wrote,
)


class Server:
    """A system that is served, with its rules and limits.

    Attributes:
        system: opened by the application.
        access: rules of authentication and authorization.
        limits: of requests.
        clients: the limits of one client.
        refusals: counts the requests that were refused because of a limit.
        merging: held while metadata is merged into a thread's.
        store: where threads are registered, and items of the store routes kept.
        threads: the registry of threads.
        streams: slots of open event streams.
        temporary: removes temporary threads after their runs.
        readiness: whether saver and store can be used.
        patience: how long requests wait for a database that is away.
        state_updates: news of states that clients update.
        assistants: the registry of stored assistants.
        crons: the registry of crons.
        webhooks: sends webhooks.
        ttls: times to live of threads.
    """

    def __init__(
        self,
        system: ActorSystem,
        access: Access,
        limits: Limits,
        store: Any,
        webhooks: WebhookPolicy | None = None,
    ) -> None:
        self.system = system
        self.access = access
        self.limits = limits
        self.clients = ClientLimits(limits)
        self.refusals = Refusals()
        self.merging = anyio.Lock()
        self.store = store
        volatile = is_volatile(store)
        self.threads = (
            IndexedRegistry(system, None if volatile else store, self._found)
            if system.thread_finder.is_kept
            else Registry(store, self._found, self._begun if volatile else None)
        )
        self.streams = StreamSlots(limits.streams)
        self.temporary = TemporaryThreads(system, self.threads)
        self.readiness = Readiness(system, store)
        self.patience = StoragePatience(system, store)
        self.state_updates = StateUpdates()
        self.assistants = AssistantRegistry(store)
        self.crons = CronRegistry(store)
        self.webhooks = WebhookSender(
            system,
            store,
            webhooks,
            describe=described,
            encode=dumps,
            client_max=limits.webhooks_per_client,
        )
        self.temporary.before = self.webhooks.capture
        self.temporary.keeps = self.crons.needs
        self.ttls = ThreadTtls(store)

    @property
    def saver(self) -> Any:
        """The system's saver; all savers that programs open have LangGraph's methods."""
        return self.system.saver

    @property
    def graphs(self) -> Mapping[str, CompiledStateGraph]:
        """Name -> registered graph."""
        return cast("Mapping[str, CompiledStateGraph]", self.system.graphs)

    async def _begun(self) -> list[str]:
        """Return the ids of threads that have stored runs."""
        return list(dict.fromkeys(run.thread_id for run in await self.system.runs()))

    async def _found(self, thread_id: str) -> StoredThread | None:
        return await find_thread(self.system, thread_id)


def is_volatile(store: Any) -> bool:
    """Whether a store loses its items when the process ends."""
    from actorgraph.stores import InMemoryStore

    return isinstance(store, InMemoryStore)


SLASH = "\x00"
SLASHES = "actorgraph.slashes"
"""The key of a scope whose path has `SLASH` in place of the slashes inside path parameters."""


def with_slashes(scope: Scope) -> Scope:
    """Return the scope with a path in which only separators are slashes.

    `/threads/a%2Fb` names the thread "a/b", but servers decode the path before it is routed. In
    `raw_path` such a slash still differs from a separator: here it becomes a character that no
    id has, until the route is found.
    """
    raw: bytes = scope.get("raw_path") or b""
    text = raw.decode("latin-1")
    if "%2f" not in text.lower() or "%00" in text or unquote(text) != scope["path"]:
        return scope
    told = text.replace("%2F", "%00").replace("%2f", "%00")
    return {**scope, "path": unquote(told), SLASHES: True}


async def body_of(request: Request, kind: Any, limits: Limits) -> Any:
    """Read and decode the body; an empty one is `{}`.

    Raises:
        Unsupported: it is compressed, or its content type is not JSON.
        TooLarge: it is longer than the limit.
        TooSlow: it took longer than the limit.
        Unprocessable: it is not valid JSON, nested too deeply, or doesn't fit the type.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Unsupported("Compressed bodies are not supported; remove Content-Encoding")
    raw = b""
    with anyio.move_on_after(limits.body_s) as scope:
        raw = await _read_body(request, limits.body_bytes)
    if scope.cancelled_caught:
        text = f"the body took more than {limits.body_s:g} s"
        raise TooSlow(text, limit="body_s", closes=True)
    if raw and not _is_json(request.headers.get("content-type", "")):
        # Protects against CSRF: browsers send application/json to another site only after a CORS
        # preflight, and any other type without one.
        raise Unsupported("The body must be JSON with Content-Type: application/json")
    if len(raw) > LARGE_BYTES:
        return await beside(lambda: _decoded(raw, kind, limits))
    return _decoded(raw, kind, limits)


def _decoded(raw: bytes, kind: Any, limits: Limits) -> Any:
    try:
        data = msgspec.json.decode(raw or b"{}")
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Unprocessable(f"the body is not valid JSON: {error}") from error
    check_values(data, limits)
    return convert_to(data, kind, "the body", strict=True)


async def _read_body(request: Request, most: int) -> bytes:
    said = request.headers.get("content-length", "0")
    too_large = f"the body has more than {most} bytes"
    if said.isascii() and said.isdecimal() and int(said[:20]) > most:
        raise TooLarge(too_large, limit="body_bytes", closes=True)
    raw = bytearray()
    async with aclosing(request.stream()) as parts:
        async for part in parts:
            raw += part
            if len(raw) > most:
                raise TooLarge(too_large, limit="body_bytes", closes=True)
    return bytes(raw)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def convert_to(data: Any, kind: Any, what: str, *, strict: bool = False) -> Any:
    """Convert data to a type.

    Raises:
        Unprocessable: it doesn't fit; the text names the place.
    """
    try:
        return msgspec.convert(data, kind, strict=strict)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise Unprocessable(f"{what} is invalid: {error}") from error


class ApiCall(Struct):
    """A request while an endpoint handles it.

    Attributes:
        path: parameters of the path.
        principal: the sender; None if unknown.
        graphs: name -> graph, of those that the principal may see.
        body: decoded into the endpoint's type; None where it has none.
        query: decoded into the endpoint's type; None where it has none.
        thread: the thread that the path names; None where it names none.
        wanted: what the metadata of every thread that the request touches must contain.
        action: of the request's route.
        about: metadata that a request without a thread was authorized with.
    """

    server: Server
    request: Request
    path: dict[str, str]
    principal: Any
    graphs: Mapping[str, CompiledStateGraph] = {}
    body: Any = None
    query: Any = None
    thread: StoredThread | None = None
    wanted: dict[str, Any] = {}
    action: str = ""
    about: dict[str, Any] = {}

    @property
    def thread_id(self) -> str:
        """The id of the thread that the path names."""
        return self.path["thread_id"]

    def hides(self, graph: str) -> bool:
        """Whether the principal may not see a graph: nor its runs, nor what they have stored."""
        return self.server.access.assistants is not None and graph not in self.graphs


_WITH_METADATA = ("threads.", "runs.", "assistants.", "crons.")
"""Actions on what has metadata that the access rules may filter by."""


def _metadata_of(call: ApiCall) -> dict[str, Any]:
    return getattr(call.body, "metadata", None) or {}


class Endpoint(Struct, frozen=True):
    """A route. It can't be declared without an action, so none can skip authorization.

    Attributes:
        action: passed to `authorize`; None for a route that needs no permission.
        handle: returns a `Response`, None (204), or a value to encode as JSON.
        answer: type of the response body, for the OpenAPI document.
        body: type that the request's body is decoded into; None for no body.
        query: type that the query parameters are decoded into; None for none.
        may_create: whether the path's thread may be missing, if the body asks to create it.
        starts_run: whether it starts a run on the path's thread, which names that one's graph.
        streams: whether the response is a stream of server-sent events.
        media: media type of any other response.
        waits_for_run: whether the response is the output of a run, sent when it has ended.
        rate_limited: whether requests count against the client's rate.
        about: metadata passed to `authorize` for a request that names no thread.
        thread_of: finds the thread of a request whose path names none; None for one without a
            thread. The request is then authorized as one to that thread.
        refuse: returns the response to a body that is invalid in a way that its type can't say;
            called before the thread is looked up, so that it can't reveal whether it exists.
    """

    method: str
    path: str
    action: str | None
    handle: Callable[[ApiCall], Awaitable[Any]]
    answer: Any = None
    body: Any = None
    query: Any = None
    summary: str = ""
    may_create: bool = False
    starts_run: bool = False
    streams: bool = False
    media: str = "application/json"
    waits_for_run: bool = False
    rate_limited: bool = True
    about: Callable[[ApiCall], dict[str, Any]] = _metadata_of
    thread_of: Callable[[ApiCall], Awaitable[str | None]] | None = None
    refuse: Callable[[ApiCall], Response | None] | None = None

    @property
    def stays_open(self) -> bool:
        """Whether a request stays open for as long as a run may take."""
        return self.streams or self.waits_for_run

    async def __call__(self, server: Server, request: Request) -> Response:
        """Answer a request; every error becomes a problem response."""
        try:
            return await self._answer(server, request)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:  # noqa: BLE001 - a server goes on
            response = server.refusals.response_to(error)
            if response.status_code >= 500 and not isinstance(error, SystemClosedError):
                event("error", "web.failed", path=self.path, error=repr(error))
            older = request.scope.get("http_version", "1.1").startswith("1")
            if getattr(error, "closes", False) and older:  # HTTP/2 has no such header
                response.headers["Connection"] = "close"
            return response

    async def _answer(self, server: Server, request: Request) -> Response:
        principal = await self.principal(server, request)
        call = ApiCall(server, request, parameters_of(request), principal)
        if self.query is not None:
            call.query = convert_to(dict(request.query_params), self.query, "the query")
        if self.body is not None:
            call.body = await body_of(request, self.body, server.limits)
            server.clients.check_weight(request, principal, weight_of(call.body))
        if self.refuse is not None and (refused := self.refuse(call)) is not None:
            return refused
        made = await self._carried_out(call)
        if isinstance(made, Response):
            return made
        if made is None:
            return Response(status_code=204)
        return Response(await encoded(made), media_type="application/json")

    async def _carried_out(self, call: ApiCall) -> Any:
        """Admit a call and handle it; both wait for an absent database as `patience` lets them."""
        patience = call.server.patience
        if self.stays_open or self.action is None:
            await self.admit(call)
            return await self.handle(call)
        if self.method == "GET":
            return await patience.wait_for(partial(self._read, call))
        # A write is never given up: the answer would hide whether it was stored.
        await patience.wait_for(partial(self._admit_to_write, call))
        return await self.handle(call)

    async def _read(self, call: ApiCall) -> Any:
        await self.admit(call)
        return await self.handle(call)

    async def _admit_to_write(self, call: ApiCall) -> None:
        await self.admit(call)
        await call.server.patience.ask()

    async def principal(self, server: Server, request: Request) -> Any:
        """Authenticate the request and count it against the client's rate.

        Raises:
            Unauthorized: the request is not authenticated.
            TooMany: the rate is exceeded, or the client has too many open streams.
        """
        clients = server.clients
        if self.action is None:
            if self.rate_limited:
                clients.check_rate(client_of(request))
            return None
        try:
            principal = await server.access.principal(request)
        except Exception:
            clients.check_rate(client_of(request))  # limits guessing of credentials, too
            raise
        client = client_of(request, principal)
        clients.check_rate(client)
        if self.stays_open:
            clients.take_place(request, client)
        return principal

    async def admit(self, call: ApiCall) -> None:
        """Look up the path's thread, authorize the request, and find the graphs that it may use.

        Raises:
            NotFound: the thread is missing, or of another principal.
            Forbidden: the action is denied.
        """
        if self.action is None:
            return
        found = None if self.thread_of is None else await self.thread_of(call)
        if found is not None:
            call.path["thread_id"] = found
        await self._authorize(call, self.action, found)
        call.graphs = await call.server.access.visible(call.principal, call.server.graphs)

    async def _authorize(self, call: ApiCall, action: str, found: str | None) -> None:
        call.action = action
        if "thread_id" not in call.path:
            call.about = self.about(call)
            wanted = await call.server.access.ask(call.principal, action, None, call.about)
            call.wanted = dict(wanted)
            if wanted and not action.startswith(_WITH_METADATA):
                raise Forbidden(action)  # the call has no thread whose metadata could match
            return
        server, may_create = call.server, self.may_create and call.body.if_not_exists == "create"
        asked = call.principal, action, call.path["thread_id"]
        try:
            call.thread, call.wanted = await admit_to_thread(
                server.threads,
                server.access,
                asked,
                may_create=may_create,
                names_graph=self.starts_run,
            )
        except NotFound:
            if found is None or "run_id" not in call.path:
                raise
            raise NotFound.run(call.path["run_id"]) from None  # not the id of another's thread


class PathEndpoints:
    """The endpoints of one path as an ASGI application.

    Args:
        endpoints: one per HTTP method.
    """

    def __init__(self, endpoints: Sequence[Endpoint], server: Server) -> None:
        self._endpoints = {endpoint.method: endpoint for endpoint in endpoints}
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; one that stays open first takes a stream slot."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint, places = self._endpoints[method], self._server.streams
        stays_open = endpoint.stays_open
        if stays_open and not places.try_acquire():
            full = TooMany("Too many open streams", limit="streams", headers=SOON)
            await self._server.refusals.response_to(full)(scope, receive, send)
            return
        try:
            response = await endpoint(self._server, Request(scope, receive, send))
            await response(scope, receive, send)
        finally:
            if stays_open:
                places.release()
                self._server.clients.leave_place(scope)


def parameters_of(request: Request) -> dict[str, str]:
    """Return the parameters of the path, with the slashes inside them."""
    found: dict[str, str] = dict(request.path_params)  # the routes have no other convertors
    if SLASHES not in request.scope:
        return found
    return {name: text.replace(SLASH, "/") for name, text in found.items()}


T = TypeVar("T")


def graph_of_assistant(call: ApiCall, assistant: str) -> tuple[str, CompiledStateGraph]:
    """Return name and graph for an assistant's id or a graph's name.

    Raises:
        NotFound: the principal may see none of them.
    """
    for name, graph in call.graphs.items():
        if assistant in (name, assistant_id(name)):
            return name, graph
    raise NotFound(f"assistant {assistant!r} not found")


def graph_of_thread(call: ApiCall, thread: StoredThread) -> CompiledStateGraph:
    """Return the graph of a thread's newest run, or the only one there is.

    Raises:
        NotFound: the thread has had no run, and there are several graphs.
        StorageError: it can't be read, so its graph is unknown, and there are several.
    """
    name = thread.metadata.get(GRAPH)
    if isinstance(name, str) and name in call.graphs:
        return call.graphs[name]
    if len(call.graphs) == 1:
        return next(iter(call.graphs.values()))
    if thread.damage is not None:
        raise thread.damage
    raise _stateless(thread)


def _stateless(thread: StoredThread) -> NotFound:
    return NotFound(f"thread {thread.thread_id!r} has no state yet: it has had no run of a graph")


async def with_graph(
    call: ApiCall, thread: StoredThread, use: Callable[[CompiledStateGraph], Awaitable[T]]
) -> T:
    """Call a function with a thread's graph, and return its result.

    Args:
        use: called again, with the graph that wrote the newest checkpoint, if the newest run's
            graph can't read it.
    Raises:
        NotFound: the thread has had no run, and there are several graphs; or the principal may not
            see the graph that wrote it.
        SchemaMismatchError: no graph of the system can read the checkpoint.
    """
    await _check_writer(call, thread)
    graph = graph_of_thread(call, thread)
    try:
        return await use(graph)
    except SchemaMismatchError:
        writer = await _writer(call, thread)
        if writer is None or writer is graph:
            raise
        return await use(writer)


async def history_graph(call: ApiCall, thread: StoredThread) -> CompiledStateGraph:
    """Return the graph to list a thread's history with.

    Looked up each time: listing with a graph that doesn't fit raises no error to fall back on.

    Raises:
        NotFound: as for `with_graph`.
    """
    await _check_writer(call, thread)
    graph = graph_of_thread(call, thread)
    if len(call.graphs) == 1:
        return graph
    return await _writer(call, thread) or graph


async def _check_writer(call: ApiCall, thread: StoredThread) -> None:
    """Check that the graph which wrote a thread's newest checkpoint isn't hidden.

    Another graph may be able to read it: with channels of the same names, say.

    Raises:
        NotFound: it is.
    """
    if len(call.graphs) < len(call.server.graphs):
        name = await graph_that_wrote(call.server.system, thread.thread_id)
        if name is not None and call.hides(name):
            raise _stateless(thread)


async def _writer(call: ApiCall, thread: StoredThread) -> CompiledStateGraph | None:
    name = await graph_that_wrote(call.server.system, thread.thread_id)
    return None if name is None else call.graphs.get(name)
