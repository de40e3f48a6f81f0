"""`ForeignSaver`: a saver that somebody else wrote, with the methods of ours."""

import threading
import warnings
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from actorgraph.api.overriding import RUN_METHODS, replaced_in_runs
from actorgraph.api.savers import HostedSaver
from actorgraph.errors import ForeignSaverWarning, GraphBuildError
from actorgraph.errors.replacing import prefers_blocking
from actorgraph.savers.foreign.backend import LIMITS, ForeignBackend
from actorgraph.savers.foreign.calls import missing_methods

_WARNED: WeakSet[type] = WeakSet()
_LOCK = threading.Lock()


class ForeignSaver(HostedSaver, ForeignBackend):
    """Makes a saver of LangGraph's interface a checkpointer; `compile` does it by itself.

    What such a saver can't promise: see `limits`. Of two runs of this process on one thread one
    gets a ConflictError; runs of other processes are noticed only when a run begins.

    Args:
        saver: an object with `put`, `put_writes`, `get_tuple` and `list`, or their async twins.
    Attributes:
        saver: that object.
        limits: what it can't promise, in a few words.
    Raises:
        GraphBuildError: its class lacks one of the methods.
    Warns:
        ForeignSaverWarning: once for each class.
    """

    limits = LIMITS

    def __init__(self, saver: Any) -> None:
        kind = type(saver).__name__
        if absent := missing_methods(saver):
            raise GraphBuildError(
                f"{kind} can't be a checkpointer: it has no {', '.join(absent)}",
                do="give the class these methods, or their async twins (aget_tuple, ...)",
            )
        super().__init__(saver)
        self._calls.blocking_first = frozenset(
            name for name in RUN_METHODS if prefers_blocking(type(saver), name)
        )
        with _LOCK:
            known = type(saver) in _WARNED
            _WARNED.add(type(saver))
        if not known:
            warnings.warn(_limited(type(saver)), ForeignSaverWarning, stacklevel=6)

    def learn(self, types: Iterable[type]) -> None:
        """Let a saver of ours, whose class overrides some methods, store the types of a graph."""
        if isinstance(self.saver, HostedSaver):
            saver: Any = self.saver
            saver.codec = saver.codec.with_types(types)

    def __repr__(self) -> str:
        return f"ForeignSaver({self.saver!r})"


def _limited(kind: type) -> str:
    """What a warning says of a class."""
    limits = f"works as a checkpointer with LangGraph's guarantees: {', '.join(LIMITS)}"
    if not issubclass(kind, HostedSaver):
        do = "nothing, or move its threads to one of actorgraph's savers; see docs/migrating.md"
        return f"{kind.__name__} {limits}\n  Do this: {do}"
    names = ", ".join(replaced_in_runs(kind))
    return (
        f"{kind.__name__} overrides {names}, so it {limits}\n"
        "  Do this: nothing; or, to keep actorgraph's guarantees, watch or limit a saver by one "
        "around it (docs/operations.md), or override its commit() and query()"
    )
