"""Shared by all pages: the request with its rights, templates, and answers to errors.

A handler returns a `Response`; an error of the library becomes a page with its text, any other
one is logged and answered without details.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl

import jinja2
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from actorgraph.errors import ActorGraphError
from actorgraph.internals import log_event as event
from actorgraph.studio.studio_reader import StudioReader, ThreadEntry
from actorgraph.web.endpoints.endpoint import parameters_of
from actorgraph.web.http.access import Access
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import Forbidden, HttpProblem, NotFound, response_to

BODY_MAX = 4_000_000
"""Bytes of a form."""
MENU = (
    ("Threads", "/threads"),
    ("Runs", "/runs"),
    ("Graphs", "/graphs"),
    ("Compare", "/compare"),
    ("Store", "/store"),
    ("System", "/system"),
)

TEMPLATES = jinja2.Environment(
    loader=jinja2.FunctionLoader(
        lambda name: (resources.files("actorgraph.studio") / "templates" / name).read_text("utf-8")
    ),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
)


def drawn(svg: str) -> Markup:
    """Mark an SVG of this library as markup: its texts are escaped where it is drawn."""
    return Markup(svg)  # noqa: S704 - see above


class ReadOnly(HttpProblem):
    """403: the studio was opened without a running system."""

    status = 403

    def __init__(self) -> None:
        super().__init__("This studio only reads: start it with --app module:system to act")


class StudioCall(msgspec.Struct):
    """A request while a page handles it.

    Attributes:
        principal: the sender, if the application authenticates.
        form: fields of the body; of a repeated one the last.
        many: fields of the body with all of their values.
        problem: why the action was refused that the page answers; never a part of an address.
        status: of the page.
        shown_at: the path of the page that answers a refused action.
        errors: path of a field of the refused form -> why; "" for the whole form.
    """

    request: Request
    source: StudioReader
    access: Access
    principal: Any = None
    form: Mapping[str, str] = {}
    many: Mapping[str, list[str]] = {}
    problem: str = ""
    status: int = 200
    shown_at: str = ""
    errors: Mapping[str, str] = {}

    @property
    def root(self) -> str:
        """The path under which the studio is mounted."""
        return self.request.scope.get("root_path", "").rstrip("/")

    @property
    def query(self) -> Mapping[str, str]:
        """The query's parameters."""
        return self.request.query_params

    def path(self, name: str) -> str:
        """Return a parameter of the path, with the slashes in it."""
        return parameters_of(self.request)[name]

    async def may(
        self, action: str, thread_id: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        """Authorize an action; returns what the metadata of threads must contain.

        Raises:
            HttpProblem: it is denied.
        """
        found = metadata or {}
        wanted = await self.access.ask(self.principal, action, thread_id, found)
        if thread_id is not None and not contains(found, wanted):
            raise NotFound.thread(thread_id)
        return wanted

    async def must(self, action: str, about: Mapping[str, Any] | None = None) -> None:
        """Authorize an action that concerns no thread.

        Args:
            about: what it concerns, such as the namespace and key of an item.
        Raises:
            Forbidden: it is denied, also by a rule that names metadata, which only threads have.
        """
        if await self.may(action, None, about):
            raise Forbidden(action)

    async def allows(self, thread: ThreadEntry) -> bool:
        """Whether the principal may read a thread of a list."""
        return await self.access.allows(self.principal, "studio.read", thread)

    def must_write(self) -> Any:
        """Return the system of a studio that may act.

        Raises:
            ReadOnly: the studio only reads.
        """
        if self.source.system is None:
            raise ReadOnly
        return self.source.system

    def refused(self, problem: str, shown_at: str, status: int = 422) -> "StudioCall":
        """Return the call for the page that answers a refused action and says why.

        It is the answer to the action itself: a page that took the text from its address would
        show any text that a link names.

        Args:
            shown_at: the path of that page, for a reload.
        """
        self.problem, self.shown_at, self.status = problem, f"{self.root}{shown_at}", status
        return self

    def page(self, template: str, status: int = 0, **values: Any) -> Response:
        """Answer with a template."""
        values = {"problem": self.problem, "shown_at": self.shown_at, **values}
        here = "/" + self.request.url.path.removeprefix(self.root).strip("/").partition("/")[0]
        found = TEMPLATES.get_template(template).render(
            root=self.root,
            pages=MENU,
            here=here,
            place=self.source.place,
            read_only=self.source.system is None,
            **values,
        )
        return HTMLResponse(found, status or self.status, headers={"Cache-Control": "no-store"})

    def back(self, address: str) -> Response:
        """Redirect to a page after an action."""
        return RedirectResponse(f"{self.root}{address}", 303)


Handler = Callable[[StudioCall], Awaitable[Response]]


async def answer(handler: Handler, call: StudioCall) -> Response:
    """Call a handler; an error becomes a page."""
    try:
        call.principal = await call.access.principal(call.request)
        if call.request.method == "POST":
            await _read_form(call)
        return await _handled(handler, call)
    except HttpProblem as error:
        return call.page("message.html", error.status, title="Not done", text=error.detail)
    except ActorGraphError as error:
        problem = response_to(error)
        if problem.status_code >= 500:
            event("error", "studio.failed", path=call.request.url.path, error=repr(error))
        page = call.page("message.html", problem.status_code, title="Not done", text=str(error))
        if (seconds := problem.headers.get("retry-after")) is not None:
            page.headers["Retry-After"] = seconds
        return page
    except Exception as error:  # noqa: BLE001 - a server goes on
        event("error", "studio.failed", path=call.request.url.path, error=repr(error))
        text = "Internal error; the log has it"
        return call.page("message.html", 500, title="Not done", text=text)


async def _handled(handler: Handler, call: StudioCall) -> Response:
    """Call a handler; a page waits for an absent database no longer than a route does."""
    server = call.source.server
    if server is None:
        return await handler(call)
    if call.request.method == "POST":
        await server.patience.wait_for(server.patience.ask)
        return await handler(call)
    return await server.patience.wait_for(lambda: handler(call))


async def _read_form(call: StudioCall) -> None:
    raw = bytearray()
    async for chunk in call.request.stream():
        raw += chunk
        if len(raw) > BODY_MAX:
            raise HttpProblem(f"the form has more than {BODY_MAX} bytes", closes=True)
    pairs = parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True)
    many: dict[str, list[str]] = {}
    for name, text in pairs:
        # Browsers send the ends of lines of a text area as CR LF.
        many.setdefault(name, []).append(text.replace("\r\n", "\n"))
    call.form, call.many = {name: texts[-1] for name, texts in many.items()}, many
