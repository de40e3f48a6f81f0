"""The policies in the arguments of `add_node`: checked, and converted to one form each."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

from actorgraph.bridging import BRIDGE
from actorgraph.errors import GraphBuildError
from actorgraph.plan import callables as calls
from actorgraph.values.durations import seconds_of
from actorgraph.values.policies import CachePolicy, RetryPolicy, TimeoutPolicy

Retry = RetryPolicy | Sequence[RetryPolicy] | None


def retries_of(owner: str, given: Retry) -> tuple[RetryPolicy, ...]:
    """Make a tuple of one retry policy, several, or none.

    Args:
        owner: named in errors, such as "node 'a'".
    Raises:
        GraphBuildError: one is not a RetryPolicy, or a number in it is out of range.
    """
    if given is None:
        return ()
    given = BRIDGE.adapt(given)
    policies = (given,) if isinstance(given, RetryPolicy) else given
    if not isinstance(policies, (list, tuple)):
        policies = (policies,)
    for policy in cast("Sequence[Any]", policies):
        _check_retry(owner, policy)
    return tuple(cast("Sequence[RetryPolicy]", policies))


def _check_retry(owner: str, policy: Any) -> None:
    if not isinstance(policy, RetryPolicy):
        raise GraphBuildError(
            f"{owner}: retry_policy must be a RetryPolicy or a list of them, got {policy!r}",
            do="pass a RetryPolicy, or a list of them: the first that matches an error counts",
        )
    numbers: tuple[Any, ...] = (policy.initial_interval, policy.backoff_factor, policy.max_interval)
    attempts: Any = policy.max_attempts
    if any(seconds_of(n, zero=True) is None or isinstance(n, timedelta) for n in numbers) or not (
        type(attempts) is int and attempts >= 1
    ):
        raise GraphBuildError(
            f"{owner}: {policy!r} has a negative number, one that isn't finite or isn't a number, "
            "or max_attempts < 1",
            do="use intervals and a factor of 0 or more, in seconds, and a whole number of 1 or "
            "more as max_attempts",
        )
    wanted: Any = policy.retry_on
    kinds = wanted if isinstance(wanted, (list, tuple)) else (wanted,)
    if not callable(wanted) and not all(_is_error(kind) for kind in cast("list[Any]", kinds)):
        raise GraphBuildError(
            f"{owner}: invalid retry_on {wanted!r}",
            do="retry_on must be an Exception class, a list of them, or a function of the error",
        )
    if isinstance(wanted, type) and not _is_error(wanted):
        raise GraphBuildError(
            f"{owner}: retry_on must be a subclass of Exception, got {wanted!r}",
            do="pass Exception classes",
        )


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def timeout_of(owner: str, function: Callable[..., Any], given: Any) -> TimeoutPolicy | None:
    """Make a node's timeout policy, in seconds.

    Raises:
        GraphBuildError: a limit is not positive, or the node is sync.
    """
    policy = limit_of(owner, given)
    if policy is not None and not calls.is_async(function):
        raise GraphBuildError(
            f"{owner} is a sync function and has a timeout, but a thread can't be stopped",
            do="make it `async def`, or set a timeout on the I/O inside it",
        )
    return policy


def limit_of(owner: str, given: Any) -> TimeoutPolicy | None:
    """Make a timeout policy in seconds, for any function.

    Raises:
        GraphBuildError: a limit is not positive.
    """
    try:
        return TimeoutPolicy.coerce(BRIDGE.adapt(given))
    except GraphBuildError as error:
        raise GraphBuildError(f"{owner}: {error.what}", do=error.do) from None


def cache_of(owner: str, given: Any) -> CachePolicy[Any] | None:
    """Check a node's cache policy.

    Raises:
        GraphBuildError: it is not a CachePolicy, or its `ttl` is not positive.
    """
    given = BRIDGE.adapt(given)
    ttl: Any = given.ttl if isinstance(given, CachePolicy) else None
    lasts = ttl is None or (seconds_of(ttl) is not None and not isinstance(ttl, timedelta))
    if given is None or (isinstance(given, CachePolicy) and lasts):
        return cast("CachePolicy[Any] | None", given)
    raise GraphBuildError(
        f"{owner}: cache_policy must be a CachePolicy with ttl > 0 or None, got {given!r}",
        do="pass CachePolicy(ttl=seconds or None)",
    )


def bound_of(owner: str, given: Any) -> int | None:
    """Check how many calls of a node may run at once; None for no limit.

    Raises:
        GraphBuildError: it is not an integer, or less than 1, with which no call would ever start.
    """
    if given is not None and (type(given) is not int or given < 1):
        raise GraphBuildError(
            f"{owner}: max_concurrency must be an integer >= 1 or None, got {given!r}",
            do="pass an integer of 1 or more, or leave it out for no limit",
        )
    return given
