"""Channel: the base class of rules that fold writes into one cell, and the check of subclasses.

A rule is stateless and shared by all runs. Each method takes the cell's value, or EMPTY, and
returns the new one; UNCHANGED means that the cell's version must not rise.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from actorgraph.errors import GraphBuildError
from actorgraph.errors.overrides import is_own_class
from actorgraph.errors.signatures import takes

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
"""The return value of a rule when the cell stays as it is."""


class Channel(Generic[T]):
    """The rule of one cell. Subclasses override `fold`; the other methods have defaults.

    Optional methods are called only where a flag is set, which spares most channels the calls. A
    subclass that overrides such a method gets its flag set.

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
    """Whether the value can be rebuilt from an older one and the writes since then."""

    stamp: Callable[[Any, str], Any] | None = None
    """Completes a write before it is stored: `(write, seed) -> write`; the seed is its place."""

    keeps_finished: bool = False
    """Whether a new input keeps what finished tasks wrote to the cell, when it drops the others."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a subclass with methods that would never be called.

        Raises:
            GraphBuildError: see `check_overrides`.
        """
        super().__init_subclass__(**more)
        check_overrides(cls)

    def __init__(self, typ: Any = Any) -> None:
        self.typ = typ

    @property
    def ValueType(self) -> Any:  # noqa: N802 - LangGraph's name
        """The type of the value."""
        return self.typ

    @property
    def UpdateType(self) -> Any:  # noqa: N802 - LangGraph's name
        """The type of a write."""
        return self.typ

    def initial(self) -> Any:
        """Make the value that a cell has before its first write; EMPTY for most rules."""
        return EMPTY

    def fold(self, name: str, value: Any, writes: Sequence[Any]) -> Any:
        """Fold one superstep's writes, in task-path order, into the cell.

        Args:
            name: the channel's name, for errors.
            value: the cell's value before; not modified unless the user's reducer does so.
            writes: at least one.
        Returns: the new value, EMPTY to clear, or UNCHANGED.
        Raises:
            InvalidUpdateError: the rule can't take these writes together.
        """
        raise NotImplementedError

    def read(self, value: Any) -> Any:
        """Return the value that readers see, or EMPTY while the cell is not available."""
        return value

    def idle(self, value: Any) -> Any:
        """Return the value after a superstep without a write to the cell."""
        return UNCHANGED

    def consume(self, value: Any) -> Any:
        """Return the value after a node that the cell triggers has run."""
        return UNCHANGED

    def finish(self, value: Any) -> Any:
        """Return the value when no node is due: a change may make one due before the run ends."""
        return UNCHANGED

    def dump(self, value: Any) -> Any:
        """Return the value to store in a checkpoint; EMPTY for none."""
        return value

    def load(self, stored: Any) -> Any:
        """Restore a value from the one that `dump` returned."""
        return stored

    def annotated(self, typ: Any) -> "Channel[Any]":
        """Return the rule for `Annotated[typ, rule]`."""
        return self

    def same_rule(self, other: "Channel[Any]") -> bool:
        """Whether two schemas with this key declare the same rule."""
        return type(self) is type(other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self.typ, '__name__', self.typ)})"


_FLAGS = {
    "consume": ("consumable", True),
    "finish": ("finishes", True),
    "idle": ("clears", True),
    "read": ("transparent", False),
}
_THEIRS = ("update", "get", "is_available", "checkpoint", "from_checkpoint")


def check_overrides(kind: type) -> None:
    """Refuse a subclass of a rule with methods that are never called; set its flags.

    Raises:
        GraphBuildError: it has LangGraph's methods, which belong to `BaseChannel`; or a method with
            a wrong signature; or `dump` or `load` although its values are not stored.
    """
    own = [each for each in kind.__mro__ if not is_own_class(each)]
    defined = {name: vars(each)[name] for each in reversed(own) for name in vars(each)}
    if theirs := [name for name in _THEIRS if name in defined and "fold" not in defined]:
        raise GraphBuildError(
            f"{kind.__name__} overrides {', '.join(theirs)}, which is never called: a "
            f"{_rule_of(kind)} of actorgraph is a rule without a value",
            do="override fold(name, value, writes), which returns the new value: "
            "`return super().fold(name, value, changed_writes)`; or derive the class from "
            "channels.BaseChannel, which has LangGraph's methods",
        )
    if not getattr(kind, "stored", True) and (stores := {"dump", "load"}.intersection(defined)):
        raise GraphBuildError(
            f"{kind.__name__} overrides {', '.join(sorted(stores))}, but its values are not stored",
            do="set stored = True in the class, or derive it from a channel that is stored",
        )
    for name, (flag, value) in _FLAGS.items():
        if name not in defined:
            continue
        if not _takes_value(defined[name]):
            raise GraphBuildError(
                f"{kind.__name__}.{name}() doesn't take the cell's value",
                do=f"write {name}(self, value), which returns the new value or UNCHANGED; or "
                "derive the class from channels.BaseChannel, which has LangGraph's methods",
            )
        if flag not in defined:
            setattr(kind, flag, value)


def _rule_of(kind: type) -> str:
    ours = (each for each in kind.__mro__ if is_own_class(each))
    return next(ours).__name__


def _takes_value(method: object) -> bool:
    return not inspect.isfunction(method) or takes(method, None, None)
