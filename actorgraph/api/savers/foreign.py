"""ForeignSaver: adapts a saver of LangGraph's interface to the port."""

import threading
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

from actorgraph.api.savers.hosted import RUN_METHODS, HostedSaver, replaced_in_runs
from actorgraph.codec import Codec
from actorgraph.errors import ForeignSaverWarning, GraphBuildError
from actorgraph.errors.overrides import overrides_sync
from actorgraph.errors.warning_places import warn
from actorgraph.savers.foreign.methods import missing_methods
from actorgraph.savers.foreign.saver import LIMITS, ForeignBackend

_WARNED: WeakSet[type] = WeakSet()
_LOCK = threading.Lock()


class ForeignSaver(HostedSaver, ForeignBackend):
    """Makes a saver of LangGraph's interface a checkpointer; `compile` does so automatically.

    See `limits` for the guarantees that it lacks. Of two runs of this process on one thread one
    gets a ConflictError; runs of other processes are detected only when a run begins.

    Args:
        saver: an object with `put`, `put_writes`, `get_tuple` and `list`, or their async
            versions.
    Attributes:
        saver: that object.
        limits: the guarantees that it lacks, a few words each.
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
                do="give the class these methods, or their async versions (aget_tuple, ...)",
            )
        super().__init__(saver)
        self._calls.blocking_first = frozenset(
            name for name in RUN_METHODS if overrides_sync(type(saver), name)
        )
        with _LOCK:
            known = type(saver) in _WARNED
            _WARNED.add(type(saver))
        if not known:
            warn(_limited(type(saver)), ForeignSaverWarning)

    def learn(self, types: Iterable[type]) -> None:
        """Let the serializer of the adapted saver store and read a graph's types, if it is ours."""
        saver: Any = self.saver
        serde: Any = None if isinstance(saver, HostedSaver) else getattr(saver, "serde", None)
        if isinstance(saver, HostedSaver):
            saver.codec = saver.codec.with_types(types)
        elif isinstance(serde, Codec):
            saver.serde = serde.with_types(types)
        elif hasattr(serde, "learn"):  # of the layer; the saver's parts may have it, too
            serde.learn(types)

    def __repr__(self) -> str:
        return f"ForeignSaver({self.saver!r})"


def _limited(kind: type) -> str:
    """Return the text of the warning about a class."""
    limits = f"works as a checkpointer with LangGraph's guarantees: {', '.join(LIMITS)}"
    if not issubclass(kind, HostedSaver):
        do = "nothing, or move its threads to one of actorgraph's savers; see docs/migrating.md"
        return f"{kind.__name__} {limits}\n  Do this: {do}"
    names = ", ".join(replaced_in_runs(kind))
    return (
        f"{kind.__name__} overrides {names}, so it {limits}\n"
        "  Do this: nothing; or, to keep actorgraph's guarantees, wrap a saver to watch or limit "
        "it (docs/operations.md), or override its commit() and query()"
    )
