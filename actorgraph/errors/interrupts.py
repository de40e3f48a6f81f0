"""Exceptions that stop runs and nodes without failing them, and errors of resuming them.

A `GraphBubbleUp` is a BaseException, so that an `except Exception` in a node can't swallow it.
"""

from collections.abc import Sequence
from typing import Any, Literal

from actorgraph.errors.base import ActorGraphError
from actorgraph.errors.storage import AlreadyResumedError


class GraphBubbleUp(BaseException):
    """Base of the exceptions that stop a node without failing it."""


class GraphInterrupt(GraphBubbleUp):
    """Raised by `interrupt()`: the run pauses here until it is resumed."""

    def __init__(self, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(tuple(interrupts))
        self.interrupts = tuple(interrupts)


class GraphDrained(ActorGraphError, GraphBubbleUp):
    """A run stopped before its next superstep on request; everything it did is stored.

    An Exception too, so that callers can catch it like any error of a run.

    Attributes:
        reason: the argument of `request_drain()`; "deadline" for a run that reached its deadline.
    """

    def __init__(self, what: str, *, do: str, reason: str = "shutdown") -> None:
        super().__init__(what, do=do)
        self.reason = reason


class DeadlineError(GraphDrained, TimeoutError):
    """A run reached its `deadline_s` before a superstep; everything it did until then is stored."""


class ParentCommand(GraphBubbleUp):
    """Carries a `Command(graph=Command.PARENT)` out of a subgraph to the node that runs it.

    Attributes:
        command: for the parent graph; the updates and gotos of all, if several tasks of one
            superstep have commanded it.
        handed: all that these tasks have to say, for the node that runs the subgraph; None if
            `command` says it.
    """

    def __init__(self, command: Any, handed: object = None) -> None:
        super().__init__(command)
        self.command = command
        self.handed = handed


class UnknownInterruptError(ActorGraphError, RuntimeError):
    """A resume doesn't say which interrupt it answers, or names one that is not pending.

    Attributes:
        reason: "not_pending", "empty_map" or "ambiguous"; "" where none of them fits.
        interrupt_ids: ids that the resume names and that are not pending.
        pending_ids: ids of the pending interrupts. They can still be answered: nothing was written.
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


class AnsweredInterruptError(UnknownInterruptError, AlreadyResumedError):
    """An answer names an interrupt by an id that doesn't wait any more, or never did.

    Raised under `strict_resume` and by `answers=`, when the run has the thread: another process may
    have answered since the answer was accepted. The thread's state doesn't distinguish the cases.
    """


class QuestionExpiredError(ActorGraphError, TimeoutError):
    """A question was due, nobody had answered it, and it has no `otherwise`."""


class InvalidResumeError(ActorGraphError, ValueError):
    """A resume value doesn't fit its interrupt's `response_schema`; the interrupt stays pending."""
