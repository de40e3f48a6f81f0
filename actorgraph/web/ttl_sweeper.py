"""TtlSweeper: deletes or reduces threads whose time to live is over."""

from datetime import datetime

import anyio

from actorgraph.errors import SystemClosedError
from actorgraph.runtime.log import event
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.superstep.snapshot import iso
from actorgraph.values.commits import ListCheckpoints
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web.jobs.thread_ttls import StoredTtl
from actorgraph.web.requests.endpoint import Server
from actorgraph.web.requests.thread_state import remove_thread

SWEEP_S = 60.0
"""Seconds between two sweeps."""


class TtlSweeper:
    """Sweeps the threads of one server.

    Args:
        server: whose threads.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._again = 0.0

    async def look(self, now: datetime) -> float:
        """Sweep once in `SWEEP_S`; returns the seconds until the next sweep."""
        left = self._again - anyio.current_time()
        if left > 0:
            return left
        await self.sweep(now)
        self._again = anyio.current_time() + SWEEP_S
        return SWEEP_S

    async def sweep(self, now: datetime) -> None:
        """Sweep every thread whose time is over; one that has an open run is kept."""
        for thread_id, ttl in (await self._server.ttls.all()).items():
            try:
                await self._sweep(thread_id, ttl, now)
            except SystemClosedError:
                raise
            except Exception as error:  # noqa: BLE001 - the others are swept; a later sweep tries
                event("warning", "web.thread_not_swept", thread=thread_id, error=str(error))

    async def _sweep(self, thread_id: str, ttl: StoredTtl, now: datetime) -> None:
        server = self._server
        thread = await server.threads.get(thread_id)
        if thread is None:
            await server.ttls.remove(thread_id)
            return
        if not ttl.is_over(thread.updated_at, now):
            return
        if await server.system.runs(thread_id=thread_id, statuses=OPEN_STATUSES):
            return
        query = ListCheckpoints(thread_id=thread_id, namespace="", limit=1, bare=True)
        (newest,) = await host_of(server.saver).reader.ask(query) or (None,)
        changed = "" if newest is None else iso(newest.row.created)
        if changed and not ttl.is_over(max(changed, thread.updated_at), now):
            return
        event("info", "web.thread_swept", thread=thread_id, strategy=ttl.strategy)
        if ttl.strategy == "delete":
            await remove_thread(server, thread_id)
            return
        await server.saver.aprune([thread_id], strategy="keep_latest")
        await server.ttls.put(thread_id, StoredTtl(ttl.minutes, ttl.strategy, now.isoformat()))
