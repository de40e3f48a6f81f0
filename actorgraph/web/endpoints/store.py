"""Routes for the store: items that graphs keep besides threads."""

from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import Any

from msgspec import Struct

from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.http import bodies, response_types
from actorgraph.web.http.problems import NotFound, Unprocessable
from actorgraph.web.registries.thread_registry import NAMESPACE

_PAGE = 200


class ItemQuery(Struct):
    """The item to read: its key, and its namespace.

    The namespace has dots between the labels, or is given once for each label.
    """

    key: str
    namespace: str = ""
    refresh_ttl: bool | None = None


async def put(call: ApiCall) -> None:
    """Store an item."""
    body: bodies.ItemPut = call.body
    options: dict[str, Any] = {} if body.ttl is None else {"ttl": body.ttl}
    if body.index is not None:
        options["index"] = body.index
    namespace = _namespace(body.namespace)
    await call.server.store.aput(namespace, body.key, body.value, **options)


async def get(call: ApiCall) -> response_types.Item:
    """Return one item."""
    query: ItemQuery = call.query
    labels = _labels_of(call)
    if "*" in labels:
        raise Unprocessable("a label of an item's namespace can't be '*'")
    namespace = _namespace(labels)
    found = await call.server.store.aget(namespace, query.key, refresh_ttl=query.refresh_ttl)
    if found is None:
        raise NotFound(f"item {query.key!r} not found")
    return response_types.Item(*_fields(found))


async def delete(call: ApiCall) -> None:
    """Delete an item, if it exists."""
    body: bodies.ItemDelete = call.body
    await call.server.store.adelete(_namespace(body.namespace or []), body.key)


async def search(call: ApiCall) -> response_types.ItemPage:
    """Find items below a namespace, by their values or by similarity to a query."""
    body: bodies.ItemSearch = call.body

    async def page(limit: int, offset: int) -> list[Any]:
        return await call.server.store.asearch(
            tuple(body.namespace_prefix or ()),
            query=body.query,
            filter=body.filter,
            limit=limit,
            offset=offset,
            refresh_ttl=body.refresh_ttl,
        )

    found = await _shown(page, lambda one: one.namespace, body.limit, body.offset)
    return response_types.ItemPage(
        [response_types.FoundItem(*_fields(one), one.score) for one in found]
    )


async def namespaces(call: ApiCall) -> response_types.NamespacePage:
    """List namespaces by prefix and suffix."""
    body: bodies.NamespaceSearch = call.body

    async def page(limit: int, offset: int) -> list[Any]:
        return await call.server.store.alist_namespaces(
            prefix=tuple(body.prefix) if body.prefix else None,
            suffix=tuple(body.suffix) if body.suffix else None,
            max_depth=body.max_depth,
            limit=limit,
            offset=offset,
        )

    found = await _shown(page, lambda one: one, body.limit, body.offset)
    return response_types.NamespacePage([list(one) for one in found])


async def _shown(
    page: Callable[[int, int], Awaitable[list[Any]]],
    namespace: Callable[[Any], tuple[str, ...]],
    limit: int,
    offset: int,
) -> list[Any]:
    """Read one page without the server's own entries.

    Reads from the beginning each time: how many entries before `offset` are the server's own is
    not known.
    """
    found: list[Any] = []
    size, read = max(limit, _PAGE), 0
    while len(found) < offset + limit:
        some = await page(size, read)
        found += [one for one in some if not _is_ours(namespace(one))]
        read += size
        if len(some) < size:
            break
    return found[offset : offset + limit]


def _labels_of(call: ApiCall) -> list[str]:
    """Return the namespace in the query: once with dots, or once per label."""
    said = call.request.query_params.getlist("namespace")
    return said if len(said) > 1 else [label for one in said if one for label in one.split(".")]


def _about(call: ApiCall) -> dict[str, Any]:
    """Return the metadata for `authorize`: namespace and key.

    A list of namespaces may have "*" for any label: it reaches all below the labels before that.
    """
    given = call.query if call.body is None else call.body
    names = ("namespace", "namespace_prefix", "prefix")
    labels: Any = next((v for name in names if (v := getattr(given, name, None))), None)
    if isinstance(given, bodies.NamespaceSearch):
        labels = takewhile(lambda label: label != "*", labels or ())
    if isinstance(given, ItemQuery):
        labels = _labels_of(call)
    return {"namespace": list(labels or ()), "key": getattr(given, "key", None)}


def _namespace(labels: list[str]) -> tuple[str, ...]:
    """Return the labels as a namespace.

    Raises:
        Unprocessable: the list is empty, a label is empty, or the namespace is reserved.
    """
    if not labels or not all(labels):
        raise Unprocessable("a namespace must have at least one label, and no empty one")
    if _is_ours(tuple(labels)):
        raise Unprocessable(f"namespaces that begin with {NAMESPACE[0]!r} are reserved")
    return tuple(labels)


def _is_ours(namespace: tuple[str, ...]) -> bool:
    return namespace[:1] == NAMESPACE[:1]


def _fields(item: Any) -> tuple[list[str], str, Any, str, str]:
    made, changed = item.created_at.isoformat(), item.updated_at.isoformat()
    return list(item.namespace), item.key, item.value, made, changed


ENDPOINTS = (
    Endpoint(
        "PUT",
        "/store/items",
        "store.put",
        put,
        body=bodies.ItemPut,
        summary="Store an item",
        about=_about,
    ),
    Endpoint(
        "GET",
        "/store/items",
        "store.get",
        get,
        response_types.Item,
        query=ItemQuery,
        summary="Get an item",
        about=_about,
    ),
    Endpoint(
        "DELETE",
        "/store/items",
        "store.delete",
        delete,
        body=bodies.ItemDelete,
        summary="Delete an item",
        about=_about,
    ),
    Endpoint(
        "POST",
        "/store/items/search",
        "store.search",
        search,
        response_types.ItemPage,
        bodies.ItemSearch,
        summary="Find items",
        about=_about,
    ),
    Endpoint(
        "POST",
        "/store/namespaces",
        "store.namespaces",
        namespaces,
        response_types.NamespacePage,
        bodies.NamespaceSearch,
        summary="List namespaces",
        about=_about,
    ),
)
