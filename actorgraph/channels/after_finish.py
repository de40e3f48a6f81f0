"""Channels that open only when nothing else would run: deferred nodes wait behind them."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels.barrier import NamedBarrierValue
from actorgraph.channels.base import EMPTY, UNCHANGED, Channel, T


class LastValueAfterFinish(Channel[T]):
    """Keeps the last value, unseen until a superstep leads to no other node.

    The cell is a pair `(value, finished)`. A new write hides it again.
    """

    consumable = True
    finishes = True
    transparent = False

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """The last write, not to be seen yet."""
        return (writes[-1], False)

    def read(self, value: Any) -> Any:
        """The value once the rest of the graph has nothing to do."""
        return value[0] if value is not EMPTY and value[1] else EMPTY

    def finish(self, value: Any) -> Any:
        """To be seen now."""
        return UNCHANGED if value is EMPTY or value[1] else (value[0], True)

    def load(self, stored: Any) -> Any:
        """The pair again; a serializer may have made a list of it."""
        return tuple(stored)

    def consume(self, value: Any) -> Any:
        """Empty once the node that waited has run."""
        return EMPTY if value is not EMPTY and value[1] else UNCHANGED


class NamedBarrierValueAfterFinish(NamedBarrierValue):
    """A barrier that, once all its names have arrived, also waits until nothing else would run.

    The cell is a pair: the names that have arrived, and whether it is open. A name that arrives
    once more doesn't close it.
    """

    finishes = True

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """The names so far and these."""
        seen, is_open = (frozenset[str](), False) if value is EMPTY else value
        arrived = super().fold(name, seen or EMPTY, writes)
        return UNCHANGED if arrived is UNCHANGED else (arrived, is_open)

    def read(self, value: Any) -> Any:
        """None once everybody has arrived and the rest of the graph has nothing to do."""
        return None if value is not EMPTY and value == (self.names, True) else EMPTY

    def finish(self, value: Any) -> Any:
        """Open, if everybody has arrived."""
        return (self.names, True) if value == (self.names, False) else UNCHANGED

    def consume(self, value: Any) -> Any:
        """Closed again once the node that waited has run."""
        return EMPTY if value == (self.names, True) else UNCHANGED

    def load(self, stored: Any) -> Any:
        """The pair again; a serializer may have made a list of it."""
        seen, is_open = stored
        return (frozenset(seen), is_open)
