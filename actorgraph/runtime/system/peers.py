"""Coordination with other systems over the same saver.

CancelWatch   cancels runs of this system whose cancellation another process has requested
TurnWatch     begins runs that wait for another system, when their thread is free

Both poll the store until cancelled; a poll that fails is followed by the next one.
"""

from collections.abc import Awaitable, Callable

import anyio

from actorgraph.errors import CheckpointError
from actorgraph.rules.run_order import is_ahead
from actorgraph.rules.system.scheduling import action_on_rival, replacement_reason, rolls_back
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.system.actor import SystemActor
from actorgraph.runtime.system.job import Job
from actorgraph.values.commits import ListCheckpoints, StoredCheckpoint
from actorgraph.values.ids import as_text
from actorgraph.values.retention import DeleteRuns
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


FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0


class TurnWatch:
    """Begins runs that wait for another system, when their thread is free.

    One query per poll, however many runs wait, and none while no run does. Polls are
    FIRST_PAUSE_S apart when a run begins to wait, then less often, up to LONGEST_PAUSE_S.

    Args:
        take_up: takes up a run of a dead system, if it can.
        end: requests the cancellation of a run, with a reason, in any process.
    """

    def __init__(
        self,
        host: Host,
        actor: SystemActor,
        *,
        take_up: Callable[[RunRow], Awaitable[object]],
        end: Callable[[RunRow, str], Awaitable[None]],
    ) -> None:
        self._host = host
        self._actor = actor
        self._take_up = take_up
        self._end = end
        self._some = Gate()
        self._fresh = Gate()
        actor.on_held.append(self._on_held)

    def _on_held(self, job: Job) -> None:
        self._some.open()
        if job.holds <= 1:  # one that was freed too early waits for the next poll
            self._fresh.open()

    async def serve(self) -> None:
        """Poll while runs wait, until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            if not self._actor.held:
                await self._some.wait()
            if not self._fresh.is_open:
                with anyio.move_on_after(pause_s):
                    await self._fresh.wait()
            pause_s = FIRST_PAUSE_S if self._fresh.is_open else min(2 * pause_s, LONGEST_PAUSE_S)
            self._some, self._fresh = Gate(), Gate()
            try:
                await self.look()
            except CheckpointError as error:
                log_event("warning", "turns.not_read", error=repr(error))

    async def look(self) -> None:
        """Begin the runs whose thread is free now.

        Raises:
            StorageError: the store can't be read.
        """
        jobs = self._actor.held
        if not jobs:
            return
        query = ListRuns(open_of=tuple(job.thread_id for job in jobs))
        rows: dict[str, list[RunRow]] = {}
        for row in await self._host.reader.ask(query):
            rows.setdefault(row.thread_id, []).append(row)
        for job in jobs:
            owner = self._actor.owner
            begun, others = job.row.claimed, rows.get(job.thread_id, ())
            ahead = [r for r in others if is_ahead(job.id, owner, r, begun=begun)]
            try:
                await self._decide(job, ahead)
            except CheckpointError as error:
                ids = {"run_id": job.text, "thread_id": job.thread_id}
                log_event("warning", "turns.not_cleared", **ids, error=repr(error))

    async def _decide(self, job: Job, ahead: list[RunRow]) -> None:
        if not ahead and job.if_busy == "rollback":
            await self._begin_from_before(job)
        elif not ahead:
            self._actor.free(job)
        for row in ahead:
            match action_on_rival(job.if_busy, row, delayed=job.row.due > 0):
                case "end":
                    await self._end(row, row.cancel or replacement_reason(job.id))
                case "take_up":
                    await self._take_up(row)
                case _:
                    pass

    async def _begin_from_before(self, job: Job) -> None:
        try:
            await delete_replaced_runs(self._host, job)
        except CheckpointError as error:
            self._actor.free(job, error)
        else:
            self._actor.free(job)


async def delete_replaced_runs(host: Host, job: Job) -> None:
    """Delete the checkpoints of the runs that were cancelled so that this one replaces them.

    If it was delayed, and the thread has gone on since, they stay.

    Raises:
        StorageError: they can't be deleted.
    """
    # Found by the reason in their rows, so that any process can do it, after a crash too.
    rows: list[RunRow] = await host.reader.ask(ListRuns(thread_id=job.thread_id))
    reason = replacement_reason(job.id)
    gone = {row.run for row in rows if reason in (row.cancel, row.reason)}
    head, delayed = None, job.row.due > 0
    if gone and delayed:
        head = await _newest_writer(host, job.thread_id)
    if rolls_back(gone, head, delayed=delayed):
        await host.writer.store(DeleteRuns(job.thread_id, frozenset(map(as_text, gone))))


async def _newest_writer(host: Host, thread_id: str) -> bytes | None:
    """Return the run that stored a thread's newest checkpoint; None if no run did."""
    query = ListCheckpoints(thread_id=thread_id, namespace="", limit=1, bare=True)
    newest: list[StoredCheckpoint] = await host.reader.ask(query)
    return newest[0].row.run if newest else None
