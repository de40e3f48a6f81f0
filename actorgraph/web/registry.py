"""What is known of threads beside their checkpoints: their metadata, and when they were made.

It lives in a store, so that a thread may exist before its first run. A thread that was begun by
the program itself and not through the web is known by its checkpoints.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from actorgraph.loops import shielded
from actorgraph.runtime.log import event
from actorgraph.web.access import holds
from actorgraph.web.problems import Conflict, NotFound

NAMESPACE = ("actorgraph", "threads")
_PAGE = 200
GRAPH = "graph_id"
"""The key of a thread's metadata that names its graph."""
_TEMPORARY = "temporary"


class Stored(Struct):
    """A thread as it is registered.

    Attributes:
        created_at, updated_at: ISO 8601 UTC.
        registered: whether it is in the store, and not known by its checkpoints alone.
        temporary: whether it was made for one run, and goes with it.
    """

    thread_id: str
    created_at: str
    updated_at: str
    metadata: dict[str, Any]
    registered: bool = True
    temporary: bool = False

    def must_hold(self, wanted: Mapping[str, Any]) -> None:
        """Refuse it to whoever may only see threads with other metadata.

        Raises:
            NotFound: it doesn't hold what is wanted.
        """
        if not holds(self.metadata, wanted):
            raise NotFound.thread(self.thread_id)


class Registry:
    """The threads of one server.

    Args:
        store: keeps them: `aget`, `aput`, `adelete`, `asearch`.
        found: what is stored of a thread beside this; None if nothing is.
        begun: for a store that forgets: the threads of which runs are stored. They are registered
            when threads are searched for the first time.
    """

    def __init__(
        self,
        store: Any,
        found: Callable[[str], Awaitable[Stored | None]],
        begun: Callable[[], Awaitable[Iterable[str]]] | None = None,
    ) -> None:
        self._store = store
        self._found = found
        self._begun = begun
        self._turn = anyio.Lock()

    async def get(self, thread_id: str) -> Stored | None:
        """The thread, or None."""
        stored = await self.registered(thread_id)
        if stored is None:
            return await self._found(thread_id)
        if GRAPH not in stored.metadata and (found := await self._found(thread_id)) is not None:
            stored.metadata = {**found.metadata, **stored.metadata}
        return stored

    async def registered(self, thread_id: str) -> Stored | None:
        """The thread, if it is in the store."""
        item = await self._store.aget(NAMESPACE, thread_id)
        return None if item is None else _stored(item)

    async def make(
        self,
        thread_id: str,
        metadata: Mapping[str, Any],
        *,
        if_exists: str = "raise",
        temporary: bool = False,
    ) -> tuple[bool, Stored]:
        """Register a thread; returns whether it is new, and the thread.

        Raises:
            Conflict: it exists, and `if_exists` is "raise".
        """
        async with self._turn:  # of two who want it at once, one makes it
            known = await self.get(thread_id)
            if known is None:
                now = moment()
                made = Stored(thread_id, now, now, dict(metadata), temporary=temporary)
                return True, await self._put(made)
        if if_exists == "raise":
            raise Conflict(f"thread {thread_id!r} exists already")
        return False, known

    async def merge(self, thread: Stored, metadata: Mapping[str, Any]) -> Stored:
        """Add to a thread's metadata.

        Raises:
            NotFound: it was removed meanwhile.
        """
        async with self._turn:
            now = await self.get(thread.thread_id)
            if now is None:
                raise NotFound.thread(thread.thread_id)
            merged = {**now.metadata, **metadata}
            return await self._put(replace(now, updated_at=moment(), metadata=merged))

    async def is_still(self, thread: Stored) -> bool:
        """Whether a thread was neither removed since it was read, nor made anew."""
        now = await self.registered(thread.thread_id)
        if now is None or not thread.registered:
            return not thread.registered
        return now.created_at == thread.created_at

    async def forget(self, thread_id: str) -> None:
        """Take a thread out."""
        await self._store.adelete(NAMESPACE, thread_id)

    async def all(self, wanted: Mapping[str, Any]) -> list[Stored]:
        """Every registered thread whose metadata holds this."""
        await self._remember()
        return [one for one in await self._listed() if holds(one.metadata, wanted)]

    async def temporary(self) -> list[Stored]:
        """Every thread that goes with its run."""
        return await self._listed(filter={_TEMPORARY: True})

    async def _listed(self, **options: Any) -> list[Stored]:
        found: list[Stored] = []
        while True:
            page = await self._store.asearch(NAMESPACE, limit=_PAGE, offset=len(found), **options)
            found.extend(_stored(item) for item in page)
            if len(page) < _PAGE:
                return found

    async def _remember(self) -> None:
        """Register what an earlier process has left, once."""
        async with self._turn:
            if self._begun is None:
                return
            for thread_id in await self._begun():
                if await self._store.aget(NAMESPACE, thread_id) is None:
                    found = await self._readable(thread_id)
                    if found is not None:
                        await self._put(found)
            self._begun = None  # at the end: one who is cancelled leaves the rest to the next

    async def _readable(self, thread_id: str) -> Stored | None:
        """What is stored of a thread; None where that can't be read.

        Whoever searches need not know of it: the error is neither the answer, nor in the log.
        """
        try:
            return await self._found(thread_id)
        except Exception as error:  # noqa: BLE001 - one damaged thread hides no other
            event("warning", "web.thread_not_registered", error=type(error).__name__)
            return None

    async def _put(self, thread: Stored) -> Stored:
        value: dict[str, Any] = {
            "created_at": thread.created_at,
            "updated_at": thread.updated_at,
            "metadata": thread.metadata,
        }
        if thread.temporary:
            value[_TEMPORARY] = True
        # To its end: what is undone after a cancellation must not be stored behind that.
        await shielded(lambda: self._store.aput(NAMESPACE, thread.thread_id, value))
        return replace(thread, registered=True)


def moment() -> str:
    """Now, ISO 8601 UTC."""
    return datetime.now(UTC).isoformat()


def _stored(item: Any) -> Stored:
    value = item.value
    return Stored(
        item.key,
        value["created_at"],
        value["updated_at"],
        value["metadata"],
        temporary=value.get(_TEMPORARY, False),
    )
