"""Recovery of orphaned runs: those whose process died, or drained and left them.

A run is taken over in the saver first; then this system runs it, parks it or gives it back.
"""

import time
from collections.abc import Collection, Mapping, Sequence

import anyio
from msgspec.structs import replace

from actorgraph.api.system.base import SystemBase
from actorgraph.api.system.run_arguments import StartCall, refused_call, stored_call
from actorgraph.api.system.run_handle import Run
from actorgraph.errors import CheckpointError, LeaseLostError, SchemaMismatchError, StorageBusyError
from actorgraph.errors.texts import storable
from actorgraph.rules.run_order import place_in_thread
from actorgraph.rules.system.dispatching import BATCH_MAX
from actorgraph.rules.system.scheduling import (
    FREE,
    Fate,
    LeaveRun,
    ParkRun,
    TakeOver,
    deaths_after,
    decide_takeover,
    is_ready,
    is_silent,
    misfit_reason,
    next_misfit,
)
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.saver.thread_runs import parked_rows
from actorgraph.runtime.system.event_frames import events_of
from actorgraph.runtime.system.job import Job, give_back_request
from actorgraph.runtime.system.owners import fates_of
from actorgraph.runtime.system.parked import RetriedRuns, retry_rows, rows_of
from actorgraph.runtime.system.peers import delete_replaced_runs
from actorgraph.storage.store_clock import StoreClock
from actorgraph.values.commits import Committed
from actorgraph.values.ids import as_text
from actorgraph.values.run import Failed
from actorgraph.values.systems import (
    NO_OWNER,
    OPEN_STATUSES,
    AdoptRun,
    AskCancel,
    EventRow,
    ListOwners,
    ListRuns,
    ListWaiting,
    OwnerRow,
    ReadEvents,
    RunRow,
    SetRun,
)

WALL_CLOCK_S = 60.0
"""Seconds after which a wait for a time looks at the wall clock again."""
RETRY_S = 1.0
"""Pause between two tries to give runs back."""
MISFITS_MAX = 10_000
"""Runs that this system can't run and remembers; the oldest are forgotten, and tried again."""


class RecoveryMethods(SystemBase):
    """`recover`, and taking single runs over."""

    async def recover(self) -> list[Run]:
        """Take over orphaned runs: their process died, or drained and left them.

        A run that had started continues from its newest checkpoint; finished tasks are not
        executed again. One that was queued starts. One during which `attempts_max` - 1 processes
        have died, since it last stored anything, is begun alone; if the process dies again, it is
        parked: it stays in `runs()` with the status "parked" and the reason. A process that was
        only stopped, or too slow for its lease, has not died. A run whose cancellation was
        requested is cancelled. One that this system can't run is left for another system, e.g.
        another version of the program: `runs()` has the reason, `statistics().misfits` counts them.

        Other systems on the same saver may call this at the same time; each run goes to one of
        them. A dead process's runs are orphaned once its lease expires, `lease_s` after its last
        renewal. With a dispatcher, runs that no system has had are left to its hints, and a system
        with role "accept" recovers nothing.

        Returns: the runs that this system has taken over, oldest first.
        Raises:
            SystemClosedError: the system is not open.
            StorageError: the saver can't be read.
        """
        if not self._keeps or not self._policy.works:
            return []
        found = await self._orphans()
        self._misfits = {r.run: self._misfits[r.run] for r in found if r.run in self._misfits}
        for row in found:
            if row.due > self._host.clock.now() and self._dispatch is None:
                self._take_up_when_due(row)
        jobs: list[Job] = []
        found.sort(key=place_in_thread)
        for start in range(0, len(found), BATCH_MAX):
            jobs += await self._take_up_all(found[start : start + BATCH_MAX])
        return [Run(job, self._actor.cancel) for job in sorted(jobs, key=lambda job: job.id)]

    async def retry_parked(
        self, run_ids: Sequence[str] | None = None, *, thread_id: str | None = None
    ) -> RetriedRuns:
        """Run parked runs again: they go on where they were, as after a takeover.

        They are taken up here, or by a worker if there is a dispatcher. A run is left if its thread
        has gone on with another run since.

        Args:
            run_ids: only these; default all parked runs.
            thread_id: only runs of this thread.
        Returns: the ids of the runs that are run again; the others, with the reason of each.
        Raises:
            SystemClosedError: the system is not open.
            StorageError: the saver can't be read or written.
        """
        if not self._keeps:
            return RetriedRuns((), dict.fromkeys(run_ids or (), "the saver keeps no runs"))
        host, unknown = self._host, dict[str, str]()
        if run_ids is None:
            rows = await parked_rows(host, thread_id)
        else:
            rows, unknown = await rows_of(host, run_ids)
            rows = [row for row in rows if thread_id in (None, row.thread_id)]
        made, left = await retry_rows(host, rows)
        for row in made:
            self._actor.forget_ended(row.run)
        if self._dispatch is not None:
            self._dispatch.announce_soon(made)
        elif self._policy.works:
            for start in range(0, len(made), BATCH_MAX):
                await self._take_up_all(made[start : start + BATCH_MAX])
        return RetriedRuns(tuple(as_text(row.run) for row in made), unknown | left)

    async def _orphans(self) -> list[RunRow]:
        """Read the runs that `recover` looks at; with a dispatcher as many as one sweep does."""
        if self._dispatch is None:
            return await self._host.reader.ask(ListRuns(orphaned=True))
        share = self._share
        query = ListWaiting(
            tuple(share.graphs), tuple(share.builds), self._host.clock.now(), BATCH_MAX, owned=True
        )
        return await self._host.reader.ask(query)

    def _take_up_when_due(self, row: RunRow) -> None:
        """Take a run up at its time, without a dispatcher; a run is waited for once."""
        group = self._actor.group
        if group is not None and row.run not in self._expected:
            self._expected.add(row.run)
            group.start_soon(self._wait_and_take_up, row)

    async def _wait_and_take_up(self, row: RunRow) -> None:
        try:
            await _wait_until(row.due, self._host.clock)
            stored = await self._row(row.run)
            if stored is not None and stored.owner is None and stored.status in OPEN_STATUSES:
                await self._take_up(stored)
        except CheckpointError as error:  # `recover` tries it again
            log_event("warning", "run.not_taken", run_id=as_text(row.run), error=repr(error))
        finally:
            self._expected.discard(row.run)

    async def _take_up(self, row: RunRow) -> Job | None:
        """Take over one orphaned run; None if it isn't run here."""
        # Above the limit of its graph too: a run of this system waits behind it, and counts.
        return next(iter(await self._take_up_all([row], limited=False)), None)

    async def _take_up_all(self, rows: Sequence[RunRow], *, limited: bool = True) -> list[Job]:
        """Take over orphaned runs, in one transaction; end those whose cancellation is requested.

        Args:
            rows: at most `BATCH_MAX`, oldest first.
            limited: leave runs that are above the limit of their graph.
        Returns: those that this system runs now.
        """
        rows = sorted(rows, key=place_in_thread)
        for row in rows:
            if row.cancel is not None:
                await self._end_orphan(row, row.cancel)
        room = self._graph_room() if limited else {}
        wanted = self._wanted(rows, room, await self._fates(rows))
        # A row that may be this system's has to be run, parked or given back. After an error, or
        # when this is cancelled, those without any of that are given back later: while this system
        # lives, no other one would look at them.
        owed = {row.run: row for row, _ in wanted}
        with self._coming([row.graph for row, _ in wanted], tuple(owed.values())):
            try:
                counted = [replace(row, deaths=verdict.deaths) for row, verdict in wanted]
                adopted = await self._adopt_all(counted, another=1, owed=owed)
                return await self._run_adopted(adopted, wanted, owed) if adopted else []
            finally:
                self._return_later(owed)

    async def _run_adopted(
        self,
        adopted: Collection[bytes],
        wanted: Sequence[tuple[RunRow, TakeOver | ParkRun]],
        owed: dict[bytes, RunRow],
    ) -> list[Job]:
        """Run, park or give back adopted runs; each that is settled so leaves `owed`."""
        # Read again: with their payloads, as they are stored now.
        stored: list[RunRow] = await self._host.reader.ask(ListRuns(among=tuple(sorted(adopted))))
        now = {row.run: row for row in stored}
        for row in stored:
            if row.status not in OPEN_STATUSES:  # its system has ended it just before
                owed.pop(row.run, None)
        mine = [
            (now.get(row.run, row), verdict)
            for row, verdict in wanted
            if row.run in adopted and row.run in owed
        ]
        going = [row for row, verdict in mine if isinstance(verdict, TakeOver)]
        # Runs that no system has had before: nothing of them is stored but their rows.
        new = {row.run for row, _ in wanted if row.owner is None and not row.claimed}
        made = await self._prepare_all(going, owed, new)
        for row, verdict in mine:
            if isinstance(verdict, ParkRun):
                await self._park(row, verdict.reason)
                owed.pop(row.run, None)
        jobs: list[Job] = []
        for job in made:  # in the order of their ids, which is that of their threads
            if self._actor.take_up(job):
                jobs.append(job)
            else:
                await self._host.writer.store(give_back_request(job.row))
            owed.pop(job.id, None)
        return jobs

    def _return_later(self, owed: Mapping[bytes, RunRow]) -> None:
        """Give runs back that may belong to this system without being run by it."""
        group, owner = self._actor.group, self._actor.owner
        if owed and group is not None and not group.cancel_scope.cancel_called:
            rows = tuple(owed.values())
            self._actor.adoptions.add(rows)  # at once: the task below begins later
            group.start_soon(self._return, rows, owner)

    async def _return(self, rows: Sequence[RunRow], owner: bytes) -> None:
        """Give runs back, again and again until that is stored or refused, or the lease is lost.

        Args:
            rows: as they were before they were adopted, if they were.
            owner: this system's id at that time.
        """
        try:
            left = {row.run: row for row in rows}
            while left and self._actor.owner == owner:
                requests = [
                    AdoptRun(
                        row.run, row.thread_id, NO_OWNER, owner, row.attempts, deaths=row.deaths
                    )
                    for row in left.values()
                ]
                outcomes = await self._host.writer.store_each(*requests)
                for run, outcome in zip(tuple(left), outcomes, strict=True):
                    # Else it was another system's.
                    if isinstance(outcome, Committed | LeaseLostError):
                        del left[run]
                if left:
                    await anyio.sleep(RETRY_S)
        finally:
            self._actor.adoptions.drop(rows)

    async def _fates(self, rows: Sequence[RunRow]) -> dict[bytes | None, Fate]:
        """Look what has become of the processes that had the runs: owner -> fate."""
        fates = await fates_of(row.owner for row in rows)
        most = self._limits.attempts_max
        unknown = (row for row in rows if fates[row.owner] == "unknown")
        if any(deaths_after(row, "unknown", most) >= most for row in unknown):
            owners: list[OwnerRow] = await self._host.reader.ask(ListOwners())
            for one in owners:
                if fates.get(one.owner) == "unknown" and is_silent(one.lease_s, self.lease_s):
                    fates[one.owner] = "gone"
        return fates

    def _wanted(
        self, rows: Sequence[RunRow], room: dict[str, int], fates: Mapping[bytes | None, Fate]
    ) -> list[tuple[RunRow, TakeOver | ParkRun]]:
        """The orphans that this system can adopt, each with what to do with it.

        Args:
            rows: the orphans.
            room: graph -> runs that may be taken, for each graph that has a limit; changed.
            fates: of their owners' processes.
        """
        actor, found = self._actor, list[tuple[RunRow, TakeOver | ParkRun]]()
        now = self._host.clock.now()
        for row in rows:
            if row.cancel is not None or row.run in actor.jobs or row.run in actor.adoptions:
                continue
            if not is_ready(row, now) or room.get(row.graph) == 0:
                continue
            lane = actor.lanes.get(row.thread_id, FREE)
            if row.claimed and lane.active is not None and not lane.held:
                continue  # a run that is about to begin has to find out that it must wait
            if actor.admission_error("enqueue", row.thread_id, more=len(found)):
                continue
            known = self._misfits.get(row.run)
            verdict = decide_takeover(row, self._share, self._limits.attempts_max, fates[row.owner])
            if isinstance(verdict, LeaveRun):
                self._note_misfit(row, verdict.reason)
            elif known is None or known.until <= time.monotonic():
                found.append((row, verdict))
                if row.graph in room:
                    room[row.graph] -= 1
            # Else it failed to start here a moment ago: wait before the next attempt.
        return found

    def _note_misfit(self, row: RunRow, reason: str) -> None:
        known, now = self._misfits.get(row.run), time.monotonic()
        if known is None:
            ids = {"run_id": as_text(row.run), "thread_id": row.thread_id}
            log_event("warning", "run.misfit", **ids, reason=reason)
        misfit = next_misfit(known, reason, now, self._limits.lease_s / 3)
        self._misfits[row.run] = misfit
        while len(self._misfits) > MISFITS_MAX:
            self._misfits.pop(next(iter(self._misfits)))

    def _on_left(self, job: Job) -> None:
        """Note a run that could not be read after it had begun; forget one that could."""
        if job.misfit and isinstance(job.outcome, Failed):
            self._note_misfit(job.row, misfit_reason(job.outcome.error))
        elif not job.elsewhere:
            self._misfits.pop(job.id, None)

    async def _adopt_all(
        self, rows: Sequence[RunRow], *, another: int, owed: dict[bytes, RunRow] | None = None
    ) -> set[bytes]:
        """Make this system the owner of orphaned runs; return those for which that succeeded.

        Args:
            another: attempts to add to each row.
            owed: loses the rows that were certainly not adopted.
        """
        if not rows:
            return set()
        owner = self._actor.owner
        requests = [
            AdoptRun(
                *(row.run, row.thread_id, owner, row.owner, row.attempts + another),
                deaths=row.deaths,
            )
            for row in rows
        ]
        outcomes = await self._host.writer.store_each(*requests)
        adopted, refused, failed = set[bytes](), list[bytes](), list[BaseException]()
        for row, outcome in zip(rows, outcomes, strict=True):
            if isinstance(
                outcome, StorageBusyError
            ):  # the owner is blocked in the middle of a save
                log_event("warning", "run.not_taken", run_id=as_text(row.run), error=repr(outcome))
                refused.append(row.run)
            elif isinstance(outcome, Committed):
                adopted.add(row.run)
            elif isinstance(outcome, LeaseLostError):
                refused.append(row.run)
            else:  # a connection that breaks in a commit leaves open whether it was stored
                failed.append(outcome)
        for run in refused:
            (owed or {}).pop(run, None)
        if failed and not adopted:
            raise failed[0]
        return adopted

    async def _end_orphan(self, row: RunRow, reason: str) -> None:
        """Cancel an orphaned run, unless another system has taken it over, or it has ended."""
        owed, owner = {row.run: row}, self._actor.owner
        try:
            if not await self._adopt_all([row], another=0, owed=owed):
                return
            # Read again: its system may have ended it just before.
            found: list[RunRow] = await self._host.reader.ask(ListRuns(among=(row.run,)))
            if any(now.status in OPEN_STATUSES for now in found):
                request = SetRun(row.run, row.thread_id, owner, "cancelled", storable(reason))
                await self._host.writer.store(request)
            owed.clear()
        finally:
            self._return_later(owed)
        if self._dispatch is not None:
            await self._dispatch.ended_unrun(row)

    async def _end_row(self, row: RunRow, reason: str) -> None:
        """Request the cancellation of a run from its owner; cancel an orphaned one."""
        if row.alive:
            await self._host.writer.store(AskCancel(row.run, row.thread_id, storable(reason)))
            if self._dispatch is not None:
                self._dispatch.cancelled(row.run)
        else:
            await self._end_orphan(row, reason)

    async def _park(self, row: RunRow, reason: str) -> None:
        log_event(
            "error", "run.parked", thread_id=row.thread_id, run_id=as_text(row.run), reason=reason
        )
        # This attempt executes nothing, so it is not counted.
        request = SetRun(
            *(row.run, row.thread_id, self._actor.owner, "parked", storable(reason)),
            row.attempts - 1,
            deaths=row.deaths,
        )
        await self._host.writer.store(request)

    async def _prepare_all(
        self, rows: Sequence[RunRow], owed: dict[bytes, RunRow], new: Collection[bytes]
    ) -> list[Job]:
        """Make the runs of adopted rows, in their order; without those parked or given back.

        Args:
            owed: loses the rows that were parked or given back.
            new: those that no system has had before.
        """
        made: dict[bytes, Job] = {}
        failed: list[CheckpointError] = []

        async def prepare(row: RunRow) -> None:
            try:
                job = await self._prepare(row, new=row.run in new)
            except CheckpointError as error:  # the saver takes no more writes
                failed.append(error)
            else:
                if job is not None:
                    made[row.run] = job
                else:
                    owed.pop(row.run, None)

        async with anyio.create_task_group() as group:  # their reads are answered together
            for row in rows:
                group.start_soon(prepare, row)
        if failed and not made:
            raise failed[0]
        return [made[row.run] for row in rows if row.run in made]

    async def _prepare(self, row: RunRow, *, new: bool) -> Job | None:
        """Make the run of an adopted row; None if it was parked, or given back."""
        try:
            call, lacks = stored_call(self._graph(row.graph), row, claimed=row.claimed)
            if lacks:
                await self._park(row, f"part of its start arguments could not be stored: {lacks}")
                return None
            finding = refused_call(self._graph(row.graph), call)
            if finding is not None:
                raise SchemaMismatchError(f"{finding.where}, {finding.why}", do=finding.do)
            job = await self._job_of_row(call, row, new=new)
            job.adopted = True
            if job.if_busy == "rollback" and not row.claimed:
                await delete_replaced_runs(self._host, job)
        except Exception as error:  # noqa: BLE001 - reading a thread calls the graph's own code
            self._note_misfit(row, misfit_reason(error))
            await self._host.writer.store(give_back_request(row))
            return None
        return job

    async def _job_of_row(self, call: StartCall, row: RunRow, *, new: bool) -> Job:
        """Make the run of a row; its events continue after the stored ones."""
        first, in_order = 1, True
        if not new:
            resumable = call.resumable
            now = self._host.clock.now()
            first, in_order = (
                await self._next_offset(row) if resumable else (_fresh_offset(row, now), True)
            )
        job = self._job(call, row, first=first)
        values = await self._values(call.name, call.thread_id)
        job.journal.values = values
        if call.resumable and call.modes and not in_order:
            # Events after the newest stored one were lost in the crash; their number is unknown.
            job.journal.add("gap", {"from": first, "to": None})
            job.journal.add("values", values)
        return job

    async def _next_offset(self, row: RunRow) -> tuple[int, bool]:
        """Return the offset after a run's stored events, and whether they are complete.

        They are complete if its last attempt was drained. The row and the newest event must both
        say so: an attempt that died before it stored an event leaves the "drain" event of the
        attempt before as the newest one.
        """
        newest: list[EventRow] = await self._host.reader.ask(
            ReadEvents(row.run, row.thread_id, 0, 1, newest=True)
        )
        if not newest:
            return 1, not row.claimed
        codec = self._graph(row.graph).codec
        place = newest[0].place
        last = [event for event, _ in events_of(codec, row.run, newest[0], place - 1)]
        drained = last[-1].kind == "drain"
        return place + 1, drained and row.attempts == 1  # a drain counts from 0 again


async def _wait_until(due: int, clock: StoreClock) -> None:
    """Wait for a time of a store's clock, which may be set meanwhile.

    Args:
        due: microseconds since 1970-01-01 UTC.
    """
    while due > clock.now():
        await clock.wait(due, Gate(), at_most_s=WALL_CLOCK_S)


def _fresh_offset(row: RunRow, now: int) -> int:
    """Return an event offset above those of earlier attempts, whose events were not stored.

    The microseconds since the run was accepted: an attempt has fewer events than that.
    """
    return max(1, now - row.created)
