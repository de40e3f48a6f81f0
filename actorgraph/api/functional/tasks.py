"""@task: a function that a node, or an entrypoint, calls as a step of its own."""

import functools
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast, get_type_hints, overload

from actorgraph.caches import BaseCache
from actorgraph.codec.declared import declare
from actorgraph.errors import GraphBuildError, OutsideRunError
from actorgraph.plan import calls, policies
from actorgraph.plan.graph import NodePlan
from actorgraph.plan.injection import fillable
from actorgraph.plan.schema import types_in
from actorgraph.ports import Cache
from actorgraph.runtime.caching import cache_namespace
from actorgraph.runtime.context import CURRENT
from actorgraph.runtime.futures import TaskFuture
from actorgraph.values.constants import PUSH, RETURN
from actorgraph.values.node_policies import CachePolicy, RetryPolicy, TimeoutPolicy

P = ParamSpec("P")
T = TypeVar("T")
Given = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a call, by position and by name."""


class TaskFunction(Generic[P, T]):
    """A function whose calls inside a run are tasks; made by `@task`.

    Calling it gives a future at once, and the function runs beside its caller. Parameters named
    `config`, `previous`, `runtime`, `store` and `writer` are filled in as those of a node, unless
    the call gives them.

    Attributes:
        func: the plain function. name: in streams and errors.
    """

    def __init__(self, function: Callable[P, Any], name: str | None, **given: Any) -> None:
        functools.update_wrapper(self, function)
        self.func = function
        self.name: str = name or calls.name_of(function) or "task"
        owner = f"task {self.name!r}"
        is_async = calls.is_async(function)
        filled = fillable(function)
        declare(types_in([_returned_type(function)]))
        self.node = NodePlan(
            name=self.name,
            call=(_spread_async if is_async else _spread)(function, filled),
            is_async=is_async,
            inject=tuple(sorted(filled)),
            triggers=(PUSH,),
            reads=(),
            coerce=None,
            writes=frozenset({RETURN}),
            targets=(),
            branches=(),
            timeout=policies.timeout_of(owner, function, given.get("timeout")),
            retry=policies.retries_of(owner, given.get("retry_policy")),
            cache=policies.cache_of(owner, given.get("cache_policy")),
            shape=_returned,
            literal=True,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Start a call.

        Returns: its future: await it, or `result()` in a sync node.
        Raises:
            OutsideRunError: not called in a node, an entrypoint or another task; or that has
                returned already.
        """
        scope = CURRENT.get(None)
        if scope is None or scope.lineage.calls is None:
            raise OutsideRunError(
                f"task {self.name!r} was called outside of a run",
                do="call it in an entrypoint or a node; `.func` is the plain function",
            )
        return scope.lineage.calls.request(scope, self.node, (args, kwargs))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """In the body of a class: a method whose calls are tasks."""
        return self if instance is None else functools.partial(cast("Any", self), instance)

    def clear_cache(self, cache: BaseCache[Any]) -> None:
        """Forget the results of this task that a cache has kept."""
        if self.node.cache is not None:
            cache.clear([cache_namespace(self.node.cache, "@task", self.name)])

    async def aclear_cache(self, cache: Cache) -> None:
        """`clear_cache` without blocking the event loop."""
        if self.node.cache is not None:
            await cache.aclear([cache_namespace(self.node.cache, "@task", self.name)])


class TaskDecorator(Protocol):
    """What `task(name=..., ...)` gives: decorates a function."""

    @overload
    def __call__(self, function: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> TaskFunction[P, T]: ...


def _returned_type(function: Callable[..., Any]) -> Any:
    try:
        return get_type_hints(function).get("return", Any)
    except Exception:  # noqa: BLE001 - hints are a convenience; whatever breaks them is the user's
        return Any


def _returned(value: Any) -> list[tuple[str, Any]]:
    return [(RETURN, value)]


def _named(given: Given, filled: dict[str, int | None], injected: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name: the call's own, and those filled in that it doesn't give."""
    args, kwargs = given
    if not injected:
        return kwargs
    free = {n: v for n, v in injected.items() if (p := filled[n]) is None or p >= len(args)}
    return {**free, **kwargs}


def _spread(function: Callable[..., Any], filled: dict[str, int | None]) -> Callable[..., Any]:
    """The function with its arguments as one value, as a node gets them."""

    def call(given: Given, **injected: Any) -> Any:
        return function(*given[0], **_named(given, filled, injected))

    return call


def _spread_async(
    function: Callable[..., Any], filled: dict[str, int | None]
) -> Callable[..., Any]:
    async def call(given: Given, **injected: Any) -> Any:
        return await function(*given[0], **_named(given, filled, injected))

    return call


@overload
def task(function: Callable[P, Coroutine[Any, Any, T]], /) -> TaskFunction[P, T]: ...
@overload
def task(function: Callable[P, T], /) -> TaskFunction[P, T]: ...
@overload
def task(
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy[Any] | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
) -> TaskDecorator: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy[Any] | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
) -> Any:
    """Make a function a step: inside a run each call of it is a task, run once.

    What a call returned is stored. When the caller runs again, after an interrupt, a failure or a
    crash, its n-th call returns that at once; so a program must make its calls in the same order
    each time. Calls run at once, under the run's `max_concurrency`. An error is the caller's, and
    so is a question. A caller that fails, or is cancelled while it waits, has its calls stopped;
    one that returns without waiting ends when they have ended.

    Args:
        function: sync (run in a worker thread) or async. A class of the user's own that it
            returns can be stored if its `->` annotation names it.
        name: in streams and errors; default the function's.
        retry_policy, cache_policy, timeout: as in `StateGraph.add_node`.
    Returns: the function's `TaskFunction`, or a decorator.
    Raises:
        GraphBuildError: it is no function, or is a generator; or a policy is none.
    """
    given = {"retry_policy": retry_policy, "cache_policy": cache_policy, "timeout": timeout}

    def decorate(found: Callable[..., Any]) -> TaskFunction[Any, Any]:
        if not callable(found) or calls.is_generator(found):
            raise GraphBuildError(
                f"@task got {found!r}, which is no function that returns a value",
                do="decorate a function or a coroutine function without `yield`",
            )
        return TaskFunction(found, name, **given)

    return decorate if function is None else decorate(function)
