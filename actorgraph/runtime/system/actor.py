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
from collections.abc import Callable
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from actorgraph.errors import (
    OtherLoopError,
    SystemBusyError,
    SystemClosedError,
    ThreadBusyError,
)
from actorgraph.errors.texts import storable
from actorgraph.runtime.calls import SYSTEM_LIMITER
from actorgraph.runtime.context import CURRENT
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate, wait_in
from actorgraph.runtime.runs import Launch, prepare
from actorgraph.runtime.supervisor import Supervisor
from actorgraph.runtime.system.handing import handed_over
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.leaving import store_status, tell_left
from actorgraph.runtime.system.limits import SystemLimits
from actorgraph.runtime.system.pace import Pace
from actorgraph.runtime.system.watchdog import Watchdog
from actorgraph.superstep.turns import (
    FREE,
    Begin,
    Busy,
    Drop,
    End,
    Erase,
    Full,
    Lane,
    Step,
    arrived,
    erased,
    left,
)
from actorgraph.values.ids import as_text
from actorgraph.values.retention import DeleteRuns
from actorgraph.values.run import Cancelled, Failed, Outcome
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
        self.limiter: anyio.CapacityLimiter | None = None
        self.watchdog: Watchdog | None = None
        self._idle: list[Gate] = []
        self._thread = 0

    def open(self, host: Host, owner: bytes, group: TaskGroup) -> None:
        """Be ready for runs; their tasks live in the group."""
        self.host, self.owner, self.group = host, owner, group
        self._thread = threading.get_ident()
        self.coming, self.beginning = Pace(group), Pace(group, host.writer)

    # --- runs come ---

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
            self._refuse(self._too_many())
        await coming.turn(Gate())
        coming.over()

    async def submit(self, job: Job, if_busy: IfBusy = "reject", *, stored: bool = False) -> None:
        """Take a run; returns once it is durable that it was taken.

        Args:
            stored: whether the store has its row already.
        Raises:
            SystemClosedError: the system takes no more runs.
            SystemBusyError: there are too many; nothing was written.
            ThreadBusyError: "reject", and the thread has a run; nothing was written.
            StorageError: it could not be stored, and does not run.
        """
        self._admit(if_busy, job.thread_id)
        lane = self.lanes.get(job.thread_id, FREE)
        lane, steps = arrived(lane, job.id, if_busy, self.limits.max_waiting)
        for step in steps:
            if isinstance(step, Busy):
                self._refuse(self._busy(job, step))
            if isinstance(step, Full):
                self._refuse(self._full(job, step))
        self.lanes[job.thread_id] = lane
        self.jobs[job.id] = job
        self.counts["started"] += 1
        for tell in tuple(self.followers.get(job.thread_id, ())):  # one may be left meanwhile
            tell(job)
        answer = None
        if self.keeps and not stored:
            assert self.host is not None
            # Handed over before the run's claim, so that it is stored no later than that.
            request = PutRun(job.row, job.thread_id, len(job.row.payload))
            answer = handed_over(self.host.writer, request)
        self._carry_out(job.thread_id, steps)
        if answer is not None:
            try:
                await answer()
            except Exception as error:
                job.end(f"its row could not be stored: {error}")
                self._withdraw(job)
                raise

    def _admit(self, if_busy: IfBusy, thread_id: str) -> None:
        """Refuse a run for which there is no place, whatever its thread says."""
        if self.draining is not None or self.group is None:
            why = "is closing" if self.draining else "is not open"
            raise SystemClosedError(
                f"the system {why}; the run was not taken",
                do="start it on another server, or after the restart",
            )
        if threading.get_ident() != self._thread:
            raise OtherLoopError(
                "the system was opened in the event loop of another thread, which would not hear "
                "of this run",
                do="start it there, such as by anyio.from_thread.run(system.start, ...)",
            )
        limits = self.limits
        waits = self.active >= limits.max_runs or (
            if_busy != "reject" and self.lanes.get(thread_id, FREE).active is not None
        )
        if waits and self.queued >= limits.max_queued:
            self._refuse(self._too_many())
        if self.host is None:
            return
        waiting = self.host.writer.waiting_bytes
        if waiting > limits.max_unsaved_bytes:
            text = f"{waiting} bytes of other runs wait to be stored"
            self._refuse(_too_busy(text, "raise max_unsaved_bytes", limits))

    def _refuse(self, error: Exception) -> None:
        self.refused += 1
        raise error

    def _too_many(self) -> SystemBusyError:
        text = f"{self.active} runs go on and {self.queued} wait, as many as may"
        return _too_busy(text, "raise max_runs or max_queued", self.limits)

    def _busy(self, job: Job, step: Busy) -> ThreadBusyError:
        return ThreadBusyError(
            f"thread {job.thread_id!r} has run {as_text(step.active)}",
            do='wait for it, or start with if_busy="enqueue", "interrupt" or "rollback"',
            thread_id=job.thread_id,
            run_id=as_text(step.active),
        )

    def _full(self, job: Job, step: Full) -> SystemBusyError:
        text = f"{step.waiting} runs wait for thread {job.thread_id!r}, as many as may"
        return _too_busy(text, "raise max_waiting", self.limits)

    @property
    def queued(self) -> int:
        """Runs that wait: for a slot, or for their thread."""
        return len(self.jobs) - self.active

    # --- runs go on ---

    def _carry_out(self, thread_id: str, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Begin(run):
                    self._begin(self.jobs[run])
                case End(run, by):
                    self.jobs[run].end(f"run {as_text(by)} took its place")
                    self._withdraw(self.jobs[run])
                case Drop(run, by):
                    self.jobs[run].end(f"run {as_text(by)} took its place")
                    self._settle_unbegun(self.jobs[run])
                case Erase(run):
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
        outcome: Outcome = Cancelled()
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
                await self._leave(job, outcome)

    async def _set_up(self, job: Job, launch: Launch) -> tuple[Supervisor, list[Any]] | None:
        """The run's supervisor and first effects; None if it was told to end meanwhile."""
        journal = job.journal
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

    async def _leave(self, job: Job, outcome: Outcome) -> None:
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

    def _settle_unbegun(self, job: Job, outcome: Outcome | None = None) -> None:
        job.left(outcome or Cancelled(), self.draining)
        store_status(job, self._keeping, self.owner)
        job.say_end()
        self._settle(job)

    def _settle(self, job: Job) -> None:
        """A run has left: forget it soon, and let the next one of its thread begin."""
        self.jobs.pop(job.id, None)
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
        while self.ready and self.active < self.limits.max_runs and self.draining is None:
            following = self.ready.popleft()
            if not following.ending:
                self._spawn(following)
        if not self.jobs:
            idle, self._idle = self._idle, []
            for gate in idle:
                gate.open()

    def _note_lane(self, thread_id: str, lane: Lane) -> None:
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

    # --- the end ---

    async def drain(self, reason: str, timeout_s: float) -> None:
        """Take no more runs; let those that go on finish their superstep; leave the rest.

        Args:
            timeout_s: after four fifths of it runs are cancelled in their superstep.
        """
        reason = storable(reason)
        if self.draining is None:
            self.draining = reason
            log_event("info", "system.draining", active=self.active, queued=self.queued)
            for tell in [one for told in list(self.followers.values()) for one in tuple(told)]:
                tell(None)
        for job in list(self.jobs.values()):
            job.control.request_drain(reason)
            if not job.begun or not job.turn.is_open:
                self.cancel(job, reason)
        with anyio.move_on_after(timeout_s * 0.8):
            await self._wait_idle()
        for job in list(self.jobs.values()):
            job.end(reason)
        with anyio.move_on_after(timeout_s * 0.2):
            await self._wait_idle()

    async def _wait_idle(self) -> None:
        await wait_in(self._idle, lambda: not self.jobs)


def _too_busy(what: str, how: str, limits: SystemLimits) -> SystemBusyError:
    return SystemBusyError(
        f"{what}; the run was not taken",
        do=f"ask again in {limits.retry_after_s} s, or {how}",
        retry_after_s=limits.retry_after_s,
    )
