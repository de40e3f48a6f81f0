"""AnyValue: several writers that are assumed to agree; cleared by a superstep without a write."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels.base import EMPTY, UNCHANGED, Channel, T


class AnyValue(Channel[T]):
    """Keeps the last of several writes, for the superstep after them."""

    clears = True

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Take the last write in task-path order."""
        return writes[-1]

    def idle(self, value: Any) -> Any:
        """Clear the value: it is kept for one superstep."""
        return UNCHANGED if value is EMPTY else EMPTY
