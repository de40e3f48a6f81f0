"""Warnings through structlog, for problems that can't be raised to a caller."""

import sys
from typing import Any


def warn(name: str, /, **fields: Any) -> None:
    """Log a warning, to structlog if the program has configured it, else to standard error."""
    import structlog

    if structlog.is_configured():
        logger = structlog.get_logger("actorgraph")
    else:
        logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
    logger.warning(name, **fields)
