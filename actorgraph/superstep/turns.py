"""Whose turn it is on a thread: what a thread's mailbox decides when runs come and go.

A thread has one run at a time. The functions here take the lane of a thread and give it as it
is then, with what is to be done, in order.
"""

from typing import Literal, assert_never

import msgspec

from actorgraph.values.ids import as_text
from actorgraph.values.systems import IfBusy, OpenRun, RunRow


class Lane(msgspec.Struct, frozen=True):
    """The runs of one thread.

    Attributes:
        active: the run that has the thread; None if it is free.
        ending: whether that was told to end, so that another one may have its place.
        rollback: whether what it stored is removed when it has left.
        erasing: whether it has left, and what it stored is being removed.
        waiting: the runs that come after it, in order.
        held: whether the active run waits, because another system has the thread.
    """

    active: bytes | None = None
    ending: bool = False
    rollback: bool = False
    erasing: bool = False
    waiting: tuple[bytes, ...] = ()
    held: bool = False


class Begin(msgspec.Struct, frozen=True):
    """The run has the thread."""

    run: bytes


class End(msgspec.Struct, frozen=True):
    """Cancel the run, which goes on; what it has done is stored."""

    run: bytes
    by: bytes


class Drop(msgspec.Struct, frozen=True):
    """The run has waited in vain: it never begins."""

    run: bytes
    by: bytes


class Erase(msgspec.Struct, frozen=True):
    """Remove what the run, which has left, stored; the next one begins after `erased`."""

    run: bytes


class Busy(msgspec.Struct, frozen=True):
    """Refuse the run: `active` has the thread."""

    active: bytes


class Full(msgspec.Struct, frozen=True):
    """Refuse the run: as many wait already as may."""

    waiting: int


Step = Begin | End | Drop | Erase | Busy | Full
Turn = tuple[Lane, tuple[Step, ...]]

FREE = Lane()


def arrived(lane: Lane, run: bytes, if_busy: IfBusy, waiting_max: int) -> Turn:
    """A run asks for the thread.

    Args:
        waiting_max: runs that may wait for one thread.
    """
    active = lane.active
    if active is None:
        return msgspec.structs.replace(lane, active=run), (Begin(run),)
    if lane.erasing and not lane.waiting:
        return msgspec.structs.replace(lane, waiting=(run,)), ()
    match if_busy:
        case "reject":
            return lane, (Busy(lane.waiting[0] if lane.erasing else active),)
        case "enqueue":
            if len(lane.waiting) >= waiting_max:
                return lane, (Full(len(lane.waiting)),)
            return msgspec.structs.replace(lane, waiting=(*lane.waiting, run)), ()
        case "interrupt" | "rollback" if lane.held:
            dropped = (active, *lane.waiting)
            return Lane(run), (*(Drop(other, run) for other in dropped), Begin(run))
        case "interrupt" | "rollback":
            return _replaced(lane, active, run, rollback=if_busy == "rollback")
        case _:
            assert_never(if_busy)


def _replaced(lane: Lane, active: bytes, run: bytes, *, rollback: bool) -> Turn:
    """The run takes the place of all that have come before it."""
    dropped = tuple(Drop(waiting, run) for waiting in lane.waiting)
    end = () if lane.ending else (End(active, run),)
    # Who was promised to go on from before the active run's checkpoints still does.
    rollback = rollback or lane.rollback
    then = Lane(active, ending=True, rollback=rollback, erasing=lane.erasing, waiting=(run,))
    return then, (*dropped, *end)


def taken_up(lane: Lane, run: bytes) -> Turn:
    """A run of another system, which has died or left it, is this system's now.

    It was accepted before, so it is never refused, and it takes the place that its id gives it.
    """
    active = lane.active
    if active is None:
        return msgspec.structs.replace(lane, active=run), (Begin(run),)
    if lane.held and run < active:
        waiting = tuple(sorted((active, *lane.waiting)))
        return Lane(run, waiting=waiting), (Begin(run),)
    return msgspec.structs.replace(lane, waiting=tuple(sorted((*lane.waiting, run)))), ()


def held(lane: Lane) -> Lane:
    """The active run could not have the thread, which another system has; it has its slot back."""
    return msgspec.structs.replace(lane, held=True)


def freed(lane: Lane) -> Turn:
    """No other system has the thread any more."""
    if not lane.held or lane.active is None:
        return lane, ()
    return msgspec.structs.replace(lane, held=False), (Begin(lane.active),)


def is_ahead(run: bytes, owner: bytes | None, other: OpenRun | RunRow) -> bool:
    """Whether an open run has its turn on their thread before `run`, which is `owner`'s.

    Ids grow with time, so that all processes see the runs of a thread in one order. A younger
    run that goes on elsewhere has the thread all the same. What one system has it orders itself.
    """
    if other.owner == owner or other.run == run:
        return False
    return other.run < run or (other.claimed and other.alive)


def way_past(if_busy: IfBusy, other: RunRow) -> Literal["wait", "end", "take_up"]:
    """What is done about a run of another system that is ahead of one that waits.

    "end" asks the system that has it to cancel it, or cancels it where no system lives that has
    it; "take_up" has it go on here, as nobody else may ever take it up.
    """
    if other.cancel is not None:
        return "wait" if other.alive else "end"
    if if_busy in ("interrupt", "rollback"):
        return "end"
    return "wait" if other.alive else "take_up"


def replaced_by(run: bytes) -> str:
    """The reason of runs that were ended so that this one may have their thread."""
    return f"run {as_text(run)} took its place"


def left(lane: Lane, run: bytes) -> Turn:
    """A run has left the thread, or does not wait for it any more."""
    if lane.active != run:
        waiting = tuple(other for other in lane.waiting if other != run)
        return msgspec.structs.replace(lane, waiting=waiting), ()
    if lane.rollback:
        return Lane(run, ending=True, erasing=True, waiting=lane.waiting), (Erase(run),)
    return _following(lane)


def erased(lane: Lane) -> Turn:
    """What the run that had the thread stored is removed, or can't be."""
    return _following(lane)


def _following(lane: Lane) -> Turn:
    if not lane.waiting:
        return FREE, ()
    following, *rest = lane.waiting
    return Lane(following, waiting=tuple(rest)), (Begin(following),)
