"""The page of the store: namespaces, items, search; editing and deleting an item."""

import json
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from actorgraph.studio.page_calls import Handler, StudioCall
from actorgraph.studio.shown import moment, shown, whole
from actorgraph.web.http.problems import HttpProblem, NotFound

ITEMS_MAX = 25
READ_MAX = 200
"""Items that are read at once."""
NAMESPACES_MAX = 500
OURS = "actorgraph"
"""The first label of the web layer's own items, which aren't shown."""


class ItemFilter(msgspec.Struct, frozen=True):
    """The items to list: below a namespace (JSON list), similar to or containing a text."""

    namespace: str = ""
    query: str = ""


async def store(call: StudioCall) -> Response:
    """List items."""
    asked = ItemFilter(call.query.get("namespace", ""), call.query.get("query", ""))
    after = call.query.get("after", "")
    at = int(after) if after.isascii() and after.isdecimal() and len(after) < 9 else 0
    prefix, problem = (), ""
    try:
        prefix = _labels(asked.namespace) if asked.namespace else ()
    except ValueError:
        problem = 'the namespace must be a JSON list of labels, such as ["users"]'
    await call.must("studio.store.read", {"namespace": list(prefix), "key": None})
    has_store = call.source.store is not None
    items = await _items(call, prefix, asked.query, at) if has_store and not problem else []
    names = await _namespaces(call) if has_store else []
    filters = {k: v for k, v in msgspec.structs.asdict(asked).items() if v}
    more = urlencode({**filters, "after": at + ITEMS_MAX})
    return call.page(
        "store.html",
        title="Store",
        has_store=has_store,
        filter=asked,
        namespaces=names,
        items=[_item(one) for one in items[:ITEMS_MAX]],
        problem=problem or call.problem,
        previous=f"{call.root}/store" if at else None,
        next=f"?{more}" if len(items) > ITEMS_MAX else None,
    )


async def _items(call: StudioCall, prefix: tuple[str, ...], query: str, at: int) -> list[Any]:
    """Return a page of items and one more, of those that the principal may read."""
    rows, offset = list[Any](), 0
    while len(rows) <= at + ITEMS_MAX:
        found = await call.source.store.asearch(
            prefix, query=query or None, limit=READ_MAX, offset=offset
        )
        rows += [one for one in found if await _may_read(call, one.namespace, one.key)]
        offset += len(found)
        if len(found) < READ_MAX:
            break
    return rows[at : at + ITEMS_MAX + 1]


async def _namespaces(call: StudioCall) -> list[str]:
    found = await call.source.store.alist_namespaces(limit=NAMESPACES_MAX)
    return [json.dumps(list(one)) for one in found if await _may_read(call, one, None)]


async def _may_read(call: StudioCall, namespace: tuple[str, ...], key: str | None) -> bool:
    if namespace[:1] == (OURS,):
        return False
    try:
        await call.must("studio.store.read", {"namespace": list(namespace), "key": key})
    except HttpProblem:
        return False
    return True


def _labels(text: str) -> tuple[str, ...]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise ValueError(f"got {text!r}")
    return tuple(found)


def _item(one: Any) -> dict[str, Any]:
    return {
        "key": one.key,
        "namespace": json.dumps(list(one.namespace)),
        "updated": moment(one.updated_at),
        "value": shown(one.value),
        "whole": whole(one.value),
    }


async def change(call: StudioCall) -> Response:
    """Save or delete an item."""
    call.must_write()
    try:
        namespace = _labels(call.form.get("namespace", ""))
    except ValueError as error:
        raise HttpProblem(f"the namespace must be a JSON list of labels: {error}") from error
    key = call.form.get("key", "")
    if not namespace or namespace[0] == OURS:
        raise HttpProblem("items of the web layer itself can't be changed here")
    await call.must("studio.store.write", {"namespace": list(namespace), "key": key})
    if call.source.store is None:
        raise NotFound("the system has no store")
    if call.form.get("do") == "delete":
        await call.source.store.adelete(namespace, key)
        return call.back("/store")
    try:
        value = json.loads(call.form.get("value", ""))
    except ValueError as error:
        return await store(call.refused(f"the value must be JSON: {error}", "/store"))
    if not isinstance(value, dict):
        return await store(call.refused("the value must be a JSON object", "/store"))
    await call.source.store.aput(namespace, key, value)
    return call.back("/store")


PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/store", store),
    ("POST", "/store", change),
)
