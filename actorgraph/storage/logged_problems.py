"""Warnings through structlog, for problems that can't be raised to a caller."""

import sys
from contextlib import suppress
from typing import Any


def warn(name: str, /, **fields: Any) -> None:
    """Log a warning, to structlog if the program has configured it, else to standard error.

    An error of the log is printed to standard error and goes no further.
    """
    import structlog

    try:
        if structlog.is_configured():
            logger = structlog.get_logger("actorgraph")
        else:
            logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
        logger.warning(name, **fields)
    except Exception as error:  # noqa: BLE001 - processors of the application may raise anything
        print_unlogged(name, error)


def print_unlogged(name: str, error: Exception) -> None:
    """Print the name of an event to standard error, and why it could not be logged."""
    if sys.stderr is None:  # as under pythonw; print() would take standard output instead
        return
    with suppress(Exception):
        print(f"actorgraph: {name} was not logged: {error!r}", file=sys.stderr)  # noqa: T201
