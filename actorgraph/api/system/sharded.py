"""ShardedSystem: ActorSystems over several databases, each of which has a part of the threads.

```python
systems = {name: ActorSystem(graphs, saver=PostgresSaver(url)) for name, url in DATABASES.items()}
async with ShardedSystem(systems) as system:
    run = await system.start("chat", thread_id, {"messages": [...]})
```
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, Never, Self, TypeVar, Unpack

import anyio
import anyio.to_thread

from actorgraph.api.savers.host_access import innermost
from actorgraph.api.savers.postgres import PostgresSaver
from actorgraph.api.system.run_arguments import StartOptions
from actorgraph.api.system.run_feed import RunFeed
from actorgraph.api.system.run_handle import Run, StoredRun
from actorgraph.api.system.system import ActorSystem
from actorgraph.api.thread_ids import new_thread_id
from actorgraph.errors import (
    InvalidConfigError,
    RunNotFoundError,
    StorageBusyError,
    ThreadMovedError,
    did_you_mean,
)
from actorgraph.rules.system.sharding import ShardMap, balancing, look_order, map_of
from actorgraph.runtime.system.parked import RetriedRuns
from actorgraph.runtime.system.statistics import SystemStatistics
from actorgraph.values.durations import checked_seconds
from actorgraph.values.ids import as_bytes
from actorgraph.values.shards import BUCKETS, bucket_in, bucket_of
from actorgraph.values.systems import IfBusy, RunStatus

T = TypeVar("T")
RETRY_S = 0.1
"""Pause before a request is repeated whose bucket moves."""
AT_ONCE = 256
"""Buckets that are moved in one transaction."""
LOOKS = 100
"""Looks at a move that is between its last two transactions, before it counts as lost."""


class ShardedSystem:
    """Runs threads in several PostgreSQL databases, with an `ActorSystem` over each.

    Threads are divided into 4,096 buckets by a hash of their id; each bucket is in one database,
    and can be moved to another. Run ids carry the bucket. Use it as `async with`, which opens
    and closes the systems too.

    A bucket's database is stored in the databases themselves. A process that has an old map is
    refused by the database that a bucket has left, reads the map again and goes on there.

    Args:
        systems: name -> system, each over a `PostgresSaver` with an address of its own. Names are
            stored: keep them. When no database has buckets yet, the first one gets all of them,
            since it may have threads; `balance()` divides them.
        move_wait_s: seconds that a call waits for a bucket that is being moved.
    Raises:
        InvalidConfigError: a system has another kind of saver, or `systems` is empty.
    """

    def __init__(self, systems: Mapping[str, ActorSystem], *, move_wait_s: float = 30.0) -> None:
        self._move_wait_s = checked_seconds("move_wait_s", move_wait_s, zero=True)
        if not systems:
            raise InvalidConfigError("systems must not be empty", do='pass {"a": ActorSystem(...)}')
        self.systems = dict(systems)
        self._tables = {name: _table(name, system) for name, system in systems.items()}
        self._map = ShardMap(tuple(systems), ("",) * BUCKETS)
        self._stack = AsyncExitStack()
        self._looking = anyio.Lock()
        self._looks = 0

    async def __aenter__(self) -> Self:
        """Open the systems, make the tables of buckets where they are missing, read the map.

        Raises:
            InvalidConfigError: a database is missing, or has another name than before.
            StorageError: a database can't be used.
        """
        async with AsyncExitStack() as stack:
            for system in self.systems.values():
                await stack.enter_async_context(system)
            stack.push_async_callback(anyio.to_thread.run_sync, self._close_tables)
            await anyio.to_thread.run_sync(self._enrol)
            await self.refresh()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drain the systems at the same time, and close them."""
        with anyio.CancelScope(shield=True):
            await self.drain()
        await self._stack.__aexit__(kind, error, trace)

    @property
    def shard_map(self) -> ShardMap:
        """The map as it was read last."""
        return self._map

    async def refresh(self) -> ShardMap:
        """Read the map from the databases; moves that were given up are undone or completed.

        Raises:
            InvalidConfigError: buckets are in none of the databases.
            StorageError: a database can't be read.
        """
        known, unclear = await self._read()
        for _ in range(LOOKS):
            if not unclear:
                break
            # A move is between its last two transactions, or its process has died there.
            if not await anyio.to_thread.run_sync(self._mend):
                await anyio.sleep(RETRY_S)
            known, unclear = await self._read()
        if unclear:
            raise InvalidConfigError(
                f"{len(unclear)} buckets, such as {unclear[0]}, are in none of the databases "
                f"{', '.join(self.systems)}, or in several",
                do="pass a system for every database; restore one that is gone from its backup",
            )
        self._map = known
        return known

    def system_of(self, thread_id: str) -> ActorSystem:
        """Return the system over the database that has a thread, by the map as last read."""
        return self.systems[self._map.holders[bucket_of(thread_id)]]

    def map(self, graph: str, inputs: Any, **options: Any) -> Never:
        """Refuse: a batch runs over the threads of one database.

        Raises:
            InvalidConfigError: always.
        """
        raise InvalidConfigError(
            f"map({graph!r}, ...) runs over the threads of one database, not of several",
            do="call map() of one of its systems, with an ActorSystem of its own for batches",
        )

    async def start(
        self,
        graph: str,
        thread_id: str | None,
        input: Any,
        *,
        if_busy: IfBusy = "reject",
        **options: Unpack[StartOptions],
    ) -> Run:
        """Start a run in the database of its thread; see `ActorSystem.start`.

        If the thread's bucket is being moved, this waits for that.

        Raises:
            ThreadMovedError: the move has not ended in `move_wait_s`.
            Exception: as `ActorSystem.start`.
        """
        thread = new_thread_id() if thread_id is None else str(thread_id)

        async def start(system: ActorSystem) -> Run:
            return await system.start(graph, thread, input, if_busy=if_busy, **options)

        return self._following(await self._at(thread, start))

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
        """Start a run that answers the interrupts of a thread; see `ActorSystem.resume`."""

        async def resume(system: ActorSystem) -> Run:
            return await system.resume(
                graph, thread_id, command, answers=answers, if_busy=if_busy, **rest
            )

        return self._following(await self._at(thread_id, resume))

    async def run(self, run_id: str) -> Run:
        """Return a run; it is looked for in the database of its id's bucket, then in the others.

        Raises:
            RunNotFoundError: the run is unknown.
            StorageError: a database can't be read.
        """
        try:
            bucket = bucket_in(as_bytes(run_id))
        except ValueError:
            bucket = 0
        for name in look_order(self._map, bucket):
            try:
                return self._following(await self.systems[name].run(run_id))
            except RunNotFoundError:
                continue
        raise RunNotFoundError(
            f"unknown run {run_id!r}", do="take the id from Run.id, or from runs()"
        )

    async def runs(
        self, thread_id: str | None = None, *, statuses: Sequence[RunStatus] = ()
    ) -> list[Run]:
        """Return the runs of a thread, or those of all databases, oldest first.

        Args:
            thread_id: only runs of this thread.
            statuses: only runs with one of these; default all.
        """
        if thread_id is not None:
            system = self.system_of(thread_id)
            found = await system.runs(thread_id=thread_id, statuses=statuses)
            if not found:  # unknown, or in another database by now
                await self.refresh()
                if self.system_of(thread_id) is not system:
                    return await self.runs(thread_id=thread_id, statuses=statuses)
            return [self._following(run) for run in found]
        every = await self._each(lambda system: system.runs(statuses=statuses))
        by_id: dict[str, Run] = {}
        for name, runs in every.items():
            for run in runs:
                # While a bucket moves, its rows are in both databases for a moment.
                if run.id not in by_id or self.system_of(run.thread_id) is self.systems[name]:
                    by_id[run.id] = self._following(run)
        return [by_id[identity] for identity in sorted(by_id)]

    def follow(self, thread_id: str) -> RunFeed:
        """Follow a thread; see `ActorSystem.follow`. It ends when the thread's bucket moves."""
        return self.system_of(thread_id).follow(thread_id)

    async def cancel(self, run_id: str, reason: str = "cancelled") -> RunStatus:
        """Cancel a run and wait until it has ended; see `ActorSystem.cancel`."""
        return await (await self.run(run_id)).cancel(reason)

    async def join(self, run_id: str, timeout_s: float | None = None) -> Any:
        """Wait for a run and return its result; see `Run.result`."""
        return await (await self.run(run_id)).result(timeout_s)

    async def forget(self, run_id: str) -> None:
        """Remove a run that has ended, and its events; see `ActorSystem.forget`."""
        run = await self.run(run_id)
        await self._at(run.thread_id, lambda system: system.forget(run_id))

    async def recover(self) -> list[Run]:
        """Take over orphaned runs in all databases; see `ActorSystem.recover`."""
        every = await self._each(lambda system: system.recover())
        return [run for runs in every.values() for run in runs]

    async def retry_parked(
        self, run_ids: Sequence[str] | None = None, *, thread_id: str | None = None
    ) -> RetriedRuns:
        """See `ActorSystem.retry_parked`; of all databases."""
        found = await self._each(lambda s: s.retry_parked(run_ids, thread_id=thread_id))
        retried = tuple(run for one in found.values() for run in one.retried)
        left = {run: why for one in found.values() for run, why in one.left.items()}
        return RetriedRuns(retried, {run: left[run] for run in left if run not in retried})

    async def trim(self, older_than_s: float) -> None:
        """Remove old runs that have ended, in all databases; see `ActorSystem.trim`."""
        await self._each(lambda system: system.trim(older_than_s))

    def statistics(self) -> dict[str, SystemStatistics]:
        """Return name -> figures of the system over that database."""
        return {name: system.statistics() for name, system in self.systems.items()}

    async def drain(self, timeout_s: float | None = None) -> None:
        """Drain all systems at the same time; see `ActorSystem.drain`."""
        await self._each(lambda system: system.drain(timeout_s))

    async def move(self, buckets: Sequence[int], to: str, *, wait_s: float = 30.0) -> int:
        """Move buckets to another database: the threads, their runs, events and checkpoints.

        Runs that systems have at the moment are waited for; meanwhile new ones of these buckets
        wait in `start`. Runs that wait for a worker move with their threads. Each `AT_ONCE` buckets
        move in a transaction. Saves of calls outside of systems (`graph.ainvoke`) are refused from
        then on with `ThreadMovedError`. Values in a `store` don't belong to threads and stay.

        Args:
            buckets: numbers from 0 to 4095; those that are there already stay.
            to: the name of the database.
            wait_s: seconds to wait for active runs.
        Returns: the number of threads that have moved.
        Raises:
            InvalidConfigError: an unknown database or bucket.
            StorageBusyError: runs have not ended in time, or another process moves buckets. Buckets
                that have moved stay moved.
            StorageError: a database can't be used.
        """
        from actorgraph.savers.postgres.bucket_moves import move

        checked_seconds("wait_s", wait_s, zero=True)
        if to not in self.systems:
            raise InvalidConfigError(
                f"unknown database {to!r}", do=did_you_mean(to, list(self.systems))
            )
        if bad := [bucket for bucket in buckets if not 0 <= bucket < BUCKETS]:
            raise InvalidConfigError(
                f"buckets have numbers from 0 to {BUCKETS - 1}, got {bad[0]!r}",
                do="take them from shard_map.holders",
            )
        holders, count = (await self.refresh()).holders, 0
        by_source = {name: [b for b in buckets if holders[b] == name] for name in self.systems}
        try:
            for name, leaving in by_source.items():
                for at in range(0, len(leaving) if name != to else 0, AT_ONCE):
                    some = leaving[at : at + AT_ONCE]
                    work = partial(move, self._tables[name], self._tables[to], some, wait_s)
                    count += await anyio.to_thread.run_sync(work)
        finally:
            with anyio.CancelScope(shield=True):
                await self.refresh()
        return count

    async def balance(self, *, wait_s: float = 30.0) -> int:
        """Move buckets until all databases have the same number of them; see `move`.

        Returns: the number of threads that have moved.
        """
        moves = balancing(await self.refresh())
        return sum([await self.move(some, to, wait_s=wait_s) for (_, to), some in moves.items()])

    async def _at(self, thread_id: str, work: Callable[[ActorSystem], Awaitable[T]]) -> T:
        """Call a system of a thread; again if the thread is in another database by now."""
        end = time.monotonic() + self._move_wait_s
        while True:
            system = self.system_of(thread_id)
            try:
                return await work(system)
            except ThreadMovedError:
                await self._look_again()
                if self.system_of(thread_id) is system:
                    if time.monotonic() > end:
                        raise
                    await anyio.sleep(RETRY_S)

    async def _look_again(self) -> None:
        """Read the map, once for all callers that wait; end a move that was given up."""
        looks = self._looks
        async with self._looking:
            if self._looks == looks:
                await anyio.to_thread.run_sync(self._mend)
                await self.refresh()
                self._looks += 1

    async def _each(self, work: Callable[[ActorSystem], Awaitable[T]]) -> dict[str, T]:
        """Call all systems at the same time; the first error is raised."""
        found: dict[str, T] = {}
        failed: list[Exception] = []

        async def one(name: str, system: ActorSystem) -> None:
            try:
                found[name] = await work(system)
            except Exception as error:  # noqa: BLE001 - raised below, without an ExceptionGroup
                failed.append(error)

        async with anyio.create_task_group() as group:
            for name, system in self.systems.items():
                group.start_soon(one, name, system)
        if failed:
            raise failed[0]
        return found

    def _following(self, run: Run) -> Run:
        """Let a run that is known from its row be followed to another database."""
        if isinstance(run, StoredRun):
            run.look_elsewhere(partial(self._find, run.id, run.thread_id))
        return run

    async def _find(self, run_id: str, thread_id: str) -> Run | None:
        """Look for a run whose row is gone; None if it was removed."""
        await self.refresh()
        try:
            return await self.system_of(thread_id).run(run_id)
        except RunNotFoundError:
            return None

    async def _read(self) -> tuple[ShardMap, tuple[int, ...]]:
        names = tuple(self._tables)
        states = {name: await anyio.to_thread.run_sync(self._tables[name].states) for name in names}
        return map_of(states)

    def _enrol(self) -> None:
        tables = list(self._tables.values())
        fresh = not any(table.is_enrolled() for table in tables)
        for table in tables:
            table.enrol(holds=fresh and table is tables[0])

    def _mend(self) -> bool:
        """Undo or complete moves that were given up; False if another process is moving buckets."""
        from actorgraph.savers.postgres.bucket_moves import mend

        try:
            mend(list(self._tables.values()))
        except StorageBusyError:
            return False
        return True

    def _close_tables(self) -> None:
        for table in self._tables.values():
            table.close()


def _table(name: str, system: ActorSystem) -> Any:
    saver = system.saver
    if not isinstance(saver, PostgresSaver):
        kind = type(innermost(saver)).__name__
        raise InvalidConfigError(
            f"the system {name!r} has a {kind}; threads are divided over databases of PostgreSQL",
            do="pass systems over PostgresSaver(address), without wrappers",
        )
    return saver.bucket_table(name)
