"""Failures: retries, error handlers, and the input of a run whose save was refused.

A failed attempt is retried by the node's policies (`next_delay`). The last failure goes to the
node's error handler, if it has one: it becomes a task in the same superstep. The failed task counts
as finished without writes; the handler's writes take their place. The failure is stored before the
handler starts: after a crash the handler runs again, not the node.
"""

from collections.abc import Sequence
from typing import Any

from actorgraph.errors import NodeCancelledError
from actorgraph.values.invalid_resumes import is_invalid_resume
from actorgraph.values.node_policies import RetryOn, RetryPolicy


def next_delay(
    policies: Sequence[RetryPolicy], attempt: int, error: BaseException, random: float
) -> float | None:
    """Compute the seconds to wait before the next attempt; None if there is none.

    The first policy that matches the error decides.

    Args:
        policies: in order; empty means no retries.
        attempt: the number of the failed attempt, from 1.
        random: the jitter, from 0 to 1.
    """
    if not isinstance(error, Exception) or isinstance(error, NodeCancelledError):
        return None  # e.g. KeyboardInterrupt, or a node that cancels itself
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
    """Whether `retry_on` matches an error; a group matches if each error in it does."""
    if callable(retry_on) and not isinstance(retry_on, type):
        return bool(retry_on(error))
    kinds: Any = retry_on if isinstance(retry_on, type) else tuple(retry_on)
    if isinstance(error, kinds):
        return True
    inner = error.exceptions if isinstance(error, ExceptionGroup) else ()
    return bool(inner) and all(matches(retry_on, e) for e in inner)
