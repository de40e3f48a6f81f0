"""The supervisor of a blocking call: the loop around `advance`, in the thread that calls.

Receives   events: from the tasks that it performs and from helpers' threads, from the persistence
           actor, and requests to cancel
Order      as `Supervisor`: one event at a time, and its effects in the core's order. The thread
           that brings an event handles it, and those of others that wait, unless another one does
           so now (`_handle_all`): so the tasks that have ended beside a long function are stored,
           and `@task` calls of that function are answered
Tasks      the first due task is performed in the calling thread. While others wait behind one that
           lasts, helpers' threads take them: the first after half a millisecond, then twice as many
           for as long as none ends. `@task` calls, and all tasks of a run whose reader wants live
           chunks or that has a `step_timeout`, are performed by helpers at once
Ends       as `Supervisor`. A signal's error ends the call, which stores its finished work first;
           one more signal meanwhile abandons that
"""

import math
import threading
import time
from asyncio import CancelledError
from collections import deque
from collections.abc import Sequence
from threading import get_ident
from typing import Any, Final, assert_never

import msgspec

from actorgraph.loops import in_event_loop
from actorgraph.runtime import worker_threads
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.helping import LENT, MAX_THREADS
from actorgraph.runtime.mailbox import Mailbox, pause
from actorgraph.runtime.run.node_actor import NodeActor
from actorgraph.runtime.run.supervisor import Supervisor, break_cycles
from actorgraph.runtime.stepper import HERE, Stepper, stepper_here
from actorgraph.superstep.advance import advance
from actorgraph.values.constants import CALL
from actorgraph.values.ids import TaskId
from actorgraph.values.policies import Durability
from actorgraph.values.run import (
    AnswerCall,
    Cancelled,
    CancelRequested,
    CancelTasks,
    Effect,
    Emit,
    Event,
    Finish,
    RunOutcome,
    Save,
    Saved,
    StartTask,
    StepTimedOut,
    TaskCancelled,
    TaskFailed,
)
from actorgraph.values.stream_items import namespace_of

PATIENCE_S: Final = 0.0005
"""Seconds that a task may last before others that wait for it get a thread."""

NO_THREAD_S: Final = 0.02
"""Seconds until a thread is asked for again, if the last one could not be had."""


FRAMES_MIN: Final = 60
"""Frames that handling an event needs. A function may have used up Python's recursion limit, and
catches that: the run's state can't be left in the middle of `advance` for it."""


Due = tuple[NodeActor, StartTask]


def _has_frames(count: int) -> bool:
    """Whether functions may call each other so many times here."""
    try:
        return count == 0 or _has_frames(count - 1)
    except RecursionError:
        return False


class _Ended(msgspec.Struct, frozen=True):
    """A task that has ended, with its event."""

    actor: NodeActor
    event: Event


class BlockingSupervisor(Supervisor):
    """Supervises one run of a blocking call; see the module's docstring."""

    _broadcast: Broadcast | None
    _may_lead = True
    _outcome: RunOutcome | None = None
    _limit_at = math.inf  # of the superstep, by `time.monotonic`
    _limited: int | None = None
    _stepper: Stepper[Any] | None = None  # of the calling thread
    _performs: Stepper[Any] | None = None  # the same, while it performs a task
    _blocked = False  # an effect has to wait
    _leaves = False  # the call ends: this thread begins no task any more

    def __init__(self, *args: Any, **parts: Any) -> None:
        super().__init__(*args, **parts)
        self._events: deque[Event | _Ended] = deque()
        self._handles = threading.Lock()  # of the thread that handles events
        self._wakes: Mailbox[Any] = self._inbox  # what is in it only wakes the thread
        self._due: deque[Due] = deque()
        self._helped: dict[TaskId, tuple[NodeActor, Stepper[Any]]] = {}
        self._lock = threading.Lock()
        self._helpers = self._ended = 0
        self._watched = False
        self._elsewhere = self._environment.live is not None or self._timer is not None

    # --- in the calling thread ---

    async def run(self, effects: Sequence[Effect]) -> RunOutcome:
        """See `Supervisor.run`."""
        if len(effects) == 1 and isinstance(effects[0], Finish):
            return await super().run(effects)
        outcome: RunOutcome = Cancelled()
        self._stepper = HERE.stepper
        self._add(effects)
        try:
            while (taken := await self._next_task()) is not None:
                actor, start = taken
                try:
                    event = await actor.run_task(start)
                except CancelledError:
                    if not self._was_stopped:
                        raise
                    event = TaskCancelled(start.task.id)
                except Exception as error:
                    self._fail(error)  # a bug of ours: errors of the program are events
                    raise
                finally:
                    self._end_performing()
                self._ended += 1
                self._events.append(_Ended(actor, event))
            assert self._outcome is not None
            outcome = self._outcome
        except GeneratorExit:
            raise
        except BaseException:
            if self._crash is None:
                await self._leave_here()
            raise
        finally:
            if self._outcome is None:
                self._stop_helping()
            self._release(self._crash or outcome)
            break_cycles(self._environment, self._calls, self._receipts)
        self._log_if_read(outcome)
        if self.lifecycle is not None:
            await self._notify(outcome)
        return outcome

    async def _next_task(self) -> Due | None:
        """Handle events until a task is due that this thread performs; None at the run's end."""
        wakes, due, stepper = self._wakes, self._due, self._stepper
        assert stepper is not None
        while True:
            if stepper.is_ending:
                await pause(0)  # its signal's handler is called here
            wakes.items.clear()
            self._handle_all()
            if self._crash is not None:
                raise self._crash
            if self._outcome is not None:
                return None
            if self._blocked:
                await self._wait_for_reader(self._effects[0])
            elif due and not self._leaves and not self._leaves_due():
                if (taken := self._take_due()) is not None:
                    return taken
            else:
                await self._wait()

    async def _wait(self) -> None:
        """Wait for an event."""
        end = min(self._limit_at, self._drain_until)
        if end == math.inf:
            await self._wakes.wait()
            return
        await self._wakes.wait_until(end)
        now = time.monotonic()
        if now >= self._drain_until:
            self._log_undrained()
            self._outcome = Cancelled()
        elif now >= self._limit_at:
            self._limit_at = math.inf
            assert self._limited is not None
            self._deliver(StepTimedOut(self._limited))

    async def _wait_for_reader(self, effect: Effect) -> None:
        assert isinstance(effect, Emit)
        if self._broadcast is not None:
            for chunk in effect.chunks:
                await self._broadcast.send(chunk)
        self._effects.popleft()
        self._blocked = False

    def _leaves_due(self) -> bool:
        """Whether this thread doesn't perform the due tasks: they may not begin, or helpers do."""
        broadcast = self._broadcast
        if broadcast is not None and broadcast.holds:
            broadcast.wake_when_wanted(self._wakes)
            return broadcast.holds  # still, now that its reader wakes this thread
        if self._needs_helpers() and (self._helpers or self._begin_help()):
            return self._watch_due()
        return False

    def _take_due(self) -> Due | None:
        """Take the first due task to perform it; None if a helper has it."""
        with self._lock:
            taken = self._due.popleft() if self._due else None
            if taken is not None:
                self._performs = self._stepper
        if self._due:
            self._watch_due()
        if taken is not None and self._broadcast is not None:
            self._broadcast.away += 1
        return taken

    def _end_performing(self) -> None:
        with self._lock:
            self._performs = None
            if self._was_stopped and self._stepper is not None:
                self._stepper.uncancel()
            self._was_stopped = False
        if self._broadcast is not None:
            self._broadcast.away -= 1

    _was_stopped = False

    def _needs_helpers(self) -> bool:
        """Whether this thread performs none of the due tasks, for it has to be free meanwhile.

        A task that has ended is stored, read, and followed by its error handler or by one that
        waits for its place at once, not when the function of a sibling has ended.
        """
        if self._elsewhere:
            return True
        if len(self._state.running) == 1:
            return False
        stores = self._save_encoder and self._state.policy.durability is not Durability.EXIT
        follows = self._state.due or self._state.plan.handlers
        return bool(stores or self._broadcast is not None or follows)

    async def _leave_here(self) -> None:
        """Store the finished work of a run that a signal or a cancellation ends."""
        if self._stepper is not None:
            self._stepper.uncancel()
        self._announce_leaving()
        if self._broadcast is not None:
            if self._broadcast.root == namespace_of(self._state.namespace):
                self._broadcast.leave()
            self._broadcast = None
        self._blocked = False
        self._leaves = True
        self._events.append(CancelRequested())
        await self._next_task()

    def cancel(self, *, to_others: bool = False) -> None:
        """See `Supervisor.cancel`."""
        self._announce_leaving()
        self._events.append(CancelRequested(to_others))
        if stepper_here() is None:
            # In the main thread a signal's error could cut off this one: it holds none back.
            self._pump_elsewhere()
        else:
            self._pump()
        self._wakes.put(None)

    # --- in any thread ---

    def _deliver(self, event: Event) -> None:
        """Take an event, from any thread."""
        self._events.append(event)
        if stepper_here() is not None or not in_event_loop():
            self._pump()
        elif not self._wakes.is_awaited and not self._may_wait(event):
            # The calling thread is in a function, which may wait for what follows from this.
            self._pump_elsewhere()
        self._wakes.put(None)

    def _pump_elsewhere(self) -> None:
        """Handle the events that wait in a worker thread, or here if there is none."""
        try:
            worker_threads.start(self._pump)
        except RuntimeError:  # the system has no more threads
            self._pump()

    def _may_wait(self, event: Event) -> bool:
        """Whether nothing that the calling thread's function waits for can follow from an event."""
        alone = len(self._state.running) == 1 and not self._calls.are_open
        return alone and isinstance(event, Saved)

    def _pump(self) -> None:
        """Handle the events that wait, unless another thread does so now."""
        stepper = stepper_here()
        if stepper is not None and stepper.in_function and not _has_frames(FRAMES_MIN):
            self._pump_elsewhere()
            return
        inside = stepper is not None and stepper.step_in()
        try:
            self._handle_all()
        finally:
            if inside and stepper is not None:
                stepper.step_out()

    def _handle_all(self) -> None:
        while self._events or self._effects:
            if self._blocked or not self._handles.acquire(blocking=False):
                return
            try:
                if not self._blocked:  # still, now that no other thread handles any
                    self._blocked = not self._context.run(self._drain)
            except BaseException as error:  # noqa: BLE001 - a bug of ours: the caller raises it
                self._fail(error)
            finally:
                self._handles.release()
            if self._stepper is None or self._stepper.thread != get_ident():
                self._wakes.put(None)  # the calling thread may have found the lock taken

    def _fail(self, error: BaseException) -> None:
        """End the run with an error that no task of it has raised."""
        self._crash = error
        self._blocked = True
        self._calls.close()  # a function may wait for one
        self._wakes.put(None)

    def _drain(self) -> bool:
        """Handle events; return False before an effect that has to wait, or at the run's end."""
        effects, events = self._effects, self._events
        while True:
            while effects:
                effect = effects[0]
                if isinstance(effect, Finish):
                    self._outcome = effect.outcome
                    return False
                if not self._execute(effect):
                    return False
                effects.popleft()
            if not events:
                return True
            event = events.popleft()
            if isinstance(event, _Ended):
                event.actor.count_end()
                event = event.event
                if self._spans is not None:  # which take the reports of tasks
                    self._environment.report(event)
                    continue
            elif isinstance(event, CancelRequested):
                self._drain_until = time.monotonic() + self._drain_timeout_s
            self._add(advance(self._state, event))

    def _execute(self, effect: Effect) -> bool:
        match effect:
            case Save():
                while not self._save(effect):
                    pass
            case StartTask():
                self._start(effect)
            case AnswerCall():
                self._calls.answer(effect)
            case Emit():
                broadcast = self._broadcast  # another thread may take it away
                return broadcast is None or broadcast.try_publish(effect.chunks)
            case CancelTasks(only):
                self._cancel_tasks(only)
            case Finish():
                return False
            case _:
                assert_never(effect)
        return True

    def _start(self, start: StartTask) -> None:
        actor = self._actors.of(start)
        actor.begin_here()
        if self._timer is not None and self._limited != self._state.step:
            self._limited = self._state.step
            self._limit_at = time.monotonic() + (self._state.policy.step_timeout_s or math.inf)
        self._due.append((actor, start))
        is_call = start.task.path[-1] == CALL
        helps = is_call and self._begin_help()
        if not is_call and self._performs is None:
            return
        if not self._watch_due() and is_call and not helps:
            self._refuse(actor, start)

    def _refuse(self, actor: NodeActor, start: StartTask) -> None:
        """Let a `@task` call fail for which there is no thread: its caller may wait for it."""
        with self._lock:
            if (actor, start) not in self._due:  # a helper has taken it
                return
            self._due.remove((actor, start))
        error = RuntimeError("can't start new thread")
        self._events.append(_Ended(actor, TaskFailed(start.task.id, error)))

    def _cancel_tasks(self, only: Sequence[str]) -> None:
        with self._lock:
            gone = [due for due in self._due if not only or due[1].task.id in only]
            for due in gone:
                self._due.remove(due)
            helped = {i: h for i, h in self._helped.items() if not only or i in only}
            for identifier in helped:
                del self._helped[identifier]
                self._end_help()  # whose function goes on, and holds up no other
        for actor, start in gone:
            self._events.append(_Ended(actor, TaskCancelled(start.task.id)))
        for identifier, (actor, stepper) in helped.items():
            stepper.cancel()
            self._events.append(_Ended(actor, TaskCancelled(identifier)))
        with self._lock:  # the calling thread may be leaving its task now
            if not only and self._performs is not None:
                self._was_stopped = True
                self._performs.cancel()

    # --- helpers ---

    def _begin_help(self) -> bool:
        """Start a helper; returns whether there was a thread for it."""
        if not LENT.take():
            return False
        with self._lock:
            self._helpers += 1
        try:
            worker_threads.start(self._help)
        except RuntimeError:  # the system has no more threads
            with self._lock:
                self._end_help()
            return False
        return True

    def _end_help(self) -> None:
        self._helpers -= 1
        LENT.give_back()

    def _watch_due(self) -> bool:
        """Have a watcher lend threads to the due tasks; returns whether there is one."""
        with self._lock:
            needed = bool(self._due) and not self._watched
            self._watched = self._watched or needed
        if needed:
            try:
                worker_threads.start(self._watch)
            except RuntimeError:  # the system has no more threads
                self._watched = False
                return False
        return True

    def _watch(self) -> None:
        """Lend threads while tasks wait and none ends."""
        seen, lent = self._ended, 1
        while True:
            broadcast = self._broadcast
            with self._lock:
                held = broadcast is not None and broadcast.holds
                if held or not self._due:
                    self._watched = False
                    break
            time.sleep(PATIENCE_S)
            if self._ended != seen:
                seen = self._ended
                continue
            count = min(lent, len(self._due))
            if not all(self._begin_help() for _ in range(count)):
                time.sleep(NO_THREAD_S)
            lent = min(2 * lent, MAX_THREADS)
        if held:
            self._wakes.put(None)  # see `_help`

    def _help(self) -> None:
        """Perform tasks that wait, in a helper's thread."""
        while True:
            broadcast = self._broadcast
            with self._lock:
                held = broadcast is not None and broadcast.holds
                if held or not self._due:
                    self._end_help()
                    break
                actor, start = self._due.popleft()
                stepper = Stepper(actor.run_task(start))
                stepper.is_lent = True
                entry = self._helped[start.task.id] = actor, stepper
            try:
                event = stepper.run()
            except CancelledError:
                event = TaskCancelled(start.task.id)
            except BaseException as error:  # noqa: BLE001 - a bug of ours: the caller raises it
                self._fail(error)
                return
            self._ended += 1
            with self._lock:
                if self._helped.get(start.task.id) is not entry:  # stopped: it counts no more
                    return
                del self._helped[start.task.id]
            self._events.append(_Ended(actor, event))
            self._pump()
            self._wakes.put(None)
        if held:
            # The tasks that this thread was to take may not begin now. The calling thread waits
            # for their ends: it has to ask the reader for a wake-up, see `_leaves_due`.
            self._wakes.put(None)

    def _stop_helping(self) -> None:
        """End what a run leaves behind that has crashed, or whose coroutine was closed."""
        self._blocked = True
        with self._lock:
            self._due.clear()
            for _, stepper in self._helped.values():
                stepper.cancel()
                self._end_help()
            self._helped.clear()
