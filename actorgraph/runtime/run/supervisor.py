"""The supervisor: the loop around `advance`. One per run; the only owner of the run's state.

Receives   events: from node actors, from the persistence actor, and requests to cancel
Sends      tasks to node actors, encoded saves to the persistence actor, chunks to the broadcast
Order      one event at a time, and its effects in the order in which the core gives them: a
           save is encoded before the next task starts
Ends       with the core's `Finish`. A cancellation from outside becomes an event: the run stops
           its tasks and stores their results under a shield, within a deadline
"""

import math
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from typing import Any, assert_never

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup

from actorgraph.bridging import BRIDGE
from actorgraph.codec.save_encoder import SaveEncoder
from actorgraph.errors.texts import error_repr
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate, Mailbox
from actorgraph.runtime.run.callbacks import Lifecycle
from actorgraph.runtime.run.launch import RunSpans
from actorgraph.runtime.run.node_actor import NodeActorStatistics, RunEnvironment, TaskActors
from actorgraph.runtime.run.node_warnings import warn_of_node
from actorgraph.runtime.run.step_timer import StepTimer
from actorgraph.runtime.saver.hosting import DRAIN_TIMEOUT_S
from actorgraph.runtime.saver.persistence import Receipts
from actorgraph.runtime.task.calling import thread_limiter
from actorgraph.runtime.task.live import NO_WRITER, LiveStream, Writer, live_stream_of
from actorgraph.runtime.task.log_context import bind_log_ids, run_log_ids
from actorgraph.runtime.task.scope import RunContext, TaskCalls
from actorgraph.runtime.task.waiting_threads import loan_of
from actorgraph.runtime.worker_threads import BUSY
from actorgraph.superstep.advance import advance
from actorgraph.superstep.limits import undrained_error
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.task_failures import may_begin_again
from actorgraph.values.run import (
    AnswerCall,
    Cancelled,
    CancelRequested,
    CancelTasks,
    Effect,
    Emit,
    Event,
    Failed,
    Finish,
    RunOutcome,
    Save,
    SaveFailed,
    StartTask,
)
from actorgraph.values.stream_items import namespace_of


class SupervisorStatistics(msgspec.Struct, frozen=True):
    """A run so far.

    Attributes:
        step: of the newest checkpoint.
        sent: saves handed over.
        durable: saves acknowledged.
        running: tasks running now.
        nodes: node name -> figures of its actor.
    """

    step: int
    sent: int
    durable: int
    running: int
    nodes: dict[str, NodeActorStatistics]


class Supervisor:
    """Supervises one run; see the module's docstring.

    Args:
        state: the run's, as `begin` has set it up.
        config: the caller's.
        context: the caller's; every task runs in a copy of it.
        run_context: the run's saver, reader and place; passed on to subgraphs.
        unaddressed_answers: answers without an interrupt id, for the first question of
            this run or below it.
        save_encoder: encodes the saves; None without a saver.
        drain_timeout_s: seconds that a cancelled run may take to store its work.

    Attributes:
        lifecycle: the caller's handlers of pauses; None without any.
    """

    lifecycle: Lifecycle | None = None
    _may_lead = False  # whether this thread commits a save itself if no task runs; a loop's never
    _spans: RunSpans | None = None
    _crash: BaseException | None = None
    _drain_until = math.inf
    _thread = 0  # of the event loop
    _starts = 0  # of tasks, since another task of the loop had a turn
    _end_loan: Callable[[], None] | None = None

    def __init__(
        self,
        state: RunState,
        *,
        config: dict[str, Any],
        context: Context,
        run_context: RunContext,
        unaddressed_answers: list[Any],
        save_encoder: SaveEncoder | None = None,
        drain_timeout_s: float = DRAIN_TIMEOUT_S,
    ) -> None:
        self._state = state
        self._run, self._owns, self._host = run_context.run, run_context.owns, run_context.host
        self._context = context.copy()  # of the event handling, which may be called from any task
        self._save_encoder, self._drain_timeout_s = save_encoder, drain_timeout_s
        broadcast = self._broadcast = run_context.broadcast
        self._inbox: Mailbox[Event | None] = Mailbox()
        deliver = self._deliver
        self._receipts = Receipts(deliver)
        self._effects: deque[Effect] = deque()  # to be carried out, in order
        self._caused: list[Event] = []  # events that effects have caused in this thread
        self._slices: Iterator[None] | None = None  # the rest of a long save
        self._parked = self._stepping = False  # waiting for an event; carrying out effects
        self._group: TaskGroup | None = None
        self._timer = StepTimer(limit, deliver) if (limit := state.policy.step_timeout_s) else None
        self._saves_failed = self._has_left = False
        self._drain_scope: anyio.CancelScope | None = None
        self._left_gate = Gate()
        self._calls = TaskCalls(deliver, state)
        run_context.calls = self._calls
        live: LiveStream | None = None
        if broadcast is not None:
            live = live_stream_of(broadcast, state.namespace, lambda: state.step + 1)
        inherit = BRIDGE.enter_task(config) if BRIDGE.calls_module in sys.modules else None
        if "structlog" in sys.modules:
            inherit = bind_log_ids(inherit, context, run_context)
        self._environment = RunEnvironment(
            plan=state.plan,
            config=config,
            context=context,
            write=NO_WRITER if live is None else Writer(live),
            unaddressed_answers=unaddressed_answers,
            run_context=run_context,
            report=deliver,
            warn=warn_of_node,
            live=live,
            inherit=inherit,
        )
        self._actors = TaskActors(state.plan.callable, self._environment, self._calls)

    def observe(self, spans: RunSpans) -> None:
        """Make spans of the run; call it before the run begins."""
        self._spans = spans
        spans.watch(self._environment, lambda: self._state.checkpoint)

    def show_parts(self, take: Callable[[RunState, RunEnvironment], None]) -> None:
        """Show its state and its tasks' environment to a function, before the run begins."""
        take(self._state, self._environment)

    async def withdraw(self) -> None:
        """Release the run without running it: it was cancelled before."""
        self._release(Cancelled())

    def cancel(self, *, to_others: bool = False) -> None:
        """Request that the run end, from any thread. Its finished work is stored first.

        Args:
            to_others: whether another system will continue it, so that its last save must leave
                it open.
        """
        self._announce_leaving()
        self._inbox.put(CancelRequested(to_others))

    def _announce_leaving(self) -> None:
        """Make the next call on this thread wait until the run has left."""
        if self._host is not None and not self._has_left and self._owns:
            self._host.leaving[self._state.thread_id] = self._left_gate

    @property
    def step(self) -> int:
        """The step of the newest checkpoint."""
        return self._state.step

    def statistics(self) -> SupervisorStatistics:
        """The run's figures so far."""
        state = self._state
        return SupervisorStatistics(
            state.step,
            state.sent,
            state.durable,
            len(state.running),
            self._actors.statistics(),
        )

    async def run(self, effects: Sequence[Effect]) -> RunOutcome:
        """Carry out effects and handle events until the run has left.

        If it has paused, the caller's handlers are called then.

        Returns: its outcome; errors of the run are data here.
        Raises: only a cancellation from outside, once everything is stored.
        """
        # A run with nothing to do needs no task group.
        if len(effects) == 1 and isinstance(effects[0], Finish):
            self._release(outcome := effects[0].outcome)
            break_cycles(self._environment, self._calls, self._receipts)
            await self._notify(outcome)
            return outcome
        outcome = Cancelled()
        self._thread = threading.get_ident()
        self._calls.limiter = limiter = thread_limiter()
        self._end_loan = loan_of(self._environment.run_context.above, limiter) if BUSY else None
        self._add(effects)
        async with anyio.create_task_group() as self._group:
            try:
                # A slow reader may hold up a run before it is asked to leave.
                left = None if self._broadcast is not None else await self._drive()
                outcome = await self._drive_out() if left is None else left
            except anyio.get_cancelled_exc_class():
                await self._leave_cancelled()
                raise
            except GeneratorExit:  # the event loop was closed: nothing can be awaited any more
                raise
            except BaseException as error:  # noqa: BLE001 - a bug of ours must not hang the run
                self._crash = error
                self._group.cancel_scope.cancel()
            finally:
                self._actors.stop()
                if self._timer is not None:
                    self._timer.stop()
                self._release(self._crash or outcome)
        self._group = None
        break_cycles(self._environment, self._calls, self._receipts)
        if self._crash is not None:
            raise self._crash
        self._log_if_read(outcome)
        if self.lifecycle is not None:
            await self._notify(outcome)
        return outcome

    @property
    def failure(self) -> BaseException | None:
        """The error of the save whose refusal has ended the run; None otherwise."""
        return self._state.failure

    async def _notify(self, outcome: RunOutcome) -> None:
        if self.lifecycle is not None and not may_begin_again(self.failure):
            await self.lifecycle.notify_left(outcome)

    async def _drive_out(self) -> RunOutcome:
        """As `_drive`, to the end. After a request to cancel, tasks that outlast it are dropped."""
        with anyio.CancelScope(deadline=self._drain_until) as self._drain_scope:
            outcome = await self._drive()
            assert outcome is not None
            return outcome
        self._log_undrained()
        if self._group is not None:
            self._group.cancel_scope.cancel()
        return Cancelled()

    async def _drive(self) -> RunOutcome | None:
        """Carry out effects and wait for events until the core's `Finish`.

        Returns: the outcome; None after a request to cancel, whose deadline needs a scope first.
        """
        self._carry_out()
        while self._drain_scope is not None or self._drain_until == math.inf:
            while self._effects:
                effect = self._effects[0]
                if isinstance(effect, Finish):
                    return effect.outcome
                await self._wait_for(effect)
                self._carry_out()
            # From here until an event arrives, `_deliver` may handle events in place of this task.
            self._parked = True
            event = await self._inbox.get()
            self._parked = False
            if self._crash is not None:
                raise self._crash
            # None: `_deliver` has handled an event, and left effects that have to wait.
            if event is not None:
                self._handle(event)
        return None

    def _deliver(self, event: Event) -> None:
        """Take an event, from any thread.

        If the supervisor waits in this thread, the event is handled inside this call: that saves
        a task switch, of which a superstep has few. Effects that have to wait are left to the
        supervisor's task; events that come before it has run are queued behind them.
        """
        if threading.get_ident() != self._thread:
            self._inbox.put(event)
        elif self._stepping:
            self._caused.append(event)
        elif not self._parked or self._inbox.items:  # queued events came first
            self._inbox.put(event)
        else:
            # Not parked while it handles, so that an event that is reported meanwhile queues up
            # and starts no nested round.
            self._parked = False
            try:
                # In the caller's context, not in that of the task that reports the event.
                self._context.run(self._handle, event)
            except BaseException as error:  # noqa: BLE001 - a bug of ours: the run's task raises it
                self._crash = error
            if self._effects and isinstance(self._effects[0], Finish):
                self._actors.stop()  # now, so that the run need not wait for them
            if self._crash is None and not self._effects:
                self._parked = True
            else:
                self._inbox.put(None)

    def _handle(self, event: Event) -> None:
        if isinstance(event, CancelRequested):
            self._drain_until = anyio.current_time() + self._drain_timeout_s
            if self._drain_scope is None:
                self._inbox.put(None)  # the run's task makes one
            else:
                self._drain_scope.deadline = self._drain_until
        self._add(advance(self._state, event))
        self._carry_out()

    def _add(self, effects: Sequence[Effect]) -> None:
        """Add effects of one event, to be carried out."""
        if self._broadcast is not None and self._broadcast.waits_for_reader:
            effects = sorted(effects, key=lambda effect: isinstance(effect, StartTask))
        self._effects.extend(effects)

    def _carry_out(self) -> None:
        """Carry out effects, and handle events that they cause, up to one that has to wait."""
        effects, caused = self._effects, self._caused
        self._stepping = True
        try:
            while True:
                # All effects of one event before the next event: that is the core's order.
                while effects:
                    if not self._execute(effects[0]):
                        return
                    effects.popleft()
                if not caused:
                    return
                self._add(advance(self._state, caused.pop(0)))
        finally:
            self._stepping = False
            # Their effects may not overtake the one that has to wait: the mailbox comes after it.
            while caused:
                self._inbox.put(caused.pop(0))

    def _execute(self, effect: Effect) -> bool:
        """Carry out one effect. Returns False if it has to wait, or is the run's end."""
        match effect:
            case Save():
                return self._save(effect)
            case StartTask():
                self._starts += 1
                if self._starts > self._actors.STARTS_SLICE:
                    return False
                # A task may have to wait until the reader of chunks asks for the next one.
                if self._broadcast is not None and self._broadcast.holds:
                    return False
                assert self._group is not None
                if self._timer is not None:
                    self._timer.begin(self._state.step, self._group)
                self._actors.of(effect).assign(effect, self._group)
            case AnswerCall():
                self._calls.answer(effect)
            case Emit():
                return self._broadcast is None or self._broadcast.try_publish(effect.chunks)
            case CancelTasks(only):
                self._actors.cancel(only)
            case Finish():
                return False
            case _:
                assert_never(effect)
        return True

    async def _wait_for(self, effect: Effect) -> None:
        """Wait for an effect that could not be carried out at once.

        A chunk waits for its slow reader; a task for one that reads chunk by chunk; a long save,
        and the start of many tasks, let other tasks run between two slices.
        """
        if isinstance(effect, StartTask) and self._starts <= self._actors.STARTS_SLICE:
            assert self._broadcast is not None
            await self._broadcast.wait_wanted()
            return
        self._starts = 0
        if isinstance(effect, Emit) and self._broadcast is not None:
            await self._broadcast.publish(effect.chunks)
            self._effects.popleft()
        else:
            with anyio.CancelScope(shield=True):  # a save is handed over whole or not at all
                await anyio.lowlevel.checkpoint()

    def _save(self, save: Save) -> bool:
        """Encode a save, or its next slice; hand it over after the last one.

        Returns: whether the save is done with. One that can't be encoded ends the run's saves.
        """
        # Later saves build on the failed one; the core gets its event and ends the run.
        if self._saves_failed:
            return True
        assert self._host is not None
        assert self._save_encoder is not None
        try:
            # A large save is encoded in slices, between which other tasks may run.
            if self._slices is None:
                self._slices = self._save_encoder.slices(save)
            next(self._slices)
        except StopIteration as done:
            self._slices, commit = None, done.value
        except BaseException as error:  # noqa: BLE001 - user types may raise anything while encoded
            self._slices, self._saves_failed = None, True
            self._host.writer.mark_failed(self._run, self._state.namespace, error)
            self._deliver(SaveFailed(save.number, error))
            return True
        else:
            return False
        self._host.writer.post(
            commit, self._receipts, may_lead=self._may_lead and not self._state.running
        )
        return True

    async def _leave_cancelled(self) -> None:
        """Stop the tasks and store their work under a shield, within the deadline."""
        self._announce_leaving()
        if self._broadcast is not None:  # a slow reader must not delay this
            if self._broadcast.root == namespace_of(self._state.namespace):
                self._broadcast.leave()
            self._broadcast = None  # that of a parent run stays open: its run may go on
        self._parked = False
        with anyio.move_on_after(self._drain_timeout_s, shield=True) as limit:
            self._drain_scope = limit
            self._inbox.put(CancelRequested())
            outcome = await self._drive_on(limit)
            if isinstance(outcome, Failed):
                ids = run_log_ids(self._environment.run_context)
                log_event("error", "run.lost", **ids, error=error_repr(outcome.error))
        if limit.cancelled_caught:
            self._log_undrained()

    async def _drive_on(self, limit: anyio.CancelScope) -> RunOutcome:
        """As `_drive`, but ignore further cancellations until the deadline.

        On asyncio `task.cancel()` and `asyncio.timeout()` pass through anyio's shield.
        """
        while True:
            try:
                outcome = await self._drive()
                assert outcome is not None
            except anyio.get_cancelled_exc_class():
                if limit.cancel_called:
                    raise
                self._parked = False  # the cancelled wait had set it
            else:
                return outcome

    def _log_if_read(self, outcome: RunOutcome) -> None:
        if "structlog" in sys.modules:  # else `log_event` would drop it
            self._log_left(outcome)

    def _log_left(self, outcome: RunOutcome) -> None:
        left = {"outcome": type(outcome).__name__, "step": self._state.step}
        log_event("info", "run.left", **run_log_ids(self._environment.run_context), **left)

    def _log_undrained(self) -> None:
        ids = run_log_ids(self._environment.run_context)
        error = str(undrained_error(self._state, self._drain_timeout_s))
        log_event("error", "run.undrained", **ids, error=error)

    def _release(self, outcome: RunOutcome | BaseException) -> None:
        """End what the run holds: its spans, its calls, its thread; let the next run begin."""
        # Set first: a `cancel` in another thread must not announce a run that has left.
        self._has_left = True
        if self._spans is not None:
            self._spans.end(outcome)
        self._calls.close()
        if self._end_loan is not None:
            self._end_loan()
        if self._host is not None and self._owns:
            thread_id = self._state.thread_id
            self._host.writer.forget(thread_id, self._run)
            if self._host.leaving.get(thread_id) is self._left_gate:
                del self._host.leaving[thread_id]
        self._left_gate.open()


def break_cycles(environment: RunEnvironment, calls: TaskCalls, receipts: Receipts) -> None:
    """Drop the references from a run's parts to its supervisor; later reports are ignored."""
    # The supervisor holds its parts and they hold its `_deliver`. Left to the garbage collector,
    # finished runs pile up, and each collection has to look at every open run to find them.
    environment.report = receipts.deliver = _ignore
    calls.report = _ignore


def _ignore(_: object) -> None:
    pass
