"""Run: a run of an ActorSystem, as programs hold it.

`Run` is or was active in this process; of `StoredRun`, ended or active elsewhere, the row is known.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Generic, Protocol

import anyio
import msgspec

from actorgraph.api.system.run_arguments import RunArguments
from actorgraph.errors import (
    InvalidConfigError,
    ResultTimeoutError,
    RunCancelledError,
    RunFailedError,
    RunNotFoundError,
)
from actorgraph.rules.run_order import waits_for_time
from actorgraph.rules.system.scheduling import RunPlace
from actorgraph.runtime.broadcast import BUFFER_BYTES
from actorgraph.runtime.system.job import Job
from actorgraph.runtime.system.journal import BATCH_EVENTS, EventReader
from actorgraph.runtime.system.lent_slots import slot_lent
from actorgraph.runtime.system.stored_reader import RemoteRun, StoredReader
from actorgraph.values.durations import checked_limit
from actorgraph.values.ids import as_text
from actorgraph.values.run import Cancelled, RunOutcome
from actorgraph.values.schema_types import OwnResultT
from actorgraph.values.stream_items import WhenFull
from actorgraph.values.systems import OPEN_STATUSES, EventPage, RunEvent, RunRow, RunStatus


class RunEvents(Protocol):
    """A run's events: iterate once; leave early with `close()`, or use `async with`."""

    @property
    def offset(self) -> int:
        """The offset of the last event that the reader has received."""
        ...

    def __aiter__(self) -> AsyncIterator[RunEvent]: ...

    async def __anext__(self) -> RunEvent: ...

    async def batch(self, most: int = BATCH_EVENTS) -> list[RunEvent]:
        """Wait for the next event, and take those with it that are there already, in order.

        A server sends them in one message. A large event comes alone.

        Args:
            most: events to take at most; default 64.
        Returns: at least one event; [] after the last one.
        Raises:
            SlowReaderError: the reader is too far behind, and `when_full` is "close".
        """
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class Run(Generic[OwnResultT]):
    """One run. It belongs to the system, not to the task that started it.

    Made by `ActorSystem.start`, `resume`, `recover` and `run`. Dropping it doesn't end the run.
    """

    def __init__(self, job: Job, cancel: Callable[[Job, str], None]) -> None:
        self._job = job
        self._cancel = cancel

    def __repr__(self) -> str:
        return f"Run({self.id!r}, thread_id={self.thread_id!r}, status={self.status!r})"

    @property
    def id(self) -> str:
        """The run's id, a UUIDv7."""
        return self._job.text

    @property
    def row(self) -> RunRow:
        """Its row, as it was accepted; `payload` is empty if the saver stores no runs."""
        return self._job.row

    @property
    def thread_id(self) -> str:
        """The id of the thread on which it runs."""
        return self._job.thread_id

    @property
    def graph(self) -> str:
        """The graph's name in the system."""
        return self._job.row.graph

    @property
    def status(self) -> RunStatus:
        """The status; see `RunStatus`."""
        return self._job.status

    @property
    def reason(self) -> str:
        """The reason of a cancelled, drained or parked run, or its error's text; else empty."""
        return self._job.reason

    @property
    def attempt(self) -> int:
        """The number of processes that have executed it so far, including this one."""
        return self._job.attempt

    @property
    def outcome(self) -> RunOutcome | None:
        """Its end in this system; None before that, and for a run of another process."""
        return self._job.outcome

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata given to `start`."""
        return self._job.metadata

    @property
    def created_at(self) -> datetime:
        """When it was accepted, in UTC."""
        return datetime.fromtimestamp(self._job.row.created / 1e6, tz=UTC)

    @property
    def updated_at(self) -> datetime:
        """Time of its last change of status, in UTC; for a run of another process `created_at`."""
        return datetime.fromtimestamp(self._job.changed / 1e6, tz=UTC)

    @property
    def started_at(self) -> datetime | None:
        """When it got its thread, in UTC; None before, and for a run of another process."""
        started = self._job.started
        return None if started is None else datetime.fromtimestamp(started / 1e6, tz=UTC)

    @property
    def priority(self) -> int:
        """Its priority among the runs that wait for a worker."""
        return self._job.row.priority

    @property
    def due_at(self) -> datetime | None:
        """Before this it doesn't begin; None if it may begin at once."""
        return _due_at(self._job.row)

    @property
    def waits_for_time(self) -> bool:
        """Whether it waits for `due_at` alone, without a system: its thread goes on meanwhile."""
        return False

    async def arguments(self) -> RunArguments:
        """Read the arguments with which it was started.

        Raises:
            InvalidConfigError: the system's saver stores no runs.
            RunNotFoundError: its row was removed meanwhile.
            CheckpointError: they can't be decoded.
        """
        return self._job.arguments()

    async def input(self) -> Any:
        """Read its input; see `arguments`."""
        return (await self.arguments()).input

    def events(
        self,
        after: int = 0,
        *,
        buffer: int = 256,
        buffer_bytes: int = BUFFER_BYTES,
        when_full: WhenFull = "drop_oldest",
    ) -> RunEvents:
        """Stream the run's events: an async iterator over `RunEvent`.

        Leaving it, by `break`, an error or a cancellation, doesn't affect the run: one that waits
        for the reader continues. `async with` and `close()` leave it at once; a reader that is
        kept but not read is disconnected a minute later.

        Args:
            after: the offset of the last event that the reader has; 0 for all of them.
            buffer: events by which the reader may be behind before `when_full` applies.
            buffer_bytes: approximate bytes by which it may; default 16 MB. One event may be
                larger, and events below 64 kB aren't counted.
            when_full: "drop_oldest": events that are neither in memory nor stored are replaced
                by a "gap" event and a full "values". "block": the run waits for the reader, but
                at most a minute for one that takes no event at all, which then continues as with
                "drop_oldest"; a cancelled reader is waited for again when it reads again.
                "close": the reader raises `SlowReaderError`.
        Raises:
            InvalidConfigError: an argument is out of range.
        """
        check_reading(after, buffer, when_full, buffer_bytes)
        return EventReader(
            self._job.journal,
            after,
            buffer=buffer,
            buffer_bytes=buffer_bytes,
            when_full=when_full,
            of=self._job.place,
        )

    async def wait(self, timeout_s: float | None = None) -> RunStatus:
        """Wait until the run has ended, and return its status. Cancelling the wait is harmless.

        Args:
            timeout_s: seconds to wait; default no limit.
        Raises:
            ResultTimeoutError: the run is still active after the timeout.
            ThreadBusyError: a node waits for the end of its own run, or for a run that can't end
                before that, such as a later one of its thread.
        """
        limit = checked_limit("timeout_s", timeout_s)
        if not self._job.done.is_open:
            place = self._job.place
            with anyio.move_on_after(limit), slot_lent(place, timed=timeout_s is not None):
                await self._job.done.wait()
        if not self._job.done.is_open:
            raise ResultTimeoutError(
                f"run {self.id} is still active after {timeout_s} s",
                do="wait longer, or read its events; it was not cancelled",
            )
        return self.status

    async def result(self, timeout_s: float | None = None) -> OwnResultT:
        """Wait for the run, and return what `ainvoke` would return.

        Args:
            timeout_s: seconds to wait; default no limit.
        Raises:
            ResultTimeoutError: the run is still active after the timeout.
            RunCancelledError: it was cancelled.
            GraphDrained: its deadline was reached, or the system closes: `recover()` resumes it.
            Exception: the error that the run failed with.
        """
        await self.wait(timeout_s)
        job = self._job
        if job.outcome is None or isinstance(job.outcome, Cancelled):
            raise RunCancelledError(
                f"run {self.id} of thread {self.thread_id!r} was cancelled: {job.reason}",
                do="start another run; the thread has its finished steps, unless it was rolled back"
                if job.claimed
                else "start another run; nothing of this one is in the thread",
                reason=job.reason,
                input_stored=job.claimed,
            )
        return job.shape(job.outcome)

    async def cancel(self, reason: str = "cancelled", *, wait: bool = True) -> RunStatus:
        """End the run; what its finished tasks did is stored. No-op for one that has ended.

        Args:
            reason: for `Run.reason` and logs.
            wait: whether to wait until it has ended.
        Returns: its status.
        """
        self._cancel(self._job, reason)
        if wait:
            with slot_lent():
                await self._job.done.wait()
        return self.status


class RunAccess(msgspec.Struct, frozen=True):
    """Access of a `StoredRun` to the system that returned it.

    Attributes:
        reread: reads its row; None if that is gone.
        page: reads stored events after an offset.
        values: reads the state of its thread.
        ask_cancel: requests its end, with a reason.
        taken_up: the run in this system, if that has it now.
        draining: why the system drains; None if it doesn't.
        make_pause: makes a function that waits for news of the run, from news after a time on. One
            for each that waits: it remembers up to which news that one has looked.
        hears: whether the system gets news of runs of other processes.
        decode: reads the arguments of the run's start from its row.
        now: the time by which runs are due, in microseconds since 1970-01-01 UTC.
        saver: a number for the system's saver, as in `RunPlace`.
    """

    reread: Callable[[], Awaitable[RunRow | None]]
    page: Callable[[int], Awaitable[EventPage[RunEvent]]]
    values: Callable[[], Awaitable[Any]]
    ask_cancel: Callable[[RunRow, str], Awaitable[None]]
    taken_up: Callable[[], Run | None]
    draining: Callable[[], str | None]
    make_pause: Callable[[float], Callable[[], Awaitable[None]]]
    hears: bool
    decode: Callable[[RunRow], RunArguments]
    now: Callable[[], int]
    saver: int = 0


class StoredRun(Run[OwnResultT]):
    """A run known from its row alone: it has ended, or is active in another process.

    Attributes:
        access: to the system that returned it, or that has the run now.
    """

    def __init__(
        self, row: RunRow, metadata: dict[str, Any], access: RunAccess, looked: float = 0.0
    ) -> None:
        self._row = row
        self._looked = looked
        self._metadata = metadata
        self.access = access
        self._find: Callable[[], Awaitable[Run | None]] | None = None

    def look_elsewhere(self, find: Callable[[], Awaitable[Run | None]]) -> None:
        """Follow the run to another database when its row is gone.

        Args:
            find: looks for the run; None if no database has it.
        """
        self._find = find

    @property
    def id(self) -> str:
        """The run's id, a UUIDv7."""
        return as_text(self._row.run)

    @property
    def row(self) -> RunRow:
        """Its row, when it was last read."""
        return self._row

    @property
    def thread_id(self) -> str:
        """The id of the thread on which it ran."""
        return self._row.thread_id

    @property
    def graph(self) -> str:
        """The graph's name in the system."""
        return self._row.graph

    @property
    def status(self) -> Any:
        """The status when the row was last read; see `RunStatus`."""
        return self._row.status

    @property
    def reason(self) -> str:
        """The reason if it was cancelled or parked, or the text of its error; else empty."""
        return self._row.reason

    @property
    def attempt(self) -> int:
        """The number of processes that have executed it so far."""
        return self._row.attempts

    @property
    def outcome(self) -> None:
        """None: its result is read from its thread."""
        return None

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata given to `start`."""
        return self._metadata

    @property
    def created_at(self) -> datetime:
        """When it was accepted, in UTC."""
        return datetime.fromtimestamp(self._row.created / 1e6, tz=UTC)

    @property
    def updated_at(self) -> datetime:
        """See `Run.updated_at`."""
        return self.created_at

    @property
    def started_at(self) -> datetime | None:
        """None: the row doesn't say; the thread's timeline does."""
        return None

    @property
    def priority(self) -> int:
        """See `Run.priority`."""
        return self._row.priority

    @property
    def due_at(self) -> datetime | None:
        """See `Run.due_at`."""
        return _due_at(self._row)

    @property
    def waits_for_time(self) -> bool:
        """See `Run.waits_for_time`."""
        return self._row.status in OPEN_STATUSES and waits_for_time(self._row, self.access.now())

    async def arguments(self) -> RunArguments:
        """See `Run.arguments`."""
        row = self._row if self._row.payload else await self.access.reread()
        if row is None:
            raise RunNotFoundError(
                f"run {self.id} was removed", do="read its arguments while it is stored"
            )
        return self.access.decode(row)

    def events(
        self,
        after: int = 0,
        *,
        buffer: int = 256,
        buffer_bytes: int = BUFFER_BYTES,
        when_full: WhenFull = "drop_oldest",
    ) -> RunEvents:
        """Stream its stored events, and new ones as they are stored; see `Run.events`.

        If this system takes the run over, because the process that had it died, events are
        streamed live from then on.
        """
        check_reading(after, buffer, when_full, buffer_bytes)

        def live(offset: int) -> RunEvents | None:
            own = self.access.taken_up()
            return own and own.events(
                offset, buffer=buffer, buffer_bytes=buffer_bytes, when_full=when_full
            )

        elsewhere = RemoteRun(
            # Looked up at each call: the run may have moved.
            page=lambda offset: self.access.page(offset),  # noqa: PLW0108
            is_over=self._is_over,
            is_alive=lambda: self._row.alive,
            left=self._final_status,
            values=lambda: self.access.values(),  # noqa: PLW0108
            live=live,
            draining=lambda: self.access.draining(),  # noqa: PLW0108
            pause=self.access.make_pause(time.monotonic()),
            place=self._place,
        )
        return StoredReader(elsewhere, after)

    async def wait(self, timeout_s: float | None = None) -> Any:
        """See `Run.wait`; polls the saver."""
        pause = self.access.make_pause(self._looked or time.monotonic())
        with anyio.move_on_after(checked_limit("timeout_s", timeout_s)):
            # The row of a run that was just started is known: its news come next.
            known = self._looked and self.access.hears and self._row.status in OPEN_STATUSES
            if known or not await self._is_over():
                self._looked = 0.0
                with slot_lent(self._place, timed=timeout_s is not None):
                    await pause()
                    while not await self._is_over():
                        await pause()
            return self.status
        raise ResultTimeoutError(
            f"run {self.id} is still active after {timeout_s} s",
            do="wait longer; it was not cancelled",
        )

    async def result(self, timeout_s: float | None = None) -> OwnResultT:
        """Wait for the run, and return the state that its thread has then.

        Args:
            timeout_s: seconds to wait; default no limit.
        Raises:
            ResultTimeoutError: the run is still active after the timeout.
            RunCancelledError: it was cancelled.
            RunFailedError: it failed, or was parked.
        """
        status = await self.wait(timeout_s)
        if (
            own := self.access.taken_up()
        ) is not None:  # its thread may be removed or changed already
            return await own.result(timeout_s)
        if status == "cancelled":
            raise RunCancelledError(
                f"run {self.id} was cancelled: {self.reason}",
                do="start another run; `input_stored` says whether the thread has this one's input",
                reason=self.reason,
                input_stored=self._row.claimed,
            )
        if status not in ("success", "interrupted"):
            raise RunFailedError(
                f"run {self.id} ended with status {status!r}: {self.reason}",
                do="see the log of the process that ran it; the thread has its finished steps",
            )
        return await self.access.values()

    async def cancel(self, reason: str = "cancelled", *, wait: bool = True) -> RunStatus:
        """Ask the process that has the run to end it; an orphaned run is cancelled here.

        The request is stored; the process that has the run reads it within a third of its
        `lease_s`. If it dies before, the process that takes the run over cancels it. The first
        reason stays.

        Args:
            reason: for `Run.reason` and logs.
            wait: whether to wait until it has ended, polling the saver.
        Returns: its status then; without `wait` that of now.
        Raises:
            StorageError: the request can't be stored.
        """
        if (own := self.access.taken_up()) is not None:
            return await own.cancel(reason, wait=wait)
        asked, pause = False, self.access.make_pause(time.monotonic())
        while not await self._is_over():
            # Asked once of a living owner; again when the owner died, and then done here.
            if not asked or not self._row.alive:
                asked = self._row.alive
                await self.access.ask_cancel(self._row, reason)
                if not wait:
                    await self._is_over()
                    break
            else:
                await pause()
        return self.status

    @property
    def _place(self) -> RunPlace:
        return RunPlace(self.access.saver, self.thread_id, self._row.run)

    async def _is_over(self) -> bool:
        row = await self.access.reread()
        if row is None and self._find is not None and (found := await self._find()) is not None:
            row = await self._moved_to(found)
        if row is not None:
            self._row = row
        return row is None or row.status not in OPEN_STATUSES

    async def _moved_to(self, found: Run) -> RunRow | None:
        """Read from the system that has the run now; return its row."""
        if isinstance(found, StoredRun):
            self.access = found.access
            return await found.access.reread()
        self.access = msgspec.structs.replace(self.access, taken_up=lambda: found)
        changed = {"status": found.status, "reason": found.reason, "attempts": found.attempt}
        return msgspec.structs.replace(self._row, **changed)

    def _final_status(self) -> dict[str, Any]:
        if self.status in ("pending", "running"):  # its row is gone
            return {"status": "cancelled", "reason": "the run was removed"}
        return {"status": self.status, "reason": self.reason}


def _due_at(row: RunRow) -> datetime | None:
    return datetime.fromtimestamp(row.due / 1e6, tz=UTC) if row.due else None


def check_reading(
    after: int, buffer: int, when_full: str, buffer_bytes: int = BUFFER_BYTES
) -> None:
    """Check the arguments of a reader of events.

    Raises:
        InvalidConfigError: one of them is out of range.
    """
    if after < 0 or buffer < 1:
        raise InvalidConfigError(
            f"after must be >= 0 and buffer >= 1, got after={after!r}, buffer={buffer!r}",
            do="after=0 reads all events; buffer=256 is the default",
        )
    if buffer_bytes < 1:
        raise InvalidConfigError(
            f"buffer_bytes must be >= 1, got {buffer_bytes!r}", do="leave it out for 16 MB"
        )
    if when_full not in ("block", "drop_oldest", "close"):
        raise InvalidConfigError(
            f'unknown when_full={when_full!r}; expected "block", "drop_oldest" or "close"',
            do='use "block", "drop_oldest" or "close"',
        )
