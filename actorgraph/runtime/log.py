"""Events for the application's log, through structlog.

A library prints nothing that nobody asked for: until the application configures structlog,
events below warning are dropped and warnings go to standard error.
"""

import sys
from contextlib import suppress
from typing import Any

from actorgraph.errors.texts import storable
from actorgraph.runtime.loaded import loaded

_QUIET = frozenset({"debug", "info"})


def event(level: str, name: str, /, **fields: Any) -> None:
    """Log one event. A log that fails is told on standard error, and fails nothing else.

    Args:
        level: "debug", "info", "warning" or "error".
        name: what happened, in the form `run.started`.
        fields: the ids that find it again: thread_id, run_id, node, step.
    """
    if level in _QUIET and loaded("structlog") is None:
        return  # nobody can have configured it
    try:
        _log(level, name, fields)
    except Exception as error:  # noqa: BLE001 - it is the application's
        with suppress(Exception):
            print(f"actorgraph: {name} was not logged: {error!r}", file=sys.stderr)  # noqa: T201


def _log(level: str, name: str, fields: dict[str, Any]) -> None:
    import structlog

    if structlog.is_configured():
        logger = structlog.get_logger("actorgraph")
    elif level in _QUIET:
        return
    else:
        logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
    shown = {key: storable(v) if isinstance(v, str) else v for key, v in fields.items()}
    getattr(logger, level)(name, **shown)
