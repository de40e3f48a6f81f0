"""Takeover of runs whose process has died.

In a rolling deploy a thread may wait for a node that only the other version has. Its run is not
parked: it waits, and is counted, until a process that has the node takes it over.
"""

from collections.abc import Collection

import msgspec

from actorgraph.errors.telling import error_text
from actorgraph.values.systems import RunRow


class TakeOver(msgspec.Struct, frozen=True):
    """Run the orphan.

    Attributes:
        go_on: whether its input is in the thread already, so that it goes on from there.
    """

    go_on: bool


class ParkRun(msgspec.Struct, frozen=True):
    """Give the orphan up until an operator resumes or cancels it.

    Attributes:
        reason: shown to the operator.
    """

    reason: str


class LeaveRun(msgspec.Struct, frozen=True):
    """Leave the orphan to another system.

    Attributes:
        reason: why this system can't run it.
    """

    reason: str


def decide_takeover(
    row: RunRow, graphs: Collection[str], attempts_max: int
) -> TakeOver | ParkRun | LeaveRun:
    """Decide about an orphan.

    Args:
        row: its stored row.
        graphs: names of the graphs that this system has.
        attempts_max: processes that may die while they run it.
    """
    if row.graph not in graphs:
        return LeaveRun(f"waits for a process that has the graph {row.graph!r}")
    if row.attempts >= attempts_max:
        return ParkRun(f"{row.attempts} processes have ended while they ran it")
    return TakeOver(row.claimed)


def misfit_reason(error: BaseException) -> str:
    """Make the reason for which a run waits whose thread this process can't go on with."""
    return f"waits for a process that can go on with it; this one can't: {error_text(error)}"


class MisfitRun(msgspec.Struct, frozen=True):
    """An orphan that this system can't run.

    Attributes:
        reason: why.
        tries: how often it was tried.
        until: when it is tried again, in seconds of the clock that `tried_in_vain` is given.
    """

    reason: str
    tries: int
    until: float


def next_misfit(known: MisfitRun | None, reason: str, now: float, pause_s: float) -> MisfitRun:
    """Record a failed try; the pause before the next one is twice as long each time.

    Only a change of the thread can help, and while this system tries, others can't take the run.

    Args:
        known: of the try before; None at the first.
        now: seconds.
        pause_s: the first pause.
    """
    tries = 1 if known is None else known.tries + 1
    return MisfitRun(reason, tries, now + pause_s * 2 ** min(tries - 1, LONGEST_PAUSE))


LONGEST_PAUSE = 6
"""How often the pause is doubled at most."""
