"""EphemeralValue: a value for exactly one superstep. Edges are made of it."""

from typing import Any

from actorgraph.channels.base import EMPTY, UNCHANGED, T
from actorgraph.channels.guarded import GuardedValue


class EphemeralValue(GuardedValue[T]):
    """Keeps a value for the superstep after its write.

    Args:
        guard: refuse several writers in one superstep (default); else the last one wins.
    """

    clears = True

    def idle(self, value: Any) -> Any:
        """Clear the value: it is kept for one superstep."""
        return UNCHANGED if value is EMPTY else EMPTY
