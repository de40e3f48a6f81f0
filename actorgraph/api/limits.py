"""Validate limits that callers and the environment set."""

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from actorgraph.errors import InvalidConfigError
from actorgraph.values.constants import DEFAULT_RECURSION_LIMIT

ENVIRONMENT = ("ACTORGRAPH_DEFAULT_RECURSION_LIMIT", "LANGGRAPH_DEFAULT_RECURSION_LIMIT")
"""Variables that may set the default recursion limit; the first one that is set wins."""


@cache
def default_recursion_limit() -> int:
    """Return the recursion limit of runs whose config has none; read once per process."""
    return recursion_limit_in(os.environ)


def recursion_limit_in(environment: Mapping[str, str]) -> int:
    """Return the default recursion limit that an environment sets, or the built-in one.

    Raises:
        InvalidConfigError: it is not a positive integer.
    """
    name = next((name for name in ENVIRONMENT if environment.get(name)), None)
    if name is None:
        return DEFAULT_RECURSION_LIMIT
    text = environment[name]
    if not text.isdecimal() or int(text) < 1:
        raise InvalidConfigError(
            f"the environment variable {name} must be an integer >= 1, got {text!r}",
            do="set it to 1 or more, or remove it",
        )
    return int(text)


def seconds(name: str, value: Any) -> float | None:
    """Return a duration in seconds, from a number or a timedelta; None for no limit.

    Args:
        name: the argument, for the error.
    Raises:
        InvalidConfigError: it is neither, or not above 0.
    """
    if value is None:
        return None
    given = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given > 0:
        raise InvalidConfigError(
            f"{name} must be a positive number of seconds or a timedelta, got {value!r}",
            do="use a number above 0, a timedelta, or leave it out",
        )
    return float(given)
