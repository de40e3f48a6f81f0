"""@task: make a function a durable step that a node or an entrypoint calls."""

import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from actorgraph.caches import BaseCache
from actorgraph.codec.known_types import declare
from actorgraph.errors import GraphBuildError, OutsideRunError
from actorgraph.plan import callables as calls
from actorgraph.plan import node_policies
from actorgraph.plan.annotations import function_annotations
from actorgraph.plan.callables import fillable
from actorgraph.plan.late_tasks import MAKES
from actorgraph.plan.old_names import old_names
from actorgraph.plan.plan import NodePlan
from actorgraph.plan.schema import types_in
from actorgraph.ports import Cache
from actorgraph.runtime.task.futures import TaskFuture
from actorgraph.runtime.task.result_cache import cache_namespace
from actorgraph.runtime.task.scope import CURRENT, DEFINED_TASKS
from actorgraph.values.constants import PUSH, RETURN
from actorgraph.values.policies import CachePolicy, RetryPolicy, TimeoutPolicy

P = ParamSpec("P")
T = TypeVar("T")
Given = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""


class TaskFunction(Generic[P, T]):
    """A function whose calls inside a run are tasks; made by `@task`.

    Calling it returns a future at once, and the function runs concurrently with its caller.
    Parameters named `config`, `previous`, `runtime`, `store` and `writer` are injected as those
    of a node, unless the call passes them.

    Attributes:
        func: the plain function.
        name: in streams and errors.
        node: the plan of its calls.
    """

    starts_tasks = True  # see `plan.mentions`

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def __init__(self, function: Callable[P, Any], name: str | None, **given: Any) -> None:
        functools.update_wrapper(self, function)
        self.func = function
        self.name: str = name or calls.name_of(function) or "task"
        DEFINED_TASKS.add(self.name)
        owner = f"task {self.name!r}"
        is_async = calls.is_async(function)
        filled = fillable(function)
        # Stored results are decoded before the function is called again, so their types must be
        # known as soon as the task is defined; those of arguments are often part of them.
        declare(types_in(_types_of(function, filled)))
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
            timeout=node_policies.timeout_of(owner, function, given.get("timeout")),
            retry=node_policies.retries_of(owner, given.get("retry_policy")),
            cache=node_policies.cache_of(owner, given.get("cache_policy")),
            shape=_returned,
            literal=True,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Start a call.

        Returns: its future: await it, or call `result()` in a sync node.
        Raises:
            OutsideRunError: not called in a node, an entrypoint or another task; or that one has
                returned already.
        """
        scope = CURRENT.get(None)
        if scope is None or scope.run_context.calls is None:
            raise OutsideRunError(
                f"task {self.name!r} was called outside a run",
                do="call it in an entrypoint or a node; `.func` is the plain function",
            )
        return scope.run_context.calls.request(scope, self.node, (args, kwargs))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind it to an instance, so that a decorated method works."""
        return self if instance is None else functools.partial(cast("Any", self), instance)

    def clear_cache(self, cache: BaseCache[Any]) -> None:
        """Remove this task's results from a cache."""
        if self.node.cache is not None:
            cache.clear([cache_namespace(self.node.cache, "@task", self.name)])

    async def aclear_cache(self, cache: Cache) -> None:
        """Async version of `clear_cache`."""
        if self.node.cache is not None:
            await cache.aclear([cache_namespace(self.node.cache, "@task", self.name)])


class TaskDecorator(Protocol):
    """The decorator that `task(name=..., ...)` returns."""

    @overload
    def __call__(self, function: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> TaskFunction[P, T]: ...


def _types_of(function: Callable[..., Any], filled: Iterable[str]) -> list[Any]:
    """List the annotations of a task's result and arguments, but for those that are injected."""
    hints = function_annotations(function)
    return [hint for name, hint in hints.items() if name not in filled]


def _returned(value: Any) -> list[tuple[str, Any]]:
    return [(RETURN, value)]


def _named(given: Given, filled: dict[str, int | None], injected: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments: the call's own, and injected ones that it doesn't pass."""
    args, kwargs = given
    if not injected:
        return kwargs
    free = {n: v for n, v in injected.items() if (p := filled[n]) is None or p >= len(args)}
    return {**free, **kwargs}


def _spread(function: Callable[..., Any], filled: dict[str, int | None]) -> Callable[..., Any]:
    """Wrap a function to take its arguments as one value, as a node takes its input."""

    @functools.wraps(function, assigned=(), updated=())
    def call(given: Given, **injected: Any) -> Any:
        return function(*given[0], **_named(given, filled, injected))

    return call


def _spread_async(
    function: Callable[..., Any], filled: dict[str, int | None]
) -> Callable[..., Any]:
    @functools.wraps(function, assigned=(), updated=())
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
@old_names(retry="retry_policy")
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

    The result of a call is stored. When the caller runs again, after an interrupt, a failure or a
    crash, its n-th call returns the stored result; so a program must make its calls in the same
    order each time. Calls run concurrently, limited by the run's `max_concurrency`. Errors and
    interrupts of a call are raised in the caller. A caller that fails, or is cancelled while it
    waits, has its calls cancelled; one that returns without waiting ends when they have ended.

    Args:
        function: sync (run in a worker thread) or async. A custom class that it returns can be
            stored if it is in the `->` annotation.
        name: in streams and errors; default the function's.
        retry_policy: as in `StateGraph.add_node`.
        cache_policy: as in `StateGraph.add_node`.
        timeout: as in `StateGraph.add_node`.
    Returns: the function's `TaskFunction`, or a decorator.
    Raises:
        GraphBuildError: it is not a function, or is a generator; or a policy is invalid.
    """
    given = {"retry_policy": retry_policy, "cache_policy": cache_policy, "timeout": timeout}

    def decorate(found: Callable[..., Any]) -> TaskFunction[Any, Any]:
        if not callable(found) or calls.is_generator(found):
            raise GraphBuildError(
                f"@task must decorate a function that returns a value, got {found!r}",
                do="decorate a function or a coroutine function without `yield`",
            )
        return TaskFunction(found, name, **given)

    vars(decorate)[MAKES] = True
    return decorate if function is None else decorate(function)


vars(task)[MAKES] = True
