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
        return self._next(changed_at, now) <= now

    def next_look(self, changed_at: str, now: datetime) -> datetime:
        """Return the earliest time at which it can be over, when it isn't now.

        Args:
            changed_at: ISO 8601; the thread's last change. Later ones let it end later.
        """
        return max(self._next(changed_at, now), now)

    def _next(self, changed_at: str, now: datetime) -> datetime:
        if self.swept_at and self.swept_at >= changed_at:  # a change has to come first
            return now + timedelta(minutes=self.minutes)
        return datetime.fromisoformat(changed_at) + timedelta(minutes=self.minutes)


class ThreadTtls:
    """The times to live of one server's threads.

    Args:
        store: keeps them.
    """

    def __init__(self, store: Any) -> None:
        self._items = ItemKind(store, "thread_ttls", StoredTtl)
        self._changed: set[str] = set()

    def take_changed(self) -> set[str]:
        """Return the threads whose time to live this process has stored since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    async def get(self, thread_id: str) -> StoredTtl | None:
        """Return a thread's time to live; None if it has none, or it can't be read."""
        return await self._items.get(thread_id)

    async def page(self, limit: int, offset: int) -> tuple[dict[str, StoredTtl], int]:
        """Return thread id -> readable time to live of a page, and how many items it has."""
        return await self._items.page_by_key(limit, offset)

    async def put(self, thread_id: str, ttl: StoredTtl) -> None:
        """Store a thread's time to live."""
        await self._items.put(thread_id, ttl)
        self._changed.add(thread_id)

    async def remove(self, thread_id: str) -> None:
        """Let a thread live for ever."""
        await self._items.remove(thread_id)

    async def all(self) -> dict[str, StoredTtl]:
        """Return thread id -> its time to live, of the readable ones."""
        return await self._items.all()
