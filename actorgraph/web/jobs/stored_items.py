"""Items that the server keeps in its store, each kind in a namespace of its own."""

from typing import Any

from actorgraph.loops import shielded

_PAGE = 200


class ItemKind:
    """The items of one kind, by key.

    Args:
        store: with `aget`, `aput`, `adelete`, `asearch`.
        kind: the last label of their namespace.
    """

    def __init__(self, store: Any, kind: str) -> None:
        self._store = store
        self._namespace = ("actorgraph", kind)

    async def get(self, key: str) -> dict[str, Any] | None:
        """Return one value; None if absent."""
        item = await self._store.aget(self._namespace, key)
        return None if item is None else item.value

    async def put(self, key: str, value: dict[str, Any]) -> None:
        """Store a value; not interruptible, so that no late put undoes a removal."""
        await shielded(lambda: self._store.aput(self._namespace, key, value))

    async def remove(self, key: str) -> None:
        """Remove a value, if it is stored."""
        await shielded(lambda: self._store.adelete(self._namespace, key))

    async def all(self, **wanted: Any) -> dict[str, dict[str, Any]]:
        """Return key -> value of all items whose values have these entries."""
        found: dict[str, dict[str, Any]] = {}
        options: dict[str, Any] = {"filter": wanted} if wanted else {}
        read = 0
        while True:
            page = await self._store.asearch(self._namespace, limit=_PAGE, offset=read, **options)
            found.update((item.key, item.value) for item in page)
            read += len(page)
            if len(page) < _PAGE:
                return found
