"""EphemeralValue: a value that lives for exactly one superstep. Triggers are made of it."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels.base import EMPTY, UNCHANGED, Channel, T
from actorgraph.errors import ErrorCode, InvalidUpdateError


class EphemeralValue(Channel[T]):
    """Keeps a value for the superstep after its write.

    Args:
        guard: refuse several writers in one superstep (default); else the last one wins.
    """

    clears = True

    def __init__(self, typ: Any = Any, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """The last write; several are refused when guarded."""
        if self.guard and len(writes) != 1:
            raise InvalidUpdateError(
                f"At key {name!r}: EphemeralValue(guard=True) can receive only one value per "
                f"step, got {len(writes)}",
                do="use guard=False if any of the values will do",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        return writes[-1]

    def idle(self, value: Any) -> Any:
        """Empty: its one superstep is over."""
        return UNCHANGED if value is EMPTY else EMPTY
