"""Parked runs are made pending again, so that any system takes them up."""

from collections.abc import Sequence

import msgspec

from actorgraph.errors import CheckpointError
from actorgraph.rules.system.scheduling import why_not_retried
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.saver.hosting import Host
from actorgraph.values.commits import ListCheckpoints, Refused, StoredCheckpoint
from actorgraph.values.ids import as_bytes, as_text
from actorgraph.values.systems import NO_OWNER, AdoptRun, ListRuns, RunRow, SetRun

BEFORE = 1
"""Attempts of a retried run; with 0 its events would count as complete, as after a drain."""


class RetriedRuns(msgspec.Struct, frozen=True):
    """The parked runs that were to be run again, and which of them are.

    Attributes:
        retried: ids of those that are pending again; a run goes on where it was.
        left: id -> why it was left as it is.
    """

    retried: tuple[str, ...]
    left: dict[str, str]


async def rows_of(host: Host, run_ids: Sequence[str]) -> tuple[list[RunRow], dict[str, str]]:
    """Read runs by their ids; with the ids that are none, and why."""
    known, unknown = dict[bytes, str](), dict[str, str]()
    for text in run_ids:
        try:
            known[as_bytes(text)] = text
        except ValueError:
            unknown[text] = "it is not the id of a run"
    rows: list[RunRow] = await host.reader.ask(ListRuns(among=tuple(known))) if known else []
    missing = known.keys() - {row.run for row in rows}
    return rows, unknown | {known[run]: "no such run is stored" for run in missing}


async def retry_rows(host: Host, rows: Sequence[RunRow]) -> tuple[list[RunRow], dict[str, str]]:
    """Make parked runs pending, without an owner and without counted deaths.

    Returns: those that are pending now; id -> why it was left, of the others.
    Raises:
        StorageError: the saver can't be read.
    """
    retried, left = list[RunRow](), dict[str, str]()
    for row in rows:
        why = await _why_not(host, row) or await _retry(host, row)
        if why:
            left[as_text(row.run)] = why
        else:
            changed = {"status": "pending", "owner": NO_OWNER, "attempts": BEFORE, "deaths": 0}
            retried.append(msgspec.structs.replace(row, **changed, alive=False, reason=""))
    return retried, left


async def _why_not(host: Host, row: RunRow) -> str:
    if row.status != "parked":
        return why_not_retried(row, None, ())
    query = ListCheckpoints(thread_id=row.thread_id, namespace="", limit=1, bare=True)
    try:
        newest: list[StoredCheckpoint] = await host.reader.ask(query)
    except CheckpointError as error:  # of this thread alone
        return f"its thread can't be read: {error}"
    open_rows: list[RunRow] = await host.reader.ask(ListRuns(open_of=(row.thread_id,)))
    return why_not_retried(row, newest[0].row.run if newest else None, open_rows)


async def _retry(host: Host, row: RunRow) -> str:
    """Store that a run is pending; return why that was refused, or ""."""
    own = bytes(IDS.run())  # without a lease: no system has the run in between
    requests = (
        AdoptRun(row.run, row.thread_id, own, row.owner, BEFORE),
        SetRun(row.run, row.thread_id, own, "pending", "", BEFORE),
        AdoptRun(row.run, row.thread_id, NO_OWNER, own, BEFORE),
    )
    # Handed over at once, so that they are one transaction.
    outcomes = await host.writer.store_each(*requests)
    for outcome in outcomes:
        error = outcome.error if isinstance(outcome, Refused) else outcome
        if isinstance(error, BaseException):
            return f"it has changed meanwhile: {error}"
    return ""
