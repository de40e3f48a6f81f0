"""The studio: pages that show threads, runs and graphs of a system, and act on them.

Needs the extra `studio`. Mounted into an application, or alone: `python -m actorgraph.studio`.
"""

from actorgraph.studio.studio_app import ACTIONS, Studio

__all__ = ["ACTIONS", "Studio"]
