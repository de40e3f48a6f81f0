"""Scheduling of an ActorSystem: the queue of runs of each thread, and takeover of orphaned runs.

A thread has one run at a time. Each function takes the lane of a thread, its queue, and returns
the new lane with the steps to carry out, in order.

A run whose process has died is taken over, parked, or left to another system (`decide_takeover`).
A process may die of one of its runs, and takes all others with it. So a death that is counted only
makes a run a suspect. A suspect is tried alone: its system begins no other run beside it. The run
during whose trial a process dies is the one that kills processes.

    a run has lost its system                                its `deaths` are then
    -------------------------------------------------------  ------------------------
    it was given back, or waited and hadn't begun there      as before
    its process is alive: it was stopped, or is too slow     as before; a trial is over
    its process is gone, or unknown                          one more, up to a suspect's
    its process is gone, and had it on trial                 parked
    its process is unknown, and had it on trial              as before, and left until that is gone

and a run that has stored anything but its claim since it was begun has progressed: 0 deaths.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Literal, NamedTuple, assert_never

import msgspec

from actorgraph.errors.texts import error_text
from actorgraph.values.ids import as_text
from actorgraph.values.systems import NO_OWNER, OPEN_STATUSES, IfBusy, RunRow
from actorgraph.values.thread_phase import has_gone_on


class Lane(msgspec.Struct, frozen=True):
    """The queue of one thread.

    Attributes:
        active: the run that has the thread; None if it is free.
        ending: whether the active run is being cancelled for another one.
        rollback: whether the rows of the active run are removed when it has left.
        erasing: whether it has left, and its rows are being removed.
        waiting: the runs that come after it, in order.
        held: whether the active run waits, because another system has the thread.
    """

    active: bytes | None = None
    ending: bool = False
    rollback: bool = False
    erasing: bool = False
    waiting: tuple[bytes, ...] = ()
    held: bool = False


class BeginRun(msgspec.Struct, frozen=True):
    """Begin the run: it has the thread now."""

    run: bytes


class CancelRun(msgspec.Struct, frozen=True):
    """Cancel the active run; its finished work is stored.

    Attributes:
        by: the run that takes its place.
    """

    run: bytes
    by: bytes


class DropRun(msgspec.Struct, frozen=True):
    """Cancel a waiting run: it never begins.

    Attributes:
        by: the run that takes its place.
    """

    run: bytes
    by: bytes


class EraseRun(msgspec.Struct, frozen=True):
    """Remove the rows of a run that has left; the next one begins after `erased`."""

    run: bytes


class RefuseBusy(msgspec.Struct, frozen=True):
    """Refuse the run: `active` has the thread."""

    active: bytes


class RefuseFull(msgspec.Struct, frozen=True):
    """Refuse the run: the queue is full.

    Attributes:
        waiting: how many runs wait.
    """

    waiting: int


LaneStep = BeginRun | CancelRun | DropRun | EraseRun | RefuseBusy | RefuseFull
LaneDecision = tuple[Lane, tuple[LaneStep, ...]]

FREE = Lane()


def arrived(lane: Lane, run: bytes, if_busy: IfBusy, waiting_max: int) -> LaneDecision:
    """Handle a new run of the thread.

    Args:
        if_busy: what to do if another run has the thread; see `IfBusy`.
        waiting_max: runs that may wait for one thread.
    """
    active = lane.active
    if active is None:
        return msgspec.structs.replace(lane, active=run), (BeginRun(run),)
    if lane.erasing and not lane.waiting:
        return msgspec.structs.replace(lane, waiting=(run,)), ()
    match if_busy:
        case "reject":
            return lane, (RefuseBusy(lane.waiting[0] if lane.erasing else active),)
        case "enqueue":
            if len(lane.waiting) >= waiting_max:
                return lane, (RefuseFull(len(lane.waiting)),)
            return msgspec.structs.replace(lane, waiting=(*lane.waiting, run)), ()
        case "interrupt" | "rollback" if lane.held:
            dropped = (active, *lane.waiting)
            return Lane(run), (*(DropRun(other, run) for other in dropped), BeginRun(run))
        case "interrupt" | "rollback":
            return _replaced(lane, active, run, rollback=if_busy == "rollback")
        case _:
            assert_never(if_busy)


def _replaced(lane: Lane, active: bytes, run: bytes, *, rollback: bool) -> LaneDecision:
    """Let a run take the place of all that came before it."""
    dropped = tuple(DropRun(waiting, run) for waiting in lane.waiting)
    end = () if lane.ending else (CancelRun(active, run),)
    # An earlier "rollback" still holds, also if this run asks for "interrupt" only.
    rollback = rollback or lane.rollback
    then = Lane(active, ending=True, rollback=rollback, erasing=lane.erasing, waiting=(run,))
    return then, (*dropped, *end)


def taken_up(lane: Lane, run: bytes, begun: Collection[bytes] = ()) -> LaneDecision:
    """Handle a run taken over from another system, which has died or given it back.

    It was accepted before, so it is never refused, and its id gives its place in the queue.

    Args:
        begun: those of this run and of the lane's that had begun in another system: they go first.
    """
    active = lane.active
    if active is None:
        return msgspec.structs.replace(lane, active=run), (BeginRun(run),)
    waiting = _in_order((*lane.waiting, run), begun)
    lane = msgspec.structs.replace(lane, waiting=waiting)
    return held(lane, begun) if lane.held else (lane, ())


def held(lane: Lane, begun: Collection[bytes] = ()) -> LaneDecision:
    """Handle that the active run could not begin, because another system has the thread.

    It waits, unless a run that was taken up behind it comes first: that one begins instead. A run
    of the other system may be waiting for just that one.

    Args:
        begun: those of the lane's that had begun in another system: they go first.
    """
    assert lane.active is not None
    first, *others = _in_order((lane.active, *lane.waiting), begun)
    if first == lane.active:
        return msgspec.structs.replace(lane, held=True), ()
    return Lane(first, waiting=tuple(others)), (BeginRun(first),)


def _in_order(runs: Iterable[bytes], begun: Collection[bytes]) -> tuple[bytes, ...]:
    return tuple(sorted(runs, key=lambda run: (run not in begun, run)))


def freed(lane: Lane) -> LaneDecision:
    """Begin the active run if it was held: no other system has the thread any more."""
    if not lane.held or lane.active is None:
        return lane, ()
    return msgspec.structs.replace(lane, held=False), (BeginRun(lane.active),)


def action_on_rival(
    if_busy: IfBusy, other: RunRow, *, delayed: bool = False
) -> Literal["wait", "end", "take_up"]:
    """Choose what to do about a run of another system that is ahead of a waiting one.

    "end" asks its system to cancel it, or cancels it if that system is dead; "take_up" continues
    it here, because no other system may ever do so.

    Args:
        delayed: whether the waiting run was stored for later: what it replaces was asked to end
            then, and runs that came since are waited for.
    """
    if other.cancel is not None:
        return "wait" if other.alive else "end"
    if if_busy in ("interrupt", "rollback") and not delayed:
        return "end"
    return "wait" if other.alive else "take_up"


def replacement_reason(run: bytes) -> str:
    """Make the reason stored with runs that were cancelled in favour of this one."""
    return f"run {as_text(run)} took its place"


def is_replaced(old: RunRow, run: bytes, before: bytes) -> bool:
    """Whether an open run is ended when another one is stored that replaces the runs of now.

    Args:
        run: the one that replaces it.
        before: runs of now have lower ids. A delayed run that a living system has, or that has
            begun, is one of them too, even if that system's clock was ahead.
    """
    if old.run == run:
        return False
    return old.run < before or (old.due > 0 and (old.claimed or old.alive))


def rolls_back(replaced: Collection[bytes], head: bytes | None, *, delayed: bool) -> bool:
    """Whether the checkpoints of the runs that a rollback replaces are deleted when it begins.

    Other runs may have gone on from there while a delayed run waited; then they stay, as with
    "interrupt": the history of what came since is never cut.

    Args:
        replaced: the runs that were cancelled in its favour.
        head: the run that stored the thread's newest checkpoint; None if no run did.
        delayed: whether it was stored for later.
    """
    return bool(replaced) and (not delayed or head in replaced)


def left(lane: Lane, run: bytes) -> LaneDecision:
    """Handle a run that has left the thread, or does not wait for it any more."""
    if lane.active != run:
        waiting = tuple(other for other in lane.waiting if other != run)
        return msgspec.structs.replace(lane, waiting=waiting), ()
    if lane.rollback:
        return Lane(run, ending=True, erasing=True, waiting=lane.waiting), (EraseRun(run),)
    return _following(lane)


def erased(lane: Lane) -> LaneDecision:
    """Handle the completion of a rollback, whether it succeeded or failed."""
    return _following(lane)


def _following(lane: Lane) -> LaneDecision:
    if not lane.waiting:
        return FREE, ()
    following, *rest = lane.waiting
    return Lane(following, waiting=tuple(rest)), (BeginRun(following),)


class TakeOver(msgspec.Struct, frozen=True):
    """Run the orphan.

    Attributes:
        go_on: whether its input is in the thread already, so that it goes on from there.
        deaths: to count from now on.
    """

    go_on: bool
    deaths: int = 0


class ParkRun(msgspec.Struct, frozen=True):
    """Give the orphan up until an operator resumes or cancels it.

    Attributes:
        reason: shown to the operator.
        deaths: to store with it.
    """

    reason: str
    deaths: int = 0


class LeaveRun(msgspec.Struct, frozen=True):
    """Leave the orphan to another system.

    Attributes:
        reason: why this system can't run it.
    """

    reason: str


class Share(msgspec.Struct, frozen=True):
    """The runs that a system may run.

    Attributes:
        graphs: names of the graphs that it has.
        builds: whose runs it runs, besides those of every build.
        works: whether it runs any; a system that only accepts runs doesn't.
    """

    graphs: Collection[str]
    builds: Collection[str] = ()
    works: bool = True


def is_ready(row: RunRow, now: int) -> bool:
    """Whether a run waits for a system: it is open and due, and no living system has it.

    Hints, sweeps, recovery and the next of a thread ask this and `misfit_of`.

    Args:
        row: as stored.
        now: microseconds since 1970-01-01 UTC.
    """
    return row.status in OPEN_STATUSES and not row.alive and row.due <= now


def misfit_of(row: RunRow, share: Share) -> str:
    """Return why a run can't be run by a system; "" if it can."""
    if not share.works:
        return "waits for a worker"
    if row.graph not in share.graphs:
        return f"waits for a process that has the graph {row.graph!r}"
    if row.build and row.build not in share.builds:
        return f"waits for a process of the build {row.build!r}"
    return ""


Fate = Literal["alive", "gone", "unknown"]
"""The process that had a run lives, doesn't, or may be elsewhere."""

SILENT_LEASES = 4
"""A process of which nothing is known is taken as gone when its lease is over for so many more."""
TRIAL_S = 60.0
"""Longest time for which other runs wait for a trial to begin, and then for it to end."""


def is_suspect(deaths: int, attempts_max: int) -> bool:
    """Whether a run may be what kills processes, so that it is tried alone.

    Args:
        deaths: counted so far.
        attempts_max: processes that may die while they run it. With 1 nothing is tried again.
    """
    return attempts_max > 1 and deaths >= attempts_max - 1


def is_on_trial(row: RunRow, attempts_max: int) -> bool:
    """Whether its system has noted that it runs it alone, or had a higher limit."""
    return row.deaths >= attempts_max


def deaths_after(row: RunRow, fate: Fate, attempts_max: int) -> int:
    """Count the deaths of a run that is taken over; at least `attempts_max` means: park it.

    Args:
        row: as its former system left it.
        fate: of that system's process.
        attempts_max: processes that may die while they run it.
    """
    if is_on_trial(row, attempts_max):
        return attempts_max - 1 if fate == "alive" else row.deaths
    ran = row.status == "running" and row.owner not in (None, NO_OWNER)
    if not ran or fate == "alive":
        return row.deaths
    return min(row.deaths + 1, max(attempts_max - 1, 1))


def is_silent(lease_s: float | None, length_s: float) -> bool:
    """Whether the owner of a lease is taken as gone, as nothing else is known of its process.

    Args:
        lease_s: seconds until its lease ends, negative since it ended; None if it gave it up.
        length_s: seconds of a lease.
    """
    return lease_s is None or lease_s < -SILENT_LEASES * length_s


def has_progressed(saves: int) -> bool:
    """Whether a run has got further than the process that had it before.

    Args:
        saves: those that it has stored since it was begun; the first one is its claim.
    """
    return saves > 1


def why_not_retried(row: RunRow, head: bytes | None, open_rows: Iterable[RunRow]) -> str:
    """Return why a parked run can't go on where it was; "" if it can.

    Args:
        row: as stored.
        head: the run that stored the newest checkpoint of its thread; None if no run did.
        open_rows: open runs of its thread.
    """
    if row.status != "parked":
        return f"it is not parked: its status is {row.status!r}"
    if any(other.claimed for other in open_rows):
        return "another run of its thread is going on"
    if has_gone_on(row, head):
        return "its thread has gone on with another run since"
    return ""


def decide_takeover(
    row: RunRow, share: Share, attempts_max: int, fate: Fate
) -> TakeOver | ParkRun | LeaveRun:
    """Decide about an orphan.

    Args:
        row: its stored row.
        share: of this system.
        attempts_max: processes that may die while they run it.
        fate: of the process that had it.
    """
    if reason := misfit_of(row, share):
        return LeaveRun(reason)
    deaths = deaths_after(row, fate, attempts_max)
    if deaths < attempts_max:
        return TakeOver(row.claimed, deaths)
    if fate == "unknown":
        return LeaveRun("waits until the process that has tried it alone is known to be gone")
    return ParkRun(f"{deaths} processes have ended while they ran it", deaths)


def misfit_reason(error: BaseException) -> str:
    """Make the reason for which a run waits whose thread this process can't go on with."""
    return f"waits for a process that can go on with it; this one can't: {error_text(error)}"


class MisfitRun(msgspec.Struct, frozen=True):
    """An orphan that this system can't run.

    Attributes:
        reason: why.
        tries: how often it was tried.
        until: when it is tried again, in seconds of the clock that `next_misfit` is given.
    """

    reason: str
    tries: int
    until: float


def next_misfit(known: MisfitRun | None, reason: str, now: float, pause_s: float) -> MisfitRun:
    """Record a failed try; the pause before the next one is twice as long each time.

    Only a change of the thread can help, and while this system tries, others can't take the run.

    Args:
        known: of the try before; None at the first.
        now: seconds.
        pause_s: the first pause.
    """
    tries = 1 if known is None else known.tries + 1
    return MisfitRun(reason, tries, now + pause_s * 2 ** min(tries - 1, LONGEST_PAUSE))


LONGEST_PAUSE = 6
"""Maximum number of doublings of the pause."""


class RunPlace(NamedTuple):
    """A run and its thread.

    Attributes:
        saver: a number for the saver, unique in the process; threads of different savers differ.
        thread_id: the thread's id.
        run: the run's id.
    """

    saver: int
    thread_id: str
    run: bytes

    @property
    def thread(self) -> tuple[int, str]:
        """The thread, and the saver that has it."""
        return self.saver, self.thread_id


def leads_back(
    waiter: RunPlace, target: RunPlace, needs: Callable[[RunPlace], Iterable[RunPlace]]
) -> bool:
    """Whether a run that waits for another one would wait for its own end.

    Args:
        needs: the runs that must end before a run can: of one that has begun those that its nodes
            wait for, else the run that has its thread.
    """
    seen = {target}
    left = [target]
    while left:
        run = left.pop()
        if run == waiter:
            return True
        following = [one for one in needs(run) if one not in seen]
        seen.update(following)
        left += following
    return False
