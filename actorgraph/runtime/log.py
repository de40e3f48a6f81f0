"""Events for the application's log: through structlog, or through `logging`.

An application that has configured structlog gets them there; else one that has configured
`logging` gets them from the logger `actorgraph`, whose records have the fields as attributes of
`record.actorgraph`. Until either is configured, events below warning are dropped and the others
go to standard error.
"""

import logging
import sys
from typing import Any

from actorgraph.errors.texts import escape_controls, storable
from actorgraph.storage.logged_problems import print_unlogged

_LOGGER = logging.getLogger("actorgraph")
_QUIET = frozenset({"debug", "info"})


def event(level: str, name: str, /, **fields: Any) -> None:
    """Log one event. An error of the log is printed to standard error and goes no further.

    Args:
        level: "debug", "info", "warning" or "error".
        name: of the event, in the form `run.started`.
        fields: ids to find it by (thread_id, run_id, node, step), and details; `exc_info`, the
            error whose traceback is logged.
    """
    if level in _QUIET and imported_module("structlog") is None and not _LOGGER.hasHandlers():
        return  # not imported, so not configured
    try:
        _log(level, name, fields)
    except Exception as error:  # noqa: BLE001 - processors of the application may raise anything
        print_unlogged(name, error)


def _log(level: str, name: str, fields: dict[str, Any]) -> None:
    shown = {key: storable(v) if isinstance(v, str) else v for key, v in fields.items()}
    structlog = imported_module("structlog")
    if structlog is not None and structlog.is_configured():
        getattr(structlog.get_logger("actorgraph"), level)(name, **_escaped(shown))
    elif _LOGGER.hasHandlers():
        _log_plainly(level, name, shown)
    elif level not in _QUIET and sys.stderr is not None:
        getattr(_printer(), level)(name, **_escaped(shown))


def _escaped(fields: dict[str, Any]) -> dict[str, Any]:
    """Escape control characters in texts: a terminal would follow them, and lines would be forged.

    `logging` gets the fields as their `repr`, which escapes them.
    """
    return {k: escape_controls(v) if isinstance(v, str) else v for k, v in fields.items()}


def _log_plainly(level: str, name: str, fields: dict[str, Any]) -> None:
    """Log by `logging`: one line of `name key=value ...`."""
    error = fields.pop("exc_info", None)
    message = " ".join([name, *(f"{key}={value!r}" for key, value in fields.items())])
    number = logging.getLevelNamesMapping()[level.upper()]
    # As an argument, since a text may have a percent sign.
    _LOGGER.log(number, "%s", message, exc_info=error, extra={"actorgraph": fields})


def _printer() -> Any:
    import structlog

    # Not its default, which prints the variables of each frame too: they may be secrets.
    plain = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    steps = [*structlog.get_config()["processors"][:-1], plain]
    return structlog.wrap_logger(structlog.PrintLogger(sys.stderr), processors=steps)


def imported_module(name: str) -> Any:
    """A module that is imported; None if it isn't, or if another thread is importing it now."""
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module
