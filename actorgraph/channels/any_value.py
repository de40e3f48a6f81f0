"""AnyValue: many writers that are assumed to agree; cleared by a superstep without a write."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels.base import EMPTY, UNCHANGED, Channel, T


class AnyValue(Channel[T]):
    """Keeps the last of several writes."""

    clears = True

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """The last write in task-path order."""
        return writes[-1]

    def idle(self, value: Any) -> Any:
        """Empty: the value lives for the superstep after its write."""
        return UNCHANGED if value is EMPTY else EMPTY
