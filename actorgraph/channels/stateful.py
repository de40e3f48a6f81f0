"""BaseChannel: a channel that holds its own value, as LangGraph's do.

A program's own class may be a `Channel`, a rule that gets the value and returns the new one, or a
`BaseChannel`, an object that is updated. The second kind is run by `Stateful`, a rule whose cell is
such an object: it is copied before each update, so that a superstep that fails leaves the state as
it was, and a checkpoint holds the return value of `checkpoint()`.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, Generic, Self, TypeVar

from actorgraph.channels.base import EMPTY, UNCHANGED, Channel
from actorgraph.errors import EmptyChannelError

ValueT = TypeVar("ValueT")
UpdateT = TypeVar("UpdateT")
StoredT = TypeVar("StoredT")

MISSING: Any = EMPTY
"""No stored value: the argument of `from_checkpoint`, and the return value of `checkpoint`."""


class BaseChannel(Generic[ValueT, UpdateT, StoredT]):
    """Base of channels that hold their value. Subclasses write at least the first three methods.

    Args:
        typ: the annotated type of the value.
        key: the channel's name; set by the graph.
    """

    def __init__(self, typ: Any = Any, key: str = "") -> None:
        self.typ = typ
        self.key = key

    def from_checkpoint(self, checkpoint: StoredT | Any) -> Self:
        """Make a channel like this one with a stored value; with MISSING, an empty one."""
        raise NotImplementedError

    def update(self, values: Sequence[UpdateT]) -> bool:
        """Take one superstep's writes, in task-path order; [] in a superstep without any.

        Returns: whether the channel has changed.
        Raises:
            InvalidUpdateError: it can't take these writes together.
        """
        raise NotImplementedError

    def get(self) -> ValueT:
        """Return the value that readers see.

        Raises:
            EmptyChannelError: the channel has no value.
        """
        raise NotImplementedError

    def checkpoint(self) -> StoredT | Any:
        """Return the value to store: by default that of `get`, MISSING for none."""
        try:
            return self.get()
        except EmptyChannelError:
            return MISSING

    def copy(self) -> Self:
        """Copy the channel, so that an update of the copy doesn't change this one."""
        return self.from_checkpoint(self.checkpoint())

    def is_available(self) -> bool:
        """Whether there is a value to read."""
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    def consume(self) -> bool:
        """Handle the run of a node that the channel triggers. Returns: whether it has changed."""
        return False

    def finish(self) -> bool:
        """Handle the end of the run, when no node is due. Returns: whether it has changed."""
        return False

    @property
    def ValueType(self) -> Any:  # noqa: N802 - LangGraph's name
        """The type of the value."""
        return self.typ

    @property
    def UpdateType(self) -> Any:  # noqa: N802 - LangGraph's name
        """The type of a write."""
        return self.typ


AnyBase = BaseChannel[Any, Any, Any]


class Stateful(Channel[Any]):
    """The rule of a cell that is a BaseChannel.

    Args:
        model: the channel that the program has declared; copies of it are updated.
        key: the cell's name.
    """

    clears = True
    transparent = False

    def __init__(self, model: AnyBase, key: str = "") -> None:
        super().__init__(model.typ)
        self.model = copy(model)
        self.model.key = key or model.key
        kind = type(model)
        self.consumable = kind.consume is not BaseChannel.consume
        self.finishes = kind.finish is not BaseChannel.finish

    def initial(self) -> Any:
        """Make a new channel, or EMPTY if it has no first value."""
        made = self.load(MISSING)
        return made if made.is_available() else EMPTY

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Update a copy of the channel with the writes."""
        live = self._copied(value)
        return live if live.update(list(writes)) else UNCHANGED

    def read(self, value: Any) -> Any:
        """Read the channel's value, or EMPTY."""
        if value is EMPTY:
            return EMPTY
        try:
            return value.get()
        except EmptyChannelError:
            return EMPTY

    def idle(self, value: Any) -> Any:
        """Update a copy of the channel without writes."""
        if value is EMPTY or not value.is_available():
            return UNCHANGED
        live = self._copied(value)
        return live if live.update([]) else UNCHANGED

    def consume(self, value: Any) -> Any:
        """Let a copy of the channel handle the run of its subscriber."""
        live = self._copied(value)
        return live if live.consume() else UNCHANGED

    def finish(self, value: Any) -> Any:
        """Let a copy of the channel handle the end of the run."""
        live = self._copied(value)
        return live if live.finish() else UNCHANGED

    def dump(self, value: Any) -> Any:
        """Return the value that the channel stores."""
        return value.checkpoint()

    def load(self, stored: Any) -> Any:
        """Restore the channel."""
        made = self.model.from_checkpoint(stored)
        made.key = self.model.key
        return made

    def same_rule(self, other: Channel[Any]) -> bool:
        """Whether the other rule's channel is equal, or of the same class and type."""
        if not isinstance(other, Stateful):
            return False
        mine, its = self.model, other.model
        return mine == its or (type(mine) is type(its) and mine.typ == its.typ)

    def _copied(self, value: AnyBase) -> AnyBase:
        if value is EMPTY:
            return self.load(MISSING)
        live = value.copy()
        live.key = self.model.key
        return live


def as_rule(candidate: Any, typ: Any = None, key: str = "") -> Channel[Any] | None:
    """Make the rule of an annotation that is a channel or a class of channels; None otherwise.

    Args:
        candidate: any part of an annotation.
        typ: the annotated type; None for none.
        key: the channel's name.
    """
    if isinstance(candidate, Channel):
        return candidate if typ is None else candidate.annotated(typ)
    if isinstance(candidate, BaseChannel):
        return Stateful(candidate, key)
    if isinstance(candidate, type) and issubclass(candidate, Channel):
        return candidate(typ)
    if isinstance(candidate, type) and issubclass(candidate, BaseChannel):
        return Stateful(candidate(typ), key)
    return None
