"""When a task ran, in the few bytes that its stored row has for it.

A list: the start in microseconds since 1970, the duration, and for each failed attempt before
`[start, duration, error]`.
"""

from collections.abc import Sequence
from typing import Any

from actorgraph.values.run import FailedAttempt, TaskTimes


def pack_times(times: TaskTimes) -> list[Any]:
    """Make the list that is stored."""
    packed: list[Any] = [times.start, times.end - times.start]
    if times.failed:
        packed += [[f.start, f.end - f.start, f.error] for f in times.failed]
    return packed


def unpack_times(packed: Sequence[Any]) -> TaskTimes:
    """Read a stored list; those of later versions may have more fields per attempt."""
    start, duration, *failed = packed
    attempts = tuple(FailedAttempt(f[0], f[0] + f[1], f[2]) for f in failed)
    return TaskTimes(start, start + duration, attempts)
