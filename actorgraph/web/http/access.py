"""Authentication and authorization: one check for every route, before the route does anything.

`authorize(principal, action, thread_id, metadata)` returns True, False, or a mapping that the
thread's metadata must contain. A thread of another principal is answered like a missing one.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from starlette.requests import Request

from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import Forbidden, HttpProblem, NotFound, Unauthorized

Verdict = bool | Mapping[str, Any] | None
Authorize = Callable[[Any, str, str | None, Mapping[str, Any]], Verdict | Awaitable[Verdict]]
"""`(principal, action, thread_id, metadata)` -> bool, or what the thread's metadata must contain.

`action` is one of `actorgraph.web.ACTIONS`. `metadata` is that of the thread, which may be about to
be created; for items of the store `{"namespace": [...], "key": ...}`.
"""

Authenticate = Callable[[Request], Any]
"""`request` -> the principal, or None for an unauthenticated request; may be async."""


Assistants = Callable[[Any, str], bool | Awaitable[bool]]
"""`(principal, graph)` -> whether the principal may see and run the graph."""

T = TypeVar("T")

REAUTHORIZE_S = 5.0
"""Seconds after which an open request is authenticated and authorized again."""


class Access(Struct, frozen=True):
    """The application's access rules.

    Attributes:
        authorize: None allows every action to every client.
        authenticate: None takes `request.user`, if a middleware has set one.
        assistants: None shows every graph to every client.
        reauthorize_s: seconds after which an open request is authenticated and authorized again.
    """

    authorize: Authorize | None = None
    authenticate: Authenticate | None = None
    assistants: Assistants | None = None
    reauthorize_s: float = REAUTHORIZE_S

    @property
    def may_refuse(self) -> bool:
        """Whether there is a rule, so that a request can be refused now or later."""
        return not (self.authorize is self.authenticate is self.assistants is None)

    async def principal(self, request: Request) -> Any:
        """Authenticate a request and return its principal.

        Raises:
            Unauthorized: `authenticate` returned None.
        """
        if self.authenticate is None:
            return request.scope.get("user")
        found = self.authenticate(request)
        known = await found if inspect.isawaitable(found) else found
        if known is None:
            raise Unauthorized
        return known

    async def visible(self, principal: Any, graphs: Mapping[str, T]) -> Mapping[str, T]:
        """Return the graphs that a principal may see and run."""
        if self.assistants is None:
            return graphs
        found: dict[str, T] = {}
        for name, graph in graphs.items():
            verdict = self.assistants(principal, name)
            if (await verdict if inspect.isawaitable(verdict) else verdict) is True:
                found[name] = graph
        return found

    async def allows(self, principal: Any, action: str, thread: "ThreadLike") -> bool:
        """Whether a principal may perform an action on a thread."""
        try:
            wanted = await self.ask(principal, action, thread.thread_id, thread.metadata)
        except HttpProblem:
            return False
        return contains(thread.metadata, wanted)

    async def ask(
        self, principal: Any, action: str, thread_id: str | None, metadata: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Authorize an action; returns what the thread's metadata must contain ({}: anything).

        Raises:
            NotFound: denied, for a thread. Not 403, which would reveal that the thread exists.
            Forbidden: denied, for anything else.
        """
        if self.authorize is None:
            return {}
        found = self.authorize(principal, action, thread_id, metadata)
        verdict: Any = await found if inspect.isawaitable(found) else found
        if verdict is True:
            return {}
        if isinstance(verdict, Mapping):
            return verdict
        if thread_id is None:
            raise Forbidden(action)
        raise NotFound.thread(thread_id)


class ThreadLike(Protocol):
    """A thread's id and metadata."""

    @property
    def thread_id(self) -> str:
        """The id, as in the path."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The thread's metadata."""
        ...
