"""The studio: pages that show threads, runs and graphs of a system, and act on them.

Needs the extra `studio`. Mounted into an application, or alone: `python -m actorgraph.studio`.
"""

from actorgraph.errors import MissingExtraError

try:
    __import__("jinja2")
    __import__("starlette")
except ImportError as _error:
    raise MissingExtraError(
        f"actorgraph.studio needs the package {_error.name}, which isn't installed",
        do="pip install 'actorgraph[studio]'",
    ) from _error

from actorgraph.studio.studio_app import ACTIONS, Studio

__all__ = ["ACTIONS", "Studio"]
