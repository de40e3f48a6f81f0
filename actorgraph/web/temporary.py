"""Temporary threads: created for one run, and removed when it has ended."""

from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import anyio

from actorgraph.api.runs import Run, StoredRun
from actorgraph.api.system import ActorSystem
from actorgraph.errors import ActorGraphError
from actorgraph.runtime.log import event
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web.registry import Registry

YOUNG_S = 60.0
"""Age in seconds below which a thread without a run is kept: its run may be about to start."""


class TemporaryThreads:
    """Removes the temporary threads of one server after their runs.

    The registry marks them, so that a thread whose process died between its run's end and the
    removal is swept by a later process.

    Args:
        system: of the runs.
        threads: where the threads are registered.
    """

    def __init__(self, system: ActorSystem, threads: Registry) -> None:
        self._system = system
        self._threads = threads
        self._watched: set[str] = set()
        _BY_SYSTEM.setdefault(system, WeakSet()).add(self)

    def remove_after(self, run: Run) -> None:
        """Remove a run's thread when the run has ended."""
        if run.thread_id not in self._watched:
            self._watched.add(run.thread_id)
            self._system.spawn(self._remove_after, run)

    async def sweep(self) -> None:
        """Remove the temporary threads that other processes have left."""
        for thread in await self._threads.temporary():
            age = datetime.now(UTC) - datetime.fromisoformat(thread.created_at)
            if thread.thread_id in self._watched or age < timedelta(seconds=YOUNG_S):
                continue
            runs = await self._system.runs(thread_id=thread.thread_id, statuses=OPEN_STATUSES)
            if not runs:
                await self._remove(thread.thread_id)
            elif not isinstance(runs[-1], StoredRun):  # a StoredRun belongs to another process
                self.remove_after(runs[-1])

    async def _remove_after(self, run: Run) -> None:
        try:
            if await run.wait() not in OPEN_STATUSES:  # still open: this system is closing
                await self._remove(run.thread_id)
        except ActorGraphError as error:  # the next sweep tries again
            event("warning", "web.thread_not_removed", thread=run.thread_id, error=str(error))
        finally:
            self._watched.discard(run.thread_id)

    async def _remove(self, thread_id: str) -> None:
        saver: Any = self._system.saver
        await saver.adelete_thread(thread_id)
        await self._threads.forget(thread_id)


async def sweep_forever(system: ActorSystem) -> None:
    """Sweep at once and then every `YOUNG_S`, until cancelled."""
    while True:
        for one in list(_BY_SYSTEM.get(system, ())):
            try:
                await one.sweep()
            except Exception as error:  # noqa: BLE001 - the store may be available the next time
                event("warning", "web.not_swept", error=repr(error))
        await anyio.sleep(YOUNG_S)


_BY_SYSTEM: WeakKeyDictionary[ActorSystem, WeakSet[TemporaryThreads]] = WeakKeyDictionary()
