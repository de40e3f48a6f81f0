"""ChunkStream: a run's chunks as an async iterator that may be left at any time.

The run has a task of its own beside the reader's and is never inside a generator: leaving a
generator that holds a task group early is an error on asyncio and on trio. Reading to the end,
`break`, `async with` and a cancelled reader all end the run and store its finished work.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, Self

import anyio

from actorgraph.api.streams.formats import StreamFormat
from actorgraph.errors import OtherLoopError, SlowReaderError, TwoReadersError
from actorgraph.errors.tracebacks import from_program
from actorgraph.loops import current_loop, in_event_loop, start_beside
from actorgraph.runtime import worker_threads
from actorgraph.runtime.broadcast import NOTHING_YET, Broadcast, Closing
from actorgraph.runtime.mailbox import Gate, wait_shielded
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.run.node_warnings import check_pause
from actorgraph.runtime.run.start import prepare
from actorgraph.runtime.run.supervisor import Supervisor, SupervisorStatistics
from actorgraph.runtime.stepper import Stepper, steps_here
from actorgraph.runtime.task.nested import note_end, raise_above
from actorgraph.superstep.handover import raised
from actorgraph.values.run import Escaped, Failed, Interrupted, RunOutcome
from actorgraph.values.schema_types import ChunkT
from actorgraph.values.stream_items import Namespace, StreamItem, namespace_of


class _StreamedRun:
    """The run and its task. It has no reference to the reader's object.

    So a reader that is dropped is freed at once, and its `__del__` ends the run.
    """

    def __init__(self, launch: Launch, broadcast: Broadcast) -> None:
        self._launch = launch
        self._supervisor: Supervisor | None = None
        self._cancelled = False
        self._loop = None if steps_here() or not in_event_loop() else current_loop()
        self.broadcast = broadcast
        self.outcome: RunOutcome | None = None
        self.done = Gate()
        broadcast.root = namespace_of(launch.address.namespace)
        broadcast.overflowed = self.cancel

    async def serve(self) -> None:
        """Run to the end. Raises nothing but the cancellation of a loop that shuts down."""
        try:
            supervisor, effects = await prepare(self._launch)
            # The reader may have left while the thread was loaded, before there was a supervisor
            # to cancel: then no node starts.
            if self._cancelled:
                await supervisor.withdraw()
            else:
                self._supervisor = supervisor
                self.outcome = await supervisor.run(effects)
        except Exception as error:  # noqa: BLE001 - the reader raises it
            self.outcome = Failed(error)
        finally:
            self.broadcast.end()
            self.done.open()

    def ended(self, _: object) -> None:
        """Handle the task's end; a loop that shuts down may cancel it before its first step."""
        if self.outcome is None:
            self.broadcast.end()
        self.done.open()

    def cancel(self) -> None:
        """Ask the run to stop, and drop unread chunks."""
        self._cancelled = True
        self.broadcast.leave()
        if self._supervisor is not None:
            self._supervisor.cancel()

    def refuse_others(self) -> None:
        """Refuse to wait for the run beside another reader, or in another event loop.

        Raises:
            TwoReadersError: another task waits already.
            OtherLoopError: the run belongs to another loop.
        """
        if self.broadcast.is_awaited:
            raise TwoReadersError(
                "two tasks read one stream at the same time",
                do="read it in one task that passes the chunks on, or start a stream for each",
            )
        if self._loop is not current_loop() and not self.done.is_open:
            raise OtherLoopError(
                "a stream is read in another event loop than the one that its run belongs to",
                do="read it in the loop in which it was started, or call astream() in this one",
            )

    def raise_outcome(self) -> None:
        """Raise a failed run's error, and the interrupts or command of a nested run.

        Raises:
            OtherLoopError: the run's event loop was closed before the run ended.
        """
        if self.outcome is None and not self._cancelled:
            raise OtherLoopError(
                "the event loop in which this stream was started was closed, which ended its run",
                do="read the stream to its end in that loop; astream(None, config) resumes a "
                "stored thread",
            )
        place = self._launch.place
        match self.outcome:
            # Raised by a node. Passed on as it is, it would look like the stream's normal end.
            case Failed(StopAsyncIteration() as error):
                msg = "a node raised StopAsyncIteration"
                raise RuntimeError(msg) from error
            case Failed(error):
                if place is not None:
                    note_end(place, error)
                raise from_program(error)
            case Interrupted(_, interrupts) if place is not None:
                raise_above(place, interrupts)
            case Interrupted() as outcome:
                launch = self._launch
                name, is_stored = launch.template.plan.name, launch.host is not None
                check_pause(launch.context, launch.address, name, outcome, is_stored=is_stored)
            case Escaped(handed):
                raise raised(handed)
            case _:
                pass

    def statistics(self) -> SupervisorStatistics | None:
        """Return the statistics of the run so far; None before it has started."""
        return None if self._supervisor is None else self._supervisor.statistics()


def _leave(run: _StreamedRun, stepper: Stepper[None]) -> None:
    """End a run that is left early: here, unless nothing may block here."""
    try:
        if not (in_event_loop() or sys.is_finalizing()):
            run.cancel()
            stepper.run()
    finally:
        if not stepper.ended:  # nor by a signal's error that came before it could be held
            worker_threads.start(lambda: _finish(run, stepper))


def _finish(run: _StreamedRun, stepper: Stepper[None]) -> None:
    with suppress(BaseException):
        run.cancel()
        stepper.run()


class ChunkStream(Closing, AsyncIterator[ChunkT], Generic[ChunkT]):
    """The chunks of one run. Iterate it once; use it as `async with` to wait for the run's end.

    The run may be up to `buffer` chunks ahead of the reader. Leaving the stream early ends the
    run: its tasks are cancelled and what finished ones have done is stored. `async with` and
    `aclose()` wait for that; a plain `break` doesn't, but the next call on the thread does.

    Attributes:
        namespace: of the run.
    """

    def __init__(
        self,
        launch: Callable[[], Launch],
        broadcast: Broadcast,
        stream_format: StreamFormat,
        namespace: Namespace = (),
    ) -> None:
        self.namespace = namespace
        self._launch = launch
        self._broadcast = broadcast
        self._format = stream_format
        self._run: _StreamedRun | None = None
        self._ended = False

    def __repr__(self) -> str:
        state = "ended" if self._ended else "not read yet" if self._run is None else "open"
        return f"<{type(self).__name__}, {state}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChunkT:
        """Return the next chunk, in the shape that was asked for.

        Raises:
            StopAsyncIteration: the run has ended, or waits at an interrupt.
            SlowReaderError: `when_full="close"`, and the buffer was full.
            OtherLoopError: the run belongs to another event loop, or its loop was closed.
            TwoReadersError: another task waits for the next chunk.
            Exception: the error that the run failed with.
        """
        try:
            item = await self._next()
        except (anyio.get_cancelled_exc_class(), SlowReaderError):
            # This reader will not read on. `aclose` is shielded, so that the caller learns of the
            # cancellation only when the run's finished work is stored.
            await self.aclose()
            raise
        if item is None:
            raise StopAsyncIteration
        return self._format.shaped(item)

    async def pull(self) -> ChunkT | None:
        """Return the next chunk; None at the end. Cancelling this does not end the run."""
        item = await self._next()
        return None if item is None else self._format.shaped(item)

    async def _next(self) -> StreamItem | None:
        """Return the next item of a mode that the reader asked for; None at the end."""
        while (item := await self._take()) is not None:
            if self._shows(item):
                return item
        return None

    def _shows(self, item: StreamItem) -> bool:
        """Print an item, if its mode is to be printed; whether the reader asked for its mode."""
        if self._format.printed:
            self._format.show(item)
        return item[1] in self._format.modes

    async def _take(self) -> StreamItem | None:
        """Return the next item of the run; None at the end. Raises the run's error."""
        if self._ended:
            return None
        run = self._run or self._start()
        if run.broadcast.is_empty:  # only a reader that must wait is bound to the run's loop
            run.refuse_others()
        return self._accept(run, await run.broadcast.get())

    def _accept(self, run: _StreamedRun, item: StreamItem | None) -> StreamItem | None:
        if item is not None:
            return item
        self._ended = True
        run.raise_outcome()
        return None

    def read_here(self) -> Iterator[ChunkT]:
        """Run in this thread, where no event loop is, a superstep for each time it is read.

        For the package's own use: `graph.stream` returns it.
        """
        run = self._run = _StreamedRun(self._launch(), self._broadcast)
        broadcast, stepper = run.broadcast, Stepper(run.serve())
        broadcast.arrived = stepper.wake
        try:
            while not self._ended:
                item: Any = broadcast.take()
                if item is NOTHING_YET:
                    broadcast.want()
                    stepper.run(lambda: not broadcast.is_empty)
                elif item is None:
                    self._accept(run, None)
                elif self._shows(item):
                    yield self._format.shaped(item)
        finally:
            self._ended = True
            if not stepper.ended:
                _leave(run, stepper)

    async def read_all(self) -> list[ChunkT]:
        """Run to the end; returns all chunks, and raises as `__anext__`.

        For the package's own use.
        """
        if steps_here():
            return list(self.read_here())
        async with self:
            return [chunk async for chunk in self]

    def wait_for_reader(self) -> None:
        """Let no task begin before all chunks are read and another one is asked for."""
        self._broadcast.waits_for_reader = True

    async def aclose(self) -> None:
        """End the run, if it is active, and wait until it has stored its finished work."""
        run, self._ended = self._run, True
        if run is not None:
            run.cancel()
            await wait_shielded(run.done.wait)

    async def __aenter__(self) -> Self:
        """Start the run."""
        if self._run is None:
            self._start()
        return self

    def abandon(self) -> None:
        """End the run without waiting for it."""
        if self._run is not None and not self._ended:
            self._ended = True
            self._run.cancel()

    def __del__(self) -> None:
        self.abandon()

    @property
    def waits(self) -> bool:
        """Whether the run stopped at an interrupt or a breakpoint."""
        return self._run is not None and isinstance(self._run.outcome, Interrupted)

    def statistics(self) -> SupervisorStatistics | None:
        """Return the statistics of the run so far; None before it has started."""
        return None if self._run is None else self._run.statistics()

    def _start(self) -> _StreamedRun:
        run = self._run = _StreamedRun(self._launch(), self._broadcast)
        start_beside(run.serve, run.ended)
        return run
