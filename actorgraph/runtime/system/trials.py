"""Trials: begins suspects of killing processes one at a time, without other runs beside them.

Receives   runs that were taken over, when they may begin; the rules are in rules/system/scheduling
Stores     before a suspect begins, that it is on trial: if this process dies now, it is parked.
           When a run has progressed, that it has no deaths
Bounds     other runs wait at most `TRIAL_S` for a trial to begin, and as long for its end
Ends       when it has no run to look after; a drain settles those that have not begun
"""

import time
from collections import deque
from collections.abc import Callable

import anyio
import msgspec
from anyio.abc import TaskGroup

from actorgraph.errors import CheckpointError
from actorgraph.rules.system.scheduling import TRIAL_S, has_progressed, is_suspect
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.system.job import Job
from actorgraph.values.systems import AdoptRun

LOOK_S = 0.05
"""Seconds between two looks at the runs with deaths."""


class Trials:
    """Looks after the runs during which processes have died; see the module's docstring.

    Args:
        attempts_max: processes that may die during one run.
        spawn: begins a run.
        fill: begins the runs that wait for a slot.
        active: returns the number of active runs.

    Attributes:
        holding: whether other runs must wait.
        tried: suspects that were begun alone so far.
        on_released: functions to call when they may begin again.
    """

    def __init__(
        self,
        attempts_max: int,
        *,
        spawn: Callable[[Job], None],
        fill: Callable[[], None],
        active: Callable[[], int],
    ) -> None:
        self._attempts_max = attempts_max
        self._spawn = spawn
        self._active = active
        self._host: Host | None = None
        self._group: TaskGroup | None = None
        self._suspects: deque[Job] = deque()
        self._watched: dict[bytes, Job] = {}
        self._serving = False
        self.holding = False
        self.tried = 0
        self.on_released: list[Callable[[], None]] = [fill]

    @property
    def suspects(self) -> int:
        """Number of suspects that wait to be tried, or are being tried."""
        return len(self._suspects) + self.holding

    def open(self, host: Host | None, group: TaskGroup) -> None:
        """Take runs from now on.

        Args:
            host: of the saver; None if that keeps no runs.
            group: for the trials.
        """
        self._host, self._group = host, group

    def takes(self, job: Job) -> bool:
        """Whether a run that may begin is begun here, alone; one with few deaths is watched."""
        if not job.row.deaths or self._host is None or self._group is None:
            return False
        suspect = is_suspect(job.row.deaths, self._attempts_max)
        if suspect:
            self._suspects.append(job)
        else:
            self._watched[job.id] = job
        if not self._serving:
            self._serving = True
            self._group.start_soon(self._serve)
        return suspect

    async def _serve(self) -> None:
        try:
            while self._suspects or self._watched:
                if self._suspects:
                    await self._try(self._suspects.popleft())
                else:
                    await self._look()
        finally:
            self._serving = False

    async def _try(self, job: Job) -> None:
        """Begin a suspect when no other run is active; return when it may be counted out."""
        self.holding = True
        try:
            await self._until(lambda: job.done.is_open or not self._active(), TRIAL_S)
            if job.done.is_open or job.ending:
                return
            ids = {"run_id": job.text, "thread_id": job.thread_id}
            self.tried += 1
            log_event("warning", "run.tried_alone", **ids, deaths=job.row.deaths)
            # Refused if another system has the run: then its claim is refused too.
            await self._note(job, self._attempts_max)
            self._spawn(job)
            if not await self._until(lambda: _is_over(job), TRIAL_S):
                self._release()
                await self._until(lambda: _is_over(job), float("inf"))
            if not job.done.is_open:
                await self._settle(job)
        finally:
            self._release()

    def _release(self) -> None:
        self.holding = False
        for notify in self.on_released:
            notify()

    async def _until(self, over: Callable[[], bool], limit_s: float) -> bool:
        """Wait until something is over, or for some seconds; return whether it is over."""
        end = time.monotonic() + limit_s
        while not over():
            if time.monotonic() > end:
                return False
            await self._look()
        return True

    async def _look(self) -> None:
        """Note what the watched runs have reached, after a moment."""
        await anyio.sleep(LOOK_S)
        for job in list(self._watched.values()):
            if _is_over(job):
                del self._watched[job.id]
                if not job.done.is_open:
                    await self._settle(job)

    async def _settle(self, job: Job) -> None:
        """Store that a run has progressed; of one that must begin again later, its deaths."""
        if job.begun:
            job.row = msgspec.structs.replace(job.row, deaths=0)
        await self._note(job, job.row.deaths)

    async def _note(self, job: Job, deaths: int) -> None:
        """Store a run's deaths; an error is only logged."""
        assert self._host is not None
        row, owner = job.row, job.row.owner or b""
        note = AdoptRun(row.run, row.thread_id, owner, owner, row.attempts, deaths=deaths)
        try:
            await self._host.writer.store(note)
        except CheckpointError as error:
            log_event("warning", "run.deaths_not_stored", run_id=job.text, error=repr(error))


def _is_over(job: Job) -> bool:
    """Whether a run has ended, must begin again later, or has progressed."""
    return job.done.is_open or not job.begun or has_progressed(job.durable)
