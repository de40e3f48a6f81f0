"""Who may do what: one question for every route, asked before the route does anything.

`authorize(principal, action, thread_id, metadata)` answers with True, False, or a mapping that the
thread's metadata must contain. A thread that isn't the principal's looks like one that isn't there.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct
from starlette.requests import Request

from actorgraph.web.problems import Forbidden, HttpProblem, NotFound, Unauthorized

Verdict = bool | Mapping[str, Any] | None
Authorize = Callable[[Any, str, str | None, Mapping[str, Any]], Verdict | Awaitable[Verdict]]
"""`(principal, action, thread_id, metadata)` -> whether; or what the thread's metadata must hold.

`action` is one of `actorgraph.web.ACTIONS`; `metadata` that of the thread, or of what is to be
made; for items of the store `{"namespace": [...], "key": ...}`.
"""

Authenticate = Callable[[Request], Any]
"""`request` -> the principal, or None for nobody; may be async."""


Assistants = Callable[[Any, str], bool | Awaitable[bool]]
"""`(principal, graph)` -> whether the principal may know of the graph, and run it."""

T = TypeVar("T")


class Access(Struct, frozen=True):
    """The application's rules. Without `authorize` everything is allowed to everybody.

    Attributes:
        authenticate: default takes `request.user` where a middleware has set one, else nobody.
        assistants: default lets everybody see every graph.
    """

    authorize: Authorize | None = None
    authenticate: Authenticate | None = None
    assistants: Assistants | None = None

    async def principal(self, request: Request) -> Any:
        """Who sends this request.

        Raises:
            Unauthorized: `authenticate` knows nobody.
        """
        if self.authenticate is None:
            return request.scope.get("user")
        found = self.authenticate(request)
        known = await found if inspect.isawaitable(found) else found
        if known is None:
            raise Unauthorized
        return known

    async def visible(self, principal: Any, graphs: Mapping[str, T]) -> Mapping[str, T]:
        """The graphs that a principal may know of and run."""
        if self.assistants is None:
            return graphs
        found: dict[str, T] = {}
        for name, graph in graphs.items():
            verdict = self.assistants(principal, name)
            if (await verdict if inspect.isawaitable(verdict) else verdict) is True:
                found[name] = graph
        return found

    async def allows(self, principal: Any, action: str, thread: "Stored") -> bool:
        """Whether something is allowed with a thread."""
        try:
            wanted = await self.ask(principal, action, thread.thread_id, thread.metadata)
        except HttpProblem:
            return False
        return holds(thread.metadata, wanted)

    async def ask(
        self, principal: Any, action: str, thread_id: str | None, metadata: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """What the thread's metadata must hold for this to be allowed; {} for anything.

        Raises:
            NotFound: it is not allowed, and about a thread.
            Forbidden: it is not allowed, and about no thread.
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


class Stored(Protocol):
    """A thread, as far as it matters here."""

    @property
    def thread_id(self) -> str:
        """Its id."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What it holds."""
        ...


def holds(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether metadata has all that is wanted; true is not 1."""
    return all(key in metadata and same(metadata[key], value) for key, value in wanted.items())


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON."""
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        left, right = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
        return left.keys() == right.keys() and holds(left, right)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        these, those = cast("list[Any]", one), cast("list[Any]", other)
        return len(these) == len(those) and all(map(same, these, those))
    return bool(one == other)
