"""What may stop a run between its supersteps: a drain that somebody requests, a deadline."""

import time
from typing import TYPE_CHECKING

from actorgraph.superstep.limits import check_depth
from actorgraph.values.control import RunControl

if TYPE_CHECKING:
    from actorgraph.runtime.nested import NestedPlace

DEADLINE = "deadline"
"""The reason of a run that stops because its time is over."""


class Stopping:
    """The control and the deadline of a run; the runs inside of it have the same control.

    Attributes:
        deadline: on the process's monotonic clock, in seconds; None for none.
    """

    __slots__ = ("control", "deadline")

    def __init__(self, control: RunControl | None = None, deadline_s: float | None = None) -> None:
        self.control = control or RunControl()
        self.deadline = None if deadline_s is None else time.monotonic() + deadline_s

    def reason(self) -> str | None:
        """Why the run is to stop; None while it is to go on."""
        reason = self.control.drain_reason
        if reason is None and self.deadline is not None and time.monotonic() >= self.deadline:
            return DEADLINE
        return reason

    def below(self, control: RunControl | None, deadline_s: float | None) -> "Stopping":
        """What stops a run inside: this, or what its own call adds, whichever is first."""
        if control is None and deadline_s is None:
            return self
        own = Stopping(control or self.control, deadline_s)
        ends = [end for end in (self.deadline, own.deadline) if end is not None]
        own.deadline = min(ends, default=None)
        return own


def stopping_of(
    place: "NestedPlace | None", control: RunControl | None, deadline_s: float | None
) -> Stopping:
    """What stops a run at a place."""
    if place is None:
        return Stopping(control, deadline_s)
    return place.scope.lineage.stopping.below(control, deadline_s)


def depth_of(place: "NestedPlace | None", name: str, limit: int) -> int:
    """How many runs a run stands below its root.

    Raises:
        GraphRecursionError: too many.
    """
    if place is None:
        return 0
    depth = place.scope.lineage.depth + 1
    check_depth(name, depth, limit)
    return depth
