"""The registry of a server whose saver indexes threads: registered threads are rows of the index.

A registration is one insert that does nothing if the thread is there, so requests for different
threads wait for nothing but the saver. A store of an earlier version that has registrations is
emptied into the index, at the first use.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from actorgraph.internals import (
    DropThread,
    FindThreads,
    PatchThread,
    PutThread,
    ThreadRow,
    host_of,
    iso,
    post_request,
    wanted_facts,
)
from actorgraph.systems import ActorSystem
from actorgraph.web.http.problems import Conflict, NotFound
from actorgraph.web.registries.thread_registry import (
    NAMESPACE,
    Labelled,
    Registry,
    StoredThread,
    at_once,
    microseconds,
    moment,
)


class IndexedRegistry(Registry):
    """The threads of one server, in its saver's index.

    Args:
        system: of a saver with `indexes_threads`.
        store: may have registrations of an earlier version; None if it can't.
        found: see `Registry`.
    """

    def __init__(
        self,
        system: ActorSystem,
        store: Any,
        found: Callable[[str], Awaitable[StoredThread | None]],
    ) -> None:
        super().__init__(store, found)
        self._system = system
        self._has_moved = store is None

    async def ready(self) -> None:
        """Move registrations from the store of an earlier version, if that wasn't done yet."""
        if not self._has_moved:
            await self._move()

    async def registered(self, thread_id: str) -> StoredThread | None:
        """Return the thread, if it is registered."""
        rows = await self._rows(FindThreads(ids=(thread_id,), registered=True))
        return stored_thread(rows[0]) if rows else None

    async def make(
        self,
        thread_id: str,
        metadata: Mapping[str, Any],
        *,
        if_exists: str = "raise",
        temporary: bool = False,
        new: bool = False,
    ) -> tuple[bool, StoredThread]:
        """See `Registry.make`."""
        known = None if new else await self.get(thread_id)
        if known is None:
            now = moment()
            text = msgspec.json.encode(metadata).decode()
            put = PutThread(thread_id, microseconds(now), text, temporary, len(text))
            if await self._write(put):
                return True, StoredThread(thread_id, now, now, dict(metadata), temporary=temporary)
            known = await self.get(thread_id)  # another request has made it meanwhile
        if known is None or if_exists == "raise":
            raise Conflict(f"thread {thread_id!r} exists already")
        return False, known

    async def ensure(self, thread_id: str, metadata: Mapping[str, Any]) -> StoredThread:
        """See `Registry.ensure`."""
        return (await self.make(thread_id, metadata, if_exists="do_nothing", new=True))[1]

    async def merge(self, thread: StoredThread, metadata: Mapping[str, Any]) -> StoredThread:
        """See `Registry.merge`."""
        thread_id = thread.thread_id
        text = msgspec.json.encode(metadata).decode()
        patch = PatchThread(thread_id, microseconds(moment()), text, len(text))
        if not await self._write(patch):
            found = await self.get(thread_id, overridden=metadata.keys())
            if found is None:
                raise NotFound.thread(thread_id)
            whole = msgspec.json.encode({**found.metadata, **metadata}).decode()
            await self._write(PutThread(thread_id, microseconds(found.created_at), whole))
            await self._write(patch)
        now = await self.get(thread_id, overridden=metadata.keys())
        if now is None:
            raise NotFound.thread(thread_id)
        return now

    async def label(
        self, thread: StoredThread, labels: Mapping[str, Any]
    ) -> tuple[StoredThread, Labelled]:
        """See `Registry.label`; whether the thread is still there is left to `is_still`."""
        if not thread.registered:
            return await self.merge(thread, labels), at_once
        text = msgspec.json.encode(labels).decode()
        patch = PatchThread(thread.thread_id, microseconds(moment()), text, len(text))
        # Not awaited: the run that is started next is stored in the same transaction.
        labelled = post_request(host_of(self._system.saver).writer, patch)
        return replace(thread, metadata={**thread.metadata, **labels}), labelled

    async def forget(self, thread_id: str) -> None:
        """Remove a thread from the registry."""
        await self._write(DropThread(thread_id))

    async def all(self, wanted: Mapping[str, Any]) -> list[StoredThread]:
        """Return every registered thread whose metadata contains `wanted`."""
        query = FindThreads(facts=wanted_facts("m", wanted), registered=True)
        return [stored_thread(row) for row in await self._rows(query)]

    async def temporary(self) -> list[StoredThread]:
        """Return every temporary thread."""
        return [stored_thread(row) for row in await self._rows(FindThreads(temporary=True))]

    async def _rows(self, query: FindThreads) -> list[ThreadRow]:
        if not self._has_moved:
            await self._move()
        return await host_of(self._system.saver).reader.ask(query)

    async def _write(self, request: PutThread | PatchThread | DropThread) -> bool:
        if not self._has_moved:
            await self._move()
        (outcome,) = await host_of(self._system.saver).writer.store(request)
        return bool(outcome.sequence)

    async def _move(self) -> None:
        """Move registrations from the store of an earlier version into the index."""
        async with self._turn:
            writer = host_of(self._system.saver).writer
            while not self._has_moved:
                threads = await self._listed(most=1)
                puts: list[PutThread] = []
                for one in threads:
                    text = msgspec.json.encode(one.metadata).decode()
                    made = microseconds(one.created_at)
                    puts.append(PutThread(one.thread_id, made, text, one.temporary, len(text)))
                if puts:
                    await writer.store(*puts)
                for one in threads:
                    await self._store.adelete(NAMESPACE, one.thread_id)
                self._has_moved = not threads


def stored_thread(row: ThreadRow) -> StoredThread:
    """Return a row of the index as the routes use it."""
    return StoredThread(
        row.thread_id,
        iso(row.created),
        iso(row.updated),
        msgspec.json.decode(row.metadata),
        registered=row.registered,
        temporary=row.temporary,
    )
