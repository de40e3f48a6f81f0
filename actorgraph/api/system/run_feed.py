"""RunFeed: the runs of a thread, as they start."""

from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Self

from actorgraph.api.system.run_handle import Run
from actorgraph.errors import SlowReaderError
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.system.actor import SystemActor
from actorgraph.runtime.system.job import Job

WAITING_MAX = 1000
"""Runs that may have been started and not been asked for yet."""


class _RunQueue:
    """The runs that a reader has not asked for yet.

    The system refers to this alone, so that a reader that is dropped is freed.
    """

    def __init__(self, jobs: Iterable[Job], *, over: bool) -> None:
        self.jobs: deque[Job] = deque(jobs)
        self.over = over
        self.slow = False
        self.more = Gate()

    def put(self, job: Job | None) -> None:
        """Add a run; None for the end."""
        if job is None:
            self.over = True
        elif len(self.jobs) < WAITING_MAX:
            self.jobs.append(job)
        else:
            self.slow = True
        self.more.open()


class RunFeed(AsyncIterator[Run]):
    """The runs of one thread; see `ActorSystem.follow`. Iterate it once.

    Leave it by `break`, or with `close()`. At most `WAITING_MAX` runs are queued for a slow
    reader.
    """

    def __init__(self, actor: SystemActor, thread_id: str) -> None:
        self._actor = actor
        self._thread_id = thread_id
        jobs = [job for job in actor.jobs.values() if job.thread_id == thread_id]
        jobs.sort(key=lambda job: job.id)
        self._queue = _RunQueue(jobs, over=actor.draining is not None)
        # Kept: each access makes another bound method, and `close` must find this one.
        self._put = self._queue.put
        actor.followers.setdefault(thread_id, []).append(self._put)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Run:
        """Return the next run.

        Raises:
            StopAsyncIteration: the system drains.
            SlowReaderError: more than `WAITING_MAX` runs were started meanwhile.
        """
        queue = self._queue
        while not queue.jobs:
            if queue.slow:
                self.close()
                raise SlowReaderError(
                    f"more than {WAITING_MAX} runs of thread {self._thread_id!r} were started "
                    "before they were asked for",
                    do="follow the thread again, and call runs(thread_id=) for those in between",
                )
            if queue.over:
                self.close()
                raise StopAsyncIteration
            queue.more = Gate()
            await queue.more.wait()
        return Run(queue.jobs.popleft(), self._actor.cancel)

    def close(self) -> None:
        """Stop following."""
        self._queue.over = True
        readers = self._actor.followers.get(self._thread_id, [])
        if self._put in readers:
            readers.remove(self._put)
        if not readers:
            self._actor.followers.pop(self._thread_id, None)

    def __del__(self) -> None:
        self.close()
