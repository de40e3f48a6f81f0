"""The recent history of a system's figures: a ring of samples, in memory only.

Receives   nothing; takes a sample every `SAMPLE_S` seconds
Bounds     `SAMPLES_MAX` samples: half an hour
Ends       when the system's task group is cancelled
"""

from collections import deque
from collections.abc import Callable

import anyio
import msgspec

from actorgraph.runtime.clock import microseconds_now
from actorgraph.runtime.system.statistics import SystemStatistics

SAMPLE_S = 5.0
SAMPLES_MAX = 360
_BAD = ("error", "timeout", "parked")


class StatisticsSample(msgspec.Struct, frozen=True):
    """Figures of a system at one moment; counts are those since the sample before.

    Attributes:
        time: microseconds since 1970-01-01 UTC.
        active: runs that were active.
        backlog: runs that waited: for a slot, their thread, or a worker.
        started: runs accepted.
        ended: runs that ended.
        errors: those of them that failed, ran out of time or were parked.
        refused: runs refused.
        supersteps: supersteps done.
        commits: batches committed.
        commit_s: mean seconds of a batch; None without one, and for savers in memory.
        unsaved: requests that waited to be committed.
        unsaved_bytes: their bytes.
        loop_delay_s: seconds by which the event loop was late to take the sample: other tasks, or
            a blocking call, had it.
    """

    time: int
    active: int
    backlog: int
    started: int
    ended: int
    errors: int
    refused: int
    supersteps: int
    commits: int
    commit_s: float | None
    unsaved: int
    unsaved_bytes: int
    loop_delay_s: float = 0.0


def sample_of(
    now: SystemStatistics, before: SystemStatistics, time: int, *, delay_s: float = 0.0
) -> StatisticsSample:
    """Make the sample of a moment.

    Args:
        before: the figures at the sample before.
        time: microseconds since 1970-01-01 UTC.
        delay_s: see `StatisticsSample.loop_delay_s`.
    """
    saver, earlier = now.persistence, before.persistence
    commits, seconds, unsaved = 0, 0.0, 0
    if saver is not None:
        unsaved = saver.waiting
        commits = saver.commits - (earlier.commits if earlier is not None else 0)
        seconds = saver.commit_s - (earlier.commit_s if earlier is not None else 0.0)
    left, known = now.left, before.left
    waiting = 0 if now.dispatch is None else now.dispatch.waiting
    return StatisticsSample(
        time=time,
        active=now.active,
        backlog=now.queued + now.held + waiting,
        started=now.started - before.started,
        ended=sum(left.values()) - sum(known.values()),
        errors=sum(left.get(name, 0) - known.get(name, 0) for name in _BAD),
        refused=now.refused - before.refused,
        supersteps=max(0, now.supersteps - before.supersteps),
        commits=commits,
        commit_s=seconds / commits if commits and seconds else None,
        unsaved=unsaved,
        unsaved_bytes=now.unsaved_bytes,
        loop_delay_s=delay_s,
    )


class Sampler:
    """Keeps the newest samples.

    Args:
        read: returns the figures now.
    """

    def __init__(self, read: Callable[[], SystemStatistics]) -> None:
        self._read = read
        self._before: SystemStatistics | None = None
        self.samples: deque[StatisticsSample] = deque(maxlen=SAMPLES_MAX)

    def take(self, delay_s: float = 0.0) -> None:
        """Take a sample; the first call only notes the counts.

        Args:
            delay_s: see `StatisticsSample.loop_delay_s`.
        """
        now = self._read()
        if self._before is not None:
            at = microseconds_now()
            self.samples.append(sample_of(now, self._before, at, delay_s=delay_s))
        self._before = now

    async def serve(self) -> None:
        """Take samples until cancelled."""
        delay_s = 0.0
        while True:
            self.take(delay_s)
            due = anyio.current_time() + SAMPLE_S
            await anyio.sleep_until(due)
            delay_s = max(0.0, anyio.current_time() - due)
