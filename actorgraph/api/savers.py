"""HostedSaver, the class behind every saver that programs open; and InMemorySaver."""

from types import TracebackType
from typing import Any, Self, cast

from actorgraph.api.blocking import may_block
from actorgraph.api.delta_history import DeltaHistoryMethods
from actorgraph.api.key_methods import KeyMethods
from actorgraph.api.overriding import check_subclass
from actorgraph.api.saver_methods import CheckpointMethods
from actorgraph.api.thread_methods import ThreadMethods
from actorgraph.api.upkeep_methods import MaintenanceMethods
from actorgraph.errors import RunningLoopError
from actorgraph.ports import Saver
from actorgraph.runtime.hosting import OpenedSaver, close_hosted, mark_closed, open_hosted
from actorgraph.runtime.persistence_statistics import PersistenceStatistics
from actorgraph.savers.memory import MemoryBackend


class HostedSaver(
    KeyMethods, CheckpointMethods, ThreadMethods, MaintenanceMethods, DeltaHistoryMethods
):
    """Opening, closing and statistics of a saver. Mixed into a backend with the port's methods."""

    _opened: OpenedSaver | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        """Refuse a subclass with an override that would never be called.

        Raises:
            GraphBuildError: see `overriding.check_subclass`.
        """
        super().__init_subclass__(**more)
        check_subclass(cls)

    async def __aenter__(self) -> Self:
        """Open the saver in this event loop.

        Raises:
            StorageError: it can't be opened.
            SaverClosedError: it is open already.
        """
        mark_closed(cast("Saver", self), left=False)
        opened = OpenedSaver(cast("Saver", self))
        await opened.enter()
        self._opened = opened
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Store what is queued and close, within the drain's deadline, even when cancelled."""
        mark_closed(cast("Saver", self), left=True)
        opened, self._opened = self._opened, None
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
        """Store what is queued and close."""
        mark_closed(cast("Saver", self), left=True)
        self.close_blocking()

    def close_blocking(self) -> None:
        """Close a saver that was used without `async with`. It may be used again afterwards."""
        close_hosted(cast("Saver", self))

    def statistics(self) -> PersistenceStatistics:
        """Return the statistics of the saver's persistence actor."""
        return self._host().writer.statistics()


class InMemorySaver(HostedSaver, MemoryBackend):
    """Keeps checkpoints in this process: for tests, demos, and threads that may end with it.

    Args:
        codec: how values are stored; default one with no types beyond the graph's own. A
            serializer of LangGraph's kind, with `dumps_typed` and `loads_typed`, will do.
        copy: "codec" (default): values are encoded, so that what can't be stored elsewhere is
            refused here too. "none": the objects themselves are kept, of any type, until the
            saver is freed; a node that changes one later changes what was saved.
    Raises:
        InvalidConfigError: `copy` is unknown, or "none" together with a codec.
    """


MemorySaver = InMemorySaver

__all__ = ["HostedSaver", "InMemorySaver", "MemorySaver"]
