"""Topic: a list of the values written to it, for the next superstep or for good."""

from collections.abc import Iterable, Sequence
from typing import Any, Union

from actorgraph.channels.base import EMPTY, UNCHANGED, Channel, T


class Topic(Channel[Sequence[T]]):
    """Collects the values written to it; a written list adds each of its items.

    The cell is a list, or with `unique` a pair `(values, seen)`, which is what a checkpoint
    holds too: a value seen before a restart is dropped after it.

    Args:
        accumulate: keep values across supersteps (default: only the last superstep's).
        unique: drop values that have been published before; they must be hashable.
    """

    def __init__(self, typ: Any = Any, accumulate: bool = False, unique: bool = False) -> None:
        super().__init__(typ)
        self.accumulate = accumulate
        self.unique = unique
        self.clears = not accumulate or type(self).clears
        self.appends = accumulate and not unique
        self.transparent = not unique and type(self).transparent

    @property
    def ValueType(self) -> Any:  # noqa: N802 - LangGraph's name
        """A sequence of the declared type."""
        return Sequence[self.typ]

    @property
    def UpdateType(self) -> Any:  # noqa: N802 - LangGraph's name
        """One value, or a list of them."""
        return Union[self.typ, list[self.typ]]  # noqa: UP007

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Collect the values in task-path order, after the kept ones when accumulating."""
        new = _flatten(writes)
        if self.unique:
            return self._fold_unique(value, new)
        fresh = list(new)
        if not fresh:
            return UNCHANGED if self.accumulate or value is EMPTY else EMPTY
        return [*value, *fresh] if self.accumulate and value is not EMPTY else fresh

    def _fold_unique(self, value: Any, new: Iterable[Any]) -> Any:
        old, seen = ([], frozenset[Any]()) if value is EMPTY else value
        fresh = [item for item in dict.fromkeys(new) if item not in seen]
        if not fresh:
            return UNCHANGED if self.accumulate else ([], seen)
        return ([*old, *fresh] if self.accumulate else fresh, seen | set(fresh))

    def read(self, value: Any) -> Any:
        """Return the list of values; EMPTY for an empty one."""
        if value is EMPTY:
            return EMPTY
        values = value[0] if self.unique else value
        return values or EMPTY

    def idle(self, value: Any) -> Any:
        """Clear the values unless they accumulate; those seen are remembered."""
        if self.accumulate or value is EMPTY:
            return UNCHANGED
        if not self.unique:
            return EMPTY
        return ([], value[1]) if value[0] else UNCHANGED

    def load(self, stored: Any) -> Any:
        """Restore the cell; a serializer may have made a list of a pair."""
        if not self.unique:
            return stored
        values, seen = stored
        return (values, frozenset(seen))


def _flatten(writes: Sequence[Any]) -> Iterable[Any]:
    for write in writes:
        if isinstance(write, list):
            yield from write
        else:
            yield write
