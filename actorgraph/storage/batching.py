"""Batcher: jobs of one event loop are carried out together, one group at a time.

Groups     jobs that arrive while a group is being carried out form the next one, so a thousand
           tasks need one worker thread, and one transaction for many of them
Leaders    a batch has no task of its own: one of the waiting tasks carries out the group of all
Cancelled  while its job is being carried out a task waits for the outcome; before that, it
           withdraws the job
Bounds     a group is at most 512 jobs
"""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import RunVar, cancel_shielded_checkpoint

from actorgraph.loops import shielded

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
JOBS_MAX = 512


class _PendingJob(Generic[JobT, ResultT]):
    """A job and its outcome.

    Attributes:
        woken: set when the job is done, or its task is to lead.
    """

    __slots__ = ("done", "error", "job", "result", "woken")

    def __init__(self, job: JobT) -> None:
        self.job = job
        self.woken = anyio.Event()
        self.done = False
        self.result: ResultT
        self.error: BaseException | None = None


class _LoopQueue(Generic[JobT, ResultT]):
    """The waiting jobs of one event loop, and whether a task leads."""

    __slots__ = ("has_leader", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_PendingJob[JobT, ResultT]] = deque()
        self.has_leader = False


class Batcher(Generic[JobT, ResultT]):
    """One queue for each event loop that the store is used in.

    Args:
        carry_out: returns the results of some jobs, in order. An exception of it is raised to the
            caller of each of these jobs.
        gathers: whether the first job waits one turn of the event loop for jobs of other tasks.
    """

    def __init__(
        self,
        carry_out: Callable[[list[JobT]], Awaitable[list[ResultT]]],
        *,
        gathers: bool = False,
    ) -> None:
        self._carry_out = carry_out
        self._gathers = gathers
        self._queue: RunVar[_LoopQueue[JobT, ResultT]] = RunVar(f"actorgraph-queue-{id(self)}")

    async def run(self, job: JobT) -> ResultT:
        """Wait until a job is carried out; return its result."""
        queue = self._queue.get(None)
        if queue is None:
            queue = _LoopQueue[JobT, ResultT]()
            self._queue.set(queue)
        pending = _PendingJob[JobT, ResultT](job)
        queue.waiting.append(pending)
        if queue.has_leader:
            await self._wait_for_turn(queue, pending)
        if not pending.done:
            await self._lead(queue, pending)
        if pending.error is not None:
            raise pending.error
        return pending.result

    async def _wait_for_turn(
        self, queue: _LoopQueue[JobT, ResultT], pending: _PendingJob[JobT, ResultT]
    ) -> None:
        """Wait until the job is done, or this task is to lead."""
        try:
            await pending.woken.wait()
        except BaseException:
            # Still waiting: withdraw the job, and pass the lead on if it was just given to us.
            # Otherwise the job is being carried out, and its outcome must be waited for.
            if pending in queue.waiting:
                queue.waiting.remove(pending)
                if pending.woken.is_set():
                    _wake_next(queue)
            else:
                with anyio.CancelScope(shield=True):
                    await pending.woken.wait()
            raise

    async def _lead(
        self, queue: _LoopQueue[JobT, ResultT], pending: _PendingJob[JobT, ResultT]
    ) -> None:
        """Carry out the waiting jobs, up to `JOBS_MAX`; then let the next task lead."""
        queue.has_leader = True
        taken: list[_PendingJob[JobT, ResultT]] = []
        # However this ends, `finally` passes the lead on; so no await is outside of the `try`.
        try:
            if self._gathers:
                await cancel_shielded_checkpoint()
            taken += (queue.waiting.popleft() for _ in range(min(len(queue.waiting), JOBS_MAX)))
            await shielded(partial(self._carry_out_all, taken))
        finally:
            for entry in taken:
                entry.done = True
                entry.woken.set()
            if pending in queue.waiting:
                queue.waiting.remove(pending)
            _wake_next(queue)

    async def _carry_out_all(self, taken: list[_PendingJob[JobT, ResultT]]) -> None:
        try:
            results = await self._carry_out([entry.job for entry in taken])
            for entry, result in zip(taken, results, strict=True):
                entry.result = result
        except BaseException as error:  # noqa: BLE001 - every one of them gets it
            for entry in taken:
                entry.error = error


def _wake_next(queue: _LoopQueue[JobT, ResultT]) -> None:
    if queue.waiting:
        queue.waiting[0].woken.set()
    else:
        queue.has_leader = False
