"""The runs by which a thread's phase is known: those that are open, and those that are parked.

Of a run without a row its claim is known, and what its process knows.
"""

from collections.abc import Sequence

from actorgraph.rules.run_order import waits_for_time
from actorgraph.runtime.clock import microseconds_now
from actorgraph.runtime.saver.hosting import Host
from actorgraph.values.ids import made_at
from actorgraph.values.systems import ListRuns, RunRow, SearchRuns
from actorgraph.values.thread_phase import PhaseFacts, phase_of, still_works

AT_ONCE = 64
"""Threads whose runs are read by one query."""
PAGE = 512
"""Runs that are read at once."""


async def parked_rows(host: Host, thread_id: str | None = None) -> list[RunRow]:
    """Read the parked runs of a thread, or of all threads, oldest first."""
    rows: list[RunRow] = []
    before = b"\xff" * 17
    while True:
        query = SearchRuns(PAGE, statuses=("parked",), prefix=thread_id or "", before=before)
        page: list[RunRow] = await host.reader.ask(query)
        rows += [row for row in page if thread_id in (None, row.thread_id)]
        if len(page) < PAGE:
            return rows[::-1]
        before = page[-1].run


async def runs_of_threads(host: Host, thread_ids: Sequence[str]) -> dict[str, list[RunRow]]:
    """Read the open and the parked runs of threads: id -> its runs, by their ids.

    Args:
        host: of a saver that keeps runs.
    """
    rows: list[RunRow] = []
    for at in range(0, len(thread_ids), AT_ONCE):
        rows += await host.reader.ask(ListRuns(open_of=tuple(thread_ids[at : at + AT_ONCE])))
    if thread_ids:
        wanted = set(thread_ids)
        one = thread_ids[0] if len(thread_ids) == 1 else None
        rows += [row for row in await parked_rows(host, one) if row.thread_id in wanted]
    by_thread: dict[str, list[RunRow]] = {}
    for row in sorted(rows, key=lambda row: row.run):
        by_thread.setdefault(row.thread_id, []).append(row)
    return by_thread


def without_later(runs: Sequence[RunRow], now: int) -> list[RunRow]:
    """Leave out the runs that wait for their times.

    Args:
        now: by the store's clock, in microseconds since 1970-01-01 UTC.
    """
    return [row for row in runs if not waits_for_time(row, now)]


async def works_on(host: Host, thread_id: str, holder: bytes | None, saved: int) -> bool:
    """Whether the run that has claimed a thread still works, as far as is known.

    Args:
        holder: the run; None if none has.
        saved: when the thread's newest checkpoint was made, in microseconds since 1970.
    """
    if holder is None:
        return False
    known, now = host.writer.works(thread_id, holder), microseconds_now()
    moments = (saved, made_at(holder))
    works = any(still_works(known, moment, now) for moment in moments)
    if not works or known or not getattr(host.saver, "keeps_runs", False):
        return works
    # A run of a system has a lease, which knows more than the time of a save.
    rows: list[RunRow] = await host.reader.ask(ListRuns(open_of=(thread_id,)))
    return (
        phase_of(
            PhaseFacts(left=True, held=True, works=works), without_later(rows, host.clock.now())
        )
        == "running"
    )
