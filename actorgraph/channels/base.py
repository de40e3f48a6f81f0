"""The contract of a channel: a rule that folds writes into one cell.

A rule is stateless and shared by all runs. Each method takes the cell's value, or EMPTY, and
returns the new one; UNCHANGED means that the cell's version must not rise.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from actorgraph.channels.overriding import check_channel

T = TypeVar("T")


class _Mark:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __copy__(self) -> "_Mark":
        return self

    def __deepcopy__(self, memo: object) -> "_Mark":
        return self

    def __reduce__(self) -> str:
        return self._name


EMPTY: Final[Any] = _Mark("EMPTY")
"""The value of a cell that has never been written, or has been cleared."""

UNCHANGED: Final[Any] = _Mark("UNCHANGED")
"""What a rule returns when the cell stays as it is."""


class Channel(Generic[T]):
    """One cell's rule. Subclasses say how writes fold; all else has a default.

    Args:
        typ: the annotated type of the value, for schemas and for reducers' first values.
    """

    stored: bool = True
    """Whether checkpoints hold the value."""

    clears: bool = False
    """Whether a superstep without a write changes the cell (see `idle`)."""

    consumable: bool = False
    """Whether a subscriber's run changes the cell (see `consume`)."""

    finishes: bool = False
    """Whether the end of a run changes the cell (see `finish`)."""

    appends: bool = False
    """Whether a list in this cell is expected to grow at its end."""

    transparent: bool = True
    """Whether readers see the cell's value as it is (else `read` decides)."""

    delta: bool = False
    """Whether checkpoints hold the writes rather than the value."""

    refolds: bool = False
    """Whether a stored value and the writes since then give the value again."""

    stamp: Callable[[Any, str], Any] | None = None
    """Completes a write before it is stored, given a seed that says where it stands."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a subclass with methods that nothing would call.

        Raises:
            GraphBuildError: see `overriding.check_channel`.
        """
        super().__init_subclass__(**more)
        check_channel(cls)

    def __init__(self, typ: Any = Any) -> None:
        self.typ = typ

    def initial(self) -> Any:
        """The value that a cell has before its first write; EMPTY for most rules."""
        return EMPTY

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Fold one superstep's writes, in task-path order, into the cell.

        Args:
            name: the channel's name, for errors.
            value: the cell before; not modified unless the user's reducer does so.
            writes: at least one.
        Returns: the new value, EMPTY to clear, or UNCHANGED.
        Raises:
            InvalidUpdateError: the rule can't take these writes together.
        """
        raise NotImplementedError

    def read(self, value: Any) -> Any:
        """What a reader sees of a cell, or EMPTY when it is not available."""
        return value

    def idle(self, value: Any) -> Any:
        """The cell after a superstep in which nobody wrote it."""
        return UNCHANGED

    def consume(self, value: Any) -> Any:
        """The cell after a node that it triggers has run."""
        return UNCHANGED

    def finish(self, value: Any) -> Any:
        """The cell when the run would end if it did not change."""
        return UNCHANGED

    def dump(self, value: Any) -> Any:
        """What a checkpoint holds for a cell; EMPTY for nothing."""
        return value

    def load(self, stored: Any) -> Any:
        """The inverse of `dump`."""
        return stored

    def annotated(self, typ: Any) -> "Channel[Any]":
        """The rule for `Annotated[typ, rule]`."""
        return self

    def same_rule(self, other: "Channel[Any]") -> bool:
        """Whether two schemas that name this channel mean the same rule."""
        return type(self) is type(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self.typ, '__name__', self.typ)})"
