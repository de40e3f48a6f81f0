"""What becomes of a run whose process has died: taken up, parked, or left to others."""

from collections.abc import Collection

import msgspec

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
    """Leave it to a system that has its graph."""


def taken_over(row: RunRow, graphs: Collection[str], attempts_max: int) -> TakeUp | Park | Leave:
    """Decide about an orphan.

    Args:
        attempts_max: processes that may die of one run.
    """
    if row.graph not in graphs:
        return Leave()
    if row.attempts >= attempts_max:
        return Park(f"{row.attempts} processes have ended while they ran it")
    return TakeUp(row.claimed)
