"""ThreadBatch: the results of a batch as an async iterator, and its blocking twin.

The batch's tasks are beside the reader's, never inside a generator (see `api/streams/stream.py`).
"""

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Generic, Self

import anyio

from actorgraph.api.batches.batch_options import BatchPlan, WatchCounts
from actorgraph.api.batches.batch_results import (
    BatchSummary,
    OutputT,
    Tally,
    ThreadResult,
    how_to_go_on,
)
from actorgraph.api.batches.batch_work import BatchThreads, BatchWork
from actorgraph.errors import OtherLoopError, TwoReadersError
from actorgraph.loops import current_loop
from actorgraph.rules.thread_batches import BatchCounts
from actorgraph.runtime import portal
from actorgraph.runtime.mailbox import wait_shielded
from actorgraph.runtime.stepper import in_portal

StartWork = Callable[[BatchWork], None]


class _Watched:
    """The program's function in place of a bar."""

    def __init__(self, watch: WatchCounts) -> None:
        self.show = watch

    def close(self, counts: BatchCounts, *, whole: bool) -> None:
        """Do nothing: the function had the last counts with the last result."""


class ThreadBatch(AsyncIterator[ThreadResult[OutputT]], Generic[OutputT]):
    """The results of a batch, as its threads end. Iterate it once; it begins with that.

    Leaving it early (`break`, an error, a cancellation) ends the batch: active runs are
    cancelled, and what their finished tasks did is stored. `async with` and `aclose()` wait for
    that; a plain `break` doesn't. The same batch, run again, goes on.
    """

    def __init__(self, plan: BatchPlan, threads: BatchThreads, start: StartWork) -> None:
        self._plan = plan
        self._threads = threads
        self._start_work = start
        self._work: BatchWork | None = None
        self._loop: object = None
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ThreadResult[OutputT]:
        """Return the next result.

        Raises:
            StopAsyncIteration: every input has given its result.
            InvalidConfigError: a key is used twice, or isn't text or a number.
            TwoReadersError: another task waits for the next result.
            SaverClosedError, SystemClosedError, GraphDrained: no thread can run any more.
            Exception: the iterable of inputs, `key` or another function of the program raised it;
                with `errors="raise"` a thread's.
        """
        try:
            result = await self._take()
        except anyio.get_cancelled_exc_class() as error:
            # Shielded, so that the caller learns of the cancellation only when all is stored.
            await self.aclose()
            error.add_note(how_to_go_on(self.counts))
            raise
        if result is None:
            raise StopAsyncIteration
        return result

    async def pull(self) -> ThreadResult[OutputT] | None:
        """Return the next result; None at the end. Cancelling this does not end the batch."""
        return await self._take()

    async def _take(self) -> ThreadResult[OutputT] | None:
        if self._ended:
            return None
        work = self._work or self._begin()
        if not work.box.items:
            if work.box.is_awaited:
                raise TwoReadersError(
                    "two tasks read one batch at the same time",
                    do="read it in one task that passes the results on",
                )
            if self._loop is not current_loop() and not work.done.is_open:
                raise OtherLoopError(
                    "a batch is read in another event loop than the one that its runs belong to",
                    do="read it in the loop in which it was started",
                )
        result: ThreadResult[Any] | None = await work.box.get()
        if result is not None:
            work.taken(result.index)
            return result
        self._ended = True
        if work.error is not None:
            raise work.error
        return None

    def _begin(self) -> BatchWork:
        work = self._work = BatchWork(self._plan, self._threads, self._bar())
        self._loop = current_loop()
        self._start_work(work)
        return work

    def _bar(self) -> Any:
        progress = self._plan.progress
        if progress is False:
            return None
        if progress is not True:
            return _Watched(progress)
        from actorgraph.api.batches.progress_bar import ProgressBar

        return ProgressBar(BatchCounts(self._plan.name, self._plan.total))

    @property
    def counts(self) -> BatchCounts:
        """The progress of the batch."""
        if self._work is None:
            return BatchCounts(self._plan.name, self._plan.total)
        return self._work.tally.counts(self._work.seconds)

    async def summary(self) -> BatchSummary:
        """Run the batch to its end, dropping results that were not read, and return its figures.

        Raises: as iterating it.
        """
        async for _ in self:
            pass
        if self._work is None:  # left before it began
            return Tally(self._plan.name, self._plan.total).summary(0.0)
        return self._work.tally.summary(self._work.seconds)

    async def aclose(self) -> None:
        """End the batch, if it goes on, and wait until its runs have stored their finished work."""
        self._ended = True
        if self._work is not None:
            self._work.leave()
            await wait_shielded(self._work.done.wait)

    async def __aenter__(self) -> Self:
        """Begin with the first result; see the class."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the batch and wait for that."""
        await self.aclose()

    def abandon(self) -> None:
        """End the batch without waiting for it."""
        if self._work is not None and not self._ended:
            self._ended = True
            self._work.leave()

    def __del__(self) -> None:
        self.abandon()


class BlockingThreadBatch(Iterator[ThreadResult[OutputT]], Generic[OutputT]):
    """The blocking twin of `ThreadBatch`: an iterator for programs without an event loop.

    The batch runs in the process's background thread, which reads the inputs too.
    """

    def __init__(self, batch: ThreadBatch[OutputT]) -> None:
        self._batch = batch

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ThreadResult[OutputT]:
        """Return the next result; raises as `ThreadBatch.__anext__`."""
        try:
            result = in_portal(self._batch.pull)
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):  # Ctrl-C
                error.add_note(how_to_go_on(self._batch.counts))
            raise
        if result is None:
            raise StopIteration
        return result

    @property
    def counts(self) -> BatchCounts:
        """The progress of the batch."""
        return self._batch.counts

    def summary(self) -> BatchSummary:
        """Run the batch to its end, dropping results that were not read, and return its figures."""
        for _ in self:
            pass
        return in_portal(self._batch.summary)

    def close(self) -> None:
        """End the batch, if it goes on, and wait until its runs have stored their finished work."""
        portal.call(self._batch.aclose)

    def __enter__(self) -> Self:
        """Begin with the first result."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the batch and wait for that."""
        self.close()
