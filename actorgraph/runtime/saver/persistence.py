"""The persistence actor: all that commits to a saver, one batch at a time.

Receives   encoded commits and deletes from every run of this saver; `post` from any thread
Sends      to each run the number of its newest durable save, or the error of its first failure
Order      one mailbox, first in first out. All waiting requests go into ONE transaction, so a
           checkpoint is never durable before the writes it was built from. Lease renewals and
           requests to cancel come first, in a batch of their own: a system must not lose its
           lease because saves pile up or wait for a lock
Guards     a thread has one active run in this process: a second claim is refused without
           asking the store. After a failed save of a run its later saves are refused too, and
           those of its subgraphs: they name a checkpoint that isn't stored
Turn       `serve` commits, in the saver's loop. While it waits for requests the turn is free,
           and a blocking call that has nothing else to do may take it and commit its save itself
           (a leader): to wake two threads costs more than the commit. Requests that come then
           wait for that one commit, then `serve` has the turn. A leader never waits for another
           process's lock: it hands its save over
Bounds     a batch is at most 512 messages and 8 MB, or one save from 1 MB on; answers go out in
           slices of 8 or 2 ms, because a run continues inside the call that delivers its
           answer. The mailbox has no bound: runs wait for their saves
           (`superstep.saves.next_superstep_may_start`), and a system begins and takes no more
           of them while much waits (`runtime.system.pace`, `admission_error`)
Ends       when stopped and drained, or at the drain's deadline; a commit in flight is awaited,
           a leader's too
"""

import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from actorgraph.errors import (
    AlreadyResumedError,
    CheckpointError,
    ConflictError,
    DrainTimeoutError,
    SaverBrokenError,
    SaverClosedError,
    StorageBusyError,
    StorageError,
    ThreadMovedError,
)
from actorgraph.errors.texts import combine_errors
from actorgraph.loops import blocking_allowed
from actorgraph.ports import CommitHere, Saver, Watch
from actorgraph.runtime.log import event
from actorgraph.runtime.mailbox import Mailbox, wait_shielded
from actorgraph.runtime.saver.answer_counts import checked_answers
from actorgraph.runtime.saver.commit_lock import CommitLock
from actorgraph.runtime.saver.statistics import SECONDS, SIZES, Histogram, PersistenceStatistics
from actorgraph.values.commits import Commit, CommitOutcome, Committed, Refused, Request
from actorgraph.values.constants import NAMESPACE_SEPARATOR
from actorgraph.values.ids import as_text
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import AskCancel, RenewOwner

BATCH_MESSAGES_MAX = 512
BATCH_BYTES_MAX = 8 * 1024 * 1024
ALONE_BYTES_MIN = 1_000_000
"""Bytes from which on a request is a batch of its own."""
ANSWERS_SLICE = 8
ANSWERS_SLICE_S = 0.002
RETRIES_MAX = 3
"""Attempts to commit a batch, in all; only for errors that the saver marks as retryable."""
LOST_RUNS = 256  # so many that ended after a failed save are known
LEAD_COMMIT_MAX_S = 0.05
"""After a commit that took longer, the next one is not made in a caller's thread.

Ctrl-C can't be handled during a commit there, and a slow disk makes a wake-up cheap.
"""

_URGENT = (RenewOwner, AskCancel)
"""Requests that go before all others."""


class Receipts:
    """Delivers the outcomes of a run's saves to it.

    Args:
        deliver: called with `Saved` or `SaveFailed`; from any thread.

    Attributes:
        failed: the error of the first request that failed; later ones are refused with it.
        stored: the outcome of the newest durable request.
    """

    __slots__ = ("deliver", "failed", "stored")

    def __init__(self, deliver: Callable[[Saved | SaveFailed], None]) -> None:
        self.deliver = deliver
        self.failed: BaseException | None = None
        self.stored: Committed | None = None


class Posted(msgspec.Struct, frozen=True, gc=False):
    """A request in the mailbox.

    Attributes:
        receipts: take the answer.
        since: when it was handed over, by `time.perf_counter`; 0 for immediate savers.
        number: the run's number of the save; 0 for a request that no run made.
    """

    request: Request
    receipts: Receipts
    since: float = 0.0
    number: int = 0


class PersistenceActor:
    """Group commit over one saver; `on_stored` are called with each committed batch."""

    def __init__(self, saver: Saver) -> None:
        self._saver = saver
        self.on_stored: list[Callable[[Sequence[Posted]], None]] = []
        self._immediate = saver.immediate
        self._watch: Watch | None = getattr(saver, "watch", None)
        self._inbox: Mailbox[Posted | None] = Mailbox()
        self._active: dict[str, bytes] = {}
        self._failed_runs: dict[bytes, dict[str, BaseException]] = {}
        self._lost: deque[bytes] = deque(maxlen=LOST_RUNS)
        self._lock = threading.RLock()
        self._closed: CheckpointError | None = None
        self._batch: Sequence[Posted] = ()
        self._commit_lock = CommitLock(self._lock, self._inbox)
        self._commit_here: CommitHere | None = getattr(saver, "commit_here", None)
        self._messages = self._commits = self._refused = self._largest = 0
        self._commit_s = self._last_s = 0.0
        self._commits_s, self._lags_s = Histogram(SECONDS), Histogram(SECONDS)
        self._sizes = Histogram(SIZES)
        # Two counters, not one: `+=` isn't atomic, and each of these has one writing side
        # (senders under the lock; the actor).
        self._bytes_in = self._bytes_out = 0

    def post(self, request: Request, receipts: Receipts, *, may_lead: bool = False) -> None:
        """Hand over a request; the answer comes through the receipts.

        Args:
            may_lead: whether it may be committed inside this call, if no other commit is in
                progress; only for a `Commit`. Otherwise this never waits.
        """
        since = 0.0 if self._immediate else time.perf_counter()
        number = request.number if isinstance(request, Commit) else 0
        posted = Posted(request, receipts, since, number)
        # Watched here, in the caller's context: in the actor's the caller's could not be seen.
        if self._watch is not None:
            refused = self._watch.handed_over(request)
            if refused is not None:
                self._fail(posted, refused)
                return
        if self._immediate:
            # Reentrant: the answer may make the run post its next save inside this call.
            with self._lock:
                self._commit_now(posted)
            return
        if may_lead and self._commit_here is not None and self._lead(posted, self._commit_here):
            return
        # Under the lock, so that nothing enters the mailbox behind the None that `stop` puts.
        with self._lock:
            if self._closed is None:
                self._bytes_in += request.size
                if isinstance(request, _URGENT):
                    self._inbox.put_first(posted)
                elif self._commit_lock.direct:
                    self._inbox.items.append(posted)  # the leader wakes `serve` when it can begin
                else:
                    self._inbox.put(posted)
                return
        self._fail(posted, self._closed)

    async def store(self, *requests: Request) -> list[Committed]:
        """Hand over requests from outside a run, and wait until they are durable.

        A cancellation of the caller is raised after the answers, so that no request takes effect
        after this has returned.

        Returns: one outcome per request.
        Raises: the error of the first request that failed, with those of others as notes; the
            requests that did not fail are stored.
        """
        outcomes = await self.store_each(*requests)
        if failed := [outcome for outcome in outcomes if not isinstance(outcome, Committed)]:
            raise combine_errors(failed)
        return [outcome for outcome in outcomes if isinstance(outcome, Committed)]

    async def store_each(self, *requests: Request) -> list[Committed | BaseException]:
        """As `store`, but return the error of each request that failed in its place."""
        box: Mailbox[Saved | SaveFailed] = Mailbox()
        # One object per request: the saves of one object are acknowledged together, by the newest.
        receipts = [Receipts(box.put) for _ in requests]
        for request, receipt in zip(requests, receipts, strict=True):
            self.post(request, receipt)
        for _ in requests:
            await wait_shielded(box.get)
        return [receipt.failed or receipt.stored or Committed() for receipt in receipts]

    @property
    def waiting(self) -> int:
        """Number of requests that wait to be taken into a batch."""
        return len(self._inbox)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the requests that wait to be committed."""
        return self._bytes_in - self._bytes_out

    def check_open(self) -> None:
        """Raise the error with which saves are refused now, if they are."""
        if self._closed is not None:
            raise self._closed

    def stop(self, error: CheckpointError | None = None) -> None:
        """Refuse later requests; `serve` ends when the waiting ones are stored.

        Args:
            error: for later requests; default SaverClosedError.
        """
        with self._lock:
            # The first error stays: that of a broken saver says more than "closed".
            self._closed = self._closed or error or closed_error()
            self._inbox.put(None)

    def forget(self, thread_id: str, run: bytes) -> None:
        """Release the thread of a run that has left, for another run."""
        with self._lock:
            self._free(thread_id, run)
            # Not before: a subgraph of the run may still post saves on top of the failed one.
            if self._failed_runs.pop(run, None) is not None:
                self._lost.append(run)

    def works(self, thread_id: str, run: bytes | None = None) -> bool | None:
        """Whether a run, default any, works here; None if unknown: False if a save of it failed."""
        with self._lock:
            here = self._active.get(thread_id)
            if here is not None and run in (None, here):
                return True
            return False if run in self._lost else None

    def mark_failed(self, run: bytes, namespace: str, error: BaseException) -> None:
        """Note that a save of a run failed: later saves of its subgraphs are refused."""
        with self._lock:
            self._failed_runs.setdefault(run, {}).setdefault(namespace, error)

    def _free(self, thread_id: str, run: bytes) -> None:
        if self._active.get(thread_id) == run:
            del self._active[thread_id]

    def statistics(self) -> PersistenceStatistics:
        """Its figures so far."""
        mean = self._messages / self._commits if self._commits else 0.0
        batch = self._batch or self._commit_lock.direct
        return PersistenceStatistics(
            messages=self._messages,
            commits=self._commits,
            refused=self._refused,
            waiting=len(self._inbox),
            batch_size_mean=mean,
            batch_size_max=self._largest,
            active_runs=len(self._active),
            commit_s=self._commit_s,
            last_s=self._last_s,
            age_s=time.perf_counter() - batch[0].since if batch else 0.0,
            commits_s=self._commits_s.distribution(),
            sizes=self._sizes.distribution(),
            lags_s=self._lags_s.distribution(),
        )

    async def serve(self) -> None:
        """Commit waiting requests together and answer each; a refused one leaves the others."""
        stopping = False
        try:
            while not stopping:
                if self._commit_lock.give():
                    await self._inbox.wait()
                    await self._commit_lock.take()
                batch, stopping = self._take()
                if batch:
                    # A commit that was broken off could be durable without its runs knowing it.
                    with anyio.CancelScope(shield=True):
                        # If the actor dies now, its runs wait for requests that no mailbox has:
                        # `withdraw` finds them here.
                        self._batch = batch
                        await self._answer(batch, await self._commit(batch))
                        self._batch = ()
                elif not stopping:  # all were refused, maybe without a wait: let others run
                    await anyio.lowlevel.checkpoint()
        finally:
            self._commit_lock.end()

    async def wait_for_leader(self) -> None:
        """Wait until no caller's thread commits. Call it when all requests are refused."""
        await self._commit_lock.take()

    def _lead(self, posted: Posted, commit: CommitHere) -> bool:
        """Commit a save in its sender's thread, if the turn is free; return whether it was."""
        if self._last_s > LEAD_COMMIT_MAX_S:
            return False
        try:
            if not self._commit_lock.commit_directly(posted):
                return False
            refusal = self._closed or self._check_admission(posted)
            if refusal is None:
                self._commit_led(posted, commit)
            else:
                self._fail(posted, refusal)
        finally:
            if self._commit_lock.is_direct(posted):
                self._commit_lock.end_direct()
        return True

    def _commit_led(self, posted: Posted, commit: CommitHere) -> None:
        batch, began = (posted,), time.perf_counter()
        durable: list[list[CommitOutcome]] = []
        outcomes: Sequence[CommitOutcome | BaseException]
        try:
            with blocking_allowed():
                outcomes = commit([posted.request], durable)
            self._note(batch, began)
        except Exception as error:  # noqa: BLE001 - a foreign saver may raise anything
            # Not tried again here: to wait for a lock would hold the caller's thread, where
            # Ctrl-C can't be handled meanwhile. `serve` waits without holding anyone.
            if not durable and (isinstance(error, StorageBusyError) or _retryable(error)):
                self._requeue_first(posted)
                return
            outcomes = self._failed(batch, error)
        except BaseException:  # of a signal's handler: it says nothing about the store
            if durable:
                self._deliver(batch, durable[0])
            else:
                self._requeue_first(posted)
            raise
        self._deliver(batch, outcomes)

    def _requeue_first(self, posted: Posted) -> None:
        """Leave a leader's save, of which nothing is stored, to `serve`, before all others."""
        with self._lock:
            if self._commit_lock.requeue_first(posted):
                # Only now: it was in no mailbox before, and `serve` will count it out.
                self._bytes_in += posted.request.size
                return
        self._fail(posted, self._closed or closed_error())

    def withdraw(self, error: CheckpointError | None = None) -> int:
        """Refuse all waiting requests: at a drain's deadline, or because the actor died.

        Args:
            error: for each of them; default DrainTimeoutError.
        Returns: how many waited in the mailbox.
        """
        count = 0
        for posted in self._batch:  # in flight when the actor died
            self._fail(posted, error or _undrained_error(posted.number, posted.request.thread_id))
        self._batch = ()
        while (posted := self._inbox.get_nowait()) is not None:
            number, thread = posted.number, posted.request.thread_id
            self._fail(posted, error or _undrained_error(number, thread))
            self._bytes_out += posted.request.size
            count += 1
        return count

    def _take(self) -> tuple[list[Posted], bool]:
        """Take a batch from the mailbox, up to the bounds; refused requests count too.

        Returns: the admitted requests, and whether the actor is to end after them.
        """
        batch: list[Posted] = []
        taken, size, items = 0, 0, self._inbox.items
        # Not the batch's length: a run continues inside its refusal, so these must end too.
        while taken < BATCH_MESSAGES_MAX and size < BATCH_BYTES_MAX and items:
            taken += 1
            if batch and items[0] is not None and items[0].request.size >= ALONE_BYTES_MIN:
                break
            posted = items.popleft()
            if posted is None:
                # Each call of `stop` puts one; the last of them ends the actor.
                if items:
                    continue
                return batch, True
            self._bytes_out += posted.request.size
            refusal = self._check_admission(posted)
            if refusal is not None:
                self._fail(posted, refusal)
                continue
            size += posted.request.size
            batch.append(posted)
            # Alone: a renewal must not take as long as a full batch of saves; and what may befall
            # a large save, by its time or its size, concerns no other.
            if isinstance(posted.request, _URGENT) or posted.request.size >= ALONE_BYTES_MIN:
                break
        return batch, False

    def _check_admission(self, posted: Posted) -> BaseException | None:
        """The error with which a request is refused without asking the store, or None.

        Also registers the runs that claim threads, and removes those that end.
        """
        # It builds on the save that failed: stored, it would name a checkpoint that isn't there.
        if posted.receipts.failed is not None:
            return posted.receipts.failed
        request = posted.request
        if not isinstance(request, Commit) or request.run is None:
            return None
        if self._failed_runs and (error := self._failure_above(request, request.run)) is not None:
            return error
        if request.claim is None and request.ends is None:
            return None
        # Registered in the order of the mailbox: a claim that was posted after another run's last
        # save is admitted, though that save is not durable yet: the store gets them in this order.
        with self._lock:
            if request.claim is not None:
                owner = self._active.setdefault(request.thread_id, request.run)
                if owner != request.run:
                    return _busy_thread_error(request)
            if request.ends is not None:
                self._free(request.thread_id, request.run)
        return None

    def _failure_above(self, commit: Commit, run: bytes) -> BaseException | None:
        """The error of a failed save of a parent run, on which this one builds; None if none."""
        for namespace, error in self._failed_runs.get(run, {}).items():
            # The empty namespace is the root run's, the parent of all.
            if not namespace or commit.namespace.startswith(namespace + NAMESPACE_SEPARATOR):
                return error
        return None

    async def _commit(self, batch: Sequence[Posted]) -> Sequence[CommitOutcome | BaseException]:
        """Commit a batch, again if the error is retryable. Returns one outcome per request."""
        requests = [posted.request for posted in batch]
        attempt, began = 1, time.perf_counter()
        while True:
            try:
                outcomes = await self._saver.commit(requests)
                outcomes = checked_answers(self._saver, "commit", requests, outcomes)
            except Exception as error:  # noqa: BLE001 - a foreign saver may raise anything
                # No pause: `retryable` means that the same batch may be sent again at once.
                if not _retryable(error) or attempt == RETRIES_MAX:
                    return self._failed(batch, error)
                attempt += 1
                continue
            self._note(batch, began)
            return outcomes

    def _note(self, batch: Sequence[Posted], began: float) -> None:
        """Count a batch that has just been committed."""
        ended = time.perf_counter()
        self._messages, self._commits = self._messages + len(batch), self._commits + 1
        self._largest = max(self._largest, len(batch))
        self._last_s = ended - began
        self._commit_s += self._last_s
        self._commits_s.add(self._last_s)
        self._sizes.add(len(batch))
        for heard in self.on_stored:
            heard(batch)
        self._lags_s.add(ended - batch[0].since)

    def _failed(self, batch: Sequence[Posted], error: Exception) -> list[BaseException]:
        event("error", "commit.failed", messages=len(batch), error=repr(error))
        # Whether the batch is durable is unknown: nothing may be committed on top of it.
        if isinstance(error, SaverBrokenError):
            self._closed = error
        return [error] * len(batch)

    def _commit_now(self, posted: Posted) -> None:
        refusal = self._closed or self._check_admission(posted)
        if refusal is not None:
            self._fail(posted, refusal)
            return
        saver: Any = self._saver  # only immediate savers have `commit_now`
        try:
            outcomes = saver.commit_now([posted.request])
            (outcome,) = checked_answers(saver, "commit_now", [posted.request], outcomes)
        except Exception as error:  # noqa: BLE001 - a foreign saver may raise anything
            (outcome,) = self._failed([posted], error)
        else:
            self._messages, self._commits = self._messages + 1, self._commits + 1
            self._largest = 1
            for heard in self.on_stored:
                heard((posted,))
        if isinstance(outcome, Committed):
            posted.receipts.stored = outcome
            posted.receipts.deliver(Saved(posted.number))
        else:
            self._fail(posted, outcome.error if isinstance(outcome, Refused) else outcome)

    async def _answer(
        self, batch: Sequence[Posted], outcomes: Sequence[CommitOutcome | BaseException]
    ) -> None:
        """Deliver to each run its newest durable number, once, in slices."""
        newest = self._sort_out(batch, outcomes)
        began = time.perf_counter()
        for count, (receipts, number) in enumerate(newest.items(), 1):
            receipts.deliver(Saved(number))
            if count % ANSWERS_SLICE == 0 or time.perf_counter() - began > ANSWERS_SLICE_S:
                await anyio.lowlevel.checkpoint()
                began = time.perf_counter()

    def _deliver(
        self, batch: Sequence[Posted], outcomes: Sequence[CommitOutcome | BaseException]
    ) -> None:
        """As `_answer`, at once: for a small batch."""
        for receipts, number in self._sort_out(batch, outcomes).items():
            receipts.deliver(Saved(number))

    def _sort_out(
        self, batch: Sequence[Posted], outcomes: Sequence[CommitOutcome | BaseException]
    ) -> dict[Receipts, int]:
        """Refuse the requests that failed; return each run's newest durable number.

        A number acknowledges all saves before it: one call per run, not one per save.
        """
        newest: dict[Receipts, int] = {}
        for posted, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Committed):
                posted.receipts.stored = outcome
                newest[posted.receipts] = posted.number
            else:
                self._fail(posted, outcome.error if isinstance(outcome, Refused) else outcome)
        return newest

    def _fail(self, posted: Posted, error: BaseException) -> None:
        """Refuse a request. The first refusal of a run is delivered; later ones say the same."""
        self._refused += 1
        request = posted.request
        if isinstance(request, Commit) and request.run is not None:
            # Released before the run gets the event: its caller may start the next run at once.
            with self._lock:
                self._free(request.thread_id, request.run)
            self.mark_failed(request.run, request.namespace, error)
        if posted.receipts.failed is None:
            posted.receipts.failed = error
            posted.receipts.deliver(SaveFailed(posted.number, error))
            if isinstance(error, StorageError):
                log_failed_save(request, error)


def _retryable(error: Exception) -> bool:
    return isinstance(error, StorageError) and error.retryable


def closed_error() -> SaverClosedError:
    """Make the error for requests made after the saver was closed."""
    return SaverClosedError(
        "the saver has been closed", do="use it inside its `with` block, or make a new one"
    )


def _undrained_error(number: int, thread_id: str) -> DrainTimeoutError:
    return DrainTimeoutError(
        f"save {number} of thread {thread_id!r} was not stored before the drain's deadline",
        do="raise drain_timeout_s; ainvoke(None, config) resumes from the last stored checkpoint",
    )


def _busy_thread_error(request: Commit) -> ConflictError:
    if request.claim is not None and request.claim.resumes:
        return AlreadyResumedError(
            f"another run is answering the interrupt of thread {request.thread_id!r}",
            do="wait for that run; get_state(config) shows how it went on",
        )
    return ConflictError(
        f"thread {request.thread_id!r} has an active run in this process",
        do="wait for that run to end, or use another thread_id",
    )


def log_failed_save(request: Request, error: StorageError) -> None:
    """Log one failed request: its thread, and the checkpoint and step that are not stored."""
    fields: dict[str, object] = {"thread_id": request.thread_id, "error": error.what}
    if isinstance(request, Commit):
        fields["checkpoint_ns"] = request.namespace
        if request.run:
            fields["run_id"] = as_text(request.run)
        if request.checkpoints:
            newest = request.checkpoints[-1]
            fields["checkpoint_id"], fields["step"] = as_text(newest.id), newest.step
        elif request.ledger:
            fields["checkpoint_id"] = as_text(request.ledger[-1].base)
    level = "info" if isinstance(error, ThreadMovedError) else "error"  # it is sent elsewhere
    event(level, "save.failed", **fields)


def post_request(writer: PersistenceActor, request: Request) -> Callable[[], Awaitable[None]]:
    """Hand a request over to the persistence actor.

    Returns: an async function that waits until the request is durable, and raises its error if
        it was refused.
    """
    box: Mailbox[Saved | SaveFailed] = Mailbox()
    writer.post(request, Receipts(box.put))

    async def wait() -> None:
        answer = await wait_shielded(box.get)
        if isinstance(answer, SaveFailed):
            raise answer.error

    return wait
