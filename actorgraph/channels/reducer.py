"""Reducers: BinaryOperatorAggregate, the rule of `Annotated[T, f]`, and DeltaChannel.

BinaryOperatorAggregate folds each write with f, and checkpoints hold the value. DeltaChannel folds
all writes of a superstep with one call, and most checkpoints hold no value: the writes are stored
anyway, as pending writes.
"""

from collections.abc import Callable, MutableMapping, MutableSequence, MutableSet, Sequence
from collections.abc import Mapping as AbstractMapping
from collections.abc import Set as AbstractSet
from copy import copy
from typing import Any, get_origin

from actorgraph.channels.base import EMPTY, Channel, T
from actorgraph.errors import ErrorCode, InvalidUpdateError, SchemaError
from actorgraph.messages.stamps import stamp_objects
from actorgraph.values.commands import Overwrite, overwritten

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
        self.keeps_finished = getattr(operator, "keeps_finished", False)
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
        if value is EMPTY and self.stamp is not None:
            value = []  # of messages: the first write is merged as any other
        for write in writes:
            value = write if value is EMPTY else operator(value, write)
        return value

    def same_rule(self, other: Channel[Any]) -> bool:
        """Whether the other channel has the same operator."""
        return isinstance(other, BinaryOperatorAggregate) and self.operator is other.operator


SUPERSTEPS_MAX = 5_000


class DeltaChannel(Channel[T]):
    """Folds the writes of a superstep with ONE call, and stores the writes instead of the value.

    The value is stored whole now and then; at any other checkpoint it is the nearest whole value
    with the writes since then folded in.

    Args:
        reducer: takes the value and a list of writes, returns the new value. It must be
            deterministic, and give the same value whether writes come in one list or in several:
            `reducer(reducer(v, xs), ys) == reducer(v, xs + ys)`. It must not change `v`.
        typ: the annotated type; called without arguments it makes the first value. Taken from the
            annotation in `Annotated[list[str], DeltaChannel(f)]`.
        snapshot_frequency: the whole value is stored after so many supersteps that write it.
        supersteps_max: the whole value is stored at the latest after so many supersteps.
    Raises:
        SchemaError: one of these numbers is not positive.
    """

    appends = True
    delta = True
    refolds = True

    def __init__(
        self,
        reducer: Callable[[Any, list[Any]], Any],
        typ: Any = list,
        *,
        snapshot_frequency: int = 100,
        supersteps_max: int = SUPERSTEPS_MAX,
    ) -> None:
        if snapshot_frequency <= 0 or supersteps_max <= 0:
            raise SchemaError(
                f"snapshot_frequency must be a positive int, got {snapshot_frequency}"
                if snapshot_frequency <= 0
                else f"supersteps_max must be a positive int, got {supersteps_max}",
                do="leave it out for the default, or pass 1 to store every value",
            )
        super().__init__(typ)
        self.reducer = reducer
        self.snapshot_frequency = snapshot_frequency
        self.supersteps_max = supersteps_max
        # Reducers of packages leave it to the runtime to give messages their ids.
        self.stamp = getattr(getattr(reducer, "func", reducer), "stamp", stamp_objects)
        self._declare(typ)

    def _declare(self, typ: Any) -> None:
        self.typ = typ
        self._make = concrete(get_origin(typ) or typ)

    def annotated(self, typ: Any) -> "DeltaChannel[T]":
        """Copy the rule for the annotated type."""
        made = copy(self)  # keeps the class, which may be a program's subclass
        made._declare(typ)  # noqa: SLF001 - its own copy
        return made

    def initial(self) -> Any:
        """Make `typ()`, anew for each run, or EMPTY if it can't be called."""
        try:
            return self._make()
        except Exception:  # noqa: BLE001 - a type may raise anything
            return EMPTY

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Fold all writes with one call of the reducer; an Overwrite replaces the value."""
        if any(map(has_overwrite, writes)):
            replaced = the_overwrite(name, writes)
            return self.initial() if replaced is None else replaced
        return self.reducer(self.initial() if value is EMPTY else value, list(writes))

    def same_rule(self, other: Channel[Any]) -> bool:
        """Whether the other channel has the same reducer and `snapshot_frequency`."""
        return (
            isinstance(other, DeltaChannel)
            and self.reducer is other.reducer
            and self.snapshot_frequency == other.snapshot_frequency
        )
