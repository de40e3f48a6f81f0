"""TtlSweeper: deletes or reduces threads whose time to live is over.

It keeps in memory when each thread has to be looked at, so a sweep reads those whose time has come
and not all. Times to live that other processes store are found by a page of all of them, which each
sweep reads in turn; the first sweep reads them all.
"""

from datetime import datetime, timedelta

import anyio

from actorgraph.errors import SystemClosedError
from actorgraph.internals import OPEN_STATUSES, ListCheckpoints, host_of, iso
from actorgraph.internals import log_event as event
from actorgraph.web.endpoints.endpoint import Server
from actorgraph.web.endpoints.thread_state import remove_thread
from actorgraph.web.jobs.due_times import DueTimes
from actorgraph.web.jobs.thread_ttls import StoredTtl

SWEEP_S = 60.0
"""Seconds between two sweeps."""
BUSY_MINUTES = 10.0
"""Minutes, at most, until a thread whose time is over under an open run is looked at again."""
_PAGE = 200


class TtlSweeper:
    """Sweeps the threads of one server.

    Args:
        server: whose threads.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._again = 0.0
        self._due = DueTimes()
        self._known: dict[str, StoredTtl] = {}
        self._read: int | None = None

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
        await self._find(now)
        for thread_id in self._due.due(now):
            try:
                again = await self._sweep(thread_id, now)
            except SystemClosedError:
                raise
            except Exception as error:  # noqa: BLE001 - the others are swept; a later sweep tries
                event("warning", "web.thread_not_swept", thread=thread_id, error=str(error))
                continue
            if again is None:
                self._due.drop(thread_id)
                self._known.pop(thread_id, None)
            else:
                self._due.set(thread_id, again)

    async def _find(self, now: datetime) -> None:
        """Let threads whose time to live is new or another one be due."""
        for thread_id in self._server.ttls.take_changed():
            self._due.set(thread_id, now)
        first = self._read is None
        while True:
            offset = self._read or 0
            page, count = await self._server.ttls.page(_PAGE, offset)
            for thread_id, ttl in page.items():
                if self._known.get(thread_id) != ttl:
                    self._known[thread_id] = ttl
                    self._due.set(thread_id, now)
            ended = count < _PAGE
            self._read = 0 if ended else offset + count
            if ended or not first:
                return

    async def _sweep(self, thread_id: str, now: datetime) -> datetime | None:
        """Sweep a thread if its time is over; returns when to look again, None for never."""
        server = self._server
        ttl = await server.ttls.get(thread_id)  # another process may have changed it
        if ttl is None:
            return None
        thread = await server.threads.get(thread_id)
        if thread is None:
            await server.ttls.remove(thread_id)
            return None
        if not ttl.is_over(thread.updated_at, now):
            return ttl.next_look(thread.updated_at, now)
        if await server.system.runs(thread_id=thread_id, statuses=OPEN_STATUSES):
            return now + timedelta(minutes=min(ttl.minutes, BUSY_MINUTES))
        query = ListCheckpoints(thread_id=thread_id, namespace="", limit=1, bare=True)
        (newest,) = await host_of(server.saver).reader.ask(query) or (None,)
        changed = "" if newest is None else iso(newest.row.created)
        changed = max(changed, thread.updated_at)
        if not ttl.is_over(changed, now):
            return ttl.next_look(changed, now)
        event("info", "web.thread_swept", thread=thread_id, strategy=ttl.strategy)
        if ttl.strategy == "delete":
            await remove_thread(server, thread_id)
            return None
        await server.saver.aprune([thread_id], strategy="keep_latest")
        await server.ttls.put(thread_id, StoredTtl(ttl.minutes, ttl.strategy, now.isoformat()))
        return now + timedelta(minutes=ttl.minutes)
