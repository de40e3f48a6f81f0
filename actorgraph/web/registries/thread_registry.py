"""The registry of a server's threads: their metadata, and when they were created.

Registered threads are items of a store, so that a thread can exist before its first run. Threads
that aren't registered (a store in memory is empty after a restart, and programs start threads
without a server) are found by their stored checkpoints and runs. Temporary threads are created for
one run and removed when it has ended.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from actorgraph.errors import ActorGraphError, DamagedRowError
from actorgraph.internals import (
    ASSISTANT,
    DAMAGED,
    GRAPH,
    OPEN_STATUSES,
    Gate,
    ListCheckpoints,
    StoredRun,
    host_of,
    is_thread_id,
    iso,
    newest_of,
    shielded,
    thread_metadata_of,
    writer_of,
)
from actorgraph.internals import log_event as event
from actorgraph.systems import ActorSystem, Run
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import Conflict, NotFound

NAMESPACE = ("actorgraph", "threads")
_PAGE = 200
RUN_LABELS = frozenset({GRAPH, ASSISTANT})
"""Names of the metadata that each run gives its thread: those of `thread_metadata_of`."""
Labelled = Callable[[], Awaitable[None]]
"""Waits until a thread's labels are durable; raises the error if they could not be stored."""
_TEMPORARY = "temporary"


class StoredThread(Struct):
    """A thread's entry in the registry.

    Attributes:
        created_at: ISO 8601 UTC.
        updated_at: ISO 8601 UTC.
        registered: False if it was found by its checkpoints or runs only.
        temporary: whether it was created for one run, and is removed with it.
        damage: why its state can't be read, if nothing else is known of it.
    """

    thread_id: str
    created_at: str
    updated_at: str
    metadata: dict[str, Any]
    registered: bool = True
    temporary: bool = False
    damage: Exception | None = None

    def must_hold(self, wanted: Mapping[str, Any]) -> None:
        """Check that its metadata contains what the access rules require.

        Raises:
            NotFound: it doesn't.
        """
        if wanted and not contains(self.metadata, wanted):
            raise NotFound.thread(self.thread_id)


class Registry:
    """The threads of one server.

    Args:
        store: keeps them; with `aget`, `aput`, `adelete`, `asearch`.
        found: finds an unregistered thread by its stored state; None if it has none.
        begun: for a store in memory: returns the ids of threads that have stored runs. They are
            registered when threads are searched for the first time.
    """

    def __init__(
        self,
        store: Any,
        found: Callable[[str], Awaitable[StoredThread | None]],
        begun: Callable[[], Awaitable[Iterable[str]]] | None = None,
    ) -> None:
        self._store = store
        self._found = found
        self._begun = begun
        self._turn = anyio.Lock(fast_acquire=True)

    async def get(self, thread_id: str, *, overridden: Collection[str] = ()) -> StoredThread | None:
        """Return the thread, registered or found by its stored state; or None.

        Args:
            overridden: names of metadata that the caller will put over the thread's. If the graph
                is among them, a registered thread's graph is not looked up.
        """
        if not is_thread_id(thread_id):  # a database may refuse its text
            return None
        stored = await self.registered(thread_id)
        if stored is None:
            return await self._found(thread_id)
        if GRAPH in stored.metadata or RUN_LABELS.issubset(overridden):
            return stored
        if (found := await self._found(thread_id)) is not None:
            stored.metadata = {**found.metadata, **stored.metadata}
            stored.damage = found.damage
        return stored

    async def registered(self, thread_id: str) -> StoredThread | None:
        """Return the thread, if it is registered."""
        try:
            item = await self._store.aget(NAMESPACE, thread_id)
        except DamagedRowError as error:
            return _unreadable(thread_id, error)
        return None if item is None else _stored(item)

    async def make(
        self,
        thread_id: str,
        metadata: Mapping[str, Any],
        *,
        if_exists: str = "raise",
        temporary: bool = False,
        new: bool = False,
    ) -> tuple[bool, StoredThread]:
        """Register a thread; returns whether it is new, and the thread.

        Args:
            if_exists: "raise", or "do_nothing" to return one that exists.
            temporary: whether it is made for one run.
            new: whether its id was just made, so that no other thread can have it.
        Raises:
            Conflict: it exists, and `if_exists` is "raise".
        """
        async with self._turn:  # of two concurrent requests for an id, one creates the thread
            known = None if new else await self.get(thread_id)
            if known is None:
                now = moment()
                made = StoredThread(thread_id, now, now, dict(metadata), temporary=temporary)
                return True, await self._put(made)
        if if_exists == "raise":
            raise Conflict(f"thread {thread_id!r} exists already")
        return False, known

    async def ensure(self, thread_id: str, metadata: Mapping[str, Any]) -> StoredThread:
        """Return a thread that was just looked for in vain; registers it if it is still missing."""
        return (await self.make(thread_id, metadata, if_exists="do_nothing"))[1]

    async def merge(self, thread: StoredThread, metadata: Mapping[str, Any]) -> StoredThread:
        """Merge metadata into a thread's; registers it if it isn't.

        Raises:
            NotFound: it was removed meanwhile.
        """
        async with self._turn:
            now = await self.get(thread.thread_id, overridden=metadata.keys())
            if now is None:
                raise NotFound.thread(thread.thread_id)
            merged = {**now.metadata, **metadata}
            return await self._put(replace(now, updated_at=moment(), metadata=merged))

    async def label(
        self, thread: StoredThread, labels: Mapping[str, Any]
    ) -> tuple[StoredThread, Labelled]:
        """Merge a run's labels into the metadata of a thread that was just read.

        Returns: the thread, and what waits until they are durable.
        Raises:
            NotFound: it was removed meanwhile.
        """
        return await self.merge(thread, labels), at_once

    async def is_still(self, thread: StoredThread) -> bool:
        """Whether a thread was neither removed nor created anew since it was read."""
        now = await self.registered(thread.thread_id)
        if now is None or not thread.registered:
            return not thread.registered
        return now.created_at == thread.created_at

    async def forget(self, thread_id: str) -> None:
        """Remove a thread from the registry."""
        await self._store.adelete(NAMESPACE, thread_id)

    async def all(self, wanted: Mapping[str, Any]) -> list[StoredThread]:
        """Return every registered thread whose metadata contains `wanted`."""
        await self._remember()
        return [one for one in await self._listed() if contains(one.metadata, wanted)]

    async def temporary(self) -> list[StoredThread]:
        """Return every temporary thread."""
        return await self._listed(filter={_TEMPORARY: True})

    async def _listed(self, *, most: int | None = None, **options: Any) -> list[StoredThread]:
        """Return registered threads of the store; at least `most`, if there are so many."""
        found: list[StoredThread] = []
        while True:
            page = await self._store.asearch(NAMESPACE, limit=_PAGE, offset=len(found), **options)
            found += [_stored(item) for item in page]
            if len(page) < _PAGE or (most is not None and len(found) >= most):
                return found

    async def _remember(self) -> None:
        """Register the threads of earlier processes, once."""
        async with self._turn:
            if self._begun is None:
                return
            for thread_id in await self._begun():
                if await self._store.aget(NAMESPACE, thread_id) is None:
                    found = await self._readable(thread_id)
                    if found is not None:
                        await self._put(found)
            self._begun = None  # at the end: if this call is cancelled, the next one continues

    async def _readable(self, thread_id: str) -> StoredThread | None:
        """Find a thread by its stored state; None where that can't be read.

        A search over many threads must not fail for one damaged thread, and the searching principal
        may not be allowed to know of it.
        """
        try:
            return await self._found(thread_id)
        except Exception as error:  # noqa: BLE001 - one damaged thread hides no other
            event("warning", "web.thread_not_registered", error=type(error).__name__)
            return None

    async def _put(self, thread: StoredThread) -> StoredThread:
        value: dict[str, Any] = {
            "created_at": thread.created_at,
            "updated_at": thread.updated_at,
            "metadata": thread.metadata,
        }
        if thread.temporary:
            value[_TEMPORARY] = True
        # Not interruptible: a put that went on after its request was cancelled would register the
        # thread again after the request's clean-up has removed it.
        await shielded(lambda: self._store.aput(NAMESPACE, thread.thread_id, value))
        return replace(thread, registered=True)


async def at_once() -> None:
    """Wait for labels that are durable already."""


def moment() -> str:
    """Return the current time, ISO 8601 UTC."""
    return datetime.now(UTC).isoformat()


def microseconds(text: str) -> int:
    """Return a time in ISO 8601 as microseconds since 1970-01-01 UTC."""
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000)


def _stored(item: Any) -> StoredThread:
    """Return an entry of the store; one that can't be read has no metadata, and can be removed."""
    value = item.value
    try:
        for time in (value["created_at"], value["updated_at"]):
            microseconds(time)
        temporary = msgspec.convert(value.get(_TEMPORARY, False), bool)
        metadata = msgspec.convert(value["metadata"], dict[str, Any])
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return _unreadable(item.key, error)
    return StoredThread(
        item.key, value["created_at"], value["updated_at"], metadata, temporary=temporary
    )


def _unreadable(thread_id: str, error: Exception) -> StoredThread:
    event("error", "web.unreadable_item", kind="threads", key=thread_id, error=repr(error))
    return StoredThread(thread_id, BEGINNING, BEGINNING, {})


BEGINNING = "1970-01-01T00:00:00+00:00"
"""In place of a time that can't be read."""


async def find_thread(system: ActorSystem, thread_id: str) -> StoredThread | None:
    """Find a thread that has checkpoints, or a pending or running run; None if it has neither.

    Its metadata has only its graph: the one that wrote its newest checkpoint, else the one of its
    newest known run. A thread whose newest checkpoint can't be read, and which has no run, has no
    metadata: those who may see such threads can read why, and delete it; others find nothing.
    """
    read = host_of(system.saver).reader.begin(_newest_of(thread_id))
    runs = await system.runs(thread_id=thread_id)
    try:
        (newest,) = await read() or (None,)
    except DAMAGED as error:
        if not runs:  # neither its age nor its graph is known
            return replace(_unreadable(thread_id, error), registered=False, damage=error)
        newest = None
    else:
        if newest is None and all(run.status not in OPEN_STATUSES for run in runs):
            return None
    if newest is not None:
        created = iso(newest.row.created)
    else:
        created = min(run.created_at for run in runs).isoformat()
    known_runs = [run.row for run in runs if run.graph in system.graphs]
    run = newest_of(known_runs, host_of(system.saver).clock.now())
    name = writer_of(system.graphs, newest) or (run.graph if run is not None else None)
    known = {} if name is None else thread_metadata_of(name)
    return StoredThread(thread_id, created, created, known, registered=False)


async def graph_that_wrote(system: ActorSystem, thread_id: str) -> str | None:
    """Return the name of the graph that wrote a thread's newest checkpoint; None if unknown."""
    (newest,) = await host_of(system.saver).reader.ask(_newest_of(thread_id)) or (None,)
    return writer_of(system.graphs, newest) or None


def _newest_of(thread_id: str) -> ListCheckpoints:
    return ListCheckpoints(thread_id=thread_id, namespace="", limit=1, bare=True)


YOUNG_S = 60.0
"""Age in seconds below which a thread without a run is kept: its run may be about to start."""


READ_S = 30.0
"""The longest time for which a temporary thread outlives its run, for a response that reads it."""


class TemporaryThreads:
    """Removes the temporary threads of one server after their runs.

    The registry marks them, so that a thread whose process died between its run's end and the
    removal is swept by a later process.

    Args:
        system: of the runs.
        threads: where the threads are registered.

    Attributes:
        before: called with a thread's id before the thread is removed.
        keeps: returns whether a thread must not be removed yet.
    """

    before: Callable[[str], Awaitable[None]]
    keeps: Callable[[str, Mapping[str, Any]], Awaitable[bool]]

    def __init__(self, system: ActorSystem, threads: Registry) -> None:
        self._system = system
        self._threads = threads
        self._watched: set[str] = set()
        self._readers: dict[str, set[Gate]] = {}
        _BY_SYSTEM.setdefault(system, WeakSet()).add(self)

    def remove_after(self, run: Run) -> None:
        """Remove a run's thread when the run has ended."""
        if run.thread_id not in self._watched:
            self._watched.add(run.thread_id)
            self._system.spawn(self._remove_after, run)

    def reading(self, run: Run) -> Callable[[], None]:
        """Keep a run's thread until the returned function is called, for `READ_S` at most.

        The output of a run of another process is read from its thread, after its end.
        """
        gate, thread_id = Gate(), run.thread_id
        self._readers.setdefault(thread_id, set()).add(gate)

        def has_read() -> None:
            gate.open()
            readers = self._readers.get(thread_id, set())
            readers.discard(gate)
            if not readers:
                self._readers.pop(thread_id, None)

        return has_read

    async def sweep(self) -> None:
        """Remove the temporary threads that other processes have left."""
        for thread in await self._threads.temporary():
            age = datetime.now(UTC) - datetime.fromisoformat(thread.created_at)
            if thread.thread_id in self._watched or age < timedelta(seconds=YOUNG_S):
                continue
            runs = await self._system.runs(thread_id=thread.thread_id, statuses=OPEN_STATUSES)
            if not runs and not await self.keeps(thread.thread_id, thread.metadata):
                await self._remove(thread.thread_id)
            elif not runs:
                continue
            elif not isinstance(runs[-1], StoredRun):  # a StoredRun belongs to another process
                self.remove_after(runs[-1])

    async def _remove_after(self, run: Run) -> None:
        try:
            if await run.wait() not in OPEN_STATUSES:  # still open: this system is closing
                with anyio.move_on_after(READ_S):
                    for gate in tuple(self._readers.get(run.thread_id, ())):
                        await gate.wait()
                await self._remove(run.thread_id)
        except ActorGraphError as error:  # the next sweep tries again
            event("warning", "web.thread_not_removed", thread=run.thread_id, error=str(error))
        finally:
            self._watched.discard(run.thread_id)

    async def _remove(self, thread_id: str) -> None:
        saver: Any = self._system.saver
        await self.before(thread_id)
        await saver.adelete_thread(thread_id)
        await self._threads.forget(thread_id)


async def sweep_forever(system: ActorSystem) -> None:
    """Sweep at once and then every `YOUNG_S`, until cancelled."""
    while True:
        for one in list(_BY_SYSTEM.get(system, ())):
            try:
                await one.sweep()
            except Exception as error:  # noqa: BLE001 - the store may be available the next time
                event("warning", "web.not_swept", error=repr(error))
        await anyio.sleep(YOUNG_S)


_BY_SYSTEM: WeakKeyDictionary[ActorSystem, WeakSet[TemporaryThreads]] = WeakKeyDictionary()
