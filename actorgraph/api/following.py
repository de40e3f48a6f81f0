"""Following: the runs of a thread, one after the other, as they are started."""

from collections import deque
from collections.abc import AsyncIterator
from typing import Self

from actorgraph.api.runs import Run
from actorgraph.errors import SlowReaderError
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.system.actor import SystemActor
from actorgraph.runtime.system.job import Job

WAITING_MAX = 1000


class Following(AsyncIterator[Run]):
    """See `ActorSystem.follow`. Iterate it once; `close()` leaves.

    Runs that were started and not asked for yet wait here, `WAITING_MAX` of them at most.
    """

    def __init__(self, actor: SystemActor, thread_id: str) -> None:
        self._actor = actor
        self._thread_id = thread_id
        jobs = [job for job in actor.jobs.values() if job.thread_id == thread_id]
        self._waiting: deque[Job] = deque(sorted(jobs, key=lambda job: job.id))
        self._over = actor.draining is not None
        self._slow = False
        self._more = Gate()
        self._told = self._tell  # one object, to be found again
        actor.followers.setdefault(thread_id, []).append(self._told)

    def _tell(self, job: Job | None) -> None:
        if job is None:
            self._over = True
        elif len(self._waiting) < WAITING_MAX:
            self._waiting.append(job)
        else:
            self._slow = True
        self._more.open()

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> Run:
        """The next run.

        Raises:
            StopAsyncIteration: the system drains.
            SlowReaderError: more runs were started than can wait here.
        """
        while not self._waiting:
            if self._slow:
                self.close()
                raise SlowReaderError(
                    f"more than {WAITING_MAX} runs of thread {self._thread_id!r} were started "
                    "before they were asked for",
                    do="follow the thread again, and see runs(thread_id=) for those between",
                )
            if self._over:
                self.close()
                raise StopAsyncIteration
            self._more = Gate()
            await self._more.wait()
        return Run(self._waiting.popleft(), self._actor.cancel)

    def close(self) -> None:
        """Follow no more."""
        self._over = True
        told = self._actor.followers.get(self._thread_id, [])
        if self._told in told:
            told.remove(self._told)
        if not told:
            self._actor.followers.pop(self._thread_id, None)
