"""The persistence actor: the one task that touches a saver.

Receives   commits and deletes from every run of this saver, encoded; `post` from any thread
Sends      to each run the number of its newest durable save, or the error of its first failure
Order      one mailbox, first in first out. What waits goes into ONE transaction, so a
           checkpoint is never durable before the writes it was built from. Renewals of leases
           and requests to cancel come first, in a batch of their own: saves that pile up, or
           that wait for a lock, never cost a system its lease.
Guards     a thread has one active run in this process: a second claim is refused without
           asking the store. After a failed save of a run its later ones are refused too, and
           those of the graphs inside of it: they name a checkpoint that isn't stored.
Bounds     a batch is at most 512 messages and 8 MB; answers go out in slices of 8 or 2 ms,
           because runs go on where an answer reaches them
Ends       when stopped and drained, or at the drain's deadline; a commit in flight is awaited
"""

import threading
import time
from collections.abc import Callable, Sequence
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
    StorageError,
)
from actorgraph.errors.telling import together
from actorgraph.ports import Saver, Watch
from actorgraph.runtime.failed_saves import tell_failed
from actorgraph.runtime.histogram import SECONDS, SIZES, Histogram
from actorgraph.runtime.log import event
from actorgraph.runtime.mailbox import Mailbox, wait_through
from actorgraph.runtime.persistence_statistics import PersistenceStatistics
from actorgraph.values.commits import Commit, CommitOutcome, Committed, Refused, Request
from actorgraph.values.constants import NAMESPACE_SEPARATOR
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import AskCancel, RenewOwner

BATCH_MESSAGES_MAX = 512
BATCH_BYTES_MAX = 8 * 1024 * 1024
ANSWERS_SLICE = 8
ANSWERS_SLICE_S = 0.002
RETRIES_MAX = 3


_FIRST = (RenewOwner, AskCancel)


class Receipts:
    """Where a run hears what became of its saves.

    Args:
        deliver: takes `Saved` and `SaveFailed`; called from the saver's thread.

    Attributes:
        stored: the outcome of the newest request that is durable.
    """

    __slots__ = ("deliver", "failed", "stored")

    def __init__(self, deliver: Callable[[Saved | SaveFailed], None]) -> None:
        self.deliver = deliver
        self.failed: BaseException | None = None
        self.stored: Committed | None = None


class Posted(msgspec.Struct, frozen=True, gc=False):
    """A request on its way, with where its answer goes, and since when it waits."""

    request: Request
    receipts: Receipts
    since: float = 0.0

    @property
    def number(self) -> int:
        """The run's number of the save; 0 for an operation from outside a run."""
        return self.request.number if isinstance(self.request, Commit) else 0


class PersistenceActor:
    """Group commit over one saver. See the module's text."""

    def __init__(self, saver: Saver) -> None:
        self._saver = saver
        self._immediate = saver.immediate
        self._watch: Watch | None = getattr(saver, "watch", None)
        self._inbox: Mailbox[Posted | None] = Mailbox()
        self._active: dict[str, bytes] = {}
        self._lost: dict[bytes, dict[str, BaseException]] = {}
        self._lock = threading.RLock()
        self._closed: CheckpointError | None = None
        self._batch: Sequence[Posted] = ()
        self._messages = self._commits = self._refused = self._largest = 0
        self._commit_s = self._last_s = 0.0
        self._commits_s, self._lags_s = Histogram(SECONDS), Histogram(SECONDS)
        self._sizes = Histogram(SIZES)
        self._bytes_in = self._bytes_out = 0  # each written by one side only

    def post(self, request: Request, receipts: Receipts) -> None:
        """Hand over a request. Never waits; the answer comes through the receipts."""
        posted = Posted(request, receipts, 0.0 if self._immediate else time.perf_counter())
        if self._watch is not None:
            refused = self._watch.handed_over(request)
            if refused is not None:
                self._fail(posted, refused)
                return
        if self._immediate:
            with self._lock:
                self._commit_now(posted)
            return
        with self._lock:
            if self._closed is None:
                self._bytes_in += request.size
                if isinstance(request, _FIRST):
                    self._inbox.put_first(posted)
                else:
                    self._inbox.put(posted)
                return
        self._fail(posted, self._closed)

    async def store(self, *requests: Request) -> list[Committed]:
        """Hand over requests from outside a run, and wait until they are durable.

        A caller who is cancelled meanwhile is so after the answer: nothing changes later.

        Raises: the error of the first that failed, with those of others as notes; what failed
            itself alone is not stored.
        """
        outcomes = await self.stored(*requests)
        if failed := [outcome for outcome in outcomes if not isinstance(outcome, Committed)]:
            raise together(failed)
        return [outcome for outcome in outcomes if isinstance(outcome, Committed)]

    async def stored(self, *requests: Request) -> list[Committed | BaseException]:
        """As `store`, with the error of each that failed in its place."""
        box: Mailbox[Saved | SaveFailed] = Mailbox()
        receipts = [Receipts(box.put) for _ in requests]
        for request, receipt in zip(requests, receipts, strict=True):
            self.post(request, receipt)
        for _ in requests:
            await wait_through(box.get)
        return [receipt.failed or receipt.stored or Committed() for receipt in receipts]

    @property
    def waiting(self) -> int:
        """Requests that wait to be taken into a batch."""
        return len(self._inbox)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the requests that wait to be committed."""
        return self._bytes_in - self._bytes_out

    def check_open(self) -> None:
        """Raise the error that saves get now; nothing while they are taken."""
        if self._closed is not None:
            raise self._closed

    def stop(self, error: CheckpointError | None = None) -> None:
        """Take nothing more; `serve` ends when what waits is stored."""
        with self._lock:
            self._closed = self._closed or error or closed_error()
            self._inbox.put(None)

    def forget(self, thread_id: str, run: bytes) -> None:
        """A run has left: its thread is free for another one."""
        with self._lock:
            self._free(thread_id, run)
            self._lost.pop(run, None)

    def lose(self, run: bytes, namespace: str, error: BaseException) -> None:
        """A run's save could not be handed over: nothing that stands on it is stored."""
        with self._lock:
            self._lost.setdefault(run, {}).setdefault(namespace, error)

    def _free(self, thread_id: str, run: bytes) -> None:
        if self._active.get(thread_id) == run:
            del self._active[thread_id]

    def statistics(self) -> PersistenceStatistics:
        """What it has done so far."""
        mean = self._messages / self._commits if self._commits else 0.0
        batch = self._batch
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
        """Commit what waits, together; answer each message; never let one poison the rest."""
        stopping = False
        while not stopping:
            if not len(self._inbox):
                await self._inbox.wait()
                continue
            batch, stopping = self._take()
            if batch:
                with anyio.CancelScope(shield=True):
                    self._batch = batch
                    await self._answer(batch, await self._commit(batch))
                    self._batch = ()
            elif not stopping:
                await anyio.lowlevel.checkpoint()

    def withdraw(self, error: CheckpointError | None = None) -> int:
        """Refuse everything that still waits, at a drain's deadline; returns how many."""
        count = 0
        for posted in self._batch:  # the actor died while it had these
            self._fail(posted, error or _undrained(posted.number, posted.request.thread_id))
        self._batch = ()
        while (posted := self._inbox.get_nowait()) is not None:
            number, thread = posted.number, posted.request.thread_id
            self._fail(posted, error or _undrained(number, thread))
            self._bytes_out += posted.request.size
            count += 1
        return count

    def _take(self) -> tuple[list[Posted], bool]:
        """What waits, up to the bounds; and whether that was the last of it."""
        batch: list[Posted] = []
        size = 0
        while len(batch) < BATCH_MESSAGES_MAX and size < BATCH_BYTES_MAX and len(self._inbox):
            posted = self._inbox.get_nowait()
            if posted is None:
                if len(self._inbox):
                    continue
                return batch, True
            self._bytes_out += posted.request.size
            refusal = self._admit(posted)
            if refusal is not None:
                self._fail(posted, refusal)
                continue
            size += posted.request.size
            batch.append(posted)
            if isinstance(posted.request, _FIRST):
                break
        return batch, False

    def _admit(self, posted: Posted) -> BaseException | None:
        """Whether a request may go to the store at all; keeps the book of active runs."""
        if posted.receipts.failed is not None:
            return posted.receipts.failed
        request = posted.request
        if not isinstance(request, Commit) or request.run is None:
            return None
        if self._lost and (error := self._lost_above(request, request.run)) is not None:
            return error
        if request.claim is None and request.ends is None:
            return None
        with self._lock:
            if request.claim is not None:
                owner = self._active.setdefault(request.thread_id, request.run)
                if owner != request.run:
                    return _taken(request)
            if request.ends is not None:
                self._free(request.thread_id, request.run)
        return None

    def _lost_above(self, commit: Commit, run: bytes) -> BaseException | None:
        """Why a save of a run above this one, which it stands on, was not stored."""
        for namespace, error in self._lost.get(run, {}).items():
            if not namespace or commit.namespace.startswith(namespace + NAMESPACE_SEPARATOR):
                return error
        return None

    async def _commit(self, batch: Sequence[Posted]) -> Sequence[CommitOutcome | BaseException]:
        requests = [posted.request for posted in batch]
        attempt, began = 1, time.perf_counter()
        while True:
            try:
                outcomes = await self._saver.commit(requests)
            except Exception as error:  # noqa: BLE001 - a saver may be anybody's
                if not _retryable(error) or attempt == RETRIES_MAX:
                    return self._failed(batch, error)
                attempt += 1
                continue
            self._count(len(batch))
            self._measure(batch, began, time.perf_counter())
            return outcomes

    def _measure(self, batch: Sequence[Posted], began: float, ended: float) -> None:
        self._last_s = ended - began
        self._commit_s += self._last_s
        self._commits_s.add(self._last_s)
        self._sizes.add(len(batch))
        self._lags_s.add(ended - batch[0].since)

    def _failed(self, batch: Sequence[Posted], error: Exception) -> list[BaseException]:
        event("error", "commit.failed", messages=len(batch), error=repr(error))
        if isinstance(error, SaverBrokenError):
            self._closed = error
        return [error] * len(batch)

    def _commit_now(self, posted: Posted) -> None:
        refusal = self._closed or self._admit(posted)
        if refusal is not None:
            self._fail(posted, refusal)
            return
        saver: Any = self._saver  # only immediate savers have `commit_now`
        try:
            (outcome,) = saver.commit_now([posted.request])
        except Exception as error:  # noqa: BLE001 - a saver may be anybody's
            (outcome,) = self._failed([posted], error)
        else:
            self._count(1)
        if isinstance(outcome, Committed):  # as `_settle` does; a call less in every superstep
            posted.receipts.stored = outcome
            posted.receipts.deliver(Saved(posted.number))
        else:
            self._settle(posted, outcome)

    def _count(self, size: int) -> None:
        self._messages += size
        self._commits += 1
        self._largest = max(self._largest, size)

    async def _answer(
        self, batch: Sequence[Posted], outcomes: Sequence[CommitOutcome | BaseException]
    ) -> None:
        """Tell each run its newest durable number once, in slices."""
        newest: dict[Receipts, int] = {}
        for posted, outcome in zip(batch, outcomes, strict=True):
            if self._settle(posted, outcome):
                newest[posted.receipts] = posted.number
        began = time.perf_counter()
        for count, (receipts, number) in enumerate(newest.items(), 1):
            receipts.deliver(Saved(number))
            if count % ANSWERS_SLICE == 0 or time.perf_counter() - began > ANSWERS_SLICE_S:
                await anyio.lowlevel.checkpoint()
                began = time.perf_counter()

    def _settle(self, posted: Posted, outcome: CommitOutcome | BaseException) -> bool:
        """Whether it is stored; a refusal is delivered here."""
        if isinstance(outcome, Committed):
            posted.receipts.stored = outcome
            return True
        self._fail(posted, outcome.error if isinstance(outcome, Refused) else outcome)
        return False

    def _fail(self, posted: Posted, error: BaseException) -> None:
        self._refused += 1
        request = posted.request
        if isinstance(request, Commit) and request.run is not None:
            with self._lock:
                self._free(request.thread_id, request.run)
            self.lose(request.run, request.namespace, error)
        if posted.receipts.failed is None:
            posted.receipts.failed = error
            posted.receipts.deliver(SaveFailed(posted.number, error))
            if isinstance(error, StorageError):
                tell_failed(request, error)


def _retryable(error: Exception) -> bool:
    return isinstance(error, StorageError) and error.retryable


def closed_error() -> SaverClosedError:
    """What is told to whoever comes after the end."""
    return SaverClosedError(
        "the saver has been closed", do="use it inside its `with` block, or make a new one"
    )


def _undrained(number: int, thread_id: str) -> DrainTimeoutError:
    return DrainTimeoutError(
        f"save {number} of thread {thread_id!r} was not stored before the drain's deadline",
        do="raise drain_timeout_s; ainvoke(None, config) goes on from what was stored",
    )


def _taken(request: Commit) -> ConflictError:
    if request.claim is not None and request.claim.resumes:
        return AlreadyResumedError(
            f"another run is answering the interrupt of thread {request.thread_id!r}",
            do="wait for that run; get_state(config) shows how it went on",
        )
    return ConflictError(
        f"thread {request.thread_id!r} has a run going on in this process",
        do="wait for that run to end, or use another thread_id",
    )
