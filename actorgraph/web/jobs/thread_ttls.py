"""Times to live of threads: minutes without a change, after which a thread is swept."""

from datetime import datetime, timedelta
from typing import Any, Literal

from msgspec import Struct

from actorgraph.web.jobs.stored_items import ItemKind


class StoredTtl(Struct):
    """A thread's time to live.

    Attributes:
        minutes: without a change.
        strategy: whether it is deleted, or reduced to its newest checkpoint.
        swept_at: ISO 8601; when it was last reduced.
    """

    minutes: float
    strategy: Literal["delete", "keep_latest"]
    swept_at: str = ""

    def is_over(self, changed_at: str, now: datetime) -> bool:
        """Whether it is over, and the thread not swept since its last change.

        Args:
            changed_at: ISO 8601; the thread's last change.
        """
        if self.swept_at and self.swept_at >= changed_at:
            return False
        return datetime.fromisoformat(changed_at) + timedelta(minutes=self.minutes) <= now


class ThreadTtls:
    """The times to live of one server's threads.

    Args:
        store: keeps them.
    """

    def __init__(self, store: Any) -> None:
        self._items = ItemKind(store, "thread_ttls", StoredTtl)

    async def put(self, thread_id: str, ttl: StoredTtl) -> None:
        """Store a thread's time to live."""
        await self._items.put(thread_id, ttl)

    async def remove(self, thread_id: str) -> None:
        """Let a thread live for ever."""
        await self._items.remove(thread_id)

    async def all(self) -> dict[str, StoredTtl]:
        """Return thread id -> its time to live, of the readable ones."""
        return await self._items.all()
