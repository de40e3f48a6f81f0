"""The limits of an ActorSystem, and the errors with which it refuses runs."""

import msgspec

from actorgraph.errors import (
    ActorGraphError,
    OtherLoopError,
    SystemBusyError,
    SystemClosedError,
    ThreadBusyError,
)
from actorgraph.rules.system.scheduling import LaneStep, RefuseBusy, RefuseFull
from actorgraph.values.ids import as_text


class SystemLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of an `ActorSystem`; see there. Counts are of runs, times in seconds."""

    max_runs: int = 10_000
    max_queued: int = 10_000
    max_waiting: int = 100
    max_unsaved_bytes: int = 256 * 1024 * 1024
    keep_ended: int = 1000
    drain_timeout_s: float = 30.0
    retry_after_s: float = 1.0
    lease_s: float = 15.0
    attempts_max: int = 3


OPEN_IT = (
    "use it inside `async with ActorSystem(...) as system:`; on a server, pass "
    "`lifespan=lambda app: running(system)` to the application"
)


def closed_system(*, closing: bool) -> SystemClosedError:
    """The error of a system that takes no runs: it is not open yet, or is closing."""
    if not closing:
        return SystemClosedError(
            "the system is not open; the run was not accepted",
            do=OPEN_IT,
        )
    return SystemClosedError(
        "the system is closing or closed; the run was not accepted",
        do="start it inside the `async with` block; on a server, after the restart",
    )


def unopened_system() -> SystemClosedError:
    """The error of a system that is used before it was opened."""
    return SystemClosedError("the system is not open", do=OPEN_IT)


def no_turn(
    thread_id: str, steps: tuple[LaneStep, ...], limits: SystemLimits
) -> ActorGraphError | None:
    """The error for a run that may not wait for its thread; None if it may, or has it."""
    for step in steps:
        if isinstance(step, RefuseBusy):
            return busy(thread_id, step)
        if isinstance(step, RefuseFull):
            return full(thread_id, step, limits)
    return None


def other_loop() -> OtherLoopError:
    """The error for a call from a thread other than the system's."""
    return OtherLoopError(
        "the system was opened in the event loop of another thread",
        do="start the run there, such as by anyio.from_thread.run(system.start, ...)",
    )


def too_busy(what: str, how: str, limits: SystemLimits) -> SystemBusyError:
    """The error of an overloaded system: its reason, and how to raise the limit."""
    return SystemBusyError(
        f"{what}; the run was not accepted",
        do=f"retry in {limits.retry_after_s} s, or {how}",
        retry_after_s=limits.retry_after_s,
    )


def too_many(active: int, queued: int, limits: SystemLimits) -> SystemBusyError:
    """The error of a system in which as many runs are active and wait as its limits allow."""
    text = f"{active} runs are active and {queued} wait, the maximum"
    return too_busy(text, "raise max_runs or max_queued", limits)


def busy(thread_id: str, step: RefuseBusy) -> ThreadBusyError:
    """The error for a thread that has a run of this system."""
    return ThreadBusyError(
        f"thread {thread_id!r} has an active run, {as_text(step.active)}",
        do='wait for it, or start with if_busy="enqueue", "interrupt" or "rollback"',
        thread_id=thread_id,
        run_id=as_text(step.active),
    )


def full(thread_id: str, step: RefuseFull, limits: SystemLimits) -> SystemBusyError:
    """The error for a thread for which as many runs wait as the limit allows."""
    text = f"{step.waiting} runs wait for thread {thread_id!r}, the maximum"
    return too_busy(text, "raise max_waiting", limits)
