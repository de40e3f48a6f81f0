"""LastValue: the default rule. Keeps the newest value, from at most one writer a superstep."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels.base import Channel, T
from actorgraph.errors import ErrorCode, InvalidUpdateError


class LastValue(Channel[T]):
    """Keeps the last value written."""

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """The one write. Two writers in one superstep are refused: no order would be right."""
        if len(writes) != 1:
            raise InvalidUpdateError(
                f"At key {name!r}: can receive only one value per step, got {len(writes)}",
                do=f"give {name!r} a reducer that combines them, e.g. "
                "Annotated[list, operator.add], or let one node own it",
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
            )
        return writes[0]
