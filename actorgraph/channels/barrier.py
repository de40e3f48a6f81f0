"""Barriers and channels of deferred nodes: they make a node wait for others.

`NamedBarrierValue` opens when each of its names has arrived; joins are made of it. The
`...AfterFinish` channels also wait until no other node would run next; `defer=True` uses them.
"""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels.base import EMPTY, UNCHANGED, Channel, T
from actorgraph.errors import InvalidUpdateError


def _is_pair(stored: Any) -> bool:
    """Whether the cell of a barrier is one of a deferred node: its names, and whether it is open.

    Names are text, so the two forms can't be mistaken for one another.
    """
    return isinstance(stored, list | tuple) and len(stored) == 2 and isinstance(stored[1], bool)


class NamedBarrierValue(Channel[str]):
    """Available once all names were written, over any number of supersteps.

    The cell is the frozenset of names that have arrived.

    Args:
        names: the writers to wait for.
    """

    consumable = True
    transparent = False

    def __init__(self, typ: Any, names: Sequence[str] | frozenset[str] | set[str]) -> None:
        super().__init__(typ)
        self.names = frozenset(names)

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Add these names to those that have arrived; a repeated name changes nothing.

        Raises:
            InvalidUpdateError: a name is not one that the barrier waits for.
        """
        seen: frozenset[str] = frozenset() if value is EMPTY else value
        unknown = set(writes) - self.names
        if unknown:
            raise InvalidUpdateError(
                f"At key {name!r}: {sorted(map(str, unknown))} not in {sorted(self.names)}",
                do="write only the names that the barrier waits for",
            )
        arrived = seen.union(writes)
        return UNCHANGED if arrived == seen else arrived

    def read(self, value: Any) -> Any:
        """None once all names have arrived, else EMPTY; a barrier has no value of its own."""
        return None if value is not EMPTY and value == self.names else EMPTY

    def consume(self, value: Any) -> Any:
        """Close again; a name that arrives in the same superstep counts for the next round."""
        return EMPTY if value is not EMPTY and value == self.names else UNCHANGED

    def load(self, stored: Any) -> Any:
        """Restore the frozenset; a serializer may have made a list of it."""
        # A pair was stored while the node was deferred.
        return frozenset(stored[0] if _is_pair(stored) else stored)

    def same_rule(self, other: Channel[Any]) -> bool:
        """Whether the other channel waits for the same names."""
        return isinstance(other, NamedBarrierValue) and self.names == other.names


class LastValueAfterFinish(Channel[T]):
    """Keeps the last value, hidden until a superstep leads to no other node.

    The cell is a pair `(value, finished)`. A new write hides it again.
    """

    consumable = True
    finishes = True
    transparent = False

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Keep the last write, hidden."""
        return (writes[-1], False)

    def read(self, value: Any) -> Any:
        """The value, once no other node would run; else EMPTY."""
        return value[0] if value is not EMPTY and value[1] else EMPTY

    def finish(self, value: Any) -> Any:
        """Show the value."""
        return UNCHANGED if value is EMPTY or value[1] else (value[0], True)

    def load(self, stored: Any) -> Any:
        """Restore the pair; a serializer may have made a list of it."""
        if not isinstance(stored, list | tuple) or len(stored) != 2:
            return (stored, True)  # stored before the node was deferred, when it was due
        return tuple(stored)

    def consume(self, value: Any) -> Any:
        """Clear the value once the deferred node has run."""
        return EMPTY if value is not EMPTY and value[1] else UNCHANGED


class NamedBarrierValueAfterFinish(NamedBarrierValue):
    """A barrier that, once all its names have arrived, also waits until nothing else would run.

    The cell is a pair: the names that have arrived, and whether it is open. A name that arrives
    once more doesn't close it.
    """

    finishes = True

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Add these names to those that have arrived."""
        seen, is_open = (frozenset[str](), False) if value is EMPTY else value
        arrived = super().fold(name, seen or EMPTY, writes)
        return UNCHANGED if arrived is UNCHANGED else (arrived, is_open)

    def read(self, value: Any) -> Any:
        """None once it is open, else EMPTY; it has no value of its own."""
        return None if value is not EMPTY and value == (self.names, True) else EMPTY

    def finish(self, value: Any) -> Any:
        """Open, if all names have arrived."""
        return (self.names, True) if value == (self.names, False) else UNCHANGED

    def consume(self, value: Any) -> Any:
        """Close again once the deferred node has run."""
        return EMPTY if value == (self.names, True) else UNCHANGED

    def load(self, stored: Any) -> Any:
        """Restore the pair; a serializer may have made a list of it."""
        if not _is_pair(stored):  # stored before the node was deferred; it is due once complete
            return (frozenset(stored), self.names == frozenset(stored))
        seen, is_open = stored
        return (frozenset(seen), is_open)
