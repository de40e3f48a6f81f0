"""Items that the server keeps in its store, each kind in a namespace of its own.

An item that can't be read (another version wrote it, or another program) hides nothing but itself:
lists and jobs leave it out, the log names it once, and it can be removed by its key.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from actorgraph.errors import ActorGraphError, DamagedRowError
from actorgraph.internals import Turns, in_turns, shielded
from actorgraph.internals import log_event as event

T = TypeVar("T")
_PAGE = 200
_NAMED_MAX = 1_000
"""Unreadable items that are remembered as named in the log."""


class ItemKind(Generic[T]):
    """The items of one kind, by key.

    Args:
        store: with `aget`, `aput`, `adelete`, `asearch`.
        kind: the last label of their namespace.
        type: that values are converted to.
        check: raises an error for a value that fits the type and can't be used all the same.
    """

    def __init__(
        self,
        store: Any,
        kind: str,
        type: type[T],
        check: Callable[[T], object] = lambda _: None,
    ) -> None:
        self._store = store
        self._namespace = ("actorgraph", kind)
        self._type = type
        self._check = check
        self._named: set[str] = set()

    async def get(self, key: str) -> T | None:
        """Return one value; None if absent or unreadable."""
        try:
            item = await self._store.aget(self._namespace, key)
        except DamagedRowError as error:
            self._name(key, error)
            return None
        return None if item is None else self._read(key, item.value)

    async def has(self, key: str) -> bool:
        """Whether an item is stored, readable or not."""
        try:
            return await self._store.aget(self._namespace, key) is not None
        except DamagedRowError:
            return True

    async def put(self, key: str, value: T) -> None:
        """Store a value; not interruptible, so that no late put undoes a removal."""
        plain = msgspec.to_builtins(value)
        await shielded(lambda: self._store.aput(self._namespace, key, plain))

    async def remove(self, key: str) -> None:
        """Remove a value, if it is stored."""
        await shielded(lambda: self._store.adelete(self._namespace, key))

    async def all(self, **wanted: Any) -> dict[str, T]:
        """Return key -> value of all readable items whose values have these entries."""
        found: dict[str, T] = {}
        options: dict[str, Any] = {"filter": wanted} if wanted else {}
        read, turns = 0, Turns()
        while True:
            page = await self._store.asearch(self._namespace, limit=_PAGE, offset=read, **options)
            for item in page:
                value = self._read(item.key, item.value)
                if value is not None:
                    found[item.key] = value
                await turns.give()
            read += len(page)
            if len(page) < _PAGE:
                return found

    async def page_by_key(self, limit: int, offset: int) -> tuple[dict[str, T], int]:
        """Return key -> readable value of a page of all items, and how many items it has."""
        page = await self._store.asearch(self._namespace, limit=limit, offset=offset)
        read = await in_turns(page, lambda item: (item.key, self._read(item.key, item.value)))
        return {key: value for key, value in read if value is not None}, len(page)

    async def page(self, limit: int, offset: int) -> tuple[list[T], int]:
        """Return the readable values of a page of all items, and how many items it has."""
        page = await self._store.asearch(self._namespace, limit=limit, offset=offset)
        read = await in_turns(page, lambda item: self._read(item.key, item.value))
        return [value for value in read if value is not None], len(page)

    def _read(self, key: str, value: Any) -> T | None:
        try:
            made = msgspec.convert(value, self._type)
            self._check(made)
        except (ActorGraphError, ValueError, LookupError, OverflowError) as error:
            self._name(key, error)
            return None
        return made

    def _name(self, key: str, error: Exception) -> None:
        """Log an item that can't be read, once."""
        if key not in self._named and len(self._named) < _NAMED_MAX:
            self._named.add(key)
            kind = self._namespace[-1]
            event("error", "web.unreadable_item", kind=kind, key=key, error=repr(error))
