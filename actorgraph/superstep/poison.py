"""Poison: which deaths of processes count against a run, and when it is tried alone or given up.

A process may die of one of its runs, and takes all others with it. So a death that is counted only
makes a run a suspect. A suspect is tried alone: its system begins no other run beside it. The run
during whose trial a process dies is the one that kills processes.

    what is found, when a run has lost its system            what becomes of `deaths`
    -------------------------------------------------------  ------------------------
    it was given back, or waited and hadn't begun there      as before
    its process is alive: it was stopped, or is too slow     as before; a trial is over
    its process is gone, or unknown                          one more, up to a suspect's
    its process is gone, and had it on trial                 parked
    its process is unknown, and had it on trial              as before, and left until that is gone

and a run that has stored anything but its claim since it was begun has progressed: 0 deaths.
"""

from collections.abc import Iterable
from typing import Literal

from actorgraph.values.systems import NO_OWNER, RunRow

Fate = Literal["alive", "gone", "unknown"]
"""What is known of the process that had a run: it lives, it doesn't, or it may be elsewhere."""

SILENT_LEASES = 4
"""A process of which nothing is known is taken as gone when its lease is over for so many more."""
TRIAL_S = 60.0
"""Longest time for which other runs wait for a trial to begin, and then for it to end."""


def is_suspect(deaths: int, attempts_max: int) -> bool:
    """Whether a run may be what kills processes, so that it is tried alone.

    Args:
        deaths: counted so far.
        attempts_max: processes that may die while they run it. With 1 nothing is tried again.
    """
    return attempts_max > 1 and deaths >= attempts_max - 1


def is_on_trial(row: RunRow, attempts_max: int) -> bool:
    """Whether its system has noted that it runs it alone, or had a higher limit."""
    return row.deaths >= attempts_max


def deaths_after(row: RunRow, fate: Fate, attempts_max: int) -> int:
    """Count the deaths of a run that is taken over; at least `attempts_max` means: park it.

    Args:
        row: as its former system left it.
        fate: of that system's process.
        attempts_max: processes that may die while they run it.
    """
    if is_on_trial(row, attempts_max):
        return attempts_max - 1 if fate == "alive" else row.deaths
    ran = row.status == "running" and row.owner not in (None, NO_OWNER)
    if not ran or fate == "alive":
        return row.deaths
    return min(row.deaths + 1, max(attempts_max - 1, 1))


def is_silent(lease_s: float | None, length_s: float) -> bool:
    """Whether the owner of a lease is taken as gone, as nothing else is known of its process.

    Args:
        lease_s: seconds until its lease ends, negative since it ended; None if it gave it up.
        length_s: seconds of a lease.
    """
    return lease_s is None or lease_s < -SILENT_LEASES * length_s


def has_progressed(saves: int) -> bool:
    """Whether a run has got further than the process that had it before.

    Args:
        saves: those that it has stored since it was begun; the first one is its claim.
    """
    return saves > 1


def why_not_retried(row: RunRow, head: bytes | None, open_rows: Iterable[RunRow]) -> str:
    """Return why a parked run can't go on where it was; "" if it can.

    Args:
        row: as stored.
        head: the run that stored the newest checkpoint of its thread; None if no run did.
        open_rows: open runs of its thread.
    """
    if row.status != "parked":
        return f"it is not parked: its status is {row.status!r}"
    if any(other.claimed for other in open_rows):
        return "another run of its thread is going on"
    if row.claimed and head is not None and head > row.run:
        return "its thread has gone on with another run since"
    return ""
