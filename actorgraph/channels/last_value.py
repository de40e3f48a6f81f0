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

from actorgraph.channels.base import Channel, T
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
