"""CancelWatch: cancels the runs that another process has asked this system to cancel.

Receives   what the store has of such requests, three times per lease
Sends      cancellations to the system's actor
Ends       when cancelled; a look that fails is followed by the next one
"""

from collections.abc import Callable

import anyio

from actorgraph.errors import CheckpointError
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.log import event as log_event
from actorgraph.values.systems import ListRuns, RunRow, SetRun

LOOKS = 3
"""Looks per lease."""


class CancelWatch:
    """See the module's text.

    Args:
        owner: who the system is now.
        cancel: ends a run of it, with a reason; whether the system knows the run.
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
        """Look again and again, until cancelled."""
        while True:
            await anyio.sleep(self._pause_s)
            try:
                await self.look()
            except CheckpointError as error:
                log_event("warning", "cancels.not_read", error=repr(error))

    async def look(self) -> None:
        """Cancel what is asked for now.

        A run that the store has as open, and that isn't here, is over: its end wasn't stored.

        Raises:
            StorageError: the store can't be read.
        """
        owner = self._owner()
        rows: list[RunRow] = await self._host.reader.ask(ListRuns(asked_of=owner))
        for row in rows:
            reason = row.cancel or ""
            if not self._cancel(row.run, reason):
                request = SetRun(row.run, row.thread_id, owner, "cancelled", reason)
                await self._host.writer.store(request)
