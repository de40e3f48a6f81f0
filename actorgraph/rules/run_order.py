"""The order of the open runs of one thread, which every process sees alike.

A run that has begun comes first, then by id. A run that waits for its time alone holds no thread.
Savers and systems decide by these: a saver picks the first open run of a thread by the same rule.
"""

from collections.abc import Iterable

from actorgraph.values.systems import OPEN_STATUSES, OpenRun, RunRow


def waits_for_time(row: OpenRun | RunRow, now: int) -> bool:
    """Whether an open run waits for its time alone: it doesn't hold its thread.

    A run that a living system has, or that has begun, holds it even if that system's clock is ahead
    of this one's.

    Args:
        now: microseconds since 1970-01-01 UTC.
    """
    return row.due > now and not row.alive and not row.claimed


def is_to_come(row: RunRow, now: int) -> bool:
    """Whether a run belongs to a later time: it waits for that, or was ended before it came.

    Nothing of it is in its thread, and its id is above those of the runs of now.

    Args:
        now: microseconds since 1970-01-01 UTC.
    """
    if row.status in OPEN_STATUSES:
        return waits_for_time(row, now)
    return row.due > now and not row.claimed


def newest_of(rows: Iterable[RunRow], now: int) -> RunRow | None:
    """The newest run of a thread; one of a later time only if it has no other. None without any.

    Args:
        rows: runs of one thread.
        now: microseconds since 1970-01-01 UTC.
    """
    return max(rows, key=lambda row: (not is_to_come(row, now), row.run), default=None)


def place_in_thread(row: OpenRun | RunRow) -> tuple[bool, bytes]:
    """The place of an open run among those of its thread, to sort by: begun ones, then by id."""
    return not row.claimed, row.run


def is_ahead(
    run: bytes, owner: bytes | None, other: OpenRun | RunRow, *, begun: bool = False
) -> bool:
    """Whether an open run of another system comes before `run` on their thread.

    Ids grow with time, so all processes see the runs of a thread in one order; the id of a delayed
    run has the time at which it may begin, so that it is behind the runs of now. A younger run that
    has begun elsewhere has the thread all the same, until it has ended: one that begins in the
    middle of it would take its remaining tasks away. Of two that have begun, as an earlier version
    may have left them, the lower id goes first: neither waits for the other for ever. A system
    orders its own runs by its lanes.

    Args:
        owner: the system of `run`.
        begun: whether `run` had begun before.
    """
    if other.owner == owner or other.run == run:
        return False
    if other.claimed and other.alive and not begun:
        return True
    return place_in_thread(other) < (not begun, run)
