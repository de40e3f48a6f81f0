"""Dispatch between systems: which runs a worker claims, of which queues, and how many.

A worker gets hints, reads the rows of their runs and the open runs of their threads, and decides
here. The saver then compares and sets the owner: of two workers that decide alike one gets the run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from actorgraph.rules.run_order import place_in_thread
from actorgraph.rules.system.scheduling import Share, is_ready, misfit_of
from actorgraph.values.dispatch import is_rescue, queue_of
from actorgraph.values.systems import RunRow

BATCH_MAX = 512
"""Runs that are claimed at once: as many as the saver stores in one transaction."""

LOOK_S = 2.0
"""Seconds after which a reader of another process's run looks into the saver without news."""
LOOKS_DOUBLED = 2
"""How often `LOOK_S` is doubled while no news come: looks are at most 8 s apart."""


def looks_after(quiet: int) -> float:
    """Seconds without news after which a reader looks for events of another process's run.

    News are lost mostly by the death of the process that has the run, so soon after the last news a
    look may find some. A thousand readers of quiet runs that looked as often would do little else.

    Args:
        quiet: looks without news since the last news.
    """
    return LOOK_S * 2 ** min(quiet, LOOKS_DOUBLED)


def queues_of(
    graphs: Iterable[str], builds: Iterable[str], *, rescue_only: bool = False
) -> tuple[str, ...]:
    """The queues that a worker takes hints from.

    Args:
        graphs: that it runs.
        builds: that it runs, besides the runs of every build.
        rescue_only: leave out the queues of new runs.
    """
    kinds = (True,) if rescue_only else (True, False)
    every = ("", *builds)
    return tuple(queue_of(g, b, rescue=kind) for kind in kinds for g in graphs for b in every)


def room(taken: int, rescued: int, max_runs: int, reserve: int) -> tuple[int, int]:
    """Count the runs that a worker may claim in addition.

    Args:
        taken: runs that it has.
        rescued: how many of these had lost their system.
        max_runs: that it may have.
        reserve: how many of these are for runs that have lost their system.
    Returns: of all kinds; of new runs.
    """
    free = max(0, max_runs - taken)
    return free, max(0, free - max(0, reserve - rescued))


def within_slots(rows: Iterable[RunRow], all_kinds: int, new: int) -> list[RunRow]:
    """The first of the runs for which there are slots; see `room`.

    Args:
        rows: runs that may be claimed.
        all_kinds: free slots.
        new: how many of these are for new runs too.
    """
    found = list[RunRow]()
    for row in rows:
        rescue = is_rescue(row)
        if all_kinds > 0 and (rescue or new > 0):
            found.append(row)
            all_kinds -= 1
            new = min(new - (not rescue), all_kinds)
    return found


def graph_room(max_runs_of: Mapping[str, int], taken: Mapping[str, int]) -> dict[str, int]:
    """Count the runs that a worker may claim in addition, of each graph that has a limit.

    Args:
        max_runs_of: graph -> runs that it may have.
        taken: graph -> runs that it has, or is about to have.
    """
    return {graph: max(0, most - taken.get(graph, 0)) for graph, most in max_runs_of.items()}


def within_room(
    rows: Iterable[RunRow], left: Mapping[str, int]
) -> tuple[list[RunRow], list[RunRow]]:
    """Split runs into those that the limits of their graphs allow, and those above; in order.

    Args:
        rows: runs that may be claimed.
        left: graph -> runs that may be claimed of it; absent for no limit.
    """
    within, above, count = list[RunRow](), list[RunRow](), Counter[str]()
    for row in rows:
        count[row.graph] += 1
        fits = count[row.graph] <= left.get(row.graph, count[row.graph])
        (within if fits else above).append(row)
    return within, above


def claimable(
    rows: Sequence[RunRow],
    open_rows: Iterable[RunRow],
    share: Share,
    now: int,
) -> list[RunRow]:
    """The runs that may be claimed: open, due, without a living owner, and first of their thread.

    The first of a thread is the open run that has begun, else that with the lowest id. Ids have the
    time from which a run may begin: a delayed run is behind all that were accepted before its time.

    Args:
        rows: the hinted runs, as stored.
        open_rows: all open runs of their threads.
        share: of the worker.
        now: microseconds since 1970-01-01 UTC.
    """
    first = _first_of_threads(open_rows)
    return [
        row
        for row in rows
        if is_ready(row, now)
        and not misfit_of(row, share)
        and first.get(row.thread_id, row).run == row.run
    ]


def following(open_rows: Iterable[RunRow], now: int) -> list[RunRow]:
    """The first open run of each thread, if it is due and no living system has it.

    One whose time has not come has a hint of its own for then.

    Args:
        now: microseconds since 1970-01-01 UTC.
    """
    return [row for row in _first_of_threads(open_rows).values() if is_ready(row, now)]


def _first_of_threads(open_rows: Iterable[RunRow]) -> dict[str, RunRow]:
    first: dict[str, RunRow] = {}
    for row in open_rows:
        known = first.get(row.thread_id)
        if known is None or place_in_thread(row) < place_in_thread(known):
            first[row.thread_id] = row
    return first
