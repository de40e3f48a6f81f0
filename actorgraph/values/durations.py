"""Durations that programs give: one rule, which is asked where one is given.

A number that isn't finite, or is very large, would fail later, and far away: in a sum of times, in
a column of integers, in a timer of the event loop.
"""

from datetime import timedelta
from typing import Any

from actorgraph.errors import ActorGraphError, InvalidConfigError

DURATION_MAX_S = 3_155_760_000.0
"""A hundred years, in seconds."""


def seconds_of(given: Any, *, zero: bool = False) -> float | None:
    """Return a duration in seconds, from a number or a timedelta.

    Args:
        zero: whether 0 is one.
    Returns: None for anything but a number or a timedelta up to a hundred years.
    """
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return None
    if not (0 < given <= DURATION_MAX_S or (zero and given == 0)):  # nor nan
        return None
    return float(given)


def checked_seconds(
    name: str,
    given: Any,
    *,
    zero: bool = False,
    default: str = "a number of seconds",
    error: type[ActorGraphError] = InvalidConfigError,
) -> float:
    """Check a duration in seconds, which is a number.

    Args:
        name: the argument, for the error.
        zero: whether it may be 0.
        default: a usual value, for the advice.
        error: class of the error.
    Raises:
        InvalidConfigError: it isn't a number, or is negative, not finite, or above a hundred years.
    """
    found = None if isinstance(given, timedelta) else seconds_of(given, zero=zero)
    if found is None:
        least = ">= 0" if zero else "> 0"
        raise error(
            f"{name} must be a number {least} and at most a hundred years in seconds, "
            f"got {given!r}",
            do=f"use {default}",
        )
    return found


def checked_limit(name: str, given: Any) -> float | None:
    """Check how long a call may wait: seconds from 0 on, or None for no limit.

    Raises:
        InvalidConfigError: as `checked_seconds`.
    """
    if given is None:
        return None
    return checked_seconds(name, given, zero=True, default="0 or more seconds, or None")
