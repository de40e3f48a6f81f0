"""The page of the store: namespaces, items, search; editing and deleting an item."""

import json
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from actorgraph.studio.page_calls import Handler, StudioCall
from actorgraph.studio.shown import moment, shown, whole
from actorgraph.web.requests.problems import HttpProblem

ITEMS_MAX = 25
NAMESPACES_MAX = 500
OURS = "actorgraph"
"""The first label of the web layer's own items, which aren't shown."""


class ItemFilter(msgspec.Struct, frozen=True):
    """The items to list: below a namespace (JSON list), similar to or containing a text."""

    namespace: str = ""
    query: str = ""


async def store(call: StudioCall) -> Response:
    """List items."""
    await call.may("studio.store.read")
    asked = ItemFilter(call.query.get("namespace", ""), call.query.get("query", ""))
    after = call.query.get("after", "")
    at = int(after) if after.isascii() and after.isdecimal() and len(after) < 9 else 0
    items, problem = [], ""
    if call.source.store is not None:
        try:
            items = await _items(call, asked, at)
        except ValueError as error:
            problem = f"the namespace must be a JSON list of labels: {error}"
    names = await _namespaces(call) if call.source.store is not None else []
    filters = {k: v for k, v in msgspec.structs.asdict(asked).items() if v}
    more = urlencode({**filters, "after": at + ITEMS_MAX})
    return call.page(
        "store.html",
        title="Store",
        has_store=call.source.store is not None,
        filter=asked,
        namespaces=names,
        items=[_item(one) for one in items[:ITEMS_MAX]],
        problem=problem or call.query.get("problem", ""),
        previous=f"{call.root}/store" if at else None,
        next=f"?{more}" if len(items) > ITEMS_MAX else None,
    )


async def _items(call: StudioCall, asked: ItemFilter, at: int) -> list[Any]:
    prefix = _labels(asked.namespace) if asked.namespace else ()
    found = await call.source.store.asearch(
        prefix, query=asked.query or None, limit=ITEMS_MAX + 1, offset=at
    )
    return [one for one in found if one.namespace[0] != OURS]


async def _namespaces(call: StudioCall) -> list[str]:
    found = await call.source.store.alist_namespaces(limit=NAMESPACES_MAX)
    return [json.dumps(list(one)) for one in found if one[0] != OURS]


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
    await call.may("studio.store.write", None, {"namespace": list(namespace), "key": key})
    if call.form.get("do") == "delete":
        await call.source.store.adelete(namespace, key)
        return call.back("/store")
    try:
        value = json.loads(call.form.get("value", ""))
    except ValueError as error:
        return call.back(f"/store?{urlencode({'problem': f'the value must be JSON: {error}'})}")
    if not isinstance(value, dict):
        return call.back(f"/store?{urlencode({'problem': 'the value must be a JSON object'})}")
    await call.source.store.aput(namespace, key, value)
    return call.back("/store")


PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/store", store),
    ("POST", "/store", change),
)
