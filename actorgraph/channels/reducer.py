"""Reducers: BinaryOperatorAggregate, the rule of `Annotated[T, f]`, and DeltaChannel.

BinaryOperatorAggregate folds each write with f, and checkpoints hold the value. DeltaChannel folds
all writes of a superstep with one call, and most checkpoints hold no value: the writes are stored
anyway, as pending writes.
"""

from collections.abc import Callable, MutableMapping, MutableSequence, MutableSet, Sequence
from collections.abc import Mapping as AbstractMapping
from collections.abc import Set as AbstractSet
from typing import Any, get_origin

from actorgraph.channels.base import EMPTY, Channel, T
from actorgraph.errors import ErrorCode, InvalidUpdateError
from actorgraph.values.overwrite import Overwrite, overwritten

_CONCRETE: dict[Any, type] = {
    Sequence: list,
    MutableSequence: list,
    AbstractSet: set,
    MutableSet: set,
    AbstractMapping: dict,
    MutableMapping: dict,
}


_MAYBE_OVERWRITE = (Overwrite, dict)


def concrete(typ: Any) -> Callable[[], Any]:
    """Return the factory of a type's first value: for an abstract type the usual concrete one."""
    return _CONCRETE.get(typ) or typ


def has_overwrite(write: Any) -> bool:
    """Whether a write is an Overwrite in one of its forms."""
    return type(write) in _MAYBE_OVERWRITE and overwritten(write)[0]


def the_overwrite(name: str, writes: Sequence[Any]) -> Any:
    """Return the value of the one Overwrite among some writes.

    Raises:
        InvalidUpdateError: there are several Overwrites.
    """
    found = [value for is_one, value in map(overwritten, writes) if is_one]
    if len(found) > 1:
        raise InvalidUpdateError(
            f"At key {name!r}: can receive only one Overwrite value per superstep, got "
            f"{len(found)}",
            do="let one node overwrite, or let the nodes run one after another",
            code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
        )
    return found[0]


class BinaryOperatorAggregate(Channel[T]):
    """Folds writes into the value with `operator(value, write)`, left to right.

    The value before the first write is `typ()` where that can be called (an abstract
    Sequence, Set or Mapping counts as list, set or dict); else the first write is the value.

    Args:
        operator: takes the value and one write, returns the new value. It may change its first
            argument in place: checkpoints are encoded before the next task starts, so older ones
            don't change.
    """

    appends = True
    refolds = True

    def __init__(self, typ: Any, operator: Callable[[Any, Any], Any]) -> None:
        super().__init__(typ)
        self.operator = operator
        self.stamp = getattr(getattr(operator, "func", operator), "stamp", None)
        self._make = concrete(get_origin(typ) or typ)

    def initial(self) -> Any:
        """Make `typ()`, anew for each run, or EMPTY if it can't be called."""
        try:
            return self._make()
        except Exception:  # noqa: BLE001 - a type may raise anything
            return EMPTY

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Fold each write, in task-path order; an Overwrite replaces the value."""
        operator = self.operator
        if any(map(has_overwrite, writes)):
            return the_overwrite(name, writes)
        for write in writes:
            value = write if value is EMPTY else operator(value, write)
        return value

    def same_rule(self, other: Channel[Any]) -> bool:
        """Whether the other channel has the same operator."""
        return isinstance(other, BinaryOperatorAggregate) and self.operator is other.operator
