"""Whether a task that has failed is tried again, and how long it waits before that."""

from collections.abc import Sequence
from typing import Any

from actorgraph.errors import NodeCancelledError
from actorgraph.values.invalid_resumes import is_invalid_resume
from actorgraph.values.node_policies import RetryOn, RetryPolicy


def next_delay(
    policies: Sequence[RetryPolicy], attempt: int, error: BaseException, random: float
) -> float | None:
    """Seconds to wait before the next attempt; None where there is none.

    The first policy that matches the error decides.

    Args:
        attempt: the one that has failed, from 1.
        random: the jitter, from 0 to 1.
    """
    if not isinstance(error, Exception) or isinstance(error, NodeCancelledError):
        return None  # what stops a program, and a node that stops itself, are not tried again
    if is_invalid_resume(error):
        return None  # it would get the same answer
    policy = next((p for p in policies if matches(p.retry_on, error)), None)
    if policy is None or attempt >= policy.max_attempts:
        return None
    try:
        wait = policy.initial_interval * policy.backoff_factor ** (attempt - 1)
    except OverflowError:
        wait = policy.max_interval
    return min(wait, policy.max_interval) + (random if policy.jitter else 0.0)


def matches(retry_on: RetryOn, error: Exception) -> bool:
    """Whether a policy is for this error; for a group, whether it is for each error in it."""
    if callable(retry_on) and not isinstance(retry_on, type):
        return bool(retry_on(error))
    kinds: Any = retry_on if isinstance(retry_on, type) else tuple(retry_on)
    if isinstance(error, kinds):
        return True
    inner = error.exceptions if isinstance(error, ExceptionGroup) else ()
    return bool(inner) and all(matches(retry_on, e) for e in inner)
