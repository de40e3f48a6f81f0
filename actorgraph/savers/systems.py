"""What the requests of an ActorSystem do to its rows, as decisions on data, for every saver."""

from collections.abc import Iterable

from actorgraph.errors import LeaseLostError, ThreadBusyError
from actorgraph.superstep.turns import is_ahead
from actorgraph.values.commits import Commit
from actorgraph.values.ids import as_text
from actorgraph.values.systems import (
    OPEN_STATUSES,
    AdoptRun,
    OpenRun,
    PutRun,
    RunRow,
    SetRun,
    StoreEvents,
)

_STATUS = {"drained": "pending", "escaped": "error"}


def status_after(ends: str) -> str:
    """The status of a run whose last save says how it leaves; a drained one goes on later."""
    return _STATUS.get(ends, ends)


def is_orphan(row: RunRow) -> bool:
    """Whether nobody works on an open run."""
    return row.status in OPEN_STATUSES and not row.alive


def is_asked(row: RunRow, owner: bytes) -> bool:
    """Whether a run is an owner's, open, and somebody has asked the owner to cancel it."""
    return row.owner == owner and row.cancel is not None and row.status in OPEN_STATUSES


def refusal(
    request: AdoptRun | SetRun | StoreEvents, owner: bytes | None, *, known: bool
) -> LeaseLostError | None:
    """Why a request about a run is refused; None if it is not.

    Args:
        owner: who has the run now. known: whether there is such a run.
    """
    expected = request.was if isinstance(request, AdoptRun) else request.owner
    if known and owner == expected:
        return None
    what = "has been taken over by another system" if known else "has been removed"
    return _lost(request.thread_id, what)


def refused_claim(
    commit: Commit, owner: bytes | None, *, known: bool, others: Iterable[OpenRun]
) -> LeaseLostError | ThreadBusyError | None:
    """Why a system's run may not begin: another system has taken it up meanwhile, or has a run
    whose turn comes first.

    Its own head may be the thread's all the same, if it has read the thread after the other one
    has ended the run: so the head alone does not tell.

    Args: as for `refusal`; others: the open runs of its thread.
    """
    if commit.claim is None or commit.owner is None or commit.run is None:
        return None
    if known and owner != commit.owner:
        return _lost(commit.thread_id, "has been taken over by another system")
    if not known:
        return _lost(commit.thread_id, "has been removed")
    ahead = next((o for o in others if is_ahead(commit.run, commit.owner, o)), None)
    return None if ahead is None else _busy(commit.thread_id, ahead)


def refused_row(put: PutRun, others: Iterable[OpenRun]) -> ThreadBusyError | None:
    """Why a new run may not come: it is not to wait, and another system has the thread.

    Args:
        others: the open runs of its thread.
    """
    if put.if_busy != "reject":
        return None
    busy = next((o for o in others if o.owner != put.row.owner), None)
    return None if busy is None else _busy(put.thread_id, busy)


def is_leased(owner: bytes | None, others: Iterable[OpenRun]) -> bool:
    """Whether a run of `owner`, whose lease holds, has begun on a thread and not left it.

    One that has failed may not have been able to say so with its own last save.
    """
    return any(other.owner == owner and other.alive and other.claimed for other in others)


def _busy(thread_id: str, other: OpenRun) -> ThreadBusyError:
    run = as_text(other.run)
    what = "goes on in" if other.alive else "was left by"
    how = "wait for it" if other.alive else "call system.recover(), which takes it up"
    return ThreadBusyError(
        f"thread {thread_id!r} has run {run}, which {what} another process; nothing was stored",
        do=f'{how}, or start with if_busy="enqueue", "interrupt" or "rollback"',
        thread_id=thread_id,
        run_id=run,
    )


def _lost(thread_id: str, what: str) -> LeaseLostError:
    return LeaseLostError(
        f"a run of thread {thread_id!r} {what}; nothing was stored",
        do="read it with system.run(run_id), which tells how it goes on",
    )


def row_of(row: RunRow) -> tuple[object, ...]:
    """The columns of a new run in a database, in the order of its table."""
    return (
        *(row.run, row.thread_id, row.graph, row.status, row.attempts, row.claimed, row.owner),
        *(row.created, row.metadata, row.payload, row.reason),
    )
