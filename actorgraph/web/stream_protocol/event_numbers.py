"""Numbers of a thread's events in the streaming protocol: one growing count over all of its runs.

A run numbers its events itself, from 1. The protocol wants one number per thread, the same in
every process and after every restart, so that a client can continue after the last one that it
has. It is computed from ids alone: the second in the run's id, in which it was accepted or from
which it may begin, then the event's place in the run. Runs are numbered in the order of their ids,
so that a run that is stored with an earlier id doesn't move the numbers of those behind it.
"""

from collections.abc import Sequence

from actorgraph.internals import milliseconds_of

SINCE_S = 1_704_067_200
"""2024-01-01 UTC: runs are counted from here, so that numbers stay below 2**53 until 2041."""

PARTS = 64
"""Protocol events that one event of a run may become with numbers of their own."""

_RUN = 2**24
"""Numbers per second: the distance between the first events of two runs, at least."""


def first_numbers(runs: Sequence[bytes]) -> list[int]:
    """Return for each run of a thread the number below that of its first event.

    Runs with ids of the same second get the next seconds, so that the numbers grow from
    run to run. A run reaches the number of the next one only with more than 262,144 events in
    each second between the two.

    Args:
        runs: their ids, lowest first.
    """
    found: list[int] = []
    second = -1
    for run in runs:
        second = max(milliseconds_of(run) // 1000 - SINCE_S, second + 1)
        found.append(second * _RUN)
    return found


def number_of(first: int, offset: int, part: int) -> int:
    """Return the number of a part of a run's event; parts beyond `PARTS` share the last one."""
    return first + offset * PARTS + min(part, PARTS - 1)
