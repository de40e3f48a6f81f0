"""BaseCache: what a cache must do. A cache may lose anything at any time; nothing depends on it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import time
from typing import Generic, TypeVar

from actorgraph.codec import Codec
from actorgraph.codec.places import entry_at
from actorgraph.loops import in_thread

ValueT = TypeVar("ValueT")
Namespace = tuple[str, ...]
FullKey = tuple[Namespace, str]
"""What a value stands under: a namespace, which can be cleared as a whole, and a key in it."""


class BaseCache(ABC, Generic[ValueT]):
    """A cache of one's own overrides the three blocking methods, and the async ones if it can wait.

    The async methods wait for their thread also when they are cancelled: what they ask for is done
    when they leave.

    Args:
        codec: how values become bytes. Default one of plain data; what graphs keep is bytes.
        clock: seconds since 1970, for the time to live.
    """

    def __init__(self, *, codec: Codec | None = None, clock: Callable[[], float] = time) -> None:
        self.codec = codec or Codec()
        self.clock = clock

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """The values that it has; keys without one are left out."""

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """Keep values, each with its seconds to live or None."""

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget everything in these namespaces; without any, everything."""

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """`get` without blocking the event loop."""
        return await in_thread(partial(self.get, keys))

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """`set` without blocking the event loop."""
        await in_thread(partial(self.set, pairs))

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """`clear` without blocking the event loop."""
        await in_thread(partial(self.clear, namespaces))

    def encoded(self, key: FullKey, value: ValueT) -> bytes:
        """The bytes of a value under a key; encrypted ones can be read under that key only."""
        return self.codec.encode(value, "value", entry_at("cache", *key))

    def decoded(self, key: FullKey, payload: bytes) -> ValueT:
        """The value of what stands under a key."""
        return self.codec.decode(payload, entry_at("cache", *key))

    def expiry(self, ttl: int | None) -> float | None:
        """When a value that is kept now ends; None for never."""
        return None if ttl is None else self.clock() + ttl
