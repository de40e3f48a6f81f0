"""Job: one run of a system, from its arrival until it is forgotten."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actorgraph.errors import GraphDrained, LeaseLostError
from actorgraph.errors.storage import UNREADABLE
from actorgraph.errors.telling import said
from actorgraph.errors.texts import storable
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.runs import Launch
from actorgraph.runtime.stopping import DEADLINE
from actorgraph.runtime.system.journal import Journal
from actorgraph.values.control import RunControl
from actorgraph.values.ids import as_text
from actorgraph.values.run import Cancelled, Failed, Interrupted, RunOutcome, Succeeded
from actorgraph.values.systems import IfBusy, RunRow, RunStatus

if TYPE_CHECKING:
    from actorgraph.runtime.supervisor import Supervisor


def _over() -> Launch:
    raise AssertionError("a run that has left is not set up again")


class Job:
    """One run. Its fields are written by the system's actors only.

    Args:
        row: what is stored of it.
        make: sets the run up, anew at each call.
        shape: makes what `result()` returns of an outcome, or raises its error.

    Attributes:
        outcome: how it left; None while it goes on, or has never begun.
        reason: why it was cancelled, or the text of its error.
        changed: when its status did, in microseconds since 1970-01-01 UTC.
        stored: whether its own saves say how it has left. lost: whether another system has it.
        left_to_others: whether the system's lease was over before it had left.
        requeued: whether the system has left it for `recover()`.
        adopted: whether another system had it before. misfit: whether this one can't run it.
        refused: whether its thread was not given to it, so that it has never been taken.
        claimed: whether its input is in its thread.
        holds: how often another system had its thread when it began.
        done: opens when it is settled. turn: opens when it may set itself up, or is to end.
    """

    def __init__(
        self,
        row: RunRow,
        *,
        journal: Journal,
        make: Callable[[], Launch],
        shape: Callable[[RunOutcome], Any],
        control: RunControl,
        metadata: dict[str, Any],
        if_busy: IfBusy = "enqueue",
    ) -> None:
        self.row = row
        self.id = row.run
        self.thread_id = row.thread_id
        self.text = as_text(row.run)
        self.journal = journal
        self.make = make
        self.shape = shape
        self.control = control
        self.metadata = metadata
        self.if_busy: IfBusy = if_busy
        self.attempt = row.attempts
        self.status: RunStatus = "pending"
        self.changed = row.created
        self.reason = ""
        self.outcome: RunOutcome | None = None
        self.requeued = False
        self.adopted = False
        self.misfit = False
        self.refused = False
        self.claimed = row.claimed
        self.holds = 0
        self.begun = False
        self.first_step = 0
        self.lost = False
        self.left_to_others = False
        self.stored = False
        self.done = Gate()
        self.turn = Gate()
        self.accepted_at = time.monotonic()
        self.supervisor: Supervisor | None = None
        self._ending = False

    @property
    def ending(self) -> bool:
        """Whether it was told to end."""
        return self._ending

    @property
    def elsewhere(self) -> bool:
        """Whether it has left this system and not ended: another one has it, or will have it."""
        return self.requeued or self.lost

    @property
    def told_all(self) -> bool:
        """Whether all of its events are stored, where they are to be.

        A row that says that a run was left in order, before its events say so, would let whoever
        takes it up believe that none are missing.
        """
        keeper = self.journal.keeper
        return keeper is None or (keeper.is_idle and not keeper.broken)

    @property
    def supersteps(self) -> int:
        """How many it has done here so far."""
        return 0 if self.supervisor is None else max(0, self.supervisor.step - self.first_step)

    @property
    def durable(self) -> int:
        """How many of its saves are stored."""
        return 0 if self.supervisor is None else self.supervisor.statistics().durable

    def begin(self) -> None:
        """Note that it goes on."""
        self.begun, self.status = True, "running"
        self.changed = time.time_ns() // 1000

    def rest(self) -> None:
        """Note that another system has its thread: it begins anew later."""
        self.begun, self.status = False, "pending"
        self.holds += 1
        self.supervisor = None
        self.turn = Gate()

    def end(self, reason: str, *, to_others: bool = False) -> None:
        """Cancel it, if it goes on; what it has done is stored. The first reason counts.

        Args:
            to_others: whether it goes on later, so that its own last save must not end it: this
                process may die before it can say so otherwise.
        """
        if self._ending or self.done.is_open:
            return
        self._ending, self.reason = True, storable(reason)
        self.journal.leave()
        self.turn.open()
        if self.supervisor is not None:
            self.supervisor.cancel(to_others=self.left_to_others or to_others)

    def left(self, outcome: RunOutcome, draining: str | None) -> None:
        """Note how it left."""
        self.outcome = outcome
        self.claimed = self.claimed or self.durable > 0
        self.changed = time.time_ns() // 1000
        match outcome:
            case Succeeded():
                self.status = "success"
            case Interrupted():
                self.status = "interrupted"
            case Cancelled():
                self.status = "cancelled"
                self.requeued = self.left_to_others or (
                    draining is not None and self.reason == draining
                )
            case Failed(GraphDrained() as error):
                self.status = "timeout" if error.reason == DEADLINE else "cancelled"
                self.reason = error.reason
                self.requeued = draining is not None and error.reason == draining
            case Failed(error):
                self.status = "error"
                self.reason = f"{type(error).__name__}: {said(error)}"
                # What it can't read may be read by the system that has stored it.
                early = self.adopted and self.supervisor is None
                self.requeued = self.misfit = early and isinstance(error, UNREADABLE)
                self.lost = self.lost or isinstance(error, LeaseLostError)
            case _:
                self.status = "error"
                self.reason = "a node of a root run addressed a graph above it"
        if self.requeued:
            self.status = "pending"

    def forget(self) -> None:
        """Let go of what only a run that goes on needs."""
        self.supervisor = None
        self.make = _over

    def say_end(self) -> None:
        """Tell readers how it left, and let them go."""
        journal = self.journal
        if self.elsewhere:
            journal.add("drain", {"reason": self.reason})
        else:
            if isinstance(self.outcome, Failed) and self.status == "error":
                error = self.outcome.error
                told = {"error": type(error).__name__, "message": said(error)}
                journal.add("error", told)
            journal.add("end", {"status": self.status, "reason": self.reason})
        journal.close()
