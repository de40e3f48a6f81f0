"""The supervisor: the loop around `advance`. One per run; the only owner of the run's state.

Receives   events: from node actors, from the persistence actor, from whoever cancels
Sends      tasks to node actors, encoded saves to the persistence actor, chunks to the broadcast
Order      one event at a time, and its effects in the order in which the core gives them: a
           save is encoded before the next task starts
Ends       with the core's `Finish`. A cancellation from outside becomes an event, and the run
           leaves under a shield, within a deadline, with everything stored that was done
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextvars import Context
from typing import Any, assert_never

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from actorgraph.codec.handoff import HandOff
from actorgraph.errors.telling import shown
from actorgraph.runtime.actors import Actors
from actorgraph.runtime.called import Calls
from actorgraph.runtime.calls import thread_limiter
from actorgraph.runtime.hosting import DRAIN_TIMEOUT_S
from actorgraph.runtime.interop import inheritance_of
from actorgraph.runtime.lifecycle import Lifecycle
from actorgraph.runtime.lineage import Lineage
from actorgraph.runtime.live import Writer, live_of
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate, Mailbox
from actorgraph.runtime.node_actor import Surroundings
from actorgraph.runtime.observing import ids_of, observed
from actorgraph.runtime.parting import late, part
from actorgraph.runtime.persistence import Receipts
from actorgraph.runtime.statistics import SupervisorStatistics
from actorgraph.runtime.step_timer import StepTimer
from actorgraph.runtime.tracing import Spans
from actorgraph.runtime.warned import warn_of_node
from actorgraph.superstep.advance import advance
from actorgraph.superstep.inputs import may_begin_again
from actorgraph.superstep.state import RunState
from actorgraph.superstep.tasks import visible
from actorgraph.values.commits import Commit
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
from actorgraph.values.streams import namespace_of


class Supervisor:
    """Runs one run. See the module's text.

    Args:
        state: what `begin` has made ready.
        context: the caller's; every task runs in a copy of it.
        lineage: the run's saver, readers and place; handed down to the graphs that it runs.
        bare: answers for whoever asks first, in this run or below it.
        handoff: encodes the saves; given when there is a saver.

    Attributes:
        lifecycle: hears when the run has paused; None where nobody listens.
    """

    lifecycle: Lifecycle | None = None
    _spans: Spans | None = None

    def __init__(
        self,
        state: RunState,
        *,
        config: dict[str, Any],
        context: Context,
        lineage: Lineage,
        bare: list[Any],
        handoff: HandOff | None = None,
        drain_timeout_s: float = DRAIN_TIMEOUT_S,
    ) -> None:
        self._state = state
        self._run = lineage.run
        self._owns = lineage.owns
        self._context = context.copy()
        self._host = lineage.host
        self._handoff = handoff
        broadcast = self._broadcast = lineage.broadcast
        self._drain_timeout_s = drain_timeout_s
        self._inbox: Mailbox[Event | None] = Mailbox()
        self._receipts = Receipts(self._deliver)
        self._todo: deque[Effect] = deque()
        self._inner: deque[Event] = deque()
        self._slices: Iterator[None] | None = None
        self._thread = 0
        self._parked = self._stepping = False
        self._crash: BaseException | None = None
        self._group: TaskGroup | None = None
        limit = state.policy.step_timeout_s
        self._timer = None if limit is None else StepTimer(limit, self._deliver)
        self._unsendable = False
        self._limit: anyio.CancelScope | None = None
        self._gone = Gate()
        self._left = False
        self._calls = lineage.calls = Calls(self._deliver, state.namespace, lambda: state.returned)
        live = live_of(broadcast, namespace_of(state.namespace), lambda: state.step + 1)
        self._around = Surroundings(
            plan=state.plan,
            values=lambda: visible(state),
            config=config,
            context=context,
            write=Writer(live),
            bare=bare,
            lineage=lineage,
            report=self._deliver,
            warn=warn_of_node,
            live=live,
            inherit=observed(inheritance_of(config), context, lineage),
        )
        self._actors = Actors(state.plan.callable, self._around, self._calls)

    def observe(self, spans: Spans) -> None:
        """Have spans made of the run, which has not begun."""
        self._spans = spans
        spans.watch(self._around, lambda: self._state.checkpoint)

    def withdraw(self) -> None:
        """The run will not run: it was cancelled before."""
        self._release(Cancelled())

    def cancel(self, *, to_others: bool = False) -> None:
        """Ask the run to leave; from any thread. What it has done is stored first."""
        self._announce_leaving()
        self._inbox.put(CancelRequested(to_others))

    def _announce_leaving(self) -> None:
        """Let the next call on this thread wait until the run has left."""
        if self._host is not None and not self._left and self._owns:
            self._host.leaving[self._state.thread_id] = self._gone

    @property
    def step(self) -> int:
        """Of the newest checkpoint."""
        return self._state.step

    def statistics(self) -> SupervisorStatistics:
        """The run so far."""
        state = self._state
        return SupervisorStatistics(
            state.step,
            state.sent,
            state.durable,
            len(state.running),
            self._actors.statistics(),
        )

    async def run(self, effects: Sequence[Effect]) -> RunOutcome:
        """Carry out effects and report events until the run has left.

        Returns: how it left; errors are data here.
        Raises: only the cancellation that came from outside, when all is stored.
        """
        if len(effects) == 1 and isinstance(effects[0], Finish):
            self._release(effects[0].outcome)
            part(self._around, self._calls, self._receipts)
            return effects[0].outcome
        outcome: RunOutcome = Cancelled()
        self._thread = threading.get_ident()
        self._calls.limiter = thread_limiter()
        self._todo.extend(effects)
        async with anyio.create_task_group() as self._group:
            try:
                with anyio.CancelScope() as self._limit:
                    outcome = await self._drive()
                if self._limit.cancelled_caught:
                    self._log_undrained()
                    self._group.cancel_scope.cancel()
            except anyio.get_cancelled_exc_class():
                await self._leave_cancelled()
                raise
            except GeneratorExit:  # the loop is gone, and nothing can be awaited
                raise
            except BaseException as error:  # noqa: BLE001 - a bug of ours must not hang the run
                self._crash = error
                self._group.cancel_scope.cancel()
            finally:
                self._actors.stop()
                if self._timer is not None:
                    self._timer.stop()
                self._release(self._crash or outcome)
        part(self._around, self._calls, self._receipts)
        if self._crash is not None:
            raise self._crash
        left = {"outcome": type(outcome).__name__, "step": self._state.step}
        log_event("info", "run.left", **ids_of(self._around.lineage), **left)
        return outcome

    @property
    def failure(self) -> BaseException | None:
        """The error of the save that was refused, if that has ended the run."""
        return self._state.failure

    async def run_told(self, effects: Sequence[Effect]) -> RunOutcome:
        """`run`, after which the caller's handlers are told if it has paused."""
        outcome = await self.run(effects)
        if self.lifecycle is not None and not may_begin_again(self.failure):
            await self.lifecycle.left(outcome)
        return outcome

    async def _drive(self) -> RunOutcome:
        """Carry out effects; wait for events; the core's `Finish` ends it."""
        while True:
            self._carry_out()
            while self._todo:
                effect = self._todo[0]
                if isinstance(effect, Finish):
                    return effect.outcome
                await self._wait_for(effect)
                self._carry_out()
            self._parked = True
            event = await self._inbox.get()
            self._parked = False
            if self._crash is not None:
                raise self._crash
            if isinstance(event, CancelRequested) and self._limit is not None:
                self._limit.deadline = anyio.current_time() + self._drain_timeout_s
            if event is not None:
                self._todo.extend(advance(self._state, event))

    def _deliver(self, event: Event) -> None:
        """Take an event, from any thread.

        If the supervisor is waiting in this thread, the event is handled here and now: that
        saves a task switch, of which a superstep has few. What has to wait is left to the
        supervisor's task. Whatever happens meanwhile queues up behind it.
        """
        if threading.get_ident() != self._thread:
            self._inbox.put(event)
        elif self._stepping:
            self._inner.append(event)
        elif not self._parked or self._inbox.items:  # what threads have put there came first
            self._inbox.put(event)
        else:
            self._parked = False
            try:
                # In the caller's context, not in that of whoever brings the event.
                self._context.run(self._handle, event)
            except BaseException as error:  # noqa: BLE001 - a bug of ours: the run's task raises it
                self._crash = error
            if self._todo or self._crash is not None:
                self._inbox.put(None)
            else:
                self._parked = True

    def _handle(self, event: Event) -> None:
        self._todo.extend(advance(self._state, event))
        self._carry_out()

    def _carry_out(self) -> None:
        """Carry out effects, and events that they cause, up to one that has to wait."""
        todo, inner = self._todo, self._inner
        self._stepping = True
        try:
            while True:
                while todo:
                    if not self._try(todo[0]):
                        return
                    todo.popleft()
                if not inner:
                    return
                todo.extend(advance(self._state, inner.popleft()))
        finally:
            self._stepping = False
            while inner:
                self._inbox.put(inner.popleft())

    def _try(self, effect: Effect) -> bool:
        """Carry out one effect; False if it has to wait, or is the end."""
        match effect:
            case Save():
                return self._save(effect)
            case StartTask():
                if self._timer is not None:
                    self._timer.begin(self._state.step, self._running_group())
                self._actors.assign(effect, self._running_group())
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
        """Carry out an effect that has to wait: the rest of a long save, or a slow reader."""
        if isinstance(effect, Emit) and self._broadcast is not None:
            await self._broadcast.publish(effect.chunks)
            self._todo.popleft()
        else:
            with anyio.CancelScope(shield=True):  # a save is handed over whole or not at all
                await anyio.lowlevel.checkpoint()

    def _running_group(self) -> TaskGroup:
        assert self._group is not None
        return self._group

    def _save(self, save: Save) -> bool:
        """Encode a slice of a save, and hand the save over after the last; False before that.

        One that can't be encoded ends the run's saves.
        """
        if self._unsendable:
            return True
        assert self._host is not None
        assert self._handoff is not None
        try:
            commit = self._encoded(self._handoff, save)
        except BaseException as error:  # noqa: BLE001 - user types may raise anything while encoded
            self._slices, self._unsendable = None, True
            self._host.writer.lose(self._run, self._state.namespace, error)
            self._deliver(SaveFailed(save.number, error))
            return True
        if commit is None:
            return False
        self._host.writer.post(commit, self._receipts)
        return True

    def _encoded(self, handoff: HandOff, save: Save) -> Commit | None:
        """Encode a save, or the next slice of a large one; its rows after the last."""
        if self._slices is None:
            commit = handoff.at_once(save)
            if commit is not None:
                return commit
            self._slices = handoff.slices(save)
        try:
            next(self._slices)
        except StopIteration as done:
            self._slices = None
            return done.value
        return None

    async def _leave_cancelled(self) -> None:
        """Stop the tasks and store what was done, whoever is impatient, within the deadline."""
        self._announce_leaving()
        if self._broadcast is not None:  # a reader that is behind must not hold up the farewell
            if self._broadcast.root == namespace_of(self._state.namespace):
                self._broadcast.leave()
            self._broadcast = None  # the reader of a run above goes on reading that one
        self._parked = False
        with anyio.move_on_after(self._drain_timeout_s, shield=True) as limit:
            self._inbox.put(CancelRequested())
            outcome = await self._drive_on(limit)
            if isinstance(outcome, Failed):
                ids = ids_of(self._around.lineage)
                log_event("error", "run.lost", **ids, error=shown(outcome.error))
        if limit.cancelled_caught:
            self._log_undrained()

    async def _drive_on(self, limit: anyio.CancelScope) -> RunOutcome:
        """Drive to the end. A second cancellation by asyncio, which no shield stops, waits."""
        while True:
            try:
                return await self._drive()
            except anyio.get_cancelled_exc_class():
                if limit.cancel_called:
                    raise
                self._parked = False

    def _log_undrained(self) -> None:
        ids = ids_of(self._around.lineage)
        error = str(late(self._state, self._drain_timeout_s))
        log_event("error", "run.undrained", **ids, error=error)

    def _release(self, outcome: RunOutcome | BaseException) -> None:
        self._left = True
        if self._spans is not None:
            self._spans.end(outcome)
        self._calls.close()
        if self._host is not None and self._owns:
            thread_id = self._state.thread_id
            self._host.writer.forget(thread_id, self._run)
            if self._host.leaving.get(thread_id) is self._gone:
                del self._host.leaving[thread_id]
        self._gone.open()
