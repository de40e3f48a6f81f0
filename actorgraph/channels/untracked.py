"""UntrackedValue: shared by the nodes of a run and never stored."""

from typing import Any

from actorgraph.channels.base import EMPTY, T
from actorgraph.channels.guarded import GuardedValue


class UntrackedValue(GuardedValue[T]):
    """Keeps the last value for the rest of this run; a resumed run starts without it.

    Args:
        guard: refuse several writers in one superstep (default); else the last one wins.
    """

    stored = False

    def dump(self, value: Any) -> Any:
        """Store nothing: the value may be a socket, a client or a secret."""
        return EMPTY
