"""Attempts of tool calls: time limits and retries of each tool, and the results of ended calls.

A tool that fails is called again by its `retry_policy`, before `handle_tool_errors` sees the error.
Of several calls of one message the result of each that has ended is stored as a step of the node's
task: when the node runs again, after a question, an error or a crash of another call, it is found.
"""

import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import anyio

from actorgraph.errors import GraphBuildError, NodeTimeoutError, did_you_mean
from actorgraph.internals import (
    CURRENT,
    Retry,
    TaskScope,
    is_foreign_control_flow,
    kept_step,
    limit_of,
    next_delay,
    pause,
    retries_of,
)
from actorgraph.types import Command, RetryPolicy, TimeoutPolicy

T = TypeVar("T")
ToolTimeout = float | timedelta | TimeoutPolicy | None
ToolTimeouts = ToolTimeout | Mapping[str, ToolTimeout]
"""A limit of each call's attempt, or tool -> limit."""

ToolRetries = Retry | Mapping[str, Retry]
"""Policies of all tools, or tool -> policies."""


class ToolPolicies:
    """Time limits and retries of a node's tools.

    Args:
        owner: the node, for errors.
        tools: name -> whether its calls run in async code, which alone can be stopped.
        timeout: of every tool, or by name.
        retry_policy: of every tool, or by name.
    Raises:
        GraphBuildError: a name is unknown, a policy invalid, or a sync tool has a timeout.
    """

    def __init__(
        self,
        owner: str,
        tools: Mapping[str, bool],
        timeout: ToolTimeouts,
        retry_policy: ToolRetries,
    ) -> None:
        limits = _by_name(owner, "timeout", tools, timeout)
        retries = _by_name(owner, "retry_policy", tools, retry_policy)
        self._limits_s = {
            name: limit
            for name, given in limits.items()
            if (limit := _limit_s(f"{owner}, tool {name!r}", given, stops=tools[name])) is not None
        }
        self._retries = {n: retries_of(f"{owner}, tool {n!r}", r) for n, r in retries.items()}

    def limit_s(self, name: str) -> float | None:
        """The seconds that one attempt of a tool's call may take; None for no limit."""
        return self._limits_s.get(name)

    async def call(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Call a tool, again after errors that its retry policy takes.

        Raises:
            NodeTimeoutError: the last attempt took too long.
            Exception: of the last attempt.
        """
        policies = self._retries.get(name, ())
        limit_s = self.limit_s(name)
        if not policies and limit_s is None:
            return await function()
        scope = CURRENT.get(None)
        numbers = _numbers(scope)
        attempt = 1
        while True:
            try:
                return await _within(name, limit_s, function)
            except Exception as error:
                passes = is_foreign_control_flow(error)
                delay = None if passes else _delay(policies, attempt, error, scope)
                if delay is None:
                    raise
            await pause(delay)
            attempt += 1
            if scope is not None:  # so that the n-th question and call are the n-th again
                scope.asked, scope.calls, scope.graphs = numbers


def _numbers(scope: TaskScope | None) -> tuple[int, int, int]:
    return (0, 0, 0) if scope is None else (scope.asked, scope.calls, scope.graphs)


def _delay(
    policies: Sequence[RetryPolicy], attempt: int, error: Exception, scope: TaskScope | None
) -> float | None:
    jitter = random.random()  # noqa: S311 - not a secret
    left = float("inf") if scope is None else scope.run_context.stopping.left_s()
    return next_delay(policies, attempt, error, jitter, now=time.time(), left=left)


async def _within(name: str, limit_s: float | None, function: Callable[[], Awaitable[T]]) -> T:
    if limit_s is None:
        return await function()
    began = time.monotonic()
    with anyio.move_on_after(limit_s) as stop:
        return await function()
    if not stop.cancelled_caught:
        raise AssertionError
    elapsed = time.monotonic() - began
    raise NodeTimeoutError(
        f"tool {name!r} did not return within its timeout of {limit_s} s (after {elapsed:.3f} s)",
        do="raise its timeout, or make it faster",
        node=name,
        elapsed=elapsed,
        run_timeout=limit_s,
    )


def _by_name(owner: str, option: str, tools: Mapping[str, bool], given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return dict.fromkeys(tools, given)
    found = cast("Mapping[str, Any]", given)
    for name in found:
        if name not in tools:
            raise GraphBuildError(
                f"{owner}: {option} names {name!r}, which is not one of its tools",
                do=did_you_mean(name, list(tools)),
            )
    return dict(found)


def _limit_s(owner: str, given: Any, *, stops: bool) -> float | None:
    policy = limit_of(owner, given)
    if policy is None:
        return None
    if policy.idle_s is not None:
        raise GraphBuildError(
            f"{owner} has an idle_timeout, but no call reports its progress",
            do="give it a run_timeout, or give the node an idle_timeout",
        )
    if not stops:
        raise GraphBuildError(
            f"{owner} is a sync function and has a timeout, but a thread can't be stopped",
            do="make it `async def`, or set a timeout on the I/O inside it",
        )
    return policy.run_s


async def kept_result(
    place: int,
    call: Mapping[str, Any],
    work: Callable[[], Awaitable[Any]],
    is_last: Callable[[], bool],
) -> Any:
    """Run one of several calls, unless an earlier attempt of the task has its result.

    Args:
        place: of the call in its message; ids of calls may be missing or repeated.
        is_last: whether all other calls have returned: the node's own result follows at once.
    """
    scope = CURRENT.get(None)
    if scope is None or scope.run_context.calls is None:
        return await work()
    plan = scope.run_context.state.plan

    def keeps(result: Any) -> bool:
        # Keys that are never stored may be in a Command.
        return not is_last() and not (plan.untracked and _has_command(result))

    return await kept_step(result_key(place, call), work, keeps)


def result_key(place: int, call: Mapping[str, Any]) -> str:
    """The key of the step that keeps the result of a call, by its place in the message."""
    return f"tool call {place}: {call.get('id')}"


def _has_command(result: Any) -> bool:
    return isinstance(result, Command) or (
        isinstance(result, list) and any(isinstance(part, Command) for part in result)
    )
