"""The policies of a node as `add_node` takes them: checked, and in one form each."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from actorgraph.errors import GraphBuildError
from actorgraph.plan import calls
from actorgraph.values.interop import own
from actorgraph.values.node_policies import CachePolicy, RetryPolicy, TimeoutPolicy

Retry = RetryPolicy | Sequence[RetryPolicy] | None


def retries_of(owner: str, given: Retry) -> tuple[RetryPolicy, ...]:
    """One retry policy, several, or none, as a tuple.

    Args:
        owner: what to name in an error, such as "node 'a'".
    Raises:
        GraphBuildError: one is no RetryPolicy, or a number in it is out of range.
    """
    if given is None:
        return ()
    given = own(given)
    policies = (given,) if isinstance(given, RetryPolicy) else given
    if not isinstance(policies, (list, tuple)):
        policies = (policies,)
    for policy in cast("Sequence[Any]", policies):
        _check_retry(owner, policy)
    return tuple(cast("Sequence[RetryPolicy]", policies))


def _check_retry(owner: str, policy: Any) -> None:
    if not isinstance(policy, RetryPolicy):
        raise GraphBuildError(
            f"{owner} has {policy!r} as its retry_policy",
            do="pass a RetryPolicy, or a list of them: the first that matches an error counts",
        )
    numbers = (policy.initial_interval, policy.backoff_factor, policy.max_interval)
    if not all(number >= 0 for number in numbers) or policy.max_attempts < 1:
        raise GraphBuildError(
            f"{owner} has {policy!r}, with a negative number or less than one attempt",
            do="use intervals and a factor of 0 or more, and max_attempts of 1 or more",
        )
    wanted: Any = policy.retry_on
    kinds = wanted if isinstance(wanted, (list, tuple)) else (wanted,)
    if not callable(wanted) and not all(_is_error(kind) for kind in cast("list[Any]", kinds)):
        raise GraphBuildError(
            f"{owner} is to be retried on {wanted!r}",
            do="retry_on must be an Exception class, a list of them, or a function of the error",
        )
    if isinstance(wanted, type) and not _is_error(wanted):
        raise GraphBuildError(
            f"{owner} is to be retried on {wanted!r}, which is no class of errors",
            do="name classes of Exception",
        )


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def timeout_of(owner: str, function: Callable[..., Any], given: Any) -> TimeoutPolicy | None:
    """A node's timeout as a policy in seconds.

    Raises:
        GraphBuildError: it is not positive, or the node is sync.
    """
    policy = limit_of(owner, given)
    if policy is not None and not calls.is_async(function):
        raise GraphBuildError(
            f"{owner} is a sync function and has a timeout, but a thread can't be stopped",
            do="make it `async def`, or set a timeout on the I/O inside it",
        )
    return policy


def limit_of(owner: str, given: Any) -> TimeoutPolicy | None:
    """A timeout as a policy in seconds, for whatever function.

    Raises:
        GraphBuildError: it is not positive.
    """
    try:
        return TimeoutPolicy.coerce(own(given))
    except GraphBuildError as error:
        raise GraphBuildError(f"{owner}: {error.what}", do=error.do) from None


def cache_of(owner: str, given: Any) -> CachePolicy[Any] | None:
    """A node's cache policy.

    Raises:
        GraphBuildError: it is none, or its time to live is not positive.
    """
    given = own(given)
    if given is None or (isinstance(given, CachePolicy) and (given.ttl is None or given.ttl > 0)):
        return cast("CachePolicy[Any] | None", given)
    raise GraphBuildError(
        f"{owner} has {given!r} as its cache_policy", do="pass CachePolicy(ttl=seconds or None)"
    )


def bound_of(owner: str, given: Any) -> int | None:
    """How many calls of a node may run at once.

    Raises:
        GraphBuildError: it is no whole number, or less than 1, with which no call would ever start.
    """
    if given is not None and (type(given) is not int or given < 1):
        raise GraphBuildError(
            f"{owner} has {given!r} as its max_concurrency",
            do="pass a whole number of 1 or more, or leave it out for no bound",
        )
    return given
