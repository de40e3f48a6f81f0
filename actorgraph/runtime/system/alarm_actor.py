"""AlarmActor: looks at the open questions of threads when they want something.

The saver has the time of the next thing that each thread wants (`values/alarms.py`). The actor
reads the first of them, sleeps until it has come, or until this process stores an earlier one, and
takes those that have come, so that one of several systems looks at each. What to do then is
decided by `superstep/question_times.py`, and done by the system.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import anyio

from actorgraph.errors import ActorGraphError
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.saver.hosting import Host
from actorgraph.values.alarms import AlarmRow, ListAlarms, TakeAlarm
from actorgraph.values.commits import Commit, Committed

LOOK_S = 5.0
"""Seconds after which it reads again, for alarms that another process has stored."""
LEASE_S = 60.0
"""Seconds that one that has taken an alarm has for it; then another one may take it."""
BATCH = 256
AT_ONCE = 32
"""Threads that it looks at at once."""
MICROSECONDS = 1_000_000


class Requested(Protocol):
    """A request that was stored; see `runtime/saver/persistence.py`."""

    @property
    def request(self) -> object:
        """What was stored."""
        ...


class AlarmActor:
    """Looks at threads whose alarm has come, until it is cancelled.

    Args:
        graphs: the names that alarms of this system's graphs have.
        look: looks at the open questions of a thread, and does what they want now.
    """

    def __init__(
        self,
        host: Host,
        graphs: Iterable[str],
        look: Callable[[AlarmRow], Awaitable[None]],
    ) -> None:
        self._host = host
        self._graphs = tuple(graphs)
        self._look = look
        self._earliest = 0
        self._sooner = Gate()

    def note(self, batch: Sequence[Requested]) -> None:
        """Note the alarms of commits that were stored in this process; from any thread."""
        for posted in batch:
            request = posted.request
            if isinstance(request, Commit) and request.alarm is not None:
                at = request.alarm.at
                if at and (self._earliest == 0 or at < self._earliest):
                    self._sooner.open()

    async def serve(self) -> None:
        """Look at threads as their alarms come."""
        while True:
            self._sooner, self._earliest = Gate(), 0
            try:
                rows = await self._read()
                now = self._host.clock.now()
                due = [row for row in rows if row.at <= now]
                if due:
                    await self._act(await self._take(due))
                    continue
            except ActorGraphError as error:
                log_event("warning", "alarms.not_read", error=repr(error))
                rows = []
            await self._wait(rows[0].at if rows else 0)

    async def _read(self) -> list[AlarmRow]:
        return await self._host.reader.ask(ListAlarms(self._graphs, BATCH))

    async def _wait(self, at: int) -> None:
        """Wait for a time, an earlier alarm of this process, or the next look."""
        clock = self._host.clock
        self._earliest = at
        pause_s = LOOK_S if at == 0 else min(LOOK_S, max(at - clock.now(), 0) / MICROSECONDS)
        await clock.wait(pause_s, self._sooner.wait)

    async def _take(self, due: Sequence[AlarmRow]) -> list[AlarmRow]:
        until = self._host.clock.now() + int(LEASE_S * MICROSECONDS)
        requests = [TakeAlarm(row.thread_id, row.at, until) for row in due]
        outcomes = await self._host.writer.store_each(*requests)
        return [
            row
            for row, outcome in zip(due, outcomes, strict=True)
            if isinstance(outcome, Committed) and outcome.sequence
        ]

    async def _act(self, taken: Sequence[AlarmRow]) -> None:
        limiter = anyio.Semaphore(AT_ONCE)

        async def look(row: AlarmRow) -> None:
            async with limiter:
                try:
                    await self._look(row)
                except Exception as error:  # noqa: BLE001 - of a program's values or functions
                    thread = row.thread_id
                    log_event("error", "alarm.failed", thread_id=thread, error=repr(error))

        async with anyio.create_task_group() as group:
            for row in taken:
                group.start_soon(look, row)
