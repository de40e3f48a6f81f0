"""Small functions about checkpoints and savers."""

from collections import defaultdict
from typing import Any

from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.errors import NotSupportedError


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
    """Refused when one is made: LangGraph's writes a file of pickles.

    The class can be imported and derived from, as packages do that never make one.

    Raises:
        NotSupportedError: always.
    """

    def __init__(self, *args: Any, filename: str, **entries: Any) -> None:
        del args, entries
        raise NotSupportedError(
            f"a PersistentDict would keep pickles in {filename!r}, which run code when read",
            do="use SqliteSaver(path), which stores the same in a file",
        )
