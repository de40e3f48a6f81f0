"""Job: one run of a system from its arrival to its end, and the storing of its outcome.

A run's own saves say that it has succeeded or is interrupted. Other outcomes are stored here:
errors before the first save, cancellations, and that a run is left to other systems. The latter
goes into the row after the run's events are stored: a system that takes the run up concludes from
the row that no events are missing.
"""

import time
from collections.abc import Callable
from typing import Any, Final

import anyio
import msgspec

from actorgraph.errors import CheckpointError, ConflictError, GraphDrained, LeaseLostError
from actorgraph.errors.storage import UNREADABLE
from actorgraph.errors.texts import error_text, storable
from actorgraph.rules.run_order import is_ahead
from actorgraph.rules.system.scheduling import RunPlace
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.run.supervisor import Supervisor
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.persistence import Receipts, post_request
from actorgraph.runtime.sizes import held_by_error
from actorgraph.runtime.system.journal import Journal
from actorgraph.superstep.limits import DEADLINE
from actorgraph.superstep.task_failures import may_begin_again
from actorgraph.values.commands import RunControl
from actorgraph.values.ids import as_text
from actorgraph.values.run import Cancelled, Failed, Interrupted, RunOutcome, Succeeded
from actorgraph.values.systems import (
    NO_OWNER,
    AdoptRun,
    IfBusy,
    ListRuns,
    RunRow,
    RunStatus,
    SetRun,
)

LEASE_LOST: Final = "the system's lease was lost"
"""The reason of runs that are left to whichever system takes them over."""


def _no_launch() -> Launch:
    raise AssertionError("a run that has ended is not set up again")


class Job:
    """One run. Only the system's actors write its fields.

    Args:
        row: the run's row in the store.
        journal: its events.
        make: makes the launch, anew at each call.
        shape: converts an outcome to the return value of `result()`, or raises its error.
        control: takes requests to drain.
        arguments: decodes the arguments with which it was started.
        metadata: the run's.
        if_busy: what happens if its thread is busy.

    Attributes:
        status: as readers see it.
        outcome: how it ended; None until then.
        reason: why it was cancelled, or the text of its error.
        changed: time of the last change of status, in microseconds since 1970-01-01 UTC.
        started: when it got its thread, likewise; None before.
        attempt: the number of attempts in its row.
        begun: whether it has a slot.
        first_step: the step that it began at.
        stored: whether its own saves store its outcome.
        lost: whether another system has taken it.
        left_to_others: whether the system's lease was over before it ended.
        requeued: whether it is left to `recover()` of any system.
        adopted: whether another system had it before.
        misfit: whether this system can't read it.
        refused: whether the store has refused its row, so that it was never accepted.
        reported: whether its caller returns its error anyhow, so that it is not logged.
        claimed: whether its input is stored in its thread.
        holds: how often another system had its thread when it began.
        saver: a number for the saver of its system.
        done: opens when it is settled.
        turn: opens when it may set itself up, or must end.
        supervisor: while it runs.
    """

    def __init__(
        self,
        row: RunRow,
        *,
        journal: Journal,
        make: Callable[[], Launch],
        shape: Callable[[RunOutcome], Any],
        control: RunControl,
        arguments: Callable[[], Any],
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
        self.arguments = arguments
        self.started: int | None = None
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
        self.reported = False
        self.claimed = row.claimed
        self.holds = 0
        self.saver = 0
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
    def place(self) -> RunPlace:
        """The run, and its thread."""
        return RunPlace(self.saver, self.thread_id, self.id)

    @property
    def ending(self) -> bool:
        """Whether it was cancelled."""
        return self._ending

    @property
    def elsewhere(self) -> bool:
        """Whether it has left this system without an end: another has it, or will take it up."""
        return self.requeued or self.lost

    @property
    def all_events_stored(self) -> bool:
        """Whether all of its events are stored, if they are to be stored at all."""
        keeper = self.journal.keeper
        return keeper is None or (keeper.is_idle and not keeper.broken)

    @property
    def rescued(self) -> bool:
        """Whether it was adopted from a system that had begun it."""
        return self.adopted and (self.row.claimed or self.row.attempts > 1)

    @property
    def supersteps(self) -> int:
        """Number of supersteps that it has done here so far."""
        return 0 if self.supervisor is None else max(0, self.supervisor.step - self.first_step)

    @property
    def durable(self) -> int:
        """Number of its saves that are stored."""
        return 0 if self.supervisor is None else self.supervisor.statistics().durable

    def begin(self) -> None:
        """Note that it runs."""
        self.begun, self.status = True, "running"
        self.changed = self.started = time.time_ns() // 1000

    def hold_back(self) -> None:
        """Note that another system has its thread: it begins again later."""
        self.begun, self.status = False, "pending"
        self.holds += 1
        self.supervisor = None
        self.turn = Gate()

    def end(self, reason: str, *, to_others: bool = False) -> None:
        """Cancel it, unless it has ended; its finished work is stored. The first reason counts.

        Args:
            to_others: whether another system will continue it. Its last save must then leave it
                open, because this process may die before it has stored anything else about it.
        """
        if self._ending or self.done.is_open:
            return
        self._ending, self.reason = True, storable(reason)
        self.journal.leave()
        self.turn.open()
        if self.supervisor is not None:
            self.supervisor.cancel(to_others=self.left_to_others or to_others)

    def left(self, outcome: RunOutcome, draining: str | None) -> None:
        """Note its outcome: status, reason, and whether it is left to other systems.

        Args:
            draining: why the system takes no more runs; None if it does.
        """
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
            case Failed(KeyboardInterrupt()):  # Ctrl-C came while its function ran
                self.status, self.reason = "cancelled", "KeyboardInterrupt"
                self.requeued = draining is not None
            case Failed(error):
                self.status = "error"
                self.reason = f"{type(error).__name__}: {error_text(error)}"
                # The system that has stored it may be able to read it.
                early = self.adopted and self.supervisor is None
                self.requeued = self.misfit = early and isinstance(error, UNREADABLE)
                self.lost = self.lost or isinstance(error, LeaseLostError)
            case _:
                self.status = "error"
                self.reason = "a node of a root run addressed a graph above it"
        if self.requeued:
            self.status = "pending"

    def abandon(self, error: BaseException, draining: str | None) -> None:
        """Release those that wait for it when its end was broken off by an error.

        Its row stays as it is stored: `recover()` resumes it.
        """
        if not self.done.is_open:
            self.left(Failed(error), draining)
            self.done.open()

    def forget(self) -> None:
        """Release the objects that only a running run needs."""
        self.supervisor = None
        self.make = _no_launch

    def held_bytes(self) -> int:
        """Approximate bytes that it holds once it has ended: result, newest events, input."""
        held = [self.row.payload] if self.row.payload else []
        match self.outcome:
            case Succeeded(values) | Interrupted(values):
                held.append(values)
            case Failed(error):
                held += held_by_error(error)
            case _:
                pass
        return self.journal.held_bytes(held)

    def publish_end(self) -> None:
        """Publish its end to readers, and close the journal."""
        journal = self.journal
        if self.elsewhere:
            journal.add("drain", {"reason": self.reason})
        else:
            if isinstance(self.outcome, Failed) and self.status == "error":
                error = self.outcome.error
                details = {"error": type(error).__name__, "message": error_text(error)}
                journal.add("error", details)
            journal.add("end", {"status": self.status, "reason": self.reason})
        journal.close()


async def publish_outcome(job: Job, host: Host | None, owner: bytes, timeout_s: float) -> None:
    """Store a run's outcome and publish it to readers; returns when its events are stored.

    Args:
        host: of the saver; None if that keeps no runs.
        owner: the system's id.
        timeout_s: seconds to wait for the storing of the events at most.
    """
    if not job.requeued:
        await _note_lost_lease(job, host, owner)
        store_status(job, host, owner)
    job.publish_end()
    keeper = job.journal.keeper
    if keeper is not None:
        with anyio.move_on_after(timeout_s):
            await keeper.wait_idle()
    if job.misfit and host is not None:
        host.writer.post(give_back_request(job.row), Receipts(_ignore_answer))
    elif job.requeued:
        store_status(job, host, owner)


def log_failure(job: Job) -> None:
    """Log a run that has failed or reached its deadline, unless its caller returns the error."""
    if job.status not in ("error", "timeout") or job.elsewhere or job.reported:
        return
    error = job.outcome.error if isinstance(job.outcome, Failed) else None
    ids = {"thread_id": job.thread_id, "run_id": job.text, "graph": job.row.graph}
    log_event("error", "run.failed", **ids, error=job.reason, exc_info=error)


def give_back_request(row: RunRow) -> AdoptRun:
    """The request that returns an adopted run, so that any system may adopt it again.

    Args:
        row: as it is stored now.
    """
    attempts = row.attempts - 1
    return AdoptRun(row.run, row.thread_id, NO_OWNER, row.owner, attempts, deaths=row.deaths)


def store_status(job: Job, host: Host | None, owner: bytes) -> None:
    """Post a run's status, unless its own saves have stored it; doesn't wait."""
    if host is None or job.lost:
        return
    if job.stored and job.supersteps and job.status in ("success", "interrupted"):
        return  # the run's last save says so; a run without supersteps has made none
    host.writer.post(_status(job, owner), Receipts(_ignore_answer))


async def _note_lost_lease(job: Job, host: Host | None, owner: bytes) -> None:
    """Note that another system has taken a run, if that is why a save of it was refused.

    Its readers then get no end of the run.
    """
    if host is None or job.lost:
        return
    match job.outcome:
        case Failed(ConflictError()):
            try:
                await post_request(host.writer, _status(job, owner))()
            except LeaseLostError:
                job.lost = True
            except Exception:  # noqa: BLE001 - `store_status` tries again
                return
        case _:
            pass


def _status(job: Job, owner: bytes) -> SetRun:
    was = job.row.owner or owner  # the owner when it was accepted: the store compares it
    status = SetRun(job.id, job.thread_id, was, job.status, job.reason)
    if not job.requeued:
        return status
    # This process lives, so it has not died of the run: a trial leaves no mark.
    drained = job.all_events_stored and not job.left_to_others
    attempts, deaths = (0, 0) if drained else (job.row.attempts, job.row.deaths)
    return msgspec.structs.replace(status, attempts=attempts, deaths=deaths)


def _ignore_answer(_: object) -> None:
    """Ignore an error: `recover()` settles a run whose status could not be stored."""


async def came_early(job: Job, outcome: RunOutcome, host: Host | None, owner: bytes) -> bool:
    """Whether a run that has failed must begin again when the runs before it have left.

    Args:
        host: of the saver; None if that keeps no runs.
        owner: the system's id.
    """
    # The store refuses a claim while another system has the thread. Before that the run has read
    # the thread in the middle of another run: maybe a state that it can't resume, or without the
    # question that it answers. Such an error says nothing about the thread after that run.
    if host is None or not isinstance(outcome, Failed):
        return False
    if job.supervisor is not None:
        return may_begin_again(job.supervisor.failure)
    try:
        rows: list[RunRow] = await host.reader.ask(ListRuns(open_of=(job.thread_id,)))
    except CheckpointError:
        return False
    return any(is_ahead(job.id, owner, row, begun=job.row.claimed) for row in rows)
