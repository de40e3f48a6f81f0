"""The phase of a thread: the word by which operators know what it waits for. Pure.

`phase_of` is the only rule; commands, the studio, HTTP, `ActorSystem.threads`, snapshots and
metrics say what it returns. LangGraph's four statuses of threads are beside it.

    the thread                                                         phase
    -----------------------------------------------------------------  ------------
    has an open run, whose process lives or which has not begun        running
    has an open run that has begun, and whose process has no lease     cut_off
    has a run that was given up, and has not gone on with another      parked
    has work left, and a run has claimed it that still works           running
    has work left, and a run has claimed it that works no more         cut_off
    has a failed task                                                  failed
    has open questions, and all of them are sleeps                     sleeping
    has an open question                                               waiting
    has work left otherwise: a breakpoint, a cancellation, an edit     unfinished
    has none                                                           ended

A run outside of a system has no lease. `still_works` decides: its own process knows it; for others
it works until its last save is `RECENT_S` old.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from actorgraph.values.systems import NO_OWNER, OPEN_STATUSES, RunRow

ThreadPhase = Literal[
    "running", "waiting", "sleeping", "cut_off", "parked", "failed", "unfinished", "ended"
]
"""See the table in the module's docstring."""

PHASES: tuple[ThreadPhase, ...] = (
    "running",
    "waiting",
    "sleeping",
    "cut_off",
    "parked",
    "failed",
    "unfinished",
    "ended",
)
PHASE_TEXT: dict[str, str] = {
    **{phase: phase for phase in PHASES},
    "waiting": "waiting for a person",
    "cut_off": "cut off",
}
"""Phase -> how people read it."""


RECENT_S = 300.0
"""Seconds after its last save for which a run of another process, without a lease, counts as one
that works: longer than most calls of models. Alarms of threads that were cut off come so late.
"""


class PhaseFacts(msgspec.Struct, frozen=True):
    """The stored facts about a thread, without the runs of systems.

    Attributes:
        left: whether it has work left: tasks, or an input that no checkpoint holds.
        failed: whether a task has failed and not finished since.
        asks: whether a question is open.
        sleeps: whether all open questions are sleeps.
        held: whether a run has claimed it and has not left.
        run: the run that stored its newest checkpoint; None if no run did.
        works: whether the run that has claimed it still works; see `still_works`.
    """

    left: bool = False
    failed: bool = False
    asks: bool = False
    held: bool = False
    run: bytes | None = None
    works: bool = False
    sleeps: bool = False


def still_works(known: bool | None, saved: int, now: int) -> bool:
    """Whether a run that has claimed a thread and has not left is taken to work, without a lease.

    Args:
        known: what this process knows: that it works here, or that it ended here without storing
            that. None if it is another process's.
        saved: when it stored something last, or claimed the thread; microseconds since 1970.
        now: the time, in the same unit. A `saved` as far ahead counts as old.
    """
    return abs(now - saved) < RECENT_S * 1_000_000 if known is None else known


def phase_of(facts: PhaseFacts, runs: Iterable[RunRow] = ()) -> ThreadPhase:
    """Return the phase of a thread; the table is in the module's docstring.

    Args:
        runs: its runs that are open or parked, without those that wait for their times.
    """
    rows = list(runs)
    open_rows = [row for row in rows if row.status in OPEN_STATUSES]
    if open_rows:
        return "cut_off" if all(is_cut_off(row) for row in open_rows) else "running"
    if any(row.status == "parked" and not has_gone_on(row, facts.run) for row in rows):
        return "parked"
    if facts.left and facts.held:
        return "running" if facts.works else "cut_off"
    if facts.failed:
        return "failed"
    if facts.asks:
        return "sleeping" if facts.sleeps else "waiting"
    return "unfinished" if facts.left else "ended"


def is_cut_off(row: RunRow) -> bool:
    """Whether an open run has begun in a system whose lease is over.

    A run that was given back belongs to none, and waits for one.
    """
    begun = row.claimed or row.status == "running"
    return begun and not row.alive and row.owner not in (None, NO_OWNER)


def has_gone_on(row: RunRow, head: bytes | None) -> bool:
    """Whether the thread of a run that was given up has gone on with another one since.

    Args:
        head: the run that stored the thread's newest checkpoint; None if no run did.
    """
    return row.claimed and head is not None and head > row.run


def phase_named(text: str) -> ThreadPhase | None:
    """Return the phase that a person names: "cut off", "waiting for a person", "cut_off" ..."""
    wanted = text.strip().lower()
    names = (wanted, wanted.replace("-", "_").replace(" ", "_"))
    for phase in PHASES:
        if phase in names or PHASE_TEXT[phase] == wanted:
            return phase
    return None
