"""What becomes of a run whose process has died: taken up, parked, or left to others.

In a rolling deploy a thread may wait for a node that only the other version has. Its run is
nobody's fault and is not parked: it waits, and is counted, until a process that fits takes it up.
"""

from collections.abc import Collection

import msgspec

from actorgraph.errors.telling import error_text
from actorgraph.values.systems import RunRow


class TakeUp(msgspec.Struct, frozen=True):
    """Run it.

    Attributes:
        go_on: whether its input is in the thread, so that it goes on from there.
    """

    go_on: bool


class Park(msgspec.Struct, frozen=True):
    """Give it up, until somebody looks at it."""

    reason: str


class Leave(msgspec.Struct, frozen=True):
    """Leave it to a system that can run it.

    Attributes:
        reason: why this one can't.
    """

    reason: str


def taken_over(row: RunRow, graphs: Collection[str], attempts_max: int) -> TakeUp | Park | Leave:
    """Decide about an orphan.

    Args:
        attempts_max: processes that may die of one run.
    """
    if row.graph not in graphs:
        return Leave(f"waits for a process that has the graph {row.graph!r}")
    if row.attempts >= attempts_max:
        return Park(f"{row.attempts} processes have ended while they ran it")
    return TakeUp(row.claimed)


def misfit(error: BaseException) -> str:
    """Why a run waits whose thread this process can't read."""
    return f"waits for a process that can go on with it; this one can't: {error_text(error)}"


class Misfit(msgspec.Struct, frozen=True):
    """A run that no system has and that this one can't run.

    Attributes:
        reason: why. tries: how often it was tried. until: when it is tried again, by the clock
            that `tried_in_vain` is given.
    """

    reason: str
    tries: int
    until: float


def tried_in_vain(known: Misfit | None, reason: str, now: float, pause_s: float) -> Misfit:
    """Note that a run doesn't fit; each pause before the next try is twice as long.

    Whether it fits changes only with its thread: other processes should not find it taken.
    """
    tries = 1 if known is None else known.tries + 1
    return Misfit(reason, tries, now + pause_s * 2 ** min(tries - 1, LONGEST_PAUSE))


LONGEST_PAUSE = 6
"""Pauses are doubled so often."""
