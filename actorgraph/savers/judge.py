"""Decide whether a commit may be stored: claims, heads and epochs, as functions over data.

Every saver reads the state of the threads in a batch, calls `judge` for each commit in order, and
writes those that were accepted. So all savers refuse the same commits with the same errors.

Epoch      a thread's fencing token: commits of an older epoch are refused
Claim      the right of one run at a time to store in a thread
Head       the newest checkpoint of a namespace; moved by compare-and-set
"""

from collections.abc import Callable, Sequence
from typing import TypeGuard

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
    """The stored state of one thread; `judge` updates it as if the batch were stored so far.

    Attributes:
        row: the store's own key; None until the thread has one.
        epoch: counts from 1; raised to fence the runs that know the thread by an older epoch.
        run: the run that holds the claim; None for none.
        next_seq: the sequence of the next checkpoint that is stored.
        heads: namespace -> id of its newest checkpoint.
        changed: whether a commit was accepted.
        owner: the ActorSystem that leases the thread; None for none.
        leased: whether that lease is valid; loaded only when a claim is judged.
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
    """Accept or refuse one commit; an accepted one is applied to `thread`.

    Args:
        answered: whether one of the commit's `answer_rows` is stored already.
        based: whether the checkpoint `branch_base(commit)` is still stored; True if it has none.
    Returns: the sequence of the commit's first checkpoint and None; or 0 and the error.
    """
    # All checks come before the first change: the next commit of the batch is judged against
    # `thread`, so a refused commit must leave no trace in it.
    refused = _refusal(commit, thread, answered)
    if refused is None and not based:
        refused = _conflict(commit, "no longer has the checkpoint that this run continues from")
    if refused is not None:
        return 0, refused
    first = thread.next_seq
    if commit.claim is not None:
        thread.run = commit.run
        _lease(commit, thread)
    # A commit of no run (`update_state`) moves the head too: a run that is going on is then refused
    # at its next save, instead of overwriting the update.
    if commit.checkpoints:
        thread.next_seq += len(commit.checkpoints)
        thread.heads[commit.namespace] = commit.checkpoints[-1].id
    if commit.ends is not None and commit.run is not None:
        thread.run = None
        thread.owner, thread.leased = None, False
    thread.changed = True
    return first, None


def _refusal(commit: Commit, thread: ThreadState, answered: bool) -> ConflictError | None:
    # The epoch comes first. After a delete the thread has no head, and a new run may have claimed
    # it: "moved on" or "taken over" would be true and would hide the cause.
    if commit.epoch not in (EPOCH_ANY, thread.epoch):
        return _conflict(commit, "was deleted, or leased by another system, during the run")
    head = thread.heads.get(commit.namespace)
    if commit.run is None:
        # From outside a run: only a strict commit is a compare-and-set, others append.
        return _head_moved(commit, head) if commit.strict and commit.head != head else None
    if commit.claim is not None:
        if thread.leased and thread.owner != commit.owner:
            return _leased_elsewhere(commit)
        if commit.claim.head == head and not answered:
            return _claim_taken(commit, commit.claim, thread)
        # Another head, or an answer that is stored: for a run that resumes both mean that another
        # run has resumed first, and callers handle that error apart from other conflicts.
        if commit.claim.resumes:
            return AlreadyResumedError(
                f"another run has answered the interrupt of thread {commit.thread_id!r}",
                do="read get_state(config) to see how it went on",
            )
        return _head_moved(commit, head)
    if thread.run != commit.run:
        return _conflict(commit, "has been taken over by another run")
    if commit.head != head:
        # The run holds the claim, so a nested head was moved by another task of the same run: two
        # tasks use one stateful subgraph at the same time, and the advice is another one.
        if commit.namespace:
            return _subgraph_used_twice(commit)
        return _head_moved(commit, head)
    return None


def _head_moved(commit: Commit, head: bytes | None) -> ConflictError:
    return _conflict(commit, f"has moved on to checkpoint {_name(head)}")


def _claim_taken(commit: Commit, claim: Claim, thread: ThreadState) -> ConflictError | None:
    """Refuse a claim if another run took the thread after this one had read it.

    The head alone does not show that: a claim without a checkpoint leaves it where it is. So of
    the runs that read the same holder, the first one to claim wins.
    """
    if claim.holder == HOLDER_ANY or thread.run in (claim.holder, commit.run):
        return None
    return _conflict(commit, "was claimed by another run after this run had read it")


def _lease(commit: Commit, thread: ThreadState) -> None:
    """Give the thread's lease to the owner of an accepted claim, if it has one."""
    thread.owner, thread.leased = commit.owner, commit.owner is not None
    # The epoch is the fencing token: saves of the previous owner that arrive from now on, sent
    # before it noticed that its lease ran out, carry the lower epoch and are refused.
    if thread.leased:
        thread.epoch += 1


def fence(thread: ThreadState, request: AdoptRun) -> bool:
    """Fence the previous owner of an adopted run: its later saves to the thread are refused.

    Returns: whether that owner had the thread's lease; if not, nothing is changed.
    """
    # Another system may have claimed the thread since: then the epoch is its own, and raising it
    # would fence a run that is healthy.
    if thread.owner is None or thread.owner != request.was or request.owner == request.was:
        return False
    thread.epoch += 1
    thread.owner, thread.leased = None, False
    return True


def _leased_elsewhere(commit: Commit) -> ConflictError:
    return ThreadBusyError(
        f"thread {commit.thread_id!r} is leased by an ActorSystem in another process",
        do="wait for its run to end, or cancel that run there",
        thread_id=commit.thread_id,
    )


def epoch_after(stored: object) -> int:
    """The epoch that fences every run of an epoch that is stored.

    A damaged one, which isn't a count, says nothing of the runs that are open: the
    next is above all that threads count up to.
    """
    return stored + 1 if _is_count(stored) else _BEYOND_EPOCHS


def next_of_emptied(stored: object) -> int:
    """The next sequence of a thread that is emptied; 1 in place of a damaged one."""
    return stored if _is_count(stored) else 1


def _is_count(stored: object) -> TypeGuard[int]:
    return type(stored) is int and 0 < stored < 2 * _BEYOND_EPOCHS


_BEYOND_EPOCHS = 1 << 61
"""A column has room for as many again behind it."""


def one_by_one(
    batch: Sequence[Request], store: Callable[[Request], CommitOutcome]
) -> list[CommitOutcome]:
    """Store the requests of a batch one at a time, in order.

    Args:
        store: stores one request in a savepoint of its own.
    Returns: one outcome per request.
    """
    # If the store refuses a row of a commit (a value that is too large, say), later commits of the
    # same run in this batch are refused too: checkpoints of its subgraphs name checkpoints of the
    # refused commit, and would be stored with a parent that is missing.
    lost: dict[bytes, BaseException] = {}
    outcomes: list[CommitOutcome] = []
    for request in batch:
        run = request.run if isinstance(request, Commit) else None
        error = lost.get(run) if run is not None else None
        outcome = store(request) if error is None else Refused(error)
        refusal = outcome.error if isinstance(outcome, Refused) else None
        if run is not None and isinstance(refusal, StorageError):
            lost.setdefault(run, refusal)
        outcomes.append(outcome)
    return outcomes


def answer_rows(commit: Commit) -> list[LedgerRow]:
    """The ledger rows with which a claim answers interrupts; empty if it resumes none.

    An interrupt is answered once. Another process may have stored an answer after this one read
    the thread without moving the head, so the head alone does not show it: the store must look
    for these rows and pass `answered` to `judge`.
    """
    if commit.claim is None or not commit.claim.resumes:
        return []
    return [row for row in commit.ledger if row.index in _ANSWERS]


def branch_base(commit: Commit) -> bytes | None:
    """The checkpoint that a run's next one continues from; None if that is the head.

    The store must look for it and pass `based` to `judge`. A head that still is the head is
    stored with all values that it needs. An older checkpoint may have been removed after the run
    read it, and with it values that the new checkpoint's record names.
    """
    if commit.run is None or not commit.checkpoints:
        return None
    parent = commit.checkpoints[0].parent
    return None if parent == commit.head else parent


_ANSWERS = (CONTROL_INDEX[RESUME], CONTROL_INDEX[ROUTED])


def _conflict(commit: Commit, cause: str) -> ConflictError:
    return ConflictError(
        f"thread {commit.thread_id!r} {cause}; nothing of this save was stored",
        do="load the thread again and repeat the call, or make one call per thread at a time",
    )


def _subgraph_used_twice(commit: Commit) -> ConflictError:
    return ConflictError(
        f"stateful subgraph {commit.namespace!r} of thread {commit.thread_id!r} was advanced by "
        "another task; nothing of this save was stored",
        do=ONE_AT_A_TIME,
    )


def refused_copy(request: CopyThread) -> ConflictError:
    """Error for a copy to a thread that has checkpoints already."""
    return ConflictError(
        f"thread {request.thread_id!r} has checkpoints; nothing was copied",
        do="copy to a new thread_id, or delete that thread first",
    )


def _name(head: bytes | None) -> str:
    return as_text(head) if head else "none"


def sorted_ledger(rows: list[LedgerRow]) -> tuple[LedgerRow, ...]:
    """Sort ledger rows into the order in which readers see them: path, task, index, generation."""
    return tuple(sorted(rows, key=lambda r: (r.path, r.task, r.index, r.generation)))
