"""The phase of a thread: the word by which operators know what it waits for. Pure.

`phase_of` is the only rule; commands, the studio, HTTP, `ActorSystem.threads`, snapshots and
metrics say what it returns. LangGraph's four statuses of threads are beside it.

    the thread                                                         phase
    -----------------------------------------------------------------  ------------
    has an open run, whose process lives or which has not begun        running
    has an open run that has begun, and whose process has no lease     cut_off
    has a run that was given up, and has not gone on with another      parked
    has work left, and a run has begun that has not left               cut_off
    has a failed task                                                  failed
    has an open question                                               waiting
    has work left otherwise: a breakpoint, a cancellation, an edit     unfinished
    has none                                                           ended

A run outside of a system has no lease: while it works its thread looks like one that was cut off,
and counts as that.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from actorgraph.values.systems import NO_OWNER, OPEN_STATUSES, RunRow

ThreadPhase = Literal["running", "waiting", "cut_off", "parked", "failed", "unfinished", "ended"]
"""See the table in the module's docstring."""

PHASES: tuple[ThreadPhase, ...] = (
    "running",
    "waiting",
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


class PhaseFacts(msgspec.Struct, frozen=True):
    """The stored facts about a thread, without the runs of systems.

    Attributes:
        left: whether it has work left: tasks, or an input that no checkpoint holds.
        failed: whether a task has failed and not finished since.
        asks: whether a question is open.
        held: whether a run has claimed it and has not left.
        run: the run that stored its newest checkpoint; None if no run did.
    """

    left: bool = False
    failed: bool = False
    asks: bool = False
    held: bool = False
    run: bytes | None = None


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
        return "cut_off"
    if facts.failed:
        return "failed"
    if facts.asks:
        return "waiting"
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
