"""Limits of runs as callers and the environment give them, checked."""

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from actorgraph.errors import InvalidConfigError
from actorgraph.values.constants import DEFAULT_RECURSION_LIMIT

ENVIRONMENT = ("ACTORGRAPH_DEFAULT_RECURSION_LIMIT", "LANGGRAPH_DEFAULT_RECURSION_LIMIT")
"""Where the default recursion limit is looked for, in this order."""


@cache
def default_recursion_limit() -> int:
    """The recursion limit of runs whose config names none; read once per process."""
    return recursion_limit_in(os.environ)


def recursion_limit_in(environment: Mapping[str, str]) -> int:
    """The default recursion limit that an environment sets, or ours.

    Raises:
        InvalidConfigError: it is no positive whole number.
    """
    name = next((name for name in ENVIRONMENT if environment.get(name)), None)
    if name is None:
        return DEFAULT_RECURSION_LIMIT
    text = environment[name]
    if not text.isdecimal() or int(text) < 1:
        raise InvalidConfigError(
            f"the environment variable {name} is {text!r}, no positive whole number",
            do="set it to 1 or more, or remove it",
        )
    return int(text)


def seconds(name: str, value: Any) -> float | None:
    """A positive time in seconds, from a number or a timedelta; None for no limit.

    Raises:
        InvalidConfigError: it is neither.
    """
    if value is None:
        return None
    given = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given > 0:
        raise InvalidConfigError(
            f"{name} is {value!r}, no positive number of seconds",
            do="use a number above 0, a timedelta, or leave it out",
        )
    return float(given)
