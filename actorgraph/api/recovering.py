"""Taking up the runs that a dead process, or a drained one, has left."""

import time
from typing import Any, cast

from actorgraph.api.runs import Run
from actorgraph.api.system_base import SystemBase
from actorgraph.api.system_calls import Call
from actorgraph.api.system_runs import call_of, codec_of
from actorgraph.errors import CheckpointError, LeaseLostError, StorageBusyError
from actorgraph.errors.texts import storable
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.keeper import decoded
from actorgraph.runtime.system.leaving import given_back
from actorgraph.runtime.system.refusing import no_place
from actorgraph.runtime.system.turn_watch import roll_back
from actorgraph.superstep.takeover import (
    LeaveRun,
    ParkRun,
    decide_takeover,
    misfit_reason,
    next_misfit,
)
from actorgraph.values.ids import as_text
from actorgraph.values.systems import (
    AdoptRun,
    AskCancel,
    EventRow,
    ListRuns,
    ReadEvents,
    RunRow,
    SetRun,
)


def _unused(row: RunRow) -> int:
    """An offset above those of the lives before, of which nothing is stored.

    A life has fewer events than microseconds.
    """
    return max(1, time.time_ns() // 1000 - row.created)


class RecoveryMethods(SystemBase):
    """`recover`. Mixed into `ActorSystem`."""

    async def recover(self) -> list[Run]:
        """Take up the runs that nobody works on: their process died, or drained and left them.

        A run that had begun goes on from its newest checkpoint; what finished tasks did is not
        done again. One that only waited begins. One of which `attempts_max` processes have died
        is parked: it stays in `runs()` with the status "parked" and the reason. Other systems on
        the same saver may call this at the same time; each run goes to one of them.
        One that this system can't run waits for one that can, as another version of the program
        may: `runs()` says why, `statistics().misfits` counts them.

        A run whose cancellation somebody has asked for is cancelled instead.
        A dead process's runs are free once its lease is over, `lease_s` after its last renewal.

        Returns: the runs that this system has taken up, oldest first.
        Raises:
            SystemClosedError: the system is not open.
            StorageError: the saver can't be read.
        """
        if not self._keeps:
            return []
        found: list[RunRow] = await self._host.reader.ask(ListRuns(orphaned=True))
        self._misfits = {r.run: self._misfits[r.run] for r in found if r.run in self._misfits}
        jobs = [await self._take_up(row) for row in found]
        return [Run(job, self._actor.cancel) for job in jobs if job is not None]

    async def _take_up(self, row: RunRow) -> Job | None:
        """Take up an orphan, or end it if that is asked for; None if it is left or has ended."""
        if row.cancel is not None:
            await self._end_orphan(row, row.cancel)
            return None
        actor, known = self._actor, self._misfits.get(row.run)
        if row.run in actor.jobs or no_place(actor, "enqueue", row.thread_id) is not None:
            return None
        verdict = decide_takeover(row, self.graphs, self._limits.attempts_max)
        if isinstance(verdict, LeaveRun):
            self._note_misfit(row, verdict.reason)
            return None
        if known is not None and known.until > time.monotonic():
            return None
        if not await self._adopt(row, row.attempts + 1):
            return None
        row = await self._row(row.run) or row  # with its payload, as it is stored now
        if isinstance(verdict, ParkRun):
            await self._park(row, verdict.reason)
            return None
        return await self._revived(row, go_on=row.claimed)

    def _note_misfit(self, row: RunRow, reason: str) -> None:
        known, now = self._misfits.get(row.run), time.monotonic()
        if known is None:
            ids = {"run_id": as_text(row.run), "thread_id": row.thread_id}
            log_event("warning", "run.misfit", **ids, reason=reason)
        misfit = next_misfit(known, reason, now, self._limits.lease_s / 3)
        self._misfits[row.run] = misfit

    async def _adopt(self, row: RunRow, attempts: int) -> bool:
        """Whether an orphan is this system's now."""
        owner = self._actor.owner
        request = AdoptRun(row.run, row.thread_id, owner, row.owner, attempts)
        try:
            await self._host.writer.store(request)
        except LeaseLostError:
            return False
        except StorageBusyError as error:  # its owner stands still in the middle of a save
            log_event("warning", "run.not_taken", run_id=as_text(row.run), error=repr(error))
            return False
        return True

    async def _end_orphan(self, row: RunRow, reason: str) -> None:
        """Cancel an orphan, unless somebody else has taken it up."""
        if await self._adopt(row, row.attempts):
            owner = self._actor.owner
            request = SetRun(row.run, row.thread_id, owner, "cancelled", storable(reason))
            await self._host.writer.store(request)

    async def _end_row(self, row: RunRow, reason: str) -> None:
        """Ask whoever has a run to cancel it; cancel one that nobody has."""
        if row.alive:
            await self._host.writer.store(AskCancel(row.run, row.thread_id, storable(reason)))
        else:
            await self._end_orphan(row, reason)

    async def _park(self, row: RunRow, reason: str) -> None:
        log_event(
            "error",
            "run.parked",
            thread_id=row.thread_id,
            run_id=as_text(row.run),
            reason=reason,
        )
        request = SetRun(
            row.run, row.thread_id, self._actor.owner, "parked", storable(reason), row.attempts - 1
        )
        await self._host.writer.store(request)

    async def _revived(self, row: RunRow, *, go_on: bool) -> Job | None:
        """An adopted run, submitted; None if it was parked, or given back."""
        try:
            call, lacks = call_of(self._graph(row.graph), row, go_on=go_on)
            if lacks:
                await self._park(row, f"what it was started with is not stored: {lacks}")
                return None
            job = await self._again(call, row)
            job.adopted = True
            if job.if_busy == "rollback" and not go_on:
                await roll_back(self._host, job)
        except CheckpointError as error:
            self._note_misfit(row, misfit_reason(error))
            await self._host.writer.store(given_back(row))
            return None
        if not self._actor.take_up(job):
            await self._host.writer.store(given_back(row))
            return None
        return job

    async def _again(self, call: Call, row: RunRow) -> Job:
        """The run of a row, with its events going on where they ended."""
        first, in_order = await self._next_offset(row) if call.resumable else (_unused(row), True)
        job = self._job(call, row, first=first)
        values = await self._values(call.name, call.thread_id)
        job.journal.values = values
        if call.resumable and call.modes and not in_order:
            # Nobody knows how many there were between the newest one and the crash.
            job.journal.add("gap", {"from": first, "to": None})
            job.journal.add("values", values)
        return job

    async def _next_offset(self, row: RunRow) -> tuple[int, bool]:
        """The offset behind an adopted run's stored events, and whether none are missing there.

        None are where its last life was drained, which its row says and its newest event too:
        one that stored no event before it died leaves the "drain" of the life before.
        """
        newest: list[EventRow] = await self._host.reader.ask(
            ReadEvents(row.run, row.thread_id, 0, 1, newest=True)
        )
        if not newest:
            return 1, not row.claimed
        codec = codec_of(self._graph(row.graph))
        drained = decoded(codec, row.run, newest[0]).kind == "drain"
        return newest[0].place + 1, drained and row.attempts == 1  # a drain counts from 0 again

    async def _values(self, graph: str, thread_id: str) -> Any:
        """The state of a thread as it stands."""
        config = {"configurable": {"thread_id": thread_id}}
        snapshot = await cast("Any", self._graph(graph)).aget_state(config)
        return snapshot.values
