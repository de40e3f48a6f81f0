"""ActorSystem: runs of thousands of threads in one process, independent of the callers' tasks.

```python
async with ActorSystem({"chat": graph}, saver=SqliteSaver("runs.db")) as system:
    run = await system.start("chat", thread_id, {"messages": [...]}, if_busy="enqueue")
    async for event in run.events():
        ...
    print(await run.result())
```
"""

import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

import anyio
import uuid_utils

from actorgraph.api.batches.batch_options import (
    BatchOptions,
    Inputs,
    KeyOf,
    WatchCounts,
    batch_plan,
    refuse_breakpoints,
)
from actorgraph.api.batches.thread_batch import ThreadBatch
from actorgraph.api.config import check_thread_id
from actorgraph.api.graph.graph_threads import BatchCall
from actorgraph.api.system.acceptance import Answering
from actorgraph.api.system.base import checked_loop_limit, policy_of
from actorgraph.api.system.lifecycle import CLOSING
from actorgraph.api.system.run_arguments import (
    StartOptions,
    checked_call,
    config_with_thread,
    options_again,
    with_delay,
)
from actorgraph.api.system.run_feed import RunFeed
from actorgraph.api.system.run_handle import Run
from actorgraph.api.system.stored_runs import StoredRunMethods
from actorgraph.api.system.system_threads import SystemAccess, SystemThreads
from actorgraph.api.system.thread_finder import (
    ThreadFilter,
    ThreadInfo,
    ThreadSearchOptions,
    thread_info,
    thread_query,
)
from actorgraph.bridging import BRIDGE
from actorgraph.errors import InvalidConfigError, RunNotFoundError, did_you_mean
from actorgraph.errors.excerpts import names_text
from actorgraph.loops import in_turns
from actorgraph.ports import Dispatcher, Saver, Store
from actorgraph.runtime.system.capacity import SystemLimits, unopened_system
from actorgraph.runtime.system.dispatch_actor import DispatchStatistics
from actorgraph.runtime.system.journal import RING_EVENTS
from actorgraph.runtime.system.lent_slots import leave_slot
from actorgraph.runtime.system.stored_events import EventRetention
from actorgraph.superstep.answers import with_answers
from actorgraph.values.commands import Command
from actorgraph.values.dispatch import Role
from actorgraph.values.durations import checked_limit, checked_seconds
from actorgraph.values.ids import as_bytes
from actorgraph.values.systems import (
    OPEN_STATUSES,
    ForgetRun,
    IfBusy,
    ListRuns,
    RunRow,
    RunStatus,
    TrimRuns,
)

BY_CLOCK = {"by_clock": True}
"""Metadata of a run with answers that questions gave themselves."""
_IF_BUSY = ("reject", "enqueue", "interrupt", "rollback")


class ActorSystem(StoredRunMethods):
    """Runs several graphs over one saver, one run per thread at a time.

    Use it as `async with`, once; its methods belong to the event loop in which it was entered.
    Leaving the block drains it.

    Args:
        graphs: name -> compiled graph. They run over the system's saver and store.
        saver: default the one that the graphs were compiled with, or one in memory. It is opened
            and closed with the system unless it is open already.
        store: for the graphs' nodes; default their own.
        max_runs: the most active runs; one that waits, in a node, for another run of the system
            doesn't count. Beyond this or the next two limits `start` raises `SystemBusyError`.
        max_queued: the most runs that wait for a slot or for their thread.
        max_waiting: the most runs that wait for one thread; also the most delayed ones of a thread.
        max_threads: worker threads for sync nodes; default the process's 256.
        max_unsaved_bytes: bytes that may wait to be stored before runs are refused.
        drain_timeout_s: seconds that leaving the block may take.
        retry_after_s: seconds that a `SystemBusyError` suggests to wait.
        lease_s: seconds after which another process may take over this one's runs, if this one
            died or is blocked. The lease is renewed every third of it.
        attempts_max: processes that may die during one run, in which it stores nothing new, before
            `recover` parks it. The last of them runs it alone.
        keep_ended: ended runs that are kept in memory for their result: the newest, and of large
            ones fewer, about 16 MB in all. The results of others are read from the saver.
        keep_events_in_memory: events per run.
        keep_events: stored events per resumable run; older ones are removed, above 64 in groups
            of up to 64, once all of a group are older.
        keep_events_s: age in seconds from which a run's events are removed when it stores newer
            ones. Rows and events of ended runs stay until `trim`, `forget` or the thread's removal.
        gc_threshold: the garbage collector's first threshold while the system is open. Default
            unchanged. With thousands of runs, 50,000 is faster: with Python's 700 the collector
            traverses all active runs again and again.
        dispatcher: carries runs between this system and those of other processes over the same
            saver, see `actorgraph.dispatch`. Default none: a run stays in the system that started
            it.
        role: with a dispatcher: "accept" stores runs for workers, and runs nothing; "work" runs
            what others have accepted, and `start` is refused; "both" runs what it starts while it
            has free slots.
        build: the build of the program. Runs that are started here are run by systems of this
            build alone; default of all builds.
        builds: other builds whose runs this system runs too.
        reserve: slots of `max_runs` that are kept for runs whose system has died or left them.
        max_runs_of: graph -> the most runs of it that this system has at a time. Those above it
            wait, until this system or another one has room.
        loop_limit_s: log a warning, with the node's name, if the event loop is blocked for longer.
    Raises:
        InvalidConfigError: an argument is out of range, or the saver is a GuardedSaver.
    """

    def __init__(
        self,
        graphs: Mapping[str, Any],
        *,
        saver: Saver | None = None,
        store: Store | None = None,
        max_runs: int = 10_000,
        max_queued: int = 10_000,
        max_waiting: int = 100,
        max_threads: int | None = None,
        max_unsaved_bytes: int = 256 * 1024 * 1024,
        drain_timeout_s: float = 30.0,
        retry_after_s: float = 1.0,
        lease_s: float = 15.0,
        attempts_max: int = 3,
        keep_ended: int = 1000,
        keep_events_in_memory: int = RING_EVENTS,
        keep_events: int = 10_000,
        keep_events_s: float = 7 * 86_400.0,
        gc_threshold: int | None = None,
        loop_limit_s: float | None = None,
        dispatcher: Dispatcher | None = None,
        role: Role = "both",
        build: str = "",
        builds: Sequence[str] = (),
        reserve: int = 0,
        max_runs_of: Mapping[str, int] | None = None,
    ) -> None:
        limits = SystemLimits(
            max_runs=max_runs,
            max_queued=max_queued,
            max_waiting=max_waiting,
            max_unsaved_bytes=max_unsaved_bytes,
            keep_ended=keep_ended,
            drain_timeout_s=drain_timeout_s,
            retry_after_s=retry_after_s,
            lease_s=lease_s,
            attempts_max=attempts_max,
        )
        self._set_up(
            *(graphs, saver, store, limits),
            max_threads=max_threads,
            kept=EventRetention(keep_events, keep_events_s),
            ring=keep_events_in_memory,
            gc_threshold=gc_threshold,
            dispatcher=dispatcher,
            policy=policy_of(role, build, builds, reserve, max_runs_of),
        )
        self._loop_limit_s = checked_loop_limit(loop_limit_s)
        self._answering = Answering(self._open_runs)

    def __repr__(self) -> str:
        state = "closed" if self._stack is None else f"open, {self._actor.active} active runs"
        names = names_text([*self.graphs])
        return f"<{type(self).__name__}: graphs{names}, {state}, saver {self.saver!r}>"

    async def __aenter__(self) -> Self:
        """Open the saver, take a lease, and accept runs.

        Raises:
            StorageError: the saver can't be opened.
        """
        await self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drain, within `drain_timeout_s`, and close; also when cancelled."""
        await self._close()

    async def start(
        self,
        graph: str,
        thread_id: str | None,
        input: Any,
        *,
        if_busy: IfBusy = "reject",
        **options: Unpack[StartOptions],
    ) -> Run:
        """Start a run, and return once its acceptance is durable.

        Args:
            graph: its name in the system.
            thread_id: the thread; None for a new one.
            input: as for `ainvoke`: an input, None to continue the thread, or a Command.
            if_busy: what to do if the thread has a run. "reject": refuse this one. "enqueue":
                start it when earlier ones have ended. "interrupt": cancel them, keeping what they
                stored, then start. "rollback": cancel them, remove what the active one stored,
                then start from the state before it. Runs whose time (`delay_s`) is to come neither
                count nor are cancelled. A delayed run does this when it is accepted.
            options: see `StartOptions`.
        Raises:
            ThreadBusyError: "reject", and the thread has a run.
            SystemBusyError: too many runs, here or waiting for workers; `retry_after_s` suggests
                when to retry.
            UnknownInterruptError, AlreadyResumedError, InvalidResumeError: the thread has no open
                run, and the answer of a Command fits nothing that it asks.
            SystemClosedError: the system is draining or closed.
            OtherLoopError: the system was opened in another thread.
            InvalidConfigError, InvalidContextError, SerializationError: an invalid argument.
            StorageError: it could not be stored; it does not run.
        """
        if if_busy not in _IF_BUSY:
            raise InvalidConfigError(
                f"unknown if_busy={if_busy!r}; expected one of {', '.join(_IF_BUSY)}",
                do=did_you_mean(if_busy, _IF_BUSY),
            )
        compiled = self._graph(graph)
        options = with_delay(options, self._host.clock.now()) if "at" in options else options
        text = str(uuid_utils.uuid7()) if thread_id is None else str(thread_id)
        given = BRIDGE.adapt(input) if BRIDGE.types_module in sys.modules else input
        if isinstance(given, Command) and given.resume is not None:
            await self._check_answer(compiled, text, given, options)
        return await self._start(graph, text, given, if_busy, options, new=thread_id is None)

    async def _check_answer(
        self, graph: Any, thread_id: str, command: Command[Any], options: StartOptions
    ) -> None:
        if not options.get("delay_s"):  # else the thread may ask something else by then
            config = config_with_thread(options.get("config"), thread_id)
            await self._answering.check(graph, config, command.resume)

    async def _start(
        self,
        graph: str,
        text: str,
        input: Any,
        if_busy: IfBusy,
        options: StartOptions,
        *,
        new: bool = False,
        reported: bool = False,
    ) -> Run:
        if self._is_for_others(graph, options):
            return await self._start_elsewhere(graph, text, input, if_busy, options, new=new)
        # Validating and encoding a call takes time on the event loop. Callers take turns, so that
        # a burst of them doesn't starve active runs; a full system refuses before that work.
        with nullcontext() if self._dispatch is None else self._coming([graph]):
            await self._actor.turn(if_busy, text)
            call = checked_call(graph, text, input, options, keeps=self._keeps, if_busy=if_busy)
            job = self._job(call)
        job.reported = reported
        if self._routes and self._dispatch is not None:  # another system may go on with it
            job.row = self._routed(job.row, options)
        await self._actor.submit(job, if_busy)
        return Run(job, self._actor.cancel)

    async def _start_for_batch(
        self, graph: str, thread_id: str, input: Any, **options: Unpack[StartOptions]
    ) -> Run:
        """As `start`; its batch returns the error of a run that fails."""
        return await self._start(graph, thread_id, input, "reject", options, reported=True)

    async def resume(
        self,
        graph: str,
        thread_id: str,
        command: Any = None,
        *,
        answers: Mapping[str, Any] | None = None,
        if_busy: IfBusy = "reject",
        **rest: Unpack[StartOptions],
    ) -> Run:
        """Start a run that answers the pending interrupts of a thread.

        Args:
            graph: as for `start`.
            thread_id: as for `start`.
            command: a Command, or the answer itself.
            answers: interrupt id -> answer, checked before the run is accepted; `command` may add
                an update or a goto.
            if_busy: as for `start`.
            rest: options as for `start`.
        Raises:
            UnknownInterruptError: `answers` is empty, or a key of it isn't an interrupt's id.
            AlreadyResumedError: a question of `answers` doesn't wait any more.
            InvalidResumeError: an answer of `answers` doesn't fit its `response_schema`.
            Exception: as `start`.
        """
        command = BRIDGE.adapt(command)
        if answers is None:
            given = command if isinstance(command, Command) else Command(resume=command)
            return await self.start(graph, thread_id, given, if_busy=if_busy, **rest)
        given = with_answers(command, answers)
        compiled, config = self._graph(graph), config_with_thread(rest.get("config"), thread_id)
        rest["strict_resume"] = True
        async with self._answering.accepting(compiled, config, answers):
            return await self._start(graph, str(thread_id), given, if_busy, rest)

    async def _answer_by_clock(
        self, graph: str, thread_id: str, answers: Mapping[str, Any], asked_by: bytes | None
    ) -> Run:
        compiled = self._graph(graph)
        row = None if asked_by is None else await self._row(asked_by)
        known = row is not None and row.graph == graph and bool(row.payload)
        options = options_again(compiled, row) if row is not None and known else StartOptions()
        options["metadata"] = {**(options.get("metadata") or {}), **BY_CLOCK}
        # What has been read a moment ago isn't read again: a thread that has gone on since refuses
        # the run, or the run ends with AlreadyResumedError.
        with self._answering.coming(thread_id, answers):
            given = Command(resume=dict(answers))
            return await self._start(graph, thread_id, given, "reject", options)

    async def _open_runs(self, thread_id: str) -> list[Run]:
        return await self.runs(thread_id=thread_id, statuses=OPEN_STATUSES)

    def map(
        self,
        graph: str,
        inputs: Inputs[Any],
        *,
        key: KeyOf | None = None,
        progress: bool | WatchCounts = False,
        **options: Unpack[BatchOptions],
    ) -> ThreadBatch[Any]:
        """Run one durable thread for each input; the same call again goes on where it ended.

        A thread's id is `name:key`. One that is done gives its stored output and runs nothing. One
        that was cut off, by Ctrl-C, `kill -9` or a drain, goes on from its last superstep. See
        docs/batches.md.

        ```python
        async for result in system.map("audit", packages, key=lambda p: p["name"], progress=True):
            print(result.key, result.status, result.output)
        ```

        Args:
            graph: its name in the system.
            inputs: iterable or async iterable, read as threads end; each begins one thread.
            key: returns the key of an input, the same in every run. Default its place, from 0.
            progress: True draws a bar with rich; or a function that gets `BatchCounts`.
            options: see `BatchOptions`.
        Returns: an async iterator over `ThreadResult`, as threads end; the batch begins when it is
            read. Its `summary()` runs it to the end.
        Raises:
            InvalidConfigError: an argument is out of range, the graph has breakpoints, or a key is
                used twice.
        """
        given: Any = {**options, "progress": progress}
        compiled = self._graph(graph)
        plan, call = batch_plan("map", inputs, key, given, name=graph, more=("priority",))
        refuse_breakpoints("map", compiled.plan, call)

        async def rows(thread_ids: Sequence[str]) -> list[RunRow]:
            return await self._host.reader.ask(ListRuns(open_of=tuple(thread_ids)))

        access = SystemAccess(
            start=partial(self._start_for_batch, graph),
            rows=rows if self._keeps else None,
            now=self._host.clock.now,
            jobs=self._actor.known_jobs,
            take_up=self._take_up,
            dispatches=self._dispatch is not None,
        )
        threads = SystemThreads(compiled, plan, BatchCall.of(given, call), access)
        return ThreadBatch(plan, threads, lambda work: self._spawn(work.serve))

    async def run(self, run_id: str) -> Run:
        """Return a run of this system, or one that is stored in its saver.

        Raises:
            RunNotFoundError: the run is unknown.
        """
        try:
            identity = as_bytes(run_id)
        except ValueError:
            identity = b""
        own = self._live(identity)
        if own is not None and (not self._keeps or identity in self._actor.jobs):
            return own
        row = await self._row(identity) if self._keeps and identity else None
        if row is None:  # unknown, or removed with its thread, even if it is still in memory here
            raise RunNotFoundError(
                f"unknown run {run_id!r}", do="take the id from Run.id, or from runs()"
            )
        return own or self._stored(row)

    async def runs(
        self, thread_id: str | None = None, *, statuses: Sequence[RunStatus] = ()
    ) -> list[Run]:
        """Return the runs of this system and those stored in its saver, oldest first.

        Args:
            thread_id: only runs of this thread.
            statuses: only runs with one of these; default all.
        Raises:
            InvalidConfigError: no thread can have this id.
        """
        if thread_id is not None:
            check_thread_id(thread_id, thread_id)
        actor = self._actor
        rows: dict[bytes, RunRow] = {}
        if self._keeps:
            query = ListRuns(thread_id=thread_id)
            if thread_id is not None and statuses and set(statuses) <= set(OPEN_STATUSES):
                query = ListRuns(open_of=(thread_id,))  # few, whatever the thread's history
            rows = {row.run: row for row in await self._host.reader.ask(query)}
        found: dict[bytes, Run] = {}
        for job in actor.known_jobs(thread_id):
            if job.id in rows and self._live(job.id) is None:
                continue
            if self._keeps and job.id in actor.ended and job.id not in rows:
                continue  # its row was removed with its thread; the id may be in use again
            found[job.id] = Run(job, actor.cancel)
        # After the jobs were looked at, which may end while other tasks have their turns.
        stored = [row for row in rows.values() if row.run not in found]
        made = await in_turns(stored, lambda row: self._stored(self._explained(row)))
        found |= {row.run: run for row, run in zip(stored, made, strict=True)}
        runs = [found[identity] for identity in sorted(found)]
        return [run for run in runs if not statuses or run.status in statuses]

    async def threads(self, **wanted: Unpack[ThreadSearchOptions]) -> list[ThreadInfo]:
        """Find threads of the saver, with or without runs of a system; the last updated first.

        With SqliteSaver and PostgresSaver an index is searched; it is made by the first search,
        which reads every thread once. Over other savers each search reads every thread.

        Args:
            wanted: see `ThreadSearchOptions`.
        Raises:
            InvalidConfigError: an argument is out of range.
            StorageError: the saver can't be read, or the index can't be stored.
        """
        query = thread_query(**wanted)
        return [thread_info(row) for row in await self.thread_finder.find(query)]

    async def count_threads(self, **wanted: Unpack[ThreadFilter]) -> int:
        """Count threads of the saver; raises as `threads`.

        Args:
            wanted: see `ThreadFilter`.
        """
        return await self.thread_finder.count(thread_query(**wanted))

    def follow(self, thread_id: str) -> RunFeed:
        """Follow a thread: iterate over its open runs, then over each that is started here.

        Returns: an async iterator over `Run`, which ends when the system drains; `close()` it.
        """
        return RunFeed(self._actor, thread_id)

    async def cancel(self, run_id: str, reason: str = "cancelled") -> RunStatus:
        """Cancel a run and wait until it has ended; what its finished tasks did is stored.

        For a run of another process see `StoredRun.cancel`.

        Raises:
            RunNotFoundError: the run is unknown.
            StorageError: the saver can't be used.
        """
        return await (await self.run(run_id)).cancel(reason)

    async def join(self, run_id: str, timeout_s: float | None = None) -> Any:
        """Wait for a run and return its result; see `Run.result`.

        Raises:
            RunNotFoundError: the run is unknown.
        """
        return await (await self.run(run_id)).result(timeout_s)

    async def dispatch_statistics(self) -> DispatchStatistics:
        """Return figures of the runs that wait for workers, counted now.

        Raises:
            InvalidConfigError: the system has no dispatcher.
            StorageError: the saver can't be read.
        """
        if self._dispatch is None:
            raise InvalidConfigError(
                "the system has no dispatcher",
                do="pass dispatcher=, such as actorgraph.dispatch.PGQueuerDispatcher()",
            )
        return await self._dispatch.statistics()

    async def drain(self, timeout_s: float | None = None) -> None:
        """Accept no more runs, let active ones finish their superstep, and leave the rest.

        Readers of runs that are left get a "drain" event. `recover` of another system on the
        saver takes them over at once, this system never. Returns when all have ended or were
        left, or after the timeout.

        Args:
            timeout_s: default the system's `drain_timeout_s`.
        """
        given = checked_limit("timeout_s", timeout_s)
        limit = self._limits.drain_timeout_s if given is None else given
        await self._actor.drain(CLOSING, limit)

    async def drain_at_signal(
        self, *signals: signal.Signals, timeout_s: float | None = None
    ) -> signal.Signals:
        """Wait for a signal, then drain; for programs without a server that handles signals.

        Args:
            signals: default SIGTERM and SIGINT.
            timeout_s: as for `drain`.
        Returns: the signal; leave the `async with` block then.
        """
        checked_limit("timeout_s", timeout_s)
        wanted = signals or (signal.SIGTERM, signal.SIGINT)
        with anyio.open_signal_receiver(*wanted) as received:
            async for number in received:
                await self.drain(timeout_s)
                return number
        raise AssertionError("an open signal receiver never ends")

    async def forget(self, run_id: str) -> None:
        """Remove a run that has ended, and its events. Its thread keeps its results.

        Raises:
            RunNotFoundError: the run is unknown.
            InvalidConfigError: the run is active.
        """
        run = await self.run(run_id)
        if run.status in OPEN_STATUSES:
            raise InvalidConfigError(
                f"run {run_id!r} is still active", do="cancel it first: await run.cancel()"
            )
        self._actor.forget_ended(as_bytes(run_id))
        if self._keeps:
            await self._host.writer.store(ForgetRun(as_bytes(run_id), run.thread_id))

    def spawn(self, function: Callable[..., Coroutine[Any, Any, object]], *args: Any) -> None:
        """Run an async function in the system's task group, until it returns or the system closes.

        Called in a node it doesn't belong to the node's run, which may end before it.

        Raises:
            SystemClosedError: the system is not open.
        """
        self._spawn(_beside_runs, function, *args)

    def _spawn(self, function: Callable[..., Coroutine[Any, Any, object]], *args: Any) -> None:
        """As `spawn`; a run whose node calls this waits for what the function waits for."""
        if self._actor.group is None:
            raise unopened_system()
        self._actor.group.start_soon(function, *args)

    async def trim(self, older_than_s: float) -> None:
        """Remove runs that have ended, and their events, if they could begin that long ago.

        Args:
            older_than_s: seconds since they were accepted, or since the times of delayed runs.
        """
        age_s = checked_seconds("older_than_s", older_than_s, zero=True)
        if self._keeps:
            moment = int((time.time() - age_s) * 1e6)
            await self._host.writer.store(TrimRuns(moment))


async def _beside_runs(function: Callable[..., Coroutine[Any, Any, object]], *args: Any) -> None:
    leave_slot()  # a node may have called `spawn`: its run doesn't wait for the function
    await function(*args)
