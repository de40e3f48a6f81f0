"""EventStream: a run's chunks as an async iterator that may be left at any time.

The run lives in a task of its own beside the reader's, never inside a generator: leaving a
generator that holds a task group early breaks on both backends. Reading to the end, `break`,
`async with` and a cancelled reader all end the run and store what it has done.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextvars import copy_context
from typing import Any, Self

import anyio

from actorgraph.api.reading import Reading
from actorgraph.errors import OtherLoopError, ParentCommand, SlowReaderError, TwoReadersError
from actorgraph.loops import on_trio, this_loop
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.closing import Closing
from actorgraph.runtime.mailbox import Gate, wait_through
from actorgraph.runtime.nested import note_end, raise_above
from actorgraph.runtime.runs import Launch, prepare
from actorgraph.runtime.statistics import SupervisorStatistics
from actorgraph.runtime.supervisor import Supervisor
from actorgraph.values.run import Escaped, Failed, Interrupted, RunOutcome
from actorgraph.values.streams import Namespace, StreamItem, namespace_of

_BACKGROUND: set["asyncio.Task[None]"] = set()
"""Strong references: asyncio keeps only weak ones to running tasks."""


class _StreamedRun:
    """The run's side: what its task holds. It knows nothing of the reader's object."""

    def __init__(self, launch: Launch, broadcast: Broadcast) -> None:
        self._launch = launch
        self._supervisor: Supervisor | None = None
        self._cancelled = False
        self._loop = this_loop()
        self.broadcast = broadcast
        self.outcome: RunOutcome | None = None
        self.done = Gate()
        broadcast.root = namespace_of(launch.address.namespace)
        broadcast.overflowed = self.cancel

    async def serve(self) -> None:
        """Run to the end; never raises, except the cancellation of a loop that shuts down."""
        try:
            supervisor, effects = await prepare(self._launch)
            if self._cancelled:
                supervisor.withdraw()
            else:
                self._supervisor = supervisor
                self.outcome = await supervisor.run_told(effects)
        except Exception as error:  # noqa: BLE001 - the reader raises it
            self.outcome = Failed(error)
        finally:
            self.broadcast.end()
            self.done.open()

    def ended(self, _: object) -> None:
        """The task is over, maybe before its first step: a loop that shuts down does that."""
        if self.outcome is None:
            self.broadcast.end()
        self.done.open()

    def cancel(self) -> None:
        """Ask the run to leave. Chunks that nobody read are dropped."""
        self._cancelled = True
        self.broadcast.leave()
        if self._supervisor is not None:
            self._supervisor.cancel()

    def refuse_others(self) -> None:
        """Refuse to wait for the run beside another reader, or in another event loop than its own.

        Raises:
            TwoReadersError: somebody waits already.
            OtherLoopError: this is another one.
        """
        if self.broadcast.is_awaited:
            raise TwoReadersError(
                "a stream is read by two tasks at once",
                do="read it in one task, which hands the chunks on, or begin a stream for each",
            )
        if self._loop is not this_loop() and not self.done.is_open:
            raise OtherLoopError(
                "a stream whose run goes on in one event loop is read in another one",
                do="read it in the loop in which it was begun, or call astream() in this one",
            )

    def raise_outcome(self) -> None:
        """Raise the error of a run that failed, and what a nested run has for its parent.

        Raises:
            OtherLoopError: the run's event loop has ended before the run.
        """
        if self.outcome is None and not self._cancelled:
            raise OtherLoopError(
                "the event loop in which this stream was begun has ended, and its run with it",
                do="read the stream in that loop to its end; astream(None, config) goes on with "
                "a thread that is stored",
            )
        match self.outcome:
            case Failed(StopAsyncIteration() as error):  # of a node: the stream has not ended
                note_end(self._launch.place, error)
                msg = "a node raised StopAsyncIteration"
                raise RuntimeError(msg) from error
            case Failed(error):
                note_end(self._launch.place, error)
                raise error
            case Interrupted(_, interrupts) if self._launch.place is not None:
                raise_above(self._launch.place, interrupts)
            case Escaped(command):
                raise ParentCommand(command)
            case _:
                pass

    def statistics(self) -> SupervisorStatistics | None:
        """The run so far; None before it has begun."""
        return None if self._supervisor is None else self._supervisor.statistics()


class EventStream(Closing, AsyncIterator[Any]):
    """The chunks of one run. Iterate it once; use it as `async with` to wait for its end.

    The run goes on while chunks are read, up to `buffer` chunks ahead of the reader.
    Leaving it early ends the run: its tasks are cancelled and what they have done is stored.
    `async with` and `aclose()` wait for that; a plain `break` doesn't, but the next call on
    the same thread does.
    """

    def __init__(
        self,
        launch: Callable[[], Launch],
        broadcast: Broadcast,
        reading: Reading,
        namespace: Namespace = (),
    ) -> None:
        self.namespace = namespace
        self._launch = launch
        self._broadcast = broadcast
        self._reading = reading
        self._run: _StreamedRun | None = None
        self._ended = False

    def __aiter__(self) -> Self:
        """Itself."""
        return self

    async def __anext__(self) -> Any:
        """The next chunk, in the shape that was asked for.

        Raises:
            StopAsyncIteration: the run has ended, or waits at an interrupt.
            SlowReaderError: `when_full="close"`, and the buffer was full.
            OtherLoopError: the run goes on in another event loop, or its loop has ended.
            TwoReadersError: another task waits for the next chunk.
            Exception: the run has failed; this is its error.
        """
        try:
            item = await self._next()
        except (anyio.get_cancelled_exc_class(), SlowReaderError):
            await self.aclose()
            raise
        if item is None:
            raise StopAsyncIteration
        return self._reading.shaped(item)

    async def pull(self) -> Any:
        """The next chunk, None at the end; a reader that is cancelled does not end the run."""
        item = await self._next()
        return None if item is None else self._reading.shaped(item)

    async def _next(self) -> StreamItem | None:
        """The next chunk that is to be read, as it came; None at the end."""
        reading = self._reading
        while (item := await self._take()) is not None:
            if reading.printed:
                reading.show(item)
            if item[1] in reading.modes:
                return item
        return None

    async def _take(self) -> StreamItem | None:
        """The next chunk; None at the end. Raises what the run failed with."""
        if self._ended:
            return None
        run = self._run or self._start()
        if run.broadcast.is_empty:
            run.refuse_others()
        item = await run.broadcast.get()
        if item is not None:
            return item
        self._ended = True
        run.raise_outcome()
        return None

    async def aclose(self) -> None:
        """End the run, if it goes on, and wait until it has stored what it did."""
        run, self._ended = self._run, True
        if run is not None:
            run.cancel()
            await wait_through(run.done.wait)

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
        """Whether the run has left at a question or at a breakpoint."""
        return self._run is not None and isinstance(self._run.outcome, Interrupted)

    def statistics(self) -> SupervisorStatistics | None:
        """The run so far; None before it has begun."""
        return None if self._run is None else self._run.statistics()

    def _start(self) -> _StreamedRun:
        run = self._run = _StreamedRun(self._launch(), self._broadcast)
        if on_trio():
            import trio

            trio.lowlevel.spawn_system_task(run.serve, context=copy_context())
        else:
            task = asyncio.get_running_loop().create_task(run.serve())
            _BACKGROUND.add(task)
            task.add_done_callback(_BACKGROUND.discard)
            task.add_done_callback(run.ended)
        return run
