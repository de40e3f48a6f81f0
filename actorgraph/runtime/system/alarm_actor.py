"""AlarmActor: looks at the open questions of threads when they want something.

The saver has the time of the next thing that each thread wants (`values/alarms.py`). The actor
reads the first of them, sleeps until it has come, or until this process stores an earlier one, and
takes those that have come, so that one of several systems looks at each. What to do then is
decided by `superstep/question_times.py`, and done by the system.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import structs

from actorgraph.errors import ActorGraphError
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.saver.hosting import Host
from actorgraph.values.alarms import Alarm, AlarmRow, ListAlarms, TakeAlarm
from actorgraph.values.commits import Commit, Committed

LOOK_S = 5.0
"""Seconds after which it reads again, for alarms that another process has stored."""
LEASE_S = 60.0
"""Seconds that one that has taken an alarm has for it; then another one may take it."""
BATCH = 256
AT_ONCE = 256
"""Threads that it looks at at once; calls of functions that remind may take long."""
PAUSE_S = 0.1
"""Seconds until it reads again what others have taken meanwhile, or what it could not take."""
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
        look: looks at the open questions of a thread, and does what they want now. The time of its
            row is the end of the lease.
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
        self._places = anyio.Semaphore(AT_ONCE)
        self._looks: set[object] = set()

    def note(self, batch: Sequence[Requested]) -> None:
        """Note the alarms that were stored in this process; from any thread."""
        for posted in batch:
            request = posted.request
            alarm = request.alarm if isinstance(request, Commit) else request
            if isinstance(alarm, Alarm | TakeAlarm):
                at = alarm.at
                if at and (self._earliest == 0 or at < self._earliest):
                    self._sooner.open()

    async def serve(self) -> None:
        """Look at threads as their alarms come; a slow look holds no other one up."""
        try:
            async with anyio.create_task_group() as group:
                while True:
                    await self._turn(group)
        finally:
            self._host.clock.at_work.difference_update((self, *self._looks))

    async def _turn(self, group: TaskGroup) -> None:
        """Begin to look at those whose alarms have come; if there is none, wait."""
        self._sooner, self._earliest = Gate(), 0
        at, pause_s = 0, LOOK_S
        try:
            rows = await self._read()
            now = self._host.clock.now()
            due = [row for row in rows if row.at <= now]
            if due:
                taken = await self._take(due)
                await self._begin(group, taken)
                pause_s = 0.0 if taken else PAUSE_S
            elif rows:
                at = rows[0].at
        except ActorGraphError as error:
            log_event("warning", "alarms.not_read", error=repr(error))
        if pause_s:
            await self._wait(at, pause_s)

    async def _read(self) -> list[AlarmRow]:
        return await self._host.reader.ask(ListAlarms(self._graphs, BATCH))

    async def _wait(self, at: int, most_s: float) -> None:
        """Wait for a time, an earlier alarm of this process, or the next look."""
        self._earliest = at
        await self._host.clock.wait(at, self._sooner, at_most_s=most_s, who=self)

    async def _take(self, due: Sequence[AlarmRow]) -> list[AlarmRow]:
        until = self._host.clock.now() + int(LEASE_S * MICROSECONDS)
        requests = [TakeAlarm(row.thread_id, row.at, until) for row in due]
        outcomes = await self._host.writer.store_each(*requests)
        return [
            structs.replace(row, at=until)
            for row, outcome in zip(due, outcomes, strict=True)
            if isinstance(outcome, Committed) and outcome.sequence
        ]

    async def _begin(self, group: TaskGroup, taken: Sequence[AlarmRow]) -> None:
        for row in taken:
            await self._places.acquire()
            look = object()
            self._looks.add(look)
            self._host.clock.at_work.add(look)
            group.start_soon(self._look_at, row, look)

    async def _look_at(self, row: AlarmRow, look: object) -> None:
        try:
            await self._look(row)
        except Exception as error:  # noqa: BLE001 - of a program's values or functions
            log_event("error", "alarm.failed", thread_id=row.thread_id, error=repr(error))
        finally:
            self._looks.discard(look)
            self._host.clock.at_work.discard(look)
            self._places.release()
