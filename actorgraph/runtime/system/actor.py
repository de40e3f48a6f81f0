"""SystemActor: which run has which thread, how many go on at once, and how they all end.

Receives   runs from `submit`, cancellations, a drain; from tasks of the system's own event loop
Sends      each run into a task of its own, in the system's task group
Order      per thread first come, first served, unless `if_busy` says otherwise (superstep/turns)
Bounds     `max_runs` go on at once, `max_queued` wait for a slot or for their thread,
           `max_waiting` for one thread; beyond that a run is refused before anything is written.
           Runs come, and begin, at a pace that leaves the loop to others (system/pace)
Ends       `drain`: runs finish their superstep, within a deadline; the rest is left to recover
"""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from actorgraph.errors import SystemClosedError, ThreadBusyError
from actorgraph.runtime.calls import SYSTEM_LIMITER
from actorgraph.runtime.context import CURRENT
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.mailbox import Gate, wait_in, wait_through
from actorgraph.runtime.runs import Launch, prepare
from actorgraph.runtime.supervisor import Supervisor
from actorgraph.runtime.system.draining import drain
from actorgraph.runtime.system.early import came_early
from actorgraph.runtime.system.handing import handed_over
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.leaving import store_status, tell_left
from actorgraph.runtime.system.limits import SystemLimits
from actorgraph.runtime.system.pace import Pace
from actorgraph.runtime.system.refusing import no_place, no_turn, other_loop, too_many
from actorgraph.runtime.system.watchdog import Watchdog
from actorgraph.superstep.turns import (
    FREE,
    BeginRun,
    CancelRun,
    DropRun,
    EraseRun,
    Lane,
    LaneStep,
    arrived,
    erased,
    freed,
    held,
    left,
    replacement_reason,
    taken_up,
)
from actorgraph.values.ids import as_text
from actorgraph.values.retention import DeleteRuns
from actorgraph.values.run import Cancelled, Failed, RunOutcome
from actorgraph.values.systems import IfBusy, PutRun


class SystemActor:
    """See the module's text.

    Args:
        host: of the saver; None for a system that stores nothing.
        keeps: whether the saver keeps runs.
        owner: the system's id.
    """

    def __init__(
        self, host: Host | None, limits: SystemLimits, *, keeps: bool, owner: bytes
    ) -> None:
        self.host = host
        self.limits = limits
        self.keeps = keeps
        self.owner = owner
        self.group: TaskGroup | None = None
        self.coming: Pace | None = None
        self.beginning: Pace | None = None
        self.draining: str | None = None
        self.jobs: dict[bytes, Job] = {}
        self.ended: OrderedDict[bytes, Job] = OrderedDict()
        self.lanes: dict[str, Lane] = {}
        self.ready: deque[Job] = deque()
        self.active = 0
        self.counts: Counter[str] = Counter()
        self.refused = 0
        self.followers: dict[str, list[Callable[[Job | None], None]]] = {}
        self.on_left: list[Callable[[Job], None]] = []
        self.on_held: list[Callable[[Job], None]] = []
        self.limiter: anyio.CapacityLimiter | None = None
        self.watchdog: Watchdog | None = None
        self._held: dict[str, None] = {}
        self._idle: list[Gate] = []
        self._thread = 0

    def open(self, host: Host, owner: bytes, group: TaskGroup) -> None:
        """Be ready for runs; their tasks live in the group."""
        self.host, self.owner, self.group = host, owner, group
        self._thread = threading.get_ident()
        self.coming, self.beginning = Pace(group), Pace(group, host.writer)

    async def turn(self, if_busy: IfBusy, thread_id: str) -> None:
        """Wait until a run may be set up and submitted; on an idle loop that is at once.

        Raises: as `submit`, where it is known already that there are too many.
        """
        self._admit(if_busy, thread_id)
        coming, limits = self.coming, self.limits
        assert coming is not None
        if coming.is_free():
            return
        if len(self.jobs) + len(coming) >= limits.max_runs + limits.max_queued:
            self._refuse(too_many(self.active, self.queued, limits))
        await coming.turn(Gate())
        coming.over()

    async def submit(self, job: Job, if_busy: IfBusy = "reject") -> None:
        """Take a run; returns once it is durable that it was taken.

        Raises:
            SystemClosedError: the system takes no more runs.
            SystemBusyError: there are too many; nothing was written.
            ThreadBusyError: "reject", and the thread has a run; nothing was written.
            StorageError: it could not be stored, and does not run.
        """
        self._admit(if_busy, job.thread_id)
        lane = self.lanes.get(job.thread_id, FREE)
        lane, steps = arrived(lane, job.id, if_busy, self.limits.max_waiting)
        error = no_turn(job.thread_id, steps, self.limits)
        if error is not None:
            self._refuse(error)
        answer = None
        if self._keeping is not None:
            # Handed over before the run's claim, so that it is stored no later than that.
            request = PutRun(job.row, job.thread_id, len(job.row.payload), if_busy)
            answer = handed_over(self._keeping.writer, request)
        self._take(job, lane, steps)
        if answer is not None:
            await self._accept(job, answer)

    def take_up(self, job: Job) -> bool:
        """Take a run that another system had, unless this one closes; whether it was taken.

        It was accepted before: bounds hold where rows are adopted, see `no_place`.
        """
        if self.draining is not None:
            return False
        self._take(job, *taken_up(self.lanes.get(job.thread_id, FREE), job.id))
        return True

    def _take(self, job: Job, lane: Lane, steps: tuple[LaneStep, ...]) -> None:
        self._note_lane(job.thread_id, lane)
        self.jobs[job.id] = job
        self.counts["started"] += 1
        for tell in tuple(self.followers.get(job.thread_id, ())):  # one may be left meanwhile
            tell(job)
        self._carry_out(job.thread_id, steps)

    async def _accept(self, job: Job, answer: Callable[[], Awaitable[None]]) -> None:
        """Wait until a run's row is stored; one that is refused has never been taken."""
        try:
            await answer()
        except Exception as error:
            if isinstance(error, ThreadBusyError):
                self.refused += 1
                job.refused = True
                self.ended.pop(job.id, None)
            job.end(f"its row could not be stored: {error}")
            self._withdraw(job)
            if job.refused:
                await wait_through(job.done.wait)
            raise

    def _admit(self, if_busy: IfBusy, thread_id: str) -> None:
        """Refuse a run for which there is no place, whatever its thread says."""
        if threading.get_ident() != self._thread and self.group and self.draining is None:
            raise other_loop()
        error = no_place(self, if_busy, thread_id)
        if error is not None:
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        self.refused += not isinstance(error, SystemClosedError)
        raise error

    @property
    def queued(self) -> int:
        """Runs that wait: for a slot, or for their thread."""
        return len(self.jobs) - self.active

    # --- runs go on ---

    def _carry_out(self, thread_id: str, steps: tuple[LaneStep, ...]) -> None:
        for step in steps:
            match step:
                case BeginRun(run):
                    self._begin(self.jobs[run])
                case CancelRun(run, by):
                    self.jobs[run].end(replacement_reason(by))
                    self._withdraw(self.jobs[run])
                case DropRun(run, by):
                    self.jobs[run].end(replacement_reason(by))
                    self._settle_unbegun(self.jobs[run])
                case EraseRun(run):
                    assert self.group is not None
                    self.group.start_soon(self._erase, thread_id, run)
                case _:
                    pass

    async def _erase(self, thread_id: str, run: bytes) -> None:
        """Remove what a run stored, then let the next one begin."""
        try:
            if self.host is not None:
                await self.host.writer.store(DeleteRuns(thread_id, frozenset({as_text(run)})))
        except Exception as error:  # noqa: BLE001 - the run that waits for it reports it
            for following in self.lanes[thread_id].waiting[:1]:
                self._settle_unbegun(self.jobs[following], Failed(error))
        lane, steps = erased(self.lanes[thread_id])
        self._note_lane(thread_id, lane)
        self._carry_out(thread_id, steps)

    def _begin(self, job: Job) -> None:
        if job.ending or self.draining is not None:
            return
        if self.active >= self.limits.max_runs:
            self.ready.append(job)
            return
        self._spawn(job)

    def _spawn(self, job: Job) -> None:
        assert self.group is not None
        self.active += 1
        job.begin()
        self.group.start_soon(self._serve, job)

    async def _serve(self, job: Job) -> None:
        outcome: RunOutcome = Cancelled()
        self._enter(job)
        assert self.beginning is not None
        try:
            await self.beginning.turn(job.turn)
            try:
                ready = None if job.ending else await self._set_up(job, job.make())
            finally:
                self.beginning.over()
            if ready is not None:
                outcome = await ready[0].run_told(ready[1])
        except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
            outcome = Failed(error)
        finally:
            with anyio.CancelScope(shield=True):
                if await came_early(job, outcome, self._keeping, self.owner):
                    self._hold(job)
                else:
                    await self._leave(job, outcome)

    def _hold(self, job: Job) -> None:
        """Another system has the run's thread: its slot is another run's until that has left."""
        job.rest()
        self.active -= 1
        if self.draining is not None:
            job.end(self.draining)
        if job.ending:
            self._settle_unbegun(job)
            return
        self._note_lane(job.thread_id, held(self.lanes[job.thread_id]))
        for hear in self.on_held:
            hear(job)
        self._fill()

    @property
    def held(self) -> list[Job]:
        """The runs that wait for another system."""
        lanes = [self.lanes[thread_id] for thread_id in self._held]
        return [self.jobs[lane.active] for lane in lanes if lane.active in self.jobs]

    def free(self, job: Job, error: Exception | None = None) -> None:
        """No other system has a held run's thread any more: let it begin, or fail."""
        lane = self.lanes.get(job.thread_id, FREE)
        if lane.active != job.id or not lane.held:
            return
        if error is not None:
            self._settle_unbegun(job, Failed(error))
            return
        lane, steps = freed(lane)
        self._note_lane(job.thread_id, lane)
        self._carry_out(job.thread_id, steps)

    async def _set_up(self, job: Job, launch: Launch) -> tuple[Supervisor, list[Any]] | None:
        """The run's supervisor and first effects; None if it was told to end meanwhile."""
        journal = job.journal
        if not job.holds:
            journal.add("metadata", {"run_id": job.text, "attempt": job.attempt})
        job.stored = launch.host is not None
        launch.context.run(self._enter, job)
        supervisor, effects = await prepare(launch)
        job.first_step = supervisor.step
        if job.ending:
            supervisor.withdraw()
            return None
        job.supervisor = supervisor
        return supervisor, effects

    def _enter(self, job: Job) -> None:
        """What holds in a run's context, and in that of its nodes."""
        SYSTEM_LIMITER.set(self.limiter)
        if CURRENT.get(None) is not None:  # a node started it, and it is no part of that node
            CURRENT.set(cast("Any", None))

    async def _leave(self, job: Job, outcome: RunOutcome) -> None:
        job.left(outcome, self.draining)
        await tell_left(job, self._keeping, self.owner, self.limits.drain_timeout_s)
        self.active -= 1
        self.counts["supersteps"] += job.supersteps
        self._settle(job)

    @property
    def _keeping(self) -> Host | None:
        """The saver's host, if the saver keeps runs."""
        return self.host if self.keeps else None

    # --- runs leave ---

    def _withdraw(self, job: Job) -> None:
        """Settle a run that has not begun; one that has leaves by itself."""
        if not job.begun and not job.done.is_open:
            if job in self.ready:
                self.ready.remove(job)
            self._settle_unbegun(job)

    def _settle_unbegun(self, job: Job, outcome: RunOutcome | None = None) -> None:
        job.left(outcome or Cancelled(), self.draining)
        store_status(job, self._keeping, self.owner)
        job.say_end()
        self._settle(job)

    def _settle(self, job: Job) -> None:
        """A run has left: forget it soon, and let the next one of its thread begin."""
        self.jobs.pop(job.id, None)
        if job.refused:
            self.counts["started"] -= 1
        else:
            self.counts[job.status] += 1
            self.ended[job.id] = job
        while len(self.ended) > self.limits.keep_ended:
            self.ended.popitem(last=False)
        lane, steps = left(self.lanes.get(job.thread_id, FREE), job.id)
        self._note_lane(job.thread_id, lane)
        job.forget()
        job.done.open()
        for hear in self.on_left:
            hear(job)
        self._carry_out(job.thread_id, steps)
        self._fill()
        if not self.jobs:
            idle, self._idle = self._idle, []
            for gate in idle:
                gate.open()

    def _fill(self) -> None:
        """Give free slots to those that wait for one."""
        while self.ready and self.active < self.limits.max_runs and self.draining is None:
            following = self.ready.popleft()
            if not following.ending:
                self._spawn(following)

    def _note_lane(self, thread_id: str, lane: Lane) -> None:
        if lane.held:
            self._held[thread_id] = None
        else:
            self._held.pop(thread_id, None)
        if lane == FREE:
            self.lanes.pop(thread_id, None)
        else:
            self.lanes[thread_id] = lane

    def cancel(self, job: Job, reason: str) -> None:
        """End a run, whether it has begun or not."""
        job.end(reason)
        self._withdraw(job)

    def cancel_by_id(self, run: bytes, reason: str) -> bool:
        """End a run if it is here; whether it is, or was lately: its status is stored again."""
        if (job := self.jobs.get(run)) is not None:
            self.cancel(job, reason)
        elif (job := self.ended.get(run)) is not None:
            store_status(job, self._keeping, self.owner)
        return job is not None

    async def drain(self, reason: str, timeout_s: float) -> None:
        """Take no more runs; let those that go on finish their superstep; leave the rest.

        Args:
            timeout_s: after four fifths of it runs are cancelled in their superstep.
        """
        await drain(self, reason, timeout_s)

    async def wait_idle(self) -> None:
        """Wait until it has no run."""
        await wait_in(self._idle, lambda: not self.jobs)
