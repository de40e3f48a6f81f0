"""Runtime and the other parts of a run that its nodes see.

Stopping       what may stop the run between supersteps: a requested drain, a deadline
RunResources   the context and the stores that the caller passed
Runtime        the object that a node gets besides the state; made only for nodes that ask for it
"""

import time

from actorgraph.values.control import RunControl

DEADLINE = "deadline"
"""The reason of a run that stops at its deadline."""


class Stopping:
    """The control and the deadline of a run; its subgraphs share the control.

    Attributes:
        control: takes requests to drain.
        deadline: by `time.monotonic()`, in seconds; None for none.
    """

    __slots__ = ("control", "deadline")

    def __init__(self, control: RunControl | None = None, deadline_s: float | None = None) -> None:
        self.control = control or RunControl()
        self.deadline = None if deadline_s is None else time.monotonic() + deadline_s

    def reason(self) -> str | None:
        """Why the run must stop before its next superstep; None if it need not."""
        reason = self.control.drain_reason
        if reason is None and self.deadline is not None and time.monotonic() >= self.deadline:
            return DEADLINE
        return reason

    def below(self, control: RunControl | None, deadline_s: float | None) -> "Stopping":
        """The stopping of a subgraph's run: its own control, and the earlier of both deadlines.

        Args:
            control: of the subgraph's call; None shares this one.
            deadline_s: of the subgraph's call, in seconds from now; None adds none.
        """
        if control is None and deadline_s is None:
            return self
        own = Stopping(control or self.control, deadline_s)
        ends = [end for end in (self.deadline, own.deadline) if end is not None]
        own.deadline = min(ends, default=None)
        return own
