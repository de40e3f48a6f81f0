"""How runs and nodes stop without failing, and how answers are refused.

What a node raises to stop is a BaseException, so that `except Exception` in the node can't swallow
it.
"""

from collections.abc import Sequence
from typing import Any, Literal

from actorgraph.errors.base import ActorGraphError


class GraphBubbleUp(BaseException):
    """Base of what a node raises to stop without failing."""


class GraphInterrupt(GraphBubbleUp):
    """Raised by `interrupt()`: the run pauses here until it is resumed."""

    def __init__(self, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(tuple(interrupts))
        self.interrupts = tuple(interrupts)


class GraphDrained(ActorGraphError, GraphBubbleUp):
    """A run stopped before its next superstep, because it was asked to; all it did is stored.

    An Exception too, so that callers can catch it as any error of a run.

    Attributes:
        reason: what was passed to `request_drain()`; "deadline" for a run whose time was over.
    """

    def __init__(self, what: str, *, do: str, reason: str = "shutdown") -> None:
        super().__init__(what, do=do)
        self.reason = reason


class ParentCommand(GraphBubbleUp):
    """Carries a `Command(graph=Command.PARENT)` out of a nested run to the node that runs it.

    Attributes:
        command: for the graph above.
    """

    def __init__(self, command: Any) -> None:
        super().__init__(command)
        self.command = command


class UnknownInterruptError(ActorGraphError, RuntimeError):
    """A resume doesn't say which interrupt it answers, or names one that is not waiting.

    Attributes:
        reason: "not_pending", "empty_map" or "ambiguous"; "" where none of them fits.
        interrupt_ids: the ids that it names and that don't wait.
        pending_ids: those that wait; they can still be answered, nothing was written.
    """

    def __init__(
        self,
        what: str,
        *,
        do: str,
        reason: Literal["", "not_pending", "empty_map", "ambiguous"] = "",
        interrupt_ids: Sequence[str] = (),
        pending_ids: Sequence[str] = (),
    ) -> None:
        super().__init__(what, do=do)
        self.reason: Literal["", "not_pending", "empty_map", "ambiguous"] = reason
        self.interrupt_ids = tuple(interrupt_ids)
        self.pending_ids = tuple(pending_ids)


class InvalidResumeError(ActorGraphError, ValueError):
    """An answer doesn't fit its question's `response_schema`; the question waits for another."""
