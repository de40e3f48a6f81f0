"""Following: the runs of a thread, one after the other, as they are started."""

from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Self

from actorgraph.api.runs import Run
from actorgraph.errors import SlowReaderError
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.system.actor import SystemActor
from actorgraph.runtime.system.job import Job

WAITING_MAX = 1000


class _Coming:
    """The runs that a follower has not asked for yet: all that the system has of it."""

    def __init__(self, jobs: Iterable[Job], *, over: bool) -> None:
        self.jobs: deque[Job] = deque(jobs)
        self.over = over
        self.slow = False
        self.more = Gate()

    def tell(self, job: Job | None) -> None:
        """Add a run; None: there will be no more."""
        if job is None:
            self.over = True
        elif len(self.jobs) < WAITING_MAX:
            self.jobs.append(job)
        else:
            self.slow = True
        self.more.open()


class Following(AsyncIterator[Run]):
    """See `ActorSystem.follow`. Iterate it once; leave it by `break`, or at once by `close()`.

    Runs that were started and not asked for yet wait here, `WAITING_MAX` of them at most.
    """

    def __init__(self, actor: SystemActor, thread_id: str) -> None:
        self._actor = actor
        self._thread_id = thread_id
        jobs = [job for job in actor.jobs.values() if job.thread_id == thread_id]
        jobs.sort(key=lambda job: job.id)
        self._coming = _Coming(jobs, over=actor.draining is not None)
        self._told = self._coming.tell  # one object, to be found again
        actor.followers.setdefault(thread_id, []).append(self._told)

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> Run:
        """The next run.

        Raises:
            StopAsyncIteration: the system drains.
            SlowReaderError: more runs were started than can wait here.
        """
        coming = self._coming
        while not coming.jobs:
            if coming.slow:
                self.close()
                raise SlowReaderError(
                    f"more than {WAITING_MAX} runs of thread {self._thread_id!r} were started "
                    "before they were asked for",
                    do="follow the thread again, and see runs(thread_id=) for those between",
                )
            if coming.over:
                self.close()
                raise StopAsyncIteration
            coming.more = Gate()
            await coming.more.wait()
        return Run(coming.jobs.popleft(), self._actor.cancel)

    def close(self) -> None:
        """Follow no more."""
        self._coming.over = True
        told = self._actor.followers.get(self._thread_id, [])
        if self._told in told:
            told.remove(self._told)
        if not told:
            self._actor.followers.pop(self._thread_id, None)

    def __del__(self) -> None:
        self.close()
