"""Whether a commit may be stored: claims, heads and epochs, as decisions on data.

Every saver reads the state of the threads in a batch, asks `judge` about each request in order,
and writes what was accepted. So all savers refuse the same things with the same words.
"""

from collections.abc import Callable, Sequence

import msgspec

from actorgraph.errors import AlreadyResumedError, ConflictError, StorageError, ThreadBusyError
from actorgraph.values.commits import (
    EPOCH_ANY,
    HOLDER_ANY,
    Claim,
    Commit,
    CommitOutcome,
    LedgerRow,
    Refused,
    Request,
)
from actorgraph.values.constants import CONTROL_INDEX, ONE_AT_A_TIME, RESUME, ROUTED
from actorgraph.values.ids import as_text
from actorgraph.values.retention import CopyThread
from actorgraph.values.systems import AdoptRun


class ThreadState(msgspec.Struct):
    """What a store knows of one thread; `judge` changes it to what the batch will have stored.

    Attributes:
        row: the store's own key; None until the thread has one.
        run: the run that holds the claim.
        heads: namespace -> newest checkpoint.
        owner: the system that leases the thread, known when a claim is judged; leased: whether
            its lease holds.
    """

    thread_id: str
    row: int | None = None
    epoch: int = 1
    run: bytes | None = None
    next_seq: int = 1
    heads: dict[str, bytes | None] = {}
    changed: bool = False
    owner: bytes | None = None
    leased: bool = False


def judge(
    commit: Commit, thread: ThreadState, *, answered: bool = False, based: bool = True
) -> tuple[int, ConflictError | None]:
    """Accept a commit or say why not.

    Args:
        answered: whether the store has one of its `answer_rows` already.
        based: whether the store has the checkpoint of its `branches_off`.
    Returns: the sequence of its first checkpoint, and None; or 0 and the error.
    """
    refused = _refusal(commit, thread, answered)
    if refused is None and not based:
        refused = _conflict(commit, "has lost the checkpoint that this run goes on from")
    if refused is not None:
        return 0, refused
    first = thread.next_seq
    if commit.claim is not None:
        thread.run = commit.run
        _lease(commit, thread)
    if commit.checkpoints:
        thread.next_seq += len(commit.checkpoints)
        thread.heads[commit.namespace] = commit.checkpoints[-1].id
    if commit.ends is not None and commit.run is not None:
        thread.run = None
        thread.owner, thread.leased = None, False
    thread.changed = True
    return first, None


def _refusal(commit: Commit, thread: ThreadState, answered: bool) -> ConflictError | None:
    if commit.epoch not in (EPOCH_ANY, thread.epoch):
        return _conflict(commit, "was deleted, or leased by another system, during the run")
    head = thread.heads.get(commit.namespace)
    if commit.run is None:
        return _moved_on(commit, head) if commit.strict and commit.head != head else None
    if commit.claim is not None:
        if thread.leased and thread.owner != commit.owner:
            return _leased(commit)
        if commit.claim.head == head and not answered:
            return _overtaken(commit, commit.claim, thread)
        if commit.claim.resumes:
            return AlreadyResumedError(
                f"another run has answered the interrupt of thread {commit.thread_id!r}",
                do="read get_state(config) to see how it went on",
            )
        return _moved_on(commit, head)
    if thread.run != commit.run:
        return _conflict(commit, "has been taken over by another run")
    if commit.head != head:
        if commit.namespace:
            return _used_twice(commit)
        return _moved_on(commit, head)
    return None


def _moved_on(commit: Commit, head: bytes | None) -> ConflictError:
    return _conflict(commit, f"has moved on to checkpoint {_name(head)}")


def _overtaken(commit: Commit, claim: Claim, thread: ThreadState) -> ConflictError | None:
    """Of runs that have read the same claim one may follow it, also where claims move no head."""
    if claim.holder == HOLDER_ANY or thread.run in (claim.holder, commit.run):
        return None
    return _conflict(commit, "was taken by another run since this one read it")


def _lease(commit: Commit, thread: ThreadState) -> None:
    """Each owned claim raises the epoch: what earlier owners still write is refused."""
    thread.owner, thread.leased = commit.owner, commit.owner is not None
    if thread.leased:
        thread.epoch += 1


def fence(thread: ThreadState, request: AdoptRun) -> bool:
    """Refuse what the owner of an adopted run may still hand over for its thread, if it has it.

    Returns: whether the thread was that owner's.
    """
    if thread.owner is None or thread.owner != request.was:
        return False
    thread.epoch += 1
    thread.owner, thread.leased = None, False
    return True


def _leased(commit: Commit) -> ConflictError:
    return ThreadBusyError(
        f"thread {commit.thread_id!r} has a run of a system in another process",
        do="wait for that run to end, or cancel it there",
        thread_id=commit.thread_id,
    )


def one_by_one(
    batch: Sequence[Request], store: Callable[[Request], CommitOutcome]
) -> list[CommitOutcome]:
    """Store each request of a batch alone.

    Where a row of a commit is refused, what its run stores after it is refused too: the graphs
    inside of a run name its checkpoints, which must not be missing.
    """
    lost: dict[bytes, BaseException] = {}
    outcomes: list[CommitOutcome] = []
    for request in batch:
        run = request.run if isinstance(request, Commit) else None
        error = lost.get(run) if run is not None else None
        outcome = store(request) if error is None else Refused(error)
        if run is not None and isinstance(outcome, Refused) and _is_lost(outcome.error):
            lost.setdefault(run, outcome.error)
        outcomes.append(outcome)
    return outcomes


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, StorageError)


def answer_rows(commit: Commit) -> list[LedgerRow]:
    """The rows with which a claim answers questions.

    Another process may have answered one of them since this one read the thread, and moved no
    head yet: an interrupt is answered once.
    """
    if commit.claim is None or not commit.claim.resumes:
        return []
    return [row for row in commit.ledger if row.index in _ANSWERS]


def branches_off(commit: Commit) -> bytes | None:
    """The checkpoint that a run's next one goes on from, where that is not the head.

    A head that is still the head is there, and all that it needs. An older checkpoint may have
    been removed since the run read it, and with it the values that the next one would name.
    """
    if commit.run is None or not commit.checkpoints:
        return None
    parent = commit.checkpoints[0].parent
    return None if parent == commit.head else parent


_ANSWERS = (CONTROL_INDEX[RESUME], CONTROL_INDEX[ROUTED])


def _conflict(commit: Commit, what: str) -> ConflictError:
    return ConflictError(
        f"thread {commit.thread_id!r} {what}; nothing of this save was stored",
        do="load the thread again and repeat the call, or run one call per thread at a time",
    )


def _used_twice(commit: Commit) -> ConflictError:
    return ConflictError(
        f"a graph with a state of its own, {commit.namespace!r} of thread {commit.thread_id!r}, "
        "has moved on in another task; nothing of this save was stored",
        do=ONE_AT_A_TIME,
    )


def refused_copy(request: CopyThread) -> ConflictError:
    """The error of a copy to a thread that has checkpoints."""
    return ConflictError(
        f"thread {request.thread_id!r} has checkpoints; nothing was copied",
        do="copy to a new thread_id, or delete that thread first",
    )


def _name(head: bytes | None) -> str:
    return as_text(head) if head else "none"


def newest_rows(rows: list[LedgerRow]) -> tuple[LedgerRow, ...]:
    """A ledger in the order in which readers see it: path, task, index, generation."""
    return tuple(sorted(rows, key=lambda r: (r.path, r.task, r.index, r.generation)))
