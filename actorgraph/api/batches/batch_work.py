"""The tasks of a batch: read inputs, look at their threads, run those that need it.

Receives   a BatchPlan, and the threads of a graph or of a system (`BatchThreads`)
Sends      one ThreadResult for each input, into a mailbox; the reader takes them from there
Order      inputs are read one after the other. Threads are looked at together, up to 64 at once,
           which are few read transactions, and begin in the order of their inputs.
Bounds     `concurrency` threads run; `concurrency + ahead` inputs are read whose results have not
           been taken. No thread begins while results of `ahead_bytes` wait to be taken. So a slow
           reader holds the batch back, and no list of inputs is kept.
Ends       with the inputs; at an error that isn't a thread's; when the reader leaves. Runs are then
           cancelled, and what their finished tasks did is stored.
"""

import inspect
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

import anyio
import msgspec
from anyio.abc import TaskGroup

from actorgraph.api.batches.batch_options import BatchPlan, Inputs, double_key_error
from actorgraph.api.batches.batch_results import How, Tally, ThreadResult, how_to_go_on
from actorgraph.errors import (
    BatchInputError,
    DeadlineError,
    GraphDrained,
    InvalidConfigError,
    LeaseLostError,
    OtherLoopError,
    RunFailedError,
    SaverBrokenError,
    SaverClosedError,
    SystemClosedError,
    ThreadBusyError,
)
from actorgraph.rules.thread_batches import (
    AskAnswers,
    AwaitRun,
    BeginThread,
    ContinueThread,
    GiveFailure,
    LeaveWaiting,
    RefuseInput,
    ResultOrder,
    ThreadAction,
    ThreadFacts,
    compare_marks,
    decide_thread,
)
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate, Mailbox, Waiting, wait_for_wake_up, wake_all
from actorgraph.runtime.sizes import approximate_bytes
from actorgraph.values.commands import Command, Interrupt

LOOKS_AT_ONCE = 64
"""Threads that are looked at together."""
FRESH_S = 1.0
"""Seconds after which a thread is looked at again before it runs: another process may have."""
ENDS_ALL = (
    SaverClosedError,
    SaverBrokenError,
    SystemClosedError,
    LeaseLostError,
    OtherLoopError,
)
"""Errors after which no other thread could run either."""


class ThreadLook(msgspec.Struct, frozen=True):
    """A thread as it was found, or as a run has left it.

    Attributes:
        facts: without `input`.
        mark: of the input with which it began; None if no batch has begun it.
        output: its output, or its state so far.
        questions: its open questions.
        error: the text of its stored error.
    """

    facts: ThreadFacts
    mark: str | None = None
    output: Any = None
    questions: tuple[Interrupt, ...] = ()
    error: str = ""


class BatchEntry(msgspec.Struct, frozen=True):
    """One input of a batch.

    Attributes:
        place: of the input, from 0.
        mark: its digest.
    """

    place: int
    key: str
    thread_id: str
    given: Any
    mark: str


class BatchThreads(Protocol):
    """The threads of a graph, or of a graph of a system."""

    def entry(self, place: int, key: str, given: Any) -> BatchEntry:
        """Make the entry of an input.

        Raises:
            InvalidConfigError: the key can't be part of a thread's id, or the input isn't one.
        """
        ...

    async def look(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadLook | Exception]:
        """Look at threads, together; one that can't be read gives its error."""
        ...

    async def run(self, entry: BatchEntry, given: Any, mark: str) -> ThreadLook:
        """Run a thread, and return it as the run has left it; if it has failed, raise its error.

        Args:
            given: an input, None to go on, or a Command.
            mark: to be stored with the run's checkpoints.
        """
        ...

    async def copy_head(self, thread_id: str) -> None:
        """Copy the newest checkpoint without the results of its tasks."""
        ...

    async def await_run(self, thread_id: str) -> bool:
        """Wait until the thread's open run has ended. Returns whether it was taken over here."""
        ...


class BatchWork:
    """One batch, while it goes on. It has no reference to the reader's object.

    So a batch that is dropped is freed at once, and its `__del__` ends the tasks.

    Args:
        plan: the arguments.
        threads: the threads.
        bar: gets the counts when they change, and is closed at the end.

    Attributes:
        box: results, then None.
        error: the error that has ended the batch; None if all inputs have results.
        done: opens when the tasks have ended.
        plan: the arguments.
        threads: the threads.
        slots: one for each thread that runs.
        whole: whether every input has its result.
    """

    def __init__(self, plan: BatchPlan, threads: BatchThreads, bar: Any) -> None:
        self.box: Mailbox[ThreadResult[Any] | None] = Mailbox()
        self.error: BaseException | None = None
        self.done = Gate()
        self.whole = False
        self.tally = Tally(plan.name, plan.total)
        self.plan = plan
        self.threads = threads
        self._bar = bar
        self._order: ResultOrder[ThreadResult[Any]] = ResultOrder(ordered=plan.ordered)
        self._read: Mailbox[BatchEntry | None] = Mailbox()
        self._leave = Gate()
        self._sizes: dict[int, int] = {}
        self._waiting_bytes = 0
        self._room: Waiting = []
        self._window = anyio.Semaphore(plan.concurrency + plan.ahead)
        self.slots = anyio.Semaphore(plan.concurrency)
        self._feeding = anyio.CancelScope()
        self._began = time.perf_counter()
        self._ended_at = 0.0
        self._seen: dict[str, int] = {}

    @property
    def seconds(self) -> float:
        """Seconds since the batch began, up to its end."""
        return (self._ended_at or time.perf_counter()) - self._began

    def leave(self) -> None:
        """Ask for the end, from any thread: runs are cancelled, and store their finished work."""
        self._leave.open()

    def taken(self, place: int) -> None:
        """Note that the reader has taken the result of an input: another one may be read."""
        self._waiting_bytes -= self._sizes.pop(place)
        self._window.release()
        if self._room and self._has_room:
            wake_all(self._room)

    @property
    def _has_room(self) -> bool:
        return self._waiting_bytes < self.plan.ahead_bytes

    async def serve(self) -> None:
        """Work to the end. Raises nothing but the cancellation of a loop that shuts down."""
        try:
            async with anyio.create_task_group() as outer:
                outer.start_soon(self._watch_leave, outer.cancel_scope)
                async with anyio.create_task_group() as runs:
                    # A drain ends the feeding alone: the active runs drain by themselves.
                    with self._feeding:
                        async with anyio.create_task_group() as feed:
                            feed.start_soon(self._read_inputs)
                            await self._begin_threads(runs)
                        self.whole = True
                outer.cancel_scope.cancel()
        except BaseException as error:
            cancelled = anyio.get_cancelled_exc_class()
            causes = [cause for cause in _causes(error) if not isinstance(cause, cancelled)]
            if not causes:
                raise
            self.error = self.error or causes[0]  # the reader raises it
        finally:
            self._end()

    def ended(self, _: object) -> None:
        """Handle the task's end; a loop that shuts down may cancel it before its first step."""
        if not self.done.is_open:
            self._end()

    def _end(self) -> None:
        try:
            self._sum_up()
        finally:  # on trio Ctrl-C may come at any line, and the reader waits for this
            self.box.put(None)
            self.done.open()

    def _sum_up(self) -> None:
        self._ended_at = time.perf_counter()
        counts = self.tally.counts(self.seconds)
        self.whole = self.whole and self.error is None and counts.ended == len(self._seen)
        if not self.whole:
            log_event("info", "batch.ended_early", **counts.to_dict())
            if self.error is not None:
                self.error.add_note(how_to_go_on(counts))
        if self._bar is not None:
            with suppress(Exception):  # a terminal that is gone must not hold the reader
                self._bar.close(counts, whole=self.whole)

    async def _watch_leave(self, scope: anyio.CancelScope) -> None:
        await self._leave.wait()
        scope.cancel()

    async def _read_inputs(self) -> None:
        """Read inputs while there is room for them."""
        place, following = 0, _reader(self.plan.inputs)
        while True:
            await self._window.acquire()
            try:
                given = await following()
            except StopAsyncIteration:
                break
            self._read.put(self._entry(place, given))
            place += 1
        self.tally.total = place
        self._read.put(None)

    def _entry(self, place: int, given: Any) -> BatchEntry:
        key = self.plan.key_of(place, given)
        if key in self._seen:
            raise double_key_error(self.plan.name, (key, self._seen[key], place))
        self._seen[key] = place
        if given is None or isinstance(given, Command):
            raise InvalidConfigError(
                f"input {place} of batch {self.plan.name!r} is {given!r}; a batch begins threads "
                "and goes on with them by itself",
                do="give the input with which each thread begins, and answer questions by answer=",
            )
        return self.threads.entry(place, key, given)

    async def _begin_threads(self, runs: TaskGroup) -> None:
        """Look at the threads of inputs as these are read, and begin the runs."""
        entry = await self._read.get()
        while entry is not None:
            entries = [entry]
            # Inputs that were read meanwhile; None, the end, stays for the next turn.
            waiting = self._read.items
            while (
                len(entries) < LOOKS_AT_ONCE and waiting and (following := waiting[0]) is not None
            ):
                waiting.popleft()
                entries.append(following)
            looks = await self.threads.look([one.thread_id for one in entries])
            looked = time.perf_counter()
            for one in entries:
                await self._begin(runs, one, looks[one.thread_id], looked)
            entry = await self._read.get()

    async def _begin(
        self, runs: TaskGroup, entry: BatchEntry, look: ThreadLook | Exception, looked: float
    ) -> None:
        # Threads begin in order: in an ordered batch, too, those that the reader waits for go on.
        while not self._has_room:
            await wait_for_wake_up(self._room, lambda: self._has_room)
        if isinstance(look, Exception):
            self.settle(_failed(entry, look, "skipped"))
            return
        found = self.decide(entry, look)
        if isinstance(found, BeginThread | ContinueThread | AskAnswers):
            await self.slots.acquire()
        elif not isinstance(found, AwaitRun):
            self.settle(_result(entry, found, look, "skipped"))
            return
        thread = _ThreadWork(self, entry, look, looked, found)
        runs.start_soon(thread.serve)

    def decide(self, entry: BatchEntry, look: ThreadLook) -> ThreadAction:
        """Decide about a thread as it was found; see `decide_thread`."""
        same = compare_marks(look.mark, entry.mark)
        return decide_thread(msgspec.structs.replace(look.facts, input=same), self.plan.rules)

    def settle(self, result: ThreadResult[Any]) -> None:
        """Count a result, and give those that may be given now."""
        self.tally.add(result)
        if self.plan.raises and result.error is not None:
            # The error of one thread ends the others; it is raised by the task group above.
            result.error.add_note(f"thread {result.thread_id!r} of batch {self.plan.name!r}")
            raise result.error
        self.show()
        size = approximate_bytes(result.input) + approximate_bytes(result.output)
        self._sizes[result.index] = size
        self._waiting_bytes += size
        for ready in self._order.add(result.index, result):
            self.box.put(ready)

    def show(self) -> None:
        """Give the counts to the bar, or to the program's function."""
        if self._bar is not None:
            self._bar.show(self.tally.counts(self.seconds))

    def drain(self, error: Exception) -> None:
        """End the batch when the active runs have ended: one of them was asked to drain."""
        self.error = self.error or error
        self._feeding.cancel()


class _ThreadWork:
    """One thread while the batch works on it; see `decide_thread`."""

    def __init__(
        self,
        work: BatchWork,
        entry: BatchEntry,
        look: ThreadLook,
        looked: float,
        action: ThreadAction,
    ) -> None:
        self._work = work
        self._entry = entry
        self._look = look
        self._looked = looked
        self._has_slot = not isinstance(action, AwaitRun)
        self._how: How = "skipped"
        self._began = time.perf_counter()

    async def serve(self) -> None:
        """Run the thread until it is done, has failed, or waits."""
        work = self._work
        work.tally.running += 1
        try:
            work.show()
            result = await self._go()
        finally:
            work.tally.running -= 1
            if self._has_slot:
                work.slots.release()
        if result is not None:
            work.settle(result)

    async def _go(self) -> ThreadResult[Any] | None:
        work, entry = self._work, self._entry
        try:
            while True:
                action = await self._next()
                if not isinstance(action, BeginThread | ContinueThread | AskAnswers):
                    seconds = 0.0 if self._how == "skipped" else self._seconds()
                    return _result(entry, action, self._look, self._how, seconds)
                if not await self._run(action):
                    left = LeaveWaiting()
                    return _result(entry, left, self._look, self._how, self._seconds())
        except ENDS_ALL:
            raise
        except GraphDrained as error:
            if isinstance(error, DeadlineError):  # of this thread alone
                return _failed(entry, error, self._how, self._seconds())
            work.drain(error)
            return None
        except Exception as error:  # noqa: BLE001 - the thread's; it is in its result
            return _failed(entry, error, self._how, self._seconds())

    def _seconds(self) -> float:
        return time.perf_counter() - self._began

    async def _next(self) -> ThreadAction:
        """Decide about the thread, once no other run has it."""
        if self._how == "skipped" and time.perf_counter() - self._looked > FRESH_S:
            await self._look_again()
        while isinstance(action := self._decide(), AwaitRun):
            self._give_slot_back()
            if await self._work.threads.await_run(self._entry.thread_id):
                self._how = "resumed"
            await self._look_again()
        if not self._has_slot and isinstance(action, BeginThread | ContinueThread | AskAnswers):
            await self._work.slots.acquire()
            self._has_slot = True
        return action

    def _decide(self) -> ThreadAction:
        return self._work.decide(self._entry, self._look)

    def _give_slot_back(self) -> None:
        # A run of a dead process is waited for until its lease ends; other threads go on.
        if self._has_slot:
            self._work.slots.release()
            self._has_slot = False

    async def _look_again(self) -> None:
        looks = await self._work.threads.look([self._entry.thread_id])
        found = looks[self._entry.thread_id]
        if isinstance(found, Exception):
            raise found
        self._look, self._looked = found, time.perf_counter()

    async def _run(self, action: ThreadAction) -> bool:
        """Run the thread once; False if its questions have no answer."""
        threads, entry, mark = self._work.threads, self._entry, self._look.mark
        given: Any = None
        match action:
            case BeginThread():
                given, mark = entry.given, entry.mark
            case ContinueThread(copies=True):
                await threads.copy_head(entry.thread_id)
            case AskAnswers():
                answers = await self._answers()
                if not answers:
                    return False
                given = Command(resume=answers)
            case _:
                pass
        before = self._how
        if before == "skipped":
            self._how = "started" if isinstance(action, BeginThread) else "resumed"
        # A thread that is kept in spite of another input keeps that input's mark.
        try:
            self._look = await threads.run(entry, given, entry.mark if mark is None else mark)
        except ThreadBusyError:  # another batch or process was faster
            self._how = before
            await self._look_again()
        return True

    async def _answers(self) -> dict[str, Any]:
        answer, found = self._work.plan.answer, dict[str, Any]()
        assert answer is not None
        for question in self._look.questions:
            given = answer(self._entry.key, question)
            given = await given if inspect.isawaitable(given) else given
            if given is not None:
                found[question.id] = given
        return found


def _result(
    entry: BatchEntry, action: ThreadAction, look: ThreadLook, how: How, seconds: float = 0.0
) -> ThreadResult[Any]:
    """Make the result of a thread that needs no further run."""
    match action:
        case RefuseInput(unknown):
            by = "by something else than this batch" if unknown else "with another input"
            error = BatchInputError(
                f"thread {entry.thread_id!r} was begun {by}; it was left as it is",
                do="use another name= or key=, delete the thread, or pass changed='keep' to go on "
                "with it",
            )
            return _failed(entry, error, how)
        case GiveFailure():
            failure = RunFailedError(
                f"thread {entry.thread_id!r} failed in an earlier run: {look.error}",
                do="run the batch with failed='retry' to run its unfinished tasks again",
            )
            return _failed(entry, failure, how, seconds)
        case _:
            return ThreadResult(
                key=entry.key,
                thread_id=entry.thread_id,
                index=entry.place,
                input=entry.given,
                status="waiting" if isinstance(action, LeaveWaiting) else "done",
                how=how,
                output=look.output,
                questions=look.questions,
                seconds=seconds,
            )


def _failed(
    entry: BatchEntry, error: Exception, how: How, seconds: float = 0.0
) -> ThreadResult[Any]:
    return ThreadResult(
        key=entry.key,
        thread_id=entry.thread_id,
        index=entry.place,
        input=entry.given,
        status="failed",
        how=how,
        error=error,
        seconds=seconds,
    )


def _reader(inputs: Inputs[Any]) -> Callable[[], Awaitable[Any]]:
    """Return a function that reads the next input, and raises StopAsyncIteration at the end."""
    if isinstance(inputs, AsyncIterable):
        return aiter(inputs).__anext__
    found = iter(inputs)

    async def following() -> Any:
        for given in found:
            return given
        raise StopAsyncIteration

    return following


def _causes(error: BaseException) -> list[BaseException]:
    """The errors in the groups that task groups raise; the error itself if it isn't one."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return [cause for one in group.exceptions for cause in _causes(one)]
    return [error]
