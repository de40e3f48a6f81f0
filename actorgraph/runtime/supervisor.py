"""The supervisor: the loop around `advance`. One per run; the only owner of the run's state.

Receives   events: from node actors, from the persistence actor, from whoever cancels
Sends      tasks to node actors, encoded saves to the persistence actor, chunks to the broadcast
Order      effects are carried out in the order in which the core gives them: a save is encoded
           before the next task starts
Ends       with the core's `Finish`. A cancellation from outside becomes an event, and the run
           leaves under a shield, within a deadline, with everything stored that was done
"""

import warnings
from collections.abc import Sequence
from contextvars import Context
from typing import Any, assert_never

import anyio
import anyio.lowlevel
import msgspec
from anyio.abc import TaskGroup

from actorgraph.codec.handoff import HandOff
from actorgraph.errors import (
    DrainTimeoutError,
    SwallowedInterruptWarning,
    UnknownChannelWarning,
)
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.hosting import DRAIN_TIMEOUT_S, Host
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.mailbox import Gate, Mailbox
from actorgraph.runtime.node_actor import NodeActor, NodeActorStatistics, Surroundings
from actorgraph.runtime.persistence import Receipts
from actorgraph.superstep.advance import advance
from actorgraph.superstep.state import RunState
from actorgraph.values.ids import as_text
from actorgraph.values.run import (
    Cancelled,
    CancelRequested,
    CancelTasks,
    Effect,
    Emit,
    Event,
    Failed,
    Finish,
    Outcome,
    Save,
    SaveFailed,
    StartTask,
)


class SupervisorStatistics(msgspec.Struct, frozen=True):
    """A run so far.

    Attributes:
        step: of the newest checkpoint. sent, durable: saves handed over and acknowledged.
        running: tasks running now. nodes: each node actor's figures.
    """

    step: int
    sent: int
    durable: int
    running: int
    nodes: dict[str, NodeActorStatistics]


class Supervisor:
    """Runs one run. See the module's text.

    Args:
        state: what `begin` has made ready.
        host: the saver's actors; None for a run without a saver.
        handoff: encodes the saves; given with `host`.
        broadcast: where chunks go; None when nobody reads.
        context: the caller's; every task runs in a copy of it.
    """

    def __init__(
        self,
        state: RunState,
        *,
        config: dict[str, Any],
        context: Context,
        run: bytes,
        host: Host | None = None,
        handoff: HandOff | None = None,
        broadcast: Broadcast | None = None,
        drain_timeout_s: float = DRAIN_TIMEOUT_S,
    ) -> None:
        self._state = state
        self._run = run
        self._host = host
        self._handoff = handoff
        self._broadcast = broadcast
        self._drain_timeout_s = drain_timeout_s
        self._inbox: Mailbox[Event] = Mailbox()
        self._receipts = Receipts(self._inbox.put)
        self._actors: dict[str, NodeActor] = {}
        self._group: TaskGroup | None = None
        self._unsendable = False
        self._gone = Gate()
        self._left = False
        custom = broadcast is not None and "custom" in broadcast.modes
        self._around = Surroundings(
            plan=state.plan,
            values=lambda: state.values,
            config=config,
            context=context,
            write=self._custom if custom else _drop,
            bare=list(state.bare_answer),
            report=self._inbox.put,
            warn=self._warn,
            pace=broadcast.wait_room if custom and broadcast is not None else None,
        )

    def cancel(self) -> None:
        """Ask the run to leave; from any thread. What it has done is stored first."""
        self._announce_leaving()
        self._inbox.put(CancelRequested())

    def _announce_leaving(self) -> None:
        """Let the next call on this thread wait until the run has left."""
        if self._host is not None and not self._left:
            self._host.leaving[self._state.thread_id] = self._gone

    def statistics(self) -> SupervisorStatistics:
        """The run so far."""
        state = self._state
        nodes = {name: actor.statistics() for name, actor in self._actors.items()}
        return SupervisorStatistics(
            state.step, state.sent, state.durable, len(state.running), nodes
        )

    async def run(self, effects: Sequence[Effect]) -> Outcome:
        """Carry out effects and report events until the run has left.

        Returns: how it left; errors are data here.
        Raises: only the cancellation that came from outside, when all is stored.
        """
        if len(effects) == 1 and isinstance(effects[0], Finish):
            self._release()
            return effects[0].outcome
        crash: BaseException | None = None
        outcome: Outcome = Cancelled()
        async with anyio.create_task_group() as self._group:
            try:
                outcome = await self._drive(effects)
            except anyio.get_cancelled_exc_class():
                await self._leave_cancelled()
                raise
            except Exception as error:  # noqa: BLE001 - a bug of ours must not hang the run
                crash = error
                self._group.cancel_scope.cancel()
            finally:
                for actor in self._actors.values():
                    actor.stop()
                self._release()
        if crash is not None:
            raise crash
        log_event(
            "info",
            "run.left",
            thread_id=self._state.thread_id,
            run_id=as_text(self._run),
            outcome=type(outcome).__name__,
            step=self._state.step,
        )
        return outcome

    async def _drive(self, effects: Sequence[Effect]) -> Outcome:
        state, inbox = self._state, self._inbox
        while True:
            for effect in effects:
                match effect:
                    case StartTask():
                        self._actor(effect.task.name).assign(effect)
                    case Save():
                        await self._save(effect)
                    case Emit():
                        if self._broadcast is not None:
                            await self._broadcast.publish(effect.chunks)
                    case CancelTasks():
                        for actor in self._actors.values():
                            actor.cancel()
                    case Finish():
                        return effect.outcome
                    case _:
                        assert_never(effect)
            effects = advance(state, await inbox.get())

    def _actor(self, name: str) -> NodeActor:
        """The node's actor, started at its first task."""
        actor = self._actors.get(name)
        if actor is None:
            assert self._group is not None
            actor = NodeActor(self._state.plan.nodes[name], self._around, self._group)
            self._actors[name] = actor
            self._group.start_soon(actor.serve)
        return actor

    async def _save(self, save: Save) -> None:
        """Encode a save and hand it over. One that can't be encoded ends the run's saves."""
        if self._unsendable:
            return
        assert self._host is not None
        assert self._handoff is not None
        slices = self._handoff.slices(save)
        try:
            while True:
                next(slices)
                with anyio.CancelScope(shield=True):  # a save is handed over whole or not at all
                    await anyio.lowlevel.checkpoint()
        except StopIteration as done:
            self._host.writer.post(done.value, self._receipts)
        except Exception as error:  # noqa: BLE001 - user types may raise anything while encoded
            self._unsendable = True
            self._inbox.put(SaveFailed(save.number, error))

    async def _leave_cancelled(self) -> None:
        """Stop the tasks and store what was done, whoever is impatient, within the deadline."""
        thread_id = self._state.thread_id
        self._announce_leaving()
        if self._broadcast is not None:
            self._broadcast.leave()  # a reader that is behind must not hold up the farewell
        with anyio.move_on_after(self._drain_timeout_s, shield=True) as limit:
            outcome = await self._drive(advance(self._state, CancelRequested()))
            if isinstance(outcome, Failed):
                log_event("error", "run.lost", thread_id=thread_id, error=repr(outcome.error))
        if limit.cancelled_caught:
            log_event("error", "run.undrained", thread_id=thread_id, error=str(self._late()))

    def _late(self) -> DrainTimeoutError:
        state = self._state
        return DrainTimeoutError(
            f"saves {state.durable + 1} to {state.sent} of thread {state.thread_id!r} were not "
            f"acknowledged within {self._drain_timeout_s} s",
            do="ainvoke(None, config) goes on from what was stored",
        )

    def _release(self) -> None:
        self._left = True
        if self._host is not None:
            thread_id = self._state.thread_id
            self._host.writer.forget(thread_id, self._run)
            if self._host.leaving.get(thread_id) is self._gone:
                del self._host.leaving[thread_id]
        self._gone.open()

    def _custom(self, value: Any) -> None:
        assert self._broadcast is not None
        self._broadcast.offer(("custom", value))

    def _warn(self, kind: str, text: str) -> None:
        if kind == "dropped":
            warnings.warn(text, UnknownChannelWarning, stacklevel=2)
        else:
            warnings.warn(
                f"node {text!r} caught the exception of interrupt(); the run pauses all the same",
                SwallowedInterruptWarning,
                stacklevel=2,
            )


def _drop(_: Any) -> None:
    """What a writer does when nobody reads custom chunks."""
