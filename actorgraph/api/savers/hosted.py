"""HostedSaver: the class behind every saver that programs open.

It combines a storage backend from `savers/` (the port: open, commit, query, close) with
LangGraph's methods and maintenance, and lets the actors of `runtime/` host it. Use a saver with
`async with`, with `with`, or with neither: `runtime/saver/hosting.py` has the loop that then hosts
it.

Subclasses: a run hands rows to the port and calls none of LangGraph's methods, so an override of
one would never be called. A saver of such a class is therefore run through those methods, like
savers of LangGraph's interface. Overrides that can't be called that way are refused when the
class is defined.
"""

from types import TracebackType
from typing import Any, Self, cast

from actorgraph.api.blocking import may_block
from actorgraph.api.savers.base_saver import BaseCheckpointSaver
from actorgraph.api.savers.checkpoint_methods import CheckpointMethods
from actorgraph.api.savers.maintenance import MaintenanceMethods
from actorgraph.api.savers.thread_methods import ThreadMethods
from actorgraph.codec import Codec
from actorgraph.codec.serializers import Named, classes_named
from actorgraph.errors import GraphBuildError, RunningLoopError
from actorgraph.errors.excerpts import address_text
from actorgraph.errors.overrides import (
    check_names,
    is_own_class,
    overridden_methods,
    overrides_sync,
)
from actorgraph.ports import Saver
from actorgraph.runtime.saver.hosting import OpenedSaver, close_hosted, mark_closed, open_hosted
from actorgraph.runtime.saver.statistics import PersistenceStatistics
from actorgraph.savers.memory.saver import MemoryBackend

RUN_METHODS = ("get_tuple", "list", "put", "put_writes", "get_next_version")
"""The saver methods that LangGraph's runs call; each but the last has an async version."""

_ALONE = (*RUN_METHODS, "get")
"""Methods of which the sync form alone may be overridden; only programs call `get`."""

_TWINS = {"commit": ["commit_now"], "query": ["query_now"], "open": [], "close": []}
"""Port method -> the methods that an `immediate` saver is called by instead."""


def replaced_in_runs(kind: type) -> list[str]:
    """Return the overridden methods that a run over the port would not call."""
    if is_own_class(kind):
        return []
    return overridden_methods(kind, [form for name in RUN_METHODS for form in (name, f"a{name}")])


def check_subclass(kind: type) -> None:
    """Refuse an override that would never be called; make the other overrides effective.

    Raises:
        GraphBuildError: a sync method is overridden whose async version would be called.
    """
    if is_own_class(kind):
        return
    for name in dir(kind):
        if name in _ALONE or name.startswith("_"):
            continue
        if overrides_sync(kind, name):
            raise GraphBuildError(
                f"{kind.__name__} overrides {name}(), which async code and servers never call: "
                f"they call a{name}()",
                do=f"override a{name}() instead: {name}() calls it",
            )
    for name, at_once in _TWINS.items():
        if overridden_methods(kind, [name]) and not overridden_methods(
            kind, [*at_once, "immediate"]
        ):
            # An immediate saver is called by `commit_now` and `query_now`, not by the override.
            kind.immediate = False


class HostedSaver(CheckpointMethods, ThreadMethods, MaintenanceMethods):
    """The base class of savers: opening, closing, and all methods that programs call.

    A subclass has the methods of `actorgraph.ports.Saver` (`open`, `commit`, `query`, `close`,
    `durable`, `immediate`), its own or those of a second base class.

    Attributes:
        codec: encodes and decodes the stored values; default `Codec()`.
    """

    codec = Codec()
    __opened: OpenedSaver | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a subclass with an override that would never be called, or that breaks a method.

        Raises:
            GraphBuildError: see `check_subclass` and `check_names`.
        """
        super().__init_subclass__(**more)
        check_subclass(cls)
        check_names(cls, HostedSaver.__mro__)

    def __repr__(self) -> str:
        """Return the class and the place, without passwords and keys."""
        held = vars(self)
        place, inner = held.get("path"), held.get("saver")
        if isinstance(held.get("conninfo"), str):
            place = address_text(held["conninfo"])
        text = f" {place!r}" if place else f" around {inner!r}" if inner is not None else ""
        return f"<{type(self).__name__}{text}>"

    async def __aenter__(self) -> Self:
        """Open the saver in this event loop.

        Raises:
            StorageError: it can't be opened.
            SaverClosedError: it is open already.
        """
        mark_closed(cast("Saver", self), left=False)
        opened = OpenedSaver(cast("Saver", self))
        await opened.enter()
        self.__opened = opened
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Store queued requests and close, within the drain's deadline, even when cancelled."""
        mark_closed(cast("Saver", self), left=True)
        opened, self.__opened = self.__opened, None
        if opened is not None:
            await opened.exit(kind, error, trace)

    def __enter__(self) -> Self:
        """Open the saver for sync code: a background thread of the process hosts it.

        Raises:
            RunningLoopError: called inside a running event loop; use `async with` there. In the
                cells of a notebook it is allowed.
            StorageError: it can't be opened.
        """
        if not may_block():
            raise RunningLoopError(
                "`with saver` would block the running event loop", do="use `async with saver`"
            )
        mark_closed(cast("Saver", self), left=False)
        open_hosted(cast("Saver", self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Store queued requests and close."""
        mark_closed(cast("Saver", self), left=True)
        self.close_blocking()

    def close_blocking(self) -> None:
        """Close a saver that was used without `async with`. It may be used again afterwards."""
        close_hosted(cast("Saver", self))

    @property
    def serde(self) -> Codec:
        """The codec, under LangGraph's name: it has `dumps_typed` and `loads_typed`."""
        return cast("Any", self).codec

    def with_allowlist(self, extra_allowlist: Named) -> Self:
        """Let the codec store and read more classes, and return this saver.

        Args:
            extra_allowlist: classes, or (module, name) of them; those of a graph's state are let
                in by `compile`.
        Raises:
            InvalidConfigError: one doesn't exist.
        """
        own: Any = self
        own.codec = own.codec.with_types(classes_named(extra_allowlist))
        return self

    def statistics(self) -> PersistenceStatistics:
        """Return the statistics of the saver's persistence actor."""
        return self._host().writer.statistics()


# A program may ask for the class whose methods these savers have.
BaseCheckpointSaver.register(HostedSaver)


class InMemorySaver(HostedSaver, MemoryBackend):
    """Keeps checkpoints in this process: for tests, demos, and threads that may end with it.

    Args:
        codec: how values are stored; default one with no types beyond the graph's own. A
            serializer of LangGraph's kind, with `dumps_typed` and `loads_typed`, will do.
        copy: "codec" (default): values are encoded, so that a saver in memory refuses those that
            others can't store. "none": the objects themselves are kept, of any type, until the
            saver is freed; a node that changes one later changes the saved one.
        serde: LangGraph's name for `codec`; its own serializers are taken for codecs.
    Raises:
        InvalidConfigError: `copy` is unknown, or "none" together with a codec.
    """


MemorySaver = InMemorySaver

__all__ = ["HostedSaver", "InMemorySaver", "MemorySaver"]
