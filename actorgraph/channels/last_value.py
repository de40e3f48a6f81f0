"""Channels that keep one value: LastValue (the default), AnyValue, EphemeralValue, UntrackedValue.

| channel          | writers in one superstep   | how long              | in checkpoints |
|------------------|----------------------------|-----------------------|----------------|
| `LastValue`      | one                        | until the next write  | yes            |
| `AnyValue`       | several, the last one wins | one superstep         | yes            |
| `EphemeralValue` | one; several unless guard  | one superstep         | yes            |
| `UntrackedValue` | one; several unless guard  | for the rest of a run | no             |
"""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels.base import EMPTY, UNCHANGED, Channel, T
from actorgraph.errors import ErrorCode, InvalidUpdateError


class LastValue(Channel[T]):
    """Keeps the last value written, by at most one writer in a superstep."""

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Take the one write.

        Raises:
            InvalidUpdateError: there are several, and no order of them would be right.
        """
        if len(writes) != 1:
            raise InvalidUpdateError(
                f"At key {name!r}: can receive only one value per step, got {len(writes)}",
                do=f"give {name!r} a reducer that combines them, e.g. "
                "Annotated[list, operator.add], or let one node own it",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        return writes[0]


class GuardedValue(Channel[T]):
    """Keeps one value; a subclass decides how long.

    Args:
        guard: refuse several writers in one superstep (default); else the last one wins.
    """

    def __init__(self, typ: Any = Any, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Take the last write.

        Raises:
            InvalidUpdateError: there are several, and the channel is guarded.
        """
        if self.guard and len(writes) != 1:
            kind = type(self).__name__
            raise InvalidUpdateError(
                f"At key {name!r}: {kind}(guard=True) can receive only one value per step, got "
                f"{len(writes)}",
                do="use guard=False if any of the values will do",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        return writes[-1]


class AnyValue(Channel[T]):
    """Keeps the last of several writes, for the superstep after them."""

    clears = True

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Take the last write in task-path order."""
        return writes[-1]

    def idle(self, value: Any) -> Any:
        """Clear the value: it is kept for one superstep."""
        return UNCHANGED if value is EMPTY else EMPTY


class EphemeralValue(GuardedValue[T]):
    """Keeps a value for the superstep after its write.

    Args:
        guard: refuse several writers in one superstep (default); else the last one wins.
    """

    clears = True

    def idle(self, value: Any) -> Any:
        """Clear the value: it is kept for one superstep."""
        return UNCHANGED if value is EMPTY else EMPTY


class UntrackedValue(GuardedValue[T]):
    """Keeps the last value for the rest of this run; a resumed run starts without it.

    Args:
        guard: refuse several writers in one superstep (default); else the last one wins.
    """

    stored = False

    def dump(self, value: Any) -> Any:
        """Store nothing: the value may be a socket, a client or a secret."""
        return EMPTY


def is_single(channel: Channel[Any]) -> bool:
    """Whether a channel refuses several writes in one superstep."""
    return isinstance(channel, LastValue) or (isinstance(channel, GuardedValue) and channel.guard)
