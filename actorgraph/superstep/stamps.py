"""Writes that are completed before they are stored: messages get their ids."""

from collections.abc import Iterable

from actorgraph.plan.graph import Plan
from actorgraph.values.run import Write


def stamped(plan: Plan, writes: Iterable[Write], seed: str) -> list[Write]:
    """Complete the writes to channels whose reducer has a `stamp`: `(write, seed) -> write`.

    The seed says which write of which task it is, so that folding it again after a crash or for
    a snapshot gives the same ids.

    Args:
        seed: the id of the task that makes the writes.
    """
    stamps = plan.stamps
    if not stamps:
        return list(writes)
    return [
        (c, stamps[c](value, f"{seed}:{place}") if c in stamps else value)
        for place, (c, value) in enumerate(writes)
    ]
