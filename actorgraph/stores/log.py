"""Warnings of threads that nobody waits for, through structlog."""

import sys
from typing import Any


def warn(name: str, /, **fields: Any) -> None:
    """Log a warning: to the application's log, or to standard error where there is none."""
    import structlog

    if structlog.is_configured():
        logger = structlog.get_logger("actorgraph")
    else:
        logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
    logger.warning(name, **fields)
