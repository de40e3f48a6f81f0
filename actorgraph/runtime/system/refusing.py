"""The errors with which a system refuses a run: too many, or its thread has one."""

from typing import TYPE_CHECKING

from actorgraph.errors import (
    ActorGraphError,
    OtherLoopError,
    SystemBusyError,
    SystemClosedError,
    ThreadBusyError,
)
from actorgraph.runtime.system.limits import SystemLimits
from actorgraph.superstep.turns import FREE, LaneStep, RefuseBusy, RefuseFull
from actorgraph.values.ids import as_text
from actorgraph.values.systems import IfBusy

if TYPE_CHECKING:
    from actorgraph.runtime.system.actor import SystemActor


def no_place(actor: "SystemActor", if_busy: IfBusy, thread_id: str) -> ActorGraphError | None:
    """Why there is no place for a run, whatever its thread says; None if there is one."""
    limits = actor.limits
    if actor.draining is not None or actor.group is None:
        why = "is closing" if actor.draining else "is not open"
        return SystemClosedError(
            f"the system {why}; the run was not taken",
            do="start it on another server, or after the restart",
        )
    waits = actor.active >= limits.max_runs or (
        if_busy != "reject" and actor.lanes.get(thread_id, FREE).active is not None
    )
    if waits and actor.queued >= limits.max_queued:
        return too_many(actor.active, actor.queued, limits)
    unsaved = 0 if actor.host is None else actor.host.writer.waiting_bytes
    if unsaved > limits.max_unsaved_bytes:
        text = f"{unsaved} bytes of other runs wait to be stored"
        return too_busy(text, "raise max_unsaved_bytes", limits)
    return None


def no_turn(
    thread_id: str, steps: tuple[LaneStep, ...], limits: SystemLimits
) -> ActorGraphError | None:
    """Why a run may not wait for its thread; None if it may, or has it."""
    for step in steps:
        if isinstance(step, RefuseBusy):
            return busy(thread_id, step)
        if isinstance(step, RefuseFull):
            return full(thread_id, step, limits)
    return None


def other_loop() -> OtherLoopError:
    """The system belongs to another thread."""
    return OtherLoopError(
        "the system was opened in the event loop of another thread, which would not hear "
        "of this run",
        do="start it there, such as by anyio.from_thread.run(system.start, ...)",
    )


def too_busy(what: str, how: str, limits: SystemLimits) -> SystemBusyError:
    """The system has too much to do."""
    return SystemBusyError(
        f"{what}; the run was not taken",
        do=f"ask again in {limits.retry_after_s} s, or {how}",
        retry_after_s=limits.retry_after_s,
    )


def too_many(active: int, queued: int, limits: SystemLimits) -> SystemBusyError:
    """As many runs go on and wait as may."""
    text = f"{active} runs go on and {queued} wait, as many as may"
    return too_busy(text, "raise max_runs or max_queued", limits)


def busy(thread_id: str, step: RefuseBusy) -> ThreadBusyError:
    """The thread has a run of this system."""
    return ThreadBusyError(
        f"thread {thread_id!r} has run {as_text(step.active)}",
        do='wait for it, or start with if_busy="enqueue", "interrupt" or "rollback"',
        thread_id=thread_id,
        run_id=as_text(step.active),
    )


def full(thread_id: str, step: RefuseFull, limits: SystemLimits) -> SystemBusyError:
    """As many runs wait for the thread as may."""
    text = f"{step.waiting} runs wait for thread {thread_id!r}, as many as may"
    return too_busy(text, "raise max_waiting", limits)
