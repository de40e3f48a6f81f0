"""Events for the application's log, through structlog.

Until the application configures structlog, events below warning are dropped and warnings go to
standard error.
"""

import sys
from contextlib import suppress
from typing import Any

from actorgraph.errors.texts import storable

_QUIET = frozenset({"debug", "info"})


def event(level: str, name: str, /, **fields: Any) -> None:
    """Log one event. An error of the log is printed to standard error and goes no further.

    Args:
        level: "debug", "info", "warning" or "error".
        name: of the event, in the form `run.started`.
        fields: ids to find it by (thread_id, run_id, node, step), and details.
    """
    if level in _QUIET and imported_module("structlog") is None:
        return  # not imported, so not configured
    try:
        _log(level, name, fields)
    except Exception as error:  # noqa: BLE001 - processors of the application may raise anything
        if sys.stderr is None:  # as under pythonw; print() would take standard output instead
            return
        with suppress(Exception):
            print(f"actorgraph: {name} was not logged: {error!r}", file=sys.stderr)  # noqa: T201


def _log(level: str, name: str, fields: dict[str, Any]) -> None:
    import structlog

    if structlog.is_configured():
        logger = structlog.get_logger("actorgraph")
    elif level in _QUIET or sys.stderr is None:
        return
    else:
        logger = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
    shown = {key: storable(v) if isinstance(v, str) else v for key, v in fields.items()}
    getattr(logger, level)(name, **shown)


def imported_module(name: str) -> Any:
    """A module that is imported; None if it isn't, or if another thread is importing it now."""
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module
