"""@task: a function that a node, or an entrypoint, calls as a step of its own."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, TypeVar, overload

from actorgraph.caches import BaseCache
from actorgraph.errors import GraphBuildError, OutsideRunError
from actorgraph.plan import calls, policies
from actorgraph.plan.graph import NodePlan
from actorgraph.plan.injection import INJECTABLE, parameters_of
from actorgraph.ports import Cache
from actorgraph.runtime.caching import namespace_of
from actorgraph.runtime.called import TaskFuture
from actorgraph.runtime.context import CURRENT
from actorgraph.values.constants import PUSH, RETURN

P = ParamSpec("P")
T = TypeVar("T")


class TaskFunction(Generic[P, T]):
    """A function whose calls inside a run are tasks; made by `@task`.

    Calling it gives a future at once, and the function runs beside its caller.
    """

    def __init__(self, function: Callable[P, Any], name: str | None, **given: Any) -> None:
        functools.update_wrapper(self, function)
        self.func = function
        self.name = name or calls.name_of(function) or "task"
        owner = f"task {self.name!r}"
        is_async = calls.is_async(function)
        injected = tuple(
            sorted(p.name for p in parameters_of(function) if _is_injected(p.name, p.kind))
        )
        self.node = NodePlan(
            name=self.name,
            call=_spread_async(function) if is_async else _spread(function),
            is_async=is_async,
            inject=injected,
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
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Start a call.

        Returns: its future: await it, or `result()` in a sync node.
        Raises:
            OutsideRunError: not called in a node, an entrypoint or another task.
        """
        scope = CURRENT.get(None)
        if scope is None or scope.lineage.calls is None:
            raise OutsideRunError(
                f"task {self.name!r} was called outside of a run",
                do="call it in an entrypoint or a node; `.func` is the plain function",
            )
        return scope.lineage.calls.request(scope, self.node, (args, kwargs))

    def clear_cache(self, cache: BaseCache[Any]) -> None:
        """Forget the results of this task that a cache has kept."""
        if self.node.cache is not None:
            cache.clear([namespace_of(self.node.cache, "@task", self.name)])

    async def aclear_cache(self, cache: Cache) -> None:
        """`clear_cache` without blocking the event loop."""
        if self.node.cache is not None:
            await cache.aclear([namespace_of(self.node.cache, "@task", self.name)])


def _is_injected(name: str, kind: Any) -> bool:
    return name in INJECTABLE and kind.name == "KEYWORD_ONLY"


class Boxed:
    """What a function returned, whatever it is: to a node a Command would be more than a value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _returned(boxed: Boxed) -> list[tuple[str, Any]]:
    return [(RETURN, boxed.value)]


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its arguments as one value, as a node gets them."""

    def call(given: tuple[tuple[Any, ...], dict[str, Any]], **injected: Any) -> Any:
        args, kwargs = given
        return Boxed(function(*args, **{**injected, **kwargs}))

    return call


def _spread_async(function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(given: tuple[tuple[Any, ...], dict[str, Any]], **injected: Any) -> Any:
        args, kwargs = given
        return Boxed(await function(*args, **{**injected, **kwargs}))

    return call


@overload
def task(function: Callable[P, Coroutine[Any, Any, T]], /) -> TaskFunction[P, T]: ...
@overload
def task(function: Callable[P, T], /) -> TaskFunction[P, T]: ...
@overload
def task(
    *,
    name: str | None = None,
    retry_policy: Any = None,
    cache_policy: Any = None,
    timeout: Any = None,
) -> Callable[[Callable[P, Any]], TaskFunction[P, Any]]: ...
def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: Any = None,
    cache_policy: Any = None,
    timeout: Any = None,
) -> Any:
    """Make a function a step: inside a run each call of it is a task, run once.

    What a call returned is stored. When the caller runs again, after an interrupt, a failure or a
    crash, its n-th call returns that at once; so a program must make its calls in the same order
    each time. Calls run at once, under the run's `max_concurrency`. An error is the caller's.

    Args:
        function: sync (run in a worker thread) or async.
        name: in streams and errors; default the function's.
        retry_policy, cache_policy, timeout: as in `StateGraph.add_node`.
    Returns: the function's `TaskFunction`, or a decorator.
    Raises:
        GraphBuildError: it is no function, or is a generator.
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
