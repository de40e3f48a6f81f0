"""What is known of threads beside their checkpoints: their metadata, and when they were made.

It lives in a store, so that a thread may exist before its first run. A thread that was begun by
the program itself and not through the web is known by its checkpoints.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import anyio
from msgspec import Struct

from actorgraph.web.access import holds
from actorgraph.web.problems import Conflict, NotFound

NAMESPACE = ("actorgraph", "threads")
_PAGE = 200


class Stored(Struct):
    """A thread as it is registered.

    Attributes:
        created_at, updated_at: ISO 8601 UTC.
    """

    thread_id: str
    created_at: str
    updated_at: str
    metadata: dict[str, Any]

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
        exists: whether a thread that isn't registered has checkpoints.
    """

    def __init__(self, store: Any, exists: Any) -> None:
        self._store = store
        self._exists = exists
        self._turn = anyio.Lock()

    async def get(self, thread_id: str) -> Stored | None:
        """The thread, or None."""
        item = await self._store.aget(NAMESPACE, thread_id)
        if item is not None:
            return _stored(item)
        created_at = await self._exists(thread_id)
        return None if created_at is None else Stored(thread_id, created_at, created_at, {})

    async def make(
        self, thread_id: str, metadata: Mapping[str, Any], *, if_exists: str = "raise"
    ) -> tuple[bool, Stored]:
        """Register a thread; returns whether it is new, and the thread.

        Raises:
            Conflict: it exists, and `if_exists` is "raise".
        """
        async with self._turn:  # of two who want it at once, one makes it
            known = await self.get(thread_id)
            if known is None:
                now = moment()
                return True, await self._put(Stored(thread_id, now, now, dict(metadata)))
        if if_exists == "raise":
            raise Conflict(f"thread {thread_id!r} exists already")
        return False, known

    async def merge(self, thread: Stored, metadata: Mapping[str, Any]) -> Stored:
        """Add to a thread's metadata."""
        async with self._turn:
            now = await self.get(thread.thread_id) or thread
            merged = {**now.metadata, **metadata}
            return await self._put(Stored(now.thread_id, now.created_at, moment(), merged))

    async def forget(self, thread_id: str) -> None:
        """Take a thread out."""
        await self._store.adelete(NAMESPACE, thread_id)

    async def all(self, wanted: Mapping[str, Any]) -> list[Stored]:
        """Every registered thread whose metadata holds this."""
        found: list[Stored] = []
        offset = 0
        while True:
            page = await self._store.asearch(NAMESPACE, limit=_PAGE, offset=offset)
            found.extend(
                stored for item in page if holds((stored := _stored(item)).metadata, wanted)
            )
            if len(page) < _PAGE:
                return found
            offset += _PAGE

    async def _put(self, thread: Stored) -> Stored:
        value = {
            "created_at": thread.created_at,
            "updated_at": thread.updated_at,
            "metadata": thread.metadata,
        }
        await self._store.aput(NAMESPACE, thread.thread_id, value)
        return thread


def moment() -> str:
    """Now, ISO 8601 UTC."""
    return datetime.now(UTC).isoformat()


def _stored(item: Any) -> Stored:
    value = item.value
    return Stored(item.key, value["created_at"], value["updated_at"], value["metadata"])
