"""ActorSystem: thousands of threads in one process, whose runs outlive the requests.

async with ActorSystem({"chat": graph}, saver=SqliteSaver("runs.db")) as system:
run = await system.start("chat", thread_id, {"messages": [...]}, if_busy="enqueue")
async for event in run.events():
...
print(await run.result())
"""

import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

import anyio
import msgspec
import uuid_utils

from actorgraph.api.following import Following
from actorgraph.api.recovering import RecoveryMethods
from actorgraph.api.runs import Run, StoredRun
from actorgraph.api.system_base import CLOSING
from actorgraph.api.system_calls import StartOptions, checked_call
from actorgraph.api.system_runs import codec_of
from actorgraph.errors import (
    InvalidConfigError,
    RunNotFoundError,
    SystemClosedError,
    did_you_mean,
)
from actorgraph.ports import Saver, Store
from actorgraph.runtime.system.journal import RING_EVENTS
from actorgraph.runtime.system.keeper import Kept, read_page
from actorgraph.runtime.system.limits import SystemLimits
from actorgraph.runtime.system.statistics import SystemStatistics, statistics_of
from actorgraph.values.commands import Command
from actorgraph.values.ids import as_bytes
from actorgraph.values.interop import from_langgraph
from actorgraph.values.systems import (
    OPEN_STATUSES,
    ForgetRun,
    IfBusy,
    ListRuns,
    RunEvent,
    RunRow,
    RunStatus,
    TrimRuns,
)

_IF_BUSY = ("reject", "enqueue", "interrupt", "rollback")


class ActorSystem(RecoveryMethods):
    """Runs of several graphs over one saver, each thread with one run at a time.

    Use it as `async with`, once; its methods belong to the event loop in which it was entered.
    Leaving the block drains it.

    Args:
        graphs: name -> compiled graph. They run over the system's saver and store.
        saver: default the one that the graphs were compiled with, or one in memory. It is opened
            and closed with the system unless it is open already.
        store: for the graphs' nodes; default their own.
        max_runs: runs that go on at once. max_queued: runs that may wait for a slot or for
            their thread. max_waiting: runs that may wait for one thread. Beyond any of them
            `start` raises `SystemBusyError`.
        max_threads: worker threads for sync nodes; default the process's 256.
        max_unsaved_bytes: bytes that may wait to be stored before runs are refused.
        drain_timeout_s: seconds that leaving the block may take.
        retry_after_s: what a refusal says.
        lease_s: seconds after which another process may take over this one's runs, if this one
            is dead or stands still. Renewed at a third of it.
        attempts_max: processes that may die of one run before `recover` parks it.
        keep_ended: runs that have left and can still be asked for their result.
        keep_events_in_memory: events per run. keep_events, keep_events_s: events of a resumable
            run that are stored: the newest so many, none older than that; its row goes too.
        gc_threshold: the collector's first threshold while the system is open. Default as it is;
            with thousands of runs 50,000 keeps the rate up: with Python's 700 the collector
            looks at all open runs again and again.
        loop_limit_s: warn when something holds the event loop for longer, with the node's name.
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
            graphs,
            saver,
            store,
            limits,
            max_threads=max_threads,
            kept=Kept(keep_events, keep_events_s),
            ring=keep_events_in_memory,
            gc_threshold=gc_threshold,
        )
        if loop_limit_s is not None and not loop_limit_s > 0:
            raise InvalidConfigError(
                f"loop_limit_s={loop_limit_s!r} is not above 0", do="use seconds, such as 0.1"
            )
        self._loop_limit_s = loop_limit_s

    async def __aenter__(self) -> Self:
        """Open the saver, take a lease, be ready for runs.

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
        """Start a run, and return as soon as it is durable that it was accepted.

        Args:
            graph: its name in the system.
            thread_id: the thread; None for a new one.
            input: as for `ainvoke`: an input, None to go on, a Command.
            if_busy: when the thread has a run. "reject": refuse this one. "enqueue": it begins
                when those before it have left. "interrupt": they are cancelled, keeping what
                they stored, then it begins. "rollback": they are cancelled and what the one
                that went on stored is removed, then it begins from what was before.
            options: see `StartOptions`.
        Raises:
            ThreadBusyError: "reject", and the thread has a run.
            SystemBusyError: there are too many runs; `retry_after_s` says when to come again.
            SystemClosedError: the system drains or is closed.
            OtherLoopError: the system was opened in another thread.
            InvalidConfigError, InvalidContextError, SerializationError: bad arguments.
            StorageError: it could not be stored; it does not run.
        """
        if if_busy not in _IF_BUSY:
            raise InvalidConfigError(
                f"if_busy={if_busy!r} is no strategy", do=did_you_mean(if_busy, _IF_BUSY)
            )
        self._graph(graph)
        text = str(uuid_utils.uuid7()) if thread_id is None else str(thread_id)
        await self._actor.turn(if_busy, text)
        job = self._job(
            checked_call(graph, text, input, options, keeps=self._keeps, if_busy=if_busy)
        )
        await self._actor.submit(job, if_busy)
        return Run(job, self._actor.cancel)

    async def resume(
        self, graph: str, thread_id: str, command: Any, *, if_busy: IfBusy = "reject", **rest: Any
    ) -> Run:
        """Start a run that answers what a thread's last run asked.

        Args:
            command: a Command, or the answer itself.
            rest: as for `start`.
        Raises: as `start`.
        """
        command = from_langgraph(command)
        given = command if isinstance(command, Command) else Command(resume=command)
        return await self.start(graph, thread_id, given, if_busy=if_busy, **rest)

    async def run(self, run_id: str) -> Run:
        """A run of this system, or one that its saver has.

        Raises:
            RunNotFoundError: neither has it.
        """
        try:
            identity = as_bytes(run_id)
        except ValueError:
            identity = b""
        own = self._live(identity)
        if own is not None and (not self._keeps or identity in self._actor.jobs):
            return own
        row = await self._row(identity) if self._keeps and identity else None
        if row is None:  # never there, or removed with its thread, whatever this process remembers
            raise RunNotFoundError(
                f"there is no run {run_id!r}", do="take the id from Run.id, or look at runs()"
            )
        return own or self._stored(row)

    async def runs(
        self, *, thread_id: str | None = None, statuses: Sequence[RunStatus] = ()
    ) -> list[Run]:
        """The runs of this system and those that its saver has, oldest first.

        Args:
            thread_id: only of this thread. statuses: only with one of these; default all.
        """
        actor = self._actor
        found: dict[bytes, Run] = {}
        if self._keeps:
            rows: list[RunRow] = await self._host.reader.ask(ListRuns(thread_id=thread_id))
            found = {row.run: self._stored(self._explained(row)) for row in rows}
        for job in (*actor.ended.values(), *actor.jobs.values()):
            if job.id in found and self._live(job.id) is None:
                continue
            if self._keeps and job.id in actor.ended and job.id not in found:
                continue  # removed with its thread, whose id may be another one's now
            if thread_id in (None, job.thread_id):
                found[job.id] = Run(job, actor.cancel)
        runs = [found[identity] for identity in sorted(found)]
        return [run for run in runs if not statuses or run.status in statuses]

    def follow(self, thread_id: str) -> Following:
        """The runs of a thread: those that wait or go on, then each that is started here later.

        Returns: an async iterator over `Run`, which ends when the system drains; `close()` it.
        """
        return Following(self._actor, thread_id)

    async def cancel(self, run_id: str, reason: str = "cancelled") -> RunStatus:
        """End a run and wait until it has left; what its finished tasks did is stored.

        One that goes on in another process is asked to; see `StoredRun.cancel`.

        Raises:
            RunNotFoundError: there is none. StorageError: the saver can't be used.
        """
        return await (await self.run(run_id)).cancel(reason)

    async def join(self, run_id: str, timeout_s: float | None = None) -> Any:
        """The result of a run; see `Run.result`.

        Raises:
            RunNotFoundError: there is none.
        """
        return await (await self.run(run_id)).result(timeout_s)

    def statistics(self) -> SystemStatistics:
        """What it does now and has done: runs, threads, what waits, what was refused."""
        return statistics_of(self._actor, misfits=len(self._misfits))

    async def drain(self, timeout_s: float | None = None) -> None:
        """Take no more runs, let those that go on finish their superstep, leave the rest.

        Their readers get a "drain" event; `recover` takes them up, here never, in the next
        system on the saver at once. Returns when all have left, or the time is over.

        Args:
            timeout_s: default the system's `drain_timeout_s`.
        """
        limit = self._limits.drain_timeout_s if timeout_s is None else timeout_s
        await self._actor.drain(CLOSING, limit)

    async def drain_at_signal(
        self, *signals: signal.Signals, timeout_s: float | None = None
    ) -> signal.Signals:
        """Wait for a signal, then drain; for a program that no server runs.

        Args:
            signals: default SIGTERM and SIGINT.
        Returns: the signal; leave the block then.
        """
        wanted = signals or (signal.SIGTERM, signal.SIGINT)
        with anyio.open_signal_receiver(*wanted) as received:
            async for number in received:
                await self.drain(timeout_s)
                return number
        raise AssertionError("the receiver of signals ends with the block")

    async def forget(self, run_id: str) -> None:
        """Forget a run that has ended, and its events. Its thread keeps what it did.

        Raises:
            RunNotFoundError: there is none. InvalidConfigError: it goes on.
        """
        run = await self.run(run_id)
        if run.status in OPEN_STATUSES:
            raise InvalidConfigError(
                f"run {run_id!r} goes on", do="cancel it first: await run.cancel()"
            )
        self._actor.ended.pop(as_bytes(run_id), None)
        if self._keeps:
            await self._host.writer.store(ForgetRun(as_bytes(run_id), run.thread_id))

    def spawn(self, function: Callable[..., Coroutine[Any, Any, object]], *args: Any) -> None:
        """Run an async function beside the runs, until it returns or the system closes.

        Raises:
            SystemClosedError: the system is not open.
        """
        if self._actor.group is None:
            raise SystemClosedError(
                "the system is not open", do="use it inside its `async with` block"
            )
        self._actor.group.start_soon(function, *args)

    async def trim(self, older_than_s: float) -> None:
        """Forget runs that have ended, and their events, if they were accepted before that."""
        if self._keeps:
            moment = int((time.time() - older_than_s) * 1e6)
            await self._host.writer.store(TrimRuns(moment))

    def _live(self, identity: bytes) -> Run | None:
        """A run that this system has, or has had lately and has not left to others."""
        actor = self._actor
        job = actor.jobs.get(identity) or actor.ended.get(identity)
        if job is None or (job.elsewhere and actor.draining is None):
            return None
        return Run(job, actor.cancel)

    def _stored(self, row: RunRow) -> StoredRun:
        """A run of which this system knows only the row."""
        codec = codec_of(self.graphs.get(row.graph) or next(iter(self.graphs.values())))

        async def page(after: int) -> list[RunEvent]:
            return await read_page(self._host, codec, row.run, row.thread_id, after)

        async def values() -> Any:
            return await self._values(row.graph, row.thread_id)

        return StoredRun(
            row,
            msgspec.json.decode(row.metadata),
            reread=lambda: self._row(row.run),
            page=page,
            values=values,
            ask_cancel=self._end_row,
            taken_up=lambda: self._live(row.run),
            draining=lambda: self._actor.draining,
        )
