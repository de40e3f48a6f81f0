"""UntrackedValue: shared between the nodes of a run and never stored."""

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
        """Nothing: sockets, clients and secrets may live here."""
        return EMPTY
