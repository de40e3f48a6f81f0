"""InMemoryCache: entries in memory; the least recently used go first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from time import time

from actorgraph.caches.base import BaseCache, FullKey, Namespace, ValueT
from actorgraph.codec import Codec
from actorgraph.errors import InvalidConfigError

ENTRIES_MAX = 100_000


class InMemoryCache(BaseCache[ValueT]):
    """A cache in memory. Safe to use from several threads and event loops.

    Args:
        entries_max: maximum number of entries; the least recently used go first. Default 100,000.
        codec: see `BaseCache`.
        clock: see `BaseCache`.
    Raises:
        InvalidConfigError: `entries_max` is less than 1.
    """

    def __init__(
        self,
        *,
        entries_max: int = ENTRIES_MAX,
        codec: Codec | None = None,
        clock: Callable[[], float] = time,
    ) -> None:
        super().__init__(codec=codec, clock=clock)
        if entries_max < 1:
            raise InvalidConfigError(
                f"entries_max must be >= 1, got {entries_max!r}", do="use 1 or more"
            )
        self._entries_max = entries_max
        self._entries: OrderedDict[FullKey, tuple[bytes, float | None]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """See `BaseCache.get`."""
        now, found = self.clock(), dict[FullKey, bytes]()
        with self._lock:
            for key in keys:
                payload, expiry = self._entries.get(key, (None, None))
                if payload is None:
                    continue
                if expiry is not None and now >= expiry:
                    del self._entries[key]
                else:
                    self._entries.move_to_end(key)
                    found[key] = payload
        return {key: self.decoded(key, payload) for key, payload in found.items()}

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """See `BaseCache.set`."""
        made = {k: (self.encoded(k, v), self.expiry(ttl)) for k, (v, ttl) in pairs.items()}
        with self._lock:
            for key, entry in made.items():
                self._entries[key] = entry
                self._entries.move_to_end(key)
            while len(self._entries) > self._entries_max:
                self._entries.popitem(last=False)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """See `BaseCache.clear`."""
        with self._lock:
            if namespaces is None:
                self._entries.clear()
                return
            gone = set(namespaces)
            for key in [key for key in self._entries if key[0] in gone]:
                del self._entries[key]

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """`get`, without a thread: it never blocks for long."""
        return self.get(keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """`set`, without a thread: it never blocks for long."""
        self.set(pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """`clear`, without a thread: it never blocks for long."""
        self.clear(namespaces)
