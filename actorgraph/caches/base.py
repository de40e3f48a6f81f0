"""BaseCache: the interface of caches. A cache may lose entries at any time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import time
from typing import Generic, TypeVar

from actorgraph.codec import Codec
from actorgraph.codec.encryption import entry_at
from actorgraph.codec.serializers import SerializerProtocol, codec_of
from actorgraph.loops import in_thread
from actorgraph.values.durations import checked_seconds

ValueT = TypeVar("ValueT")
Namespace = tuple[str, ...]
FullKey = tuple[Namespace, str]
"""A namespace, which can be cleared as a whole, and a key in it."""


class BaseCache(ABC, Generic[ValueT]):
    """Base class of caches. Subclasses implement `get`, `set` and `clear`.

    The async methods call these in a worker thread; override them where a cache can be used
    without one. Even if they are cancelled they wait for that thread, so the operation is complete
    when they raise.

    Args:
        codec: encodes values; default one for plain data. Values of graphs are bytes.
        clock: returns seconds since 1970, for the time to live.
        serde: LangGraph's name for `codec`, which caches of other packages pass and call.
    Raises:
        InvalidConfigError: both `codec` and `serde` are given.
    """

    def __repr__(self) -> str:
        place = getattr(self, "path", None)
        return f"<{type(self).__name__}{f' {place!r}' if place else ''}>"

    def __init__(
        self,
        *,
        codec: Codec | None = None,
        clock: Callable[[], float] = time,
        serde: SerializerProtocol | None = None,
    ) -> None:
        given = codec is not None or serde is not None
        self.codec = codec_of(codec, serde) if given else Codec().for_this_process()
        self.serde: SerializerProtocol = serde or self.codec
        self.clock = clock

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """Return the cached values; missing and expired keys are left out."""

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """Store values, each with its seconds to live; None for no limit."""

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Remove all entries of these namespaces; with None, all entries."""

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
        """Encode a value; an encrypted one can be decoded under the same key only."""
        return self.codec.encode(value, "value", entry_at("cache", *key))

    def decoded(self, key: FullKey, payload: bytes) -> ValueT:
        """Decode the value of a key."""
        return self.codec.decode(payload, entry_at("cache", *key))

    def expiry(self, ttl: int | None) -> float | None:
        """Return when a value that is stored now expires, in seconds since 1970; None for never.

        Raises:
            InvalidConfigError: the seconds to live are negative or not finite.
        """
        if ttl is None:
            return None
        return self.clock() + checked_seconds("ttl", ttl, zero=True, default="seconds, or None")
