"""Small functions about checkpoints and savers."""

from collections import defaultdict
from typing import Any

from actorgraph.api.savers.adapt import adapt_checkpointer


def copy_checkpoint(checkpoint: Any) -> Any:
    """Copy a checkpoint; its values are shared."""
    copied = dict(checkpoint)
    for name in ("channel_values", "channel_versions"):
        copied[name] = dict(checkpoint[name])
    copied["versions_seen"] = {node: dict(seen) for node, seen in copied["versions_seen"].items()}
    return copied


def ensure_valid_checkpointer(checkpointer: Any) -> Any:
    """Return a checkpointer if `compile()` takes it.

    Raises:
        GraphBuildError: it doesn't.
    """
    adapt_checkpointer(checkpointer)
    return checkpointer


class PersistentDict(defaultdict[Any, Any]):
    """A defaultdict with a file name, of which nothing is written: savers here have files."""

    def __init__(self, *args: Any, filename: str, **entries: Any) -> None:
        super().__init__(*args, **entries)
        self.filename = filename

    def sync(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
