"""The threads of a batch over an ActorSystem: each is run by `start`, one run per thread.

A thread may have a run already: of this system, of another one, or of one that has died. It is
waited for, or taken over when its lease has ended, and then the thread is looked at again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import msgspec

from actorgraph.api.batches.batch_options import BatchPlan
from actorgraph.api.batches.batch_work import BatchEntry, ThreadLook
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.graph.graph_threads import BatchCall, GraphThreads
from actorgraph.api.system.run_handle import Run
from actorgraph.errors import SystemBusyError, ThreadBusyError
from actorgraph.rules.run_order import waits_for_time
from actorgraph.rules.thread_batches import ThreadFacts
from actorgraph.runtime.system.job import LEASE_LOST, Job
from actorgraph.runtime.system.lent_slots import slot_lent
from actorgraph.runtime.system.stored_reader import POLL_S
from actorgraph.values.ids import as_text
from actorgraph.values.run import Cancelled, Interrupted, Succeeded
from actorgraph.values.systems import RunRow

TRIES_MAX = 10
"""Tries to take a run over that this system can't run, before its thread counts as failed."""


class SystemAccess(msgspec.Struct, frozen=True):
    """Access of a batch to its system.

    Attributes:
        start: starts a run, unless its thread has one; as `ActorSystem.start` for one graph.
        rows: reads the open runs of threads; None if the saver keeps no runs.
        now: the time by which runs are due, in microseconds since 1970-01-01 UTC.
        jobs: the runs of a thread that are in memory.
        take_up: takes an orphaned run over; None if it isn't run here.
        dispatches: whether workers in other systems take runs.
    """

    start: Callable[..., Awaitable[Run]]
    rows: Callable[[Sequence[str]], Awaitable[list[RunRow]]] | None
    now: Callable[[], int]
    jobs: Callable[[str], list[Job]]
    take_up: Callable[[RunRow], Awaitable[Job | None]]
    dispatches: bool


class SystemThreads(GraphThreads):
    """The threads of a batch of one graph of a system.

    Args:
        graph: of the system.
        plan: of the batch.
        call: the arguments of each run.
        system: access to it.
    """

    def __init__(
        self, graph: CompiledStateGraph, plan: BatchPlan, call: BatchCall, system: SystemAccess
    ) -> None:
        super().__init__(graph, plan, call)
        self._system = system

    async def look(self, thread_ids: Sequence[str]) -> Mapping[str, ThreadLook | Exception]:
        """See `BatchThreads.look`."""
        open_runs = {row.thread_id for row in await self._open_runs(thread_ids)}
        found = await super().look(thread_ids)
        return {
            thread_id: msgspec.structs.replace(look, facts=ThreadFacts(busy=True))
            if thread_id in open_runs and isinstance(look, ThreadLook)
            else look
            for thread_id, look in found.items()
        }

    async def _open_runs(self, thread_ids: Sequence[str]) -> list[RunRow]:
        """Read the open runs of threads: the store's, else those of this system alone.

        Without those that wait for their times.
        """
        if self._system.rows is not None:
            rows, now = await self._system.rows(thread_ids), self._system.now()
            return [row for row in rows if not waits_for_time(row, now)]
        return [job.row for one in thread_ids for job in self._open_jobs(one)]

    def _open_jobs(self, thread_id: str) -> list[Job]:
        return [job for job in self._system.jobs(thread_id) if not job.done.is_open]

    async def run(self, entry: BatchEntry, given: Any, mark: str) -> ThreadLook:
        """See `BatchThreads.run`."""
        run = await self._start(entry, given, mark)
        try:
            if self.call.on_chunk is not None:
                async for event in run.events(when_full="block"):
                    if event.kind in self.call.modes and not event.namespace:
                        self.call.on_chunk(entry.key, event.kind, event.data)
            await run.wait()
        except anyio.get_cancelled_exc_class():
            # The run belongs to the system: left alone it would go on without its batch.
            with anyio.CancelScope(shield=True):
                await run.cancel("its batch was left")
            raise
        return await self._ended(entry, run, mark)

    async def _start(self, entry: BatchEntry, given: Any, mark: str) -> Run:
        options: Any = self.call.options
        while True:
            try:
                return await self._system.start(
                    entry.thread_id,
                    given,
                    config=self.config_of(entry, mark),
                    stream_mode=self.call.modes,
                    **options,
                )
            except SystemBusyError as busy:  # a batch waits for its turn instead of failing
                await anyio.sleep(busy.retry_after_s)

    async def _ended(self, entry: BatchEntry, run: Run, mark: str) -> ThreadLook:
        """Return a thread as its run has left it; raise the error of a failed one."""
        match run.outcome:
            case Succeeded(values):
                return ThreadLook(ThreadFacts(exists=True), mark, self._output(values))
            case Interrupted(values, questions):
                facts = ThreadFacts(exists=True, left=True, questions=len(questions))
                return ThreadLook(facts, mark, self._output(values), questions)
            case Cancelled() | None if run.reason == LEASE_LOST:
                # The thread is left to whichever system takes its run over: to this one, too.
                look = (await self.look([entry.thread_id]))[entry.thread_id]
                if isinstance(look, Exception):
                    raise look
                return look
            case _:
                await run.result()  # raises, or it ended in another process
                return await self._look_at(entry.thread_id)

    async def await_run(self, thread_id: str) -> bool:
        """See `BatchThreads.await_run`."""
        took_over, tries = False, 0
        while True:
            jobs = self._open_jobs(thread_id)
            if jobs:
                with slot_lent(jobs[0].place):
                    await jobs[0].done.wait()
                continue
            rows = await self._open_runs([thread_id])
            if not rows:
                return took_over
            row = rows[0]
            waits = row.alive or self._system.dispatches
            if not waits and await self._system.take_up(row) is not None:
                took_over = True
                continue
            tries = 0 if waits else tries + 1
            if tries > TRIES_MAX:
                raise ThreadBusyError(
                    f"thread {thread_id!r} has run {as_text(row.run)}, which this system can't "
                    f"take over: {row.reason or 'another system must run it'}",
                    do="run the batch in a process that can, or cancel the run",
                    thread_id=thread_id,
                    run_id=as_text(row.run),
                )
            await anyio.sleep(POLL_S)
