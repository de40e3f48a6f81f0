"""Writes that get a part of their value before they are stored: the ids of messages.

A reducer says so by a `stamp` of its own, `(write, seed) -> write`; the seed is the place of the
write, so that whoever folds it finds the same value each time.
"""

from collections.abc import Iterable

from actorgraph.plan.graph import Plan
from actorgraph.values.run import Write


def stamped(plan: Plan, writes: Iterable[Write], seed: str) -> list[Write]:
    """The writes, those to stamping channels stamped.

    Args:
        seed: the task that makes them.
    """
    stamps = plan.stamps
    if not stamps:
        return list(writes)
    return [
        (c, stamps[c](value, f"{seed}:{place}") if c in stamps else value)
        for place, (c, value) in enumerate(writes)
    ]
