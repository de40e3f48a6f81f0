"""Batcher: how batches of one event loop reach a store's connection: together, one hop at a time.

What waits while a hop is away goes with the next one, in one transaction. So a thousand tasks
need one worker thread, and one commit for many of them. A task that is cancelled while its batch
is away waits for the outcome; one that waits for its turn takes its batch back.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import RunVar, cancel_shielded_checkpoint

from actorgraph.loops import unbroken

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
JOBS_MAX = 512


class _Job(Generic[JobT, ResultT]):
    """A job, and what is known about it. `woken`: it is done, or its task is to lead."""

    __slots__ = ("done", "error", "job", "result", "woken")

    def __init__(self, job: JobT) -> None:
        self.job = job
        self.woken = anyio.Event()
        self.done = False
        self.result: ResultT
        self.error: BaseException | None = None


class _LoopQueue(Generic[JobT, ResultT]):
    """Of one event loop: the jobs that wait, and whether a task leads."""

    __slots__ = ("led", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Job[JobT, ResultT]] = deque()
        self.led = False


class Batcher(Generic[JobT, ResultT]):
    """One lane for each event loop that the store is used in.

    Args:
        carry_out: the results of some jobs. What it raises, every caller of these jobs gets.
        gathers: whether the first job waits for those that other tasks have at the same moment.
    """

    def __init__(
        self,
        carry_out: Callable[[list[JobT]], Awaitable[list[ResultT]]],
        *,
        gathers: bool = False,
    ) -> None:
        self._carry_out = carry_out
        self._gathers = gathers
        self._lane: RunVar[_LoopQueue[JobT, ResultT]] = RunVar(f"actorgraph-lane-{id(self)}")

    async def run(self, job: JobT) -> ResultT:
        """The result of a job."""
        lane = self._lane.get(None)
        if lane is None:
            lane = _LoopQueue[JobT, ResultT]()
            self._lane.set(lane)
        mine = _Job[JobT, ResultT](job)
        lane.waiting.append(mine)
        if lane.led:
            await self._turn(lane, mine)
        if not mine.done:
            await self._lead(lane, mine)
        if mine.error is not None:
            raise mine.error
        return mine.result

    async def _turn(self, lane: _LoopQueue[JobT, ResultT], mine: _Job[JobT, ResultT]) -> None:
        """Wait until the job is done, or this task leads."""
        try:
            await mine.woken.wait()
        except BaseException:
            if mine in lane.waiting:
                lane.waiting.remove(mine)
                if mine.woken.is_set():
                    _pass_on(lane)
            else:
                with anyio.CancelScope(shield=True):
                    await mine.woken.wait()
            raise

    async def _lead(self, lane: _LoopQueue[JobT, ResultT], mine: _Job[JobT, ResultT]) -> None:
        """Take along what waits; then the next one leads."""
        lane.led = True
        taken: list[_Job[JobT, ResultT]] = []
        # Whatever ends this, the lane is led by another task, or free: no await is outside.
        try:
            if self._gathers:
                await cancel_shielded_checkpoint()
            taken += (lane.waiting.popleft() for _ in range(min(len(lane.waiting), JOBS_MAX)))
            await unbroken(partial(self._hop, taken))
        finally:
            for one in taken:
                one.done = True
                one.woken.set()
            if mine in lane.waiting:
                lane.waiting.remove(mine)
            _pass_on(lane)

    async def _hop(self, taken: list[_Job[JobT, ResultT]]) -> None:
        try:
            results = await self._carry_out([one.job for one in taken])
            for one, result in zip(taken, results, strict=True):
                one.result = result
        except BaseException as error:  # noqa: BLE001 - every one of them gets it
            for one in taken:
                one.error = error


def _pass_on(lane: _LoopQueue[JobT, ResultT]) -> None:
    if lane.waiting:
        lane.waiting[0].woken.set()
    else:
        lane.led = False
