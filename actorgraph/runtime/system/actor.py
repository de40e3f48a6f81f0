"""SystemActor: the runs of an ActorSystem: their threads, their limits, their end.

Receives   runs from `submit`, cancellations, a drain; from tasks of the system's own event loop
Sends      each run into a task of its own, in the system's task group
Order      per thread first come, first served, unless `if_busy` says otherwise
           (rules/system/scheduling)
Bounds     `max_runs` are active at once, `max_queued` wait for a slot or for their thread,
           `max_waiting` for one thread; beyond that a run is refused before anything is written.
           Runs are accepted, and begin, at a pace that keeps the event loop responsive (`Pace`)
Ends       `drain`: runs finish their superstep, within a deadline; the rest is left to `recover`
"""

import threading
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from actorgraph.errors import (
    ActorGraphError,
    SystemClosedError,
    ThreadBusyError,
    ThreadMovedError,
)
from actorgraph.errors.texts import storable
from actorgraph.rules.system.scheduling import (
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
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate, Waiting, wait_for_wake_up, wait_shielded, wake_all
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.run.start import prepare
from actorgraph.runtime.run.supervisor import Supervisor
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.persistence import post_request
from actorgraph.runtime.system.adoptions import Adoptions
from actorgraph.runtime.system.capacity import (
    SystemLimits,
    closed_system,
    no_turn,
    other_loop,
    too_busy,
    too_many,
)
from actorgraph.runtime.system.ended_runs import EndedRuns
from actorgraph.runtime.system.figures import RunFigures
from actorgraph.runtime.system.job import (
    Job,
    came_early,
    log_failure,
    publish_outcome,
    store_status,
)
from actorgraph.runtime.system.lent_slots import ENTERED, LentSlots
from actorgraph.runtime.system.loop_watchdog import LoopWatchdog
from actorgraph.runtime.system.pace import Pace
from actorgraph.runtime.system.run_context import enter_context
from actorgraph.runtime.system.trials import Trials
from actorgraph.runtime.task.calling import thread_limiter
from actorgraph.runtime.task.router_threads import RouterThreads
from actorgraph.values.ids import as_text
from actorgraph.values.retention import DeleteRuns
from actorgraph.values.run import Cancelled, Failed, RunOutcome
from actorgraph.values.systems import IfBusy, PutRun


class SystemActor:
    """Accepts, begins and settles the runs of one system; see the module's docstring.

    Args:
        host: of the saver; None for a system that stores nothing.
        limits: the system's.
        keeps: whether the saver keeps runs.
        owner: the system's id.

    Attributes:
        group: the task group of the runs; None until the system is open.
        accept_pace: paces the acceptance of runs; None until then.
        begin_pace: paces the start of runs; None until then.
        draining: why the system takes no more runs; None while it does.
        jobs: run id -> open run.
        coming: graph -> runs that are about to be in `jobs`.
        adoptions: runs that this system may own in the store, and that may not be in `jobs` yet.
        ended: the newest runs that have ended.
        lanes: thread id -> the runs that have the thread or wait for it; without free threads.
        ready: runs that have their thread and wait for a slot.
        active: number of runs that have a slot.
        counts: runs started, supersteps, and runs that have left, by status.
        refused: number of runs refused.
        followers: thread id -> functions to call with each new run, or with None at a drain.
        on_left: functions to call with each run that is settled.
        on_held: functions to call with each run that another system keeps from its thread.
        threads: for plain functions, and their limiter; None without `max_threads`.
        watchdog: of the event loop; None without `loop_limit_s`.
        lent: the slots of runs that wait for other runs of the system.
        trials: begins the runs that may be what kills processes.
        lease: waits before a task begins if the lease of its run's owner is over; None without a
            lease.
    """

    def __init__(
        self, host: Host | None, limits: SystemLimits, *, keeps: bool, owner: bytes
    ) -> None:
        self.host = host
        self.limits = limits
        self.keeps = keeps
        self.owner = owner
        self.group: TaskGroup | None = None
        self.accept_pace: Pace | None = None
        self.begin_pace: Pace | None = None
        self.draining: str | None = None
        self.jobs: dict[bytes, Job] = {}
        self.coming: Counter[str] = Counter()
        self.adoptions = Adoptions()
        self.ended = EndedRuns(limits.keep_ended)
        self._by_thread: dict[str, dict[bytes, Job]] = {}
        self.lanes: dict[str, Lane] = {}
        self.ready: deque[Job] = deque()
        self.active = 0
        self.counts: Counter[str] = Counter()
        self.refused = 0
        self.followers: dict[str, list[Callable[[Job | None], None]]] = {}
        self.on_left: list[Callable[[Job], None]] = []
        self.on_held: list[Callable[[Job], None]] = []
        self.threads: RouterThreads | None = None
        self.watchdog: LoopWatchdog | None = None
        self.lent = LentSlots(self._fill)
        self.trials = Trials(
            limits.attempts_max, spawn=self._spawn, fill=self._fill, active=lambda: self.active
        )
        self.lease: Callable[[bytes], Awaitable[None]] | None = None
        self._keeping: Host | None = None  # the saver's host, if the saver keeps runs
        self._held: dict[str, None] = {}
        self._idle: Waiting = []
        self.figures = RunFigures()
        self._thread = 0

    def open(self, host: Host, owner: bytes, group: TaskGroup) -> None:
        """Accept runs from now on.

        Args:
            host: of the saver.
            owner: the system's id.
            group: for the tasks of the runs.
        """
        self.host, self.owner, self.group = host, owner, group
        self._keeping = host if self.keeps else None
        self.trials.open(self._keeping, group)
        group.start_soon(self.lent.serve)
        self._thread = threading.get_ident()
        self.accept_pace = Pace(group)
        self.begin_pace = Pace(group, lambda: host.writer.waiting)

    async def turn(self, if_busy: IfBusy, thread_id: str) -> None:
        """Wait until a run may be set up and submitted; returns at once on an idle event loop.

        The caller submits it before it awaits anything else.

        Raises: SystemClosedError, SystemBusyError, as `submit`; OtherLoopError.
        """
        self._admit(if_busy, thread_id)
        accept_pace, limits = self.accept_pace, self.limits
        assert accept_pace is not None
        if accept_pace.is_free():
            return
        if len(self.jobs) + len(accept_pace) >= limits.max_runs + limits.max_queued:
            self._refuse(too_many(self.active, self.queued, limits))
        await accept_pace.turn(Gate())
        accept_pace.over()
        self._admit(if_busy, thread_id)

    async def submit(self, job: Job, if_busy: IfBusy = "reject") -> None:
        """Accept a run that `turn` has let in; returns once its row is durable.

        Raises:
            SystemClosedError: the system takes no more runs.
            SystemBusyError: a limit is reached; nothing was written.
            ThreadBusyError: "reject", and the thread has a run; nothing was written.
            ThreadMovedError: the thread is in another database now; nothing was written.
            StorageError: it could not be stored, and does not run.
        """
        if self.adoptions.on_thread(job.thread_id):  # the lane doesn't have them yet
            await self.adoptions.wait_until_none(job.thread_id)
            self._admit(if_busy, job.thread_id)
        lane = self.lanes.get(job.thread_id, FREE)
        lane, steps = arrived(lane, job.id, if_busy, self.limits.max_waiting)
        error = no_turn(job.thread_id, steps, self.limits)
        if error is not None:
            self._refuse(error)
        answer = None
        if self._keeping is not None:
            # Handed over before the run's claim, so that it is stored no later than the claim.
            request = PutRun(job.row, job.thread_id, len(job.row.payload), if_busy)
            answer = post_request(self._keeping.writer, request)
        self._take(job, lane, steps)
        if answer is not None:
            await self._accept(job, answer)

    def take_up(self, job: Job) -> bool:
        """Continue a run of another system. Returns False if this one is closing.

        The limits are not checked: the caller did before it adopted the run's row, see
        `admission_error`.
        """
        if self.draining is not None:
            return False
        lane = self.lanes.get(job.thread_id, FREE)
        self._take(job, *taken_up(lane, job.id, self._begun(lane, job)))
        return True

    def _begun(self, lane: Lane, *others: Job) -> frozenset[bytes]:
        """Those of a lane's runs, and of others, that had begun in another system."""
        known = [self.jobs[run] for run in (lane.active, *lane.waiting) if run in self.jobs]
        return frozenset(job.id for job in (*known, *others) if job.row.claimed)

    def _take(self, job: Job, lane: Lane, steps: tuple[LaneStep, ...]) -> None:
        self._note_lane(job.thread_id, lane)
        job.saver = self.saver_number
        self.jobs[job.id] = job
        self._by_thread.setdefault(job.thread_id, {})[job.id] = job
        self.counts["started"] += 1
        for notify in tuple(self.followers.get(job.thread_id, ())):  # calls may remove followers
            notify(job)
        self._carry_out(job.thread_id, steps)

    async def _accept(self, job: Job, answer: Callable[[], Awaitable[None]]) -> None:
        """Wait until a run's row is stored; one whose row is refused was never accepted."""
        try:
            await answer()
        except Exception as error:
            if isinstance(error, ThreadBusyError | ThreadMovedError):
                self.refused += 1
                job.refused = True
                self.forget_ended(job.id)
            job.end(f"its row could not be stored: {error}")
            self._withdraw(job)
            if job.refused:
                await wait_shielded(job.done.wait)
            raise

    def _admit(self, if_busy: IfBusy, thread_id: str) -> None:
        """Raise the error if the system can't take another run on any thread."""
        if threading.get_ident() != self._thread and self.group and self.draining is None:
            raise other_loop()
        error = self.admission_error(if_busy, thread_id)
        if error is not None:
            self._refuse(error)

    def admission_error(
        self, if_busy: IfBusy, thread_id: str, *, more: int = 0
    ) -> ActorGraphError | None:
        """Return the error if the system can't take another run on any thread; None if it can.

        Args:
            more: runs that are about to be taken before it.
        """
        limits = self.limits
        if self.draining is not None or self.group is None:
            return closed_system(closing=self.draining is not None)
        waits = self.taken + more >= limits.max_runs or (
            if_busy != "reject" and self.lanes.get(thread_id, FREE).active is not None
        )
        if waits and self.queued + more >= limits.max_queued:
            return too_many(self.active, self.queued, limits)
        unsaved = 0 if self.host is None else self.host.writer.waiting_bytes
        if unsaved > limits.max_unsaved_bytes:
            text = f"{unsaved} bytes of other runs wait to be stored"
            return too_busy(text, "raise max_unsaved_bytes", limits)
        return None

    def _refuse(self, error: Exception) -> None:
        self.refused += not isinstance(error, SystemClosedError)
        raise error

    def known_jobs(self, thread_id: str | None) -> list[Job]:
        """Return the ended and the open runs that are in memory; only those of a thread, if given.

        Threads have few of them each, however many runs have ended.
        """
        if thread_id is None:
            return [*self.ended.values(), *self.jobs.values()]
        return list(self._by_thread.get(thread_id, {}).values())

    def forget_ended(self, run: bytes) -> None:
        """Forget a run that has ended, if it is in memory."""
        if (job := self.ended.pop(run)) is not None:
            self._forget(job)

    def _forget(self, job: Job) -> None:
        known = self._by_thread.get(job.thread_id, {})
        known.pop(job.id, None)
        if not known:
            self._by_thread.pop(job.thread_id, None)

    def runs_by_graph(self) -> Counter[str]:
        """Count the open runs of each graph, with those that are about to be taken.

        Without those that have lent their slot.
        """
        jobs = [job for job in self.jobs.values() if job.id not in self.lent]
        return Counter(job.row.graph for job in jobs) + self.coming

    @property
    def taken(self) -> int:
        """Number of slots that are in use."""
        return self.active - len(self.lent)

    @property
    def saver_number(self) -> int:
        """The number of the system's saver, as in `RunPlace`; of a system that has none its own."""
        return id(self if self.host is None else self.host.saver)

    @property
    def queued(self) -> int:
        """Number of runs that wait: for a slot, or for their thread."""
        return len(self.jobs) - self.active

    # --- active runs ---

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
        """Delete a run's checkpoints, then let the next run of the thread begin."""
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
        if self._must_wait(job):
            self._hold_in_lane(job)
            return
        if job.row.deaths and self.trials.takes(job):
            return
        if self.taken >= self.limits.max_runs or self.trials.holding:
            self.ready.append(job)
            return
        self._spawn(job)

    def _spawn(self, job: Job) -> None:
        assert self.group is not None
        self.active += 1
        job.begin()
        self.group.start_soon(self._serve, job)

    async def _serve(self, job: Job) -> None:
        try:
            await self._run_to_end(job)
        except BaseException as error:  # on trio Ctrl-C may come at any line, also of its end
            self.jobs.pop(job.id, None)
            job.abandon(error, self.draining)
            if not self.jobs:
                wake_all(self._idle)
            raise

    async def _run_to_end(self, job: Job) -> None:
        outcome: RunOutcome = Cancelled()
        lease = self.lease and partial(self.lease, job.row.owner or self.owner)
        enter_context(self.threads, lease)
        self.lent.enter(job, thread_limiter())
        assert self.begin_pace is not None
        try:
            await self.begin_pace.turn(job.turn)
            try:
                ready = None if job.ending else await self._set_up(job, job.make())
            finally:
                self.begin_pace.over()
            if ready is not None:
                outcome = await ready[0].run(ready[1])
        except Exception as error:  # noqa: BLE001 - `result()` raises it
            outcome = Failed(error)
        finally:
            with anyio.CancelScope(shield=True):
                if await came_early(job, outcome, self._keeping, self.owner):
                    self._hold(job)
                else:
                    await self._leave(job, outcome)

    def _hold(self, job: Job) -> None:
        """Put back a run whose thread another system has; its slot goes to another run."""
        job.hold_back()
        self.lent.forget(job)
        self.active -= 1
        if self.draining is not None:
            job.end(self.draining)
        if job.ending:
            self._settle_unbegun(job)
            return
        self._hold_in_lane(job)
        self._fill()

    def _must_wait(self, job: Job) -> bool:
        """Whether a run that comes before it on its thread is just being taken up."""
        ahead = self.adoptions.ahead_of(job.row)
        return any(row.run not in self.jobs for row in ahead)

    def _hold_in_lane(self, job: Job) -> None:
        """Let the active run of a lane wait, or one behind it that comes first begin."""
        lane = self.lanes[job.thread_id]
        lane, steps = held(lane, self._begun(lane))
        self._note_lane(job.thread_id, lane)
        for notify in self.on_held:
            notify(job)
        self._carry_out(job.thread_id, steps)

    @property
    def held(self) -> list[Job]:
        """The runs whose thread another system has."""
        lanes = [self.lanes[thread_id] for thread_id in self._held]
        return [self.jobs[lane.active] for lane in lanes if lane.active in self.jobs]

    def free(self, job: Job, error: Exception | None = None) -> None:
        """Let a held run begin: no other system has its thread any more.

        Args:
            error: fail it with this instead.
        """
        lane = self.lanes.get(job.thread_id, FREE)
        if lane.active != job.id or not lane.held:
            return
        if error is not None:
            self._settle_unbegun(job, Failed(error))
            return
        if self._must_wait(job):
            return
        lane, steps = freed(lane)
        self._note_lane(job.thread_id, lane)
        self._carry_out(job.thread_id, steps)

    async def _set_up(self, job: Job, launch: Launch) -> tuple[Supervisor, list[Any]] | None:
        """The run's supervisor and first effects; None if it was cancelled meanwhile."""
        journal = job.journal
        if not job.holds:
            journal.add("metadata", {"run_id": job.text, "attempt": job.attempt})
        job.stored = launch.host is not None
        for variable in ENTERED:
            launch.context.run(variable.set, variable.get())
        supervisor, effects = await prepare(launch)
        supervisor.show_parts(partial(self.figures.watch, job.row.graph))
        job.first_step = supervisor.step
        if job.ending:
            await supervisor.withdraw()
            return None
        job.supervisor = supervisor
        return supervisor, effects

    async def _leave(self, job: Job, outcome: RunOutcome) -> None:
        job.left(outcome, self.draining)
        await publish_outcome(job, self._keeping, self.owner, self.limits.drain_timeout_s)
        self.lent.forget(job)
        self.active -= 1
        self.counts["supersteps"] += job.supersteps
        self._settle(job)

    # --- runs that end ---

    def _withdraw(self, job: Job) -> None:
        """Settle a run that has not begun; a running one settles itself when it has ended."""
        if not job.begun and not job.done.is_open:
            if job in self.ready:
                self.ready.remove(job)
            self._settle_unbegun(job)

    def _settle_unbegun(self, job: Job, outcome: RunOutcome | None = None) -> None:
        job.left(outcome or Cancelled(), self.draining)
        store_status(job, self._keeping, self.owner)
        job.publish_end()
        self._settle(job)

    def _settle(self, job: Job) -> None:
        """Move a run that has left to the ended ones, and let the next one begin."""
        self.jobs.pop(job.id, None)
        if job.refused:
            self.counts["started"] -= 1
            self._forget(job)
        else:
            self._count(job)
            for displaced in self.ended.add(job):
                self._forget(displaced)
        lane, steps = left(self.lanes.get(job.thread_id, FREE), job.id)
        self._note_lane(job.thread_id, lane)
        job.forget()
        job.done.open()
        for notify in self.on_left:
            notify(job)
        self._carry_out(job.thread_id, steps)
        self._fill()
        if not self.jobs:
            wake_all(self._idle)

    def _count(self, job: Job) -> None:
        """Count a run that has left, and log a failed one: its result may never be asked for."""
        self.counts[job.status] += 1
        if not job.elsewhere:
            took = None if job.started is None else (job.changed - job.started) / 1e6
            self.figures.ended(job.row.graph, job.status, took)
        log_failure(job)

    def _fill(self) -> None:
        """Begin waiting runs while there are free slots."""
        while self.ready and self.taken < self.limits.max_runs and self.draining is None:
            if self.trials.holding:
                return
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
        """Cancel a run, whether it has begun or not."""
        job.end(reason)
        self._withdraw(job)

    def cancel_by_id(self, run: bytes, reason: str) -> bool:
        """Cancel a run by its id. Returns whether it is here, or has ended here lately.

        The status of one that has ended is stored again.
        """
        if (job := self.jobs.get(run)) is not None:
            self.cancel(job, reason)
        elif (job := self.ended.get(run)) is not None:
            store_status(job, self._keeping, self.owner)
        # A run that is just being adopted is cancelled at the next look: it is not over.
        return job is not None or run in self.adoptions

    async def drain(self, reason: str, timeout_s: float) -> None:
        """Take no more runs; let active ones finish their superstep; leave the rest to `recover`.

        Args:
            reason: for readers and statuses.
            timeout_s: after four fifths of it runs are cancelled in their superstep.
        """
        reason = storable(reason)
        if self.draining is None:
            self.draining = reason
            log_event("info", "system.draining", active=self.active, queued=self.queued)
            # Copied: a call may close a follower, which removes it.
            for notify in [one for some in list(self.followers.values()) for one in tuple(some)]:
                notify(None)
        for job in list(self.jobs.values()):
            job.control.request_drain(reason)
            if not job.begun or not job.turn.is_open:
                self.cancel(job, reason)
        with anyio.move_on_after(timeout_s * 0.8):
            await self.wait_idle()
        for job in list(self.jobs.values()):
            job.end(reason, to_others=True)
        with anyio.move_on_after(timeout_s * 0.2):
            await self.wait_idle()

    async def wait_idle(self) -> None:
        """Wait until it has no run."""
        await wait_for_wake_up(self._idle, lambda: not self.jobs)
