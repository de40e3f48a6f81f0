"""GuardedValue: the base of channels that keep the last write of one or of several writers."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels.base import Channel, T
from actorgraph.errors import ErrorCode, InvalidUpdateError


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
