"""EndedRuns: the newest runs of a system that have ended, bounded by number and bytes.

A program asks for a result by the run's id after the run has ended. One that isn't here any more is
read from the store, as a run of another process is. So a batch of large results can't fill the
memory with what its reader has had. Handles (`Run`) keep their own run, however old.
"""

from collections import OrderedDict
from collections.abc import Sequence

from actorgraph.runtime.sizes import MB
from actorgraph.runtime.system.job import Job

ENDED_BYTES = 16 * MB
"""Approximate bytes that the ended runs of a system hold; the newest may be of any size."""


class EndedRuns:
    """The newest ended runs, in the order of their ends.

    Args:
        count: the most runs.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._jobs: OrderedDict[bytes, Job] = OrderedDict()
        self._sizes: dict[bytes, int] = {}
        self._bytes = 0

    def add(self, job: Job) -> Sequence[Job]:
        """Add a run that has ended. Returns those that it displaces, oldest first."""
        self._jobs[job.id] = job
        size = self._sizes[job.id] = job.held_bytes()
        self._bytes += size
        displaced: list[Job] = []
        while len(self._jobs) > self._count or (self._bytes > ENDED_BYTES and len(self._jobs) > 1):
            oldest = self.pop(next(iter(self._jobs)))
            assert oldest is not None
            displaced.append(oldest)
        return displaced

    def pop(self, run: bytes) -> Job | None:
        """Remove and return a run; None if it isn't here."""
        self._bytes -= self._sizes.pop(run, 0)
        return self._jobs.pop(run, None)

    def get(self, run: bytes) -> Job | None:
        """Return a run; None if it isn't here."""
        return self._jobs.get(run)

    def values(self) -> Sequence[Job]:
        """Return all runs, oldest first."""
        return tuple(self._jobs.values())

    def __contains__(self, run: bytes) -> bool:
        return run in self._jobs
