"""Coordination with other systems over the same saver.

CancelWatch   cancels runs of this system whose cancellation another process has requested
TurnWatch     begins runs that wait for another system, when their thread is free

Both poll the store until cancelled; a poll that fails is followed by the next one.
"""

from collections.abc import Callable

import anyio

from actorgraph.errors import CheckpointError
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.log import event as log_event
from actorgraph.values.systems import ListRuns, RunRow, SetRun

LOOKS = 3
"""Polls per lease."""


class CancelWatch:
    """Cancels the runs that another process has requested this system to cancel.

    Args:
        lease_s: seconds of a lease; it polls three times in each.
        owner: returns the system's owner id, which changes when its lease is lost.
        cancel: cancels a run, with a reason; returns whether the system knows the run.
    """

    def __init__(
        self,
        host: Host,
        lease_s: float,
        *,
        owner: Callable[[], bytes],
        cancel: Callable[[bytes, str], bool],
    ) -> None:
        self._host = host
        self._pause_s = lease_s / LOOKS
        self._owner = owner
        self._cancel = cancel

    async def serve(self) -> None:
        """Poll until cancelled."""
        while True:
            await anyio.sleep(self._pause_s)
            try:
                await self.look()
            except CheckpointError as error:
                log_event("warning", "cancels.not_read", error=repr(error))

    async def look(self) -> None:
        """Cancel the runs whose cancellation is requested now.

        Raises:
            StorageError: the store can't be read.
        """
        owner = self._owner()
        rows: list[RunRow] = await self._host.reader.ask(ListRuns(asked_of=owner))
        for row in rows:
            reason = row.cancel or ""
            # Open in the store but unknown here: it is over, and its end could not be stored.
            if not self._cancel(row.run, reason):
                request = SetRun(row.run, row.thread_id, owner, "cancelled", reason)
                await self._host.writer.store(request)
