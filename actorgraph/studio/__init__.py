"""The studio: pages that show threads, runs and graphs of a system, and act on them.

Needs the extra `studio`. Mounted into an application, or alone: `python -m actorgraph.studio`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from actorgraph.errors import MissingExtraError

if TYPE_CHECKING:
    # Imported at their first use, so that files that need no starlette can be imported without it.
    from actorgraph.studio.studio_app import ACTIONS, Studio

__all__ = ["ACTIONS", "Studio"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    try:
        home = import_module("actorgraph.studio.studio_app")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("actorgraph"):
            raise
        raise MissingExtraError(
            f"actorgraph.studio needs the package {error.name}, which isn't installed",
            do="pip install 'actorgraph[studio]'",
        ) from error
    found = globals()[name] = getattr(home, name)
    return found
