"""BaseChannel: a channel that holds its own value, the way LangGraph's are written.

A class of a program's own may be a `Channel`, a rule that gets the value and returns the new one,
or a `BaseChannel`, an object that is updated. The second kind is run by `Stateful`, a rule whose
cell is such an object: it is copied before each update, so that a superstep that fails leaves
the state as it was, and a checkpoint holds what `checkpoint()` returns.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, Generic, Self, TypeVar

from actorgraph.channels.base import EMPTY, UNCHANGED, Channel
from actorgraph.errors import EmptyChannelError

Value = TypeVar("Value")
Update = TypeVar("Update")
Stored = TypeVar("Stored")

MISSING: Any = EMPTY
"""What `from_checkpoint` gets when nothing is stored, and `checkpoint` returns for nothing."""


class BaseChannel(Generic[Value, Update, Stored]):
    """Base of channels that hold their value. Subclasses write at least the first three methods.

    Args:
        typ: the annotated type of the value.
        key: the channel's name; set by the graph.
    """

    def __init__(self, typ: Any = Any, key: str = "") -> None:
        self.typ = typ
        self.key = key

    def from_checkpoint(self, checkpoint: Stored | Any) -> Self:
        """A new channel like this one, with what was stored; MISSING for an empty one."""
        raise NotImplementedError

    def update(self, values: Sequence[Update]) -> bool:
        """Take one superstep's writes, in task-path order; none in a superstep without any.

        Returns: whether the channel has changed.
        Raises:
            InvalidUpdateError: it can't take these writes together.
        """
        raise NotImplementedError

    def get(self) -> Value:
        """The value that readers see.

        Raises:
            EmptyChannelError: there is none.
        """
        raise NotImplementedError

    def checkpoint(self) -> Stored | Any:
        """What to store: by default the value, MISSING for nothing."""
        try:
            return self.get()
        except EmptyChannelError:
            return MISSING

    def copy(self) -> Self:
        """A channel that can be updated without a change to this one."""
        return self.from_checkpoint(self.checkpoint())

    def is_available(self) -> bool:
        """Whether there is a value to read."""
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    def consume(self) -> bool:
        """A node that the channel triggers has run. Returns: whether it has changed."""
        return False

    def finish(self) -> bool:
        """The run would end now. Returns: whether it has changed."""
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
        model: the channel that the program has declared; never updated itself.
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
        """A new channel, if it has a value from the start."""
        made = self.load(MISSING)
        return made if made.is_available() else EMPTY

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """The channel updated with the writes."""
        live = self._copied(value)
        return live if live.update(list(writes)) else UNCHANGED

    def read(self, value: Any) -> Any:
        """The channel's value, or EMPTY."""
        if value is EMPTY:
            return EMPTY
        try:
            return value.get()
        except EmptyChannelError:
            return EMPTY

    def idle(self, value: Any) -> Any:
        """The channel after an update without writes."""
        if value is EMPTY or not value.is_available():
            return UNCHANGED
        live = self._copied(value)
        return live if live.update([]) else UNCHANGED

    def consume(self, value: Any) -> Any:
        """The channel after its subscriber has run."""
        live = self._copied(value)
        return live if live.consume() else UNCHANGED

    def finish(self, value: Any) -> Any:
        """The channel at the run's end."""
        live = self._copied(value)
        return live if live.finish() else UNCHANGED

    def dump(self, value: Any) -> Any:
        """What the channel says is to be stored."""
        return value.checkpoint()

    def load(self, stored: Any) -> Any:
        """The channel again."""
        made = self.model.from_checkpoint(stored)
        made.key = self.model.key
        return made

    def same_rule(self, other: Channel[Any]) -> bool:
        """Whether the other one runs an equal channel, or one of the same class and type."""
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
    """The rule that a channel, or a class of channels, stands for; None if it is no such thing.

    Args:
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
