"""EphemeralValue: a value that lives for exactly one superstep. Triggers are made of it."""

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
        """Empty: its one superstep is over."""
        return UNCHANGED if value is EMPTY else EMPTY
