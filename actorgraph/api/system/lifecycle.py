"""Opening and closing an ActorSystem.

Opening takes a lease and starts the actors that renew it and watch for cancellations and turns.
Closing drains, then gives the lease back, so that another system can take over the remaining runs.
"""

import gc
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from actorgraph.api.system.alarm_work import AlarmWork
from actorgraph.api.system.recovery import RecoveryMethods
from actorgraph.errors import CheckpointError, InvalidConfigError
from actorgraph.ports import Dispatcher
from actorgraph.runtime.mailbox import Mailbox, wait_shielded
from actorgraph.runtime.saver.hosting import Host, host_of, living_host
from actorgraph.runtime.system.alarm_actor import AlarmActor
from actorgraph.runtime.system.dispatch_actor import DispatchActor
from actorgraph.runtime.system.engine_link import EngineLink
from actorgraph.runtime.system.job import LEASE_LOST
from actorgraph.runtime.system.leases import LeaseActor
from actorgraph.runtime.system.loop_watchdog import LoopWatchdog
from actorgraph.runtime.system.owners import forget_owners, learn_process, new_owner
from actorgraph.runtime.system.peers import CancelWatch, TurnWatch
from actorgraph.runtime.task.router_threads import RouterThreads
from actorgraph.values.dispatch import News
from actorgraph.values.systems import DropOwner

CLOSING = "shutdown"
"""The reason of runs that a closing system leaves for `recover()`."""


class LifecycleMethods(RecoveryMethods):
    """Opens the saver, the lease and the actors of an `ActorSystem`, and closes them."""

    async def _open(self) -> None:
        if self._actor.group is not None or self._actor.draining is not None:
            raise InvalidConfigError(
                "this system has been entered before", do="make a new ActorSystem"
            )
        stack = AsyncExitStack()
        try:
            if living_host(self.saver) is None:
                await stack.enter_async_context(cast("Any", self.saver))
            actor = self._actor
            await learn_process()
            host, owner = host_of(self.saver), new_owner()
            self._owners.add(owner)
            if self._max_threads is not None:
                actor.threads = RouterThreads(anyio.CapacityLimiter(self._max_threads))
            if self._keeps:
                # Before any run is accepted: rows of runs refer to their owner's lease.
                self._lease = LeaseActor(host, owner, self._limits.lease_s, self._lost_lease)
                await self._lease.take()
            watch = CancelWatch(
                host, self._limits.lease_s, owner=lambda: actor.owner, cancel=actor.cancel_by_id
            )
            if self._dispatcher is not None:
                await self._join_dispatch(stack, host, self._dispatcher, watch)
            # Pushed before the task group, so run after it: the lease is dropped when no task of
            # this system can write any more.
            stack.push_async_callback(self._drop_lease, host)
            group = await stack.enter_async_context(anyio.create_task_group())
            actor.on_left.append(self._on_left)
            actor.open(host, owner, group)
            if self._dispatch is not None:
                group.start_soon(self._dispatch.serve)
            if self._lease is not None:
                actor.lease = self._lease.hold
                group.start_soon(self._lease.serve)
                group.start_soon(watch.serve)
                turns = TurnWatch(host, actor, take_up=self._take_up, end=self._end_row)
                group.start_soon(turns.serve)
            alarms = self._keeps and getattr(self.saver, "keeps_alarms", False)
            if alarms and self._policy.accepts:
                self._serve_alarms(stack, host, group)
            self._observe(group)
        except BaseException as error:  # also a cancellation: close all that is open so far
            await stack.__aexit__(type(error), error, error.__traceback__)
            raise
        if self._gc_threshold is not None:
            stack.callback(gc.set_threshold, *gc.get_threshold())
            gc.set_threshold(self._gc_threshold, *gc.get_threshold()[1:])
        self._stack = stack

    async def _join_dispatch(
        self, stack: AsyncExitStack, host: Host, dispatcher: Dispatcher, watch: CancelWatch
    ) -> None:
        """Open the dispatcher; `stack` closes it after the lease is dropped."""
        heard: Mailbox[News] = Mailbox()
        link = EngineLink(dispatcher, self.saver, heard.put)
        await link.open()
        stack.push_async_callback(wait_shielded, link.close)
        self._dispatch = DispatchActor(
            host,
            self._actor,
            link,
            heard,
            self._policy,
            share=self._share,
            take_up=self._take_up_all,
            look_for_cancels=watch.look,
        )

    def _serve_alarms(self, stack: AsyncExitStack, host: Host, group: TaskGroup) -> None:
        """Look at threads when their open questions want something, by the clock of the store."""
        host.clock.systems.add(self)
        stack.callback(host.clock.systems.discard, self)
        if not (self._keeps and getattr(self.saver, "keeps_alarms", False)):
            return
        work = AlarmWork(host, self.graphs, self._answer_by_clock, self._alarm_counts)
        alarms = AlarmActor(host, work.graphs, work.look)
        host.writer.on_stored.append(alarms.note)
        stack.callback(host.writer.on_stored.remove, alarms.note)
        host.clock.at_work.add(alarms)  # already: a clock that a test moves waits for it
        group.start_soon(alarms.serve)

    async def _answer_by_clock(
        self, graph: str, thread_id: str, answers: Mapping[str, Any], asked_by: bytes | None
    ) -> object:
        """Start a run with the answers that questions give themselves.

        Args:
            asked_by: the run that has asked them, whose context and options it gets.
        """
        raise NotImplementedError

    def _observe(self, group: TaskGroup) -> None:
        """Start the samples, and the watchdog of the event loop if there is a limit."""
        group.start_soon(self._sampler.serve)
        group.start_soon(self.thread_counter.serve)
        if self._loop_limit_s is not None:
            self._actor.watchdog = LoopWatchdog(self._loop_limit_s)
            group.start_soon(self._actor.watchdog.serve)

    async def _close(self) -> None:
        """Drain, stop, give the lease back, close the saver; not interrupted by cancellation."""
        stack, self._stack = self._stack, None
        if stack is None:
            return
        actor = self._actor
        assert actor.group is not None
        try:
            await wait_shielded(lambda: actor.drain(CLOSING, self._limits.drain_timeout_s))
        finally:
            actor.group.cancel_scope.cancel()
            await stack.aclose()

    async def _drop_lease(self, host: Host) -> None:
        """Give the lease back, so that another system can take over the remaining runs at once."""
        forget_owners(self._owners)
        if self._keeps:
            with suppress(CheckpointError):  # then they can be taken over when it expires
                await host.writer.store(DropOwner(self._actor.owner))
                if self._dispatch is not None:
                    await self._dispatch.hand_over_left()

    def _lost_lease(self) -> bytes:
        """Handle an expired lease: cancel its runs and continue with a new owner id.

        Another system may have taken the runs over, so this one must not write for them.

        Returns: the new owner id.
        """
        actor = self._actor
        for job in list(actor.jobs.values()):
            job.left_to_others = True
            actor.cancel(job, LEASE_LOST)
        actor.owner = new_owner()
        self._owners.add(actor.owner)
        return actor.owner
