"""UntrackedValue: shared between the nodes of a run and never stored."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels.base import EMPTY, Channel, T
from actorgraph.errors import ErrorCode, InvalidUpdateError


class UntrackedValue(Channel[T]):
    """Keeps the last value for the rest of this run; a resumed run starts without it.

    Args:
        guard: refuse several writers in one superstep (default); else the last one wins.
    """

    stored = False

    def __init__(self, typ: Any = Any, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """The last write; several are refused when guarded."""
        if self.guard and len(writes) != 1:
            raise InvalidUpdateError(
                f"At key {name!r}: UntrackedValue(guard=True) can receive only one value per "
                f"step, got {len(writes)}",
                do="use guard=False if any of the values will do",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        return writes[-1]

    def dump(self, value: Any) -> Any:
        """Nothing: sockets, clients and secrets may live here."""
        return EMPTY
