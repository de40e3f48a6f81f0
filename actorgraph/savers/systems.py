"""What the requests of an ActorSystem do to its rows, as decisions on data, for every saver."""

from actorgraph.errors import LeaseLostError
from actorgraph.values.commits import Commit
from actorgraph.values.systems import OPEN_STATUSES, AdoptRun, RunRow, SetRun, StoreEvents

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


def refused_claim(commit: Commit, owner: bytes | None, *, known: bool) -> LeaseLostError | None:
    """Why a system's run may not begin: another system has taken it up meanwhile.

    Its own head may be the thread's all the same, if it has read the thread after the other one
    has ended the run: so the head alone does not tell.

    Args: as for `refusal`.
    """
    if commit.claim is None or commit.owner is None or not known or owner == commit.owner:
        return None
    return _lost(commit.thread_id, "has been taken over by another system")


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
