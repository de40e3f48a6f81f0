"""The largest bodies that each route takes, made of the OpenAPI document and the limits.

One field after the other is as large as the limits allow: with as many values, in as many items,
or of as much text. So a new route, or a new field, is asked by itself.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from actorgraph.web import Limits
from actorgraph.web.endpoints.endpoint import Endpoint
from tests.web.canary import usual

SPARE = 200
"""Values of the rest of a body."""
SPARE_BYTES = 4096
INSIDE = 3
"""Levels of named fields inside a field that are filled one by one."""


_BOUNDED = {"enum", "maxLength", "pattern"}
"""Keywords of texts that can't be long, or have to be made for a pattern."""


class Filled(NamedTuple):
    """A body whose field `field` is as large as possible."""

    field: str
    value: Any

    @property
    def body(self) -> bytes:
        return b"" if self.value is None else _encoded(self.value)


class Largest:
    """Makes the largest values of schemas.

    Args:
        document: the OpenAPI document.
        limits: of the server.
        known: name of a field -> its largest values, where only existing names do anything.
    """

    def __init__(
        self, document: dict[str, Any], limits: Limits, known: Mapping[str, list[Any]]
    ) -> None:
        self._document = document
        self._values = limits.values - SPARE
        self._bytes = limits.body_bytes - SPARE_BYTES
        self._most_items = limits.items
        self._known = known

    def bodies(self, endpoint: Endpoint) -> Iterator[Filled]:
        """Every field as large as possible, the others as usual; last the usual body."""
        if endpoint.body is None:
            return
        operation = self._document["paths"][endpoint.path][endpoint.method.lower()]
        schema = self._named(operation["requestBody"]["content"]["application/json"]["schema"])
        plain = usual(endpoint, endpoint.body)
        if schema.get("type") == "array":
            yield Filled("[]", [plain[0]] * self._most_items)
            yield Filled("", plain)
            plain = plain[0]
            for field, filled in self._fields(self._named(schema["items"]), plain, INSIDE):
                yield Filled(field, [filled])
            return
        for field, filled in self._fields(schema, plain, INSIDE):
            yield Filled(field, filled)
        yield Filled("", {**plain, **_page(schema)})

    def _fields(
        self, schema: dict[str, Any], plain: dict[str, Any], inside: int
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Field and object, for each largest value of each field."""
        for name, inner in schema.get("properties", {}).items():
            alone = {"input", "values"} if name == "command" else set[str]()
            rest = {key: value for key, value in plain.items() if key not in alone}
            rest |= _page(schema)
            for part, value in self._largest(name, inner, inside):
                yield f"{name}{part}", {**rest, name: value}

    def _largest(self, name: str, schema: dict[str, Any], inside: int) -> Iterator[tuple[str, Any]]:
        """Which kind of large, and the value."""
        if name in self._known:
            yield from ((":known", value) for value in self._known[name])
            return
        schema = self._named(schema)
        if "anyOf" in schema:
            for one in schema["anyOf"]:
                yield from self._largest(name, one, inside)
        elif not schema.keys() & {"type", "enum", "const"}:
            yield ":list", [0] * self._values
            yield ":text", "x" * self._bytes
        elif schema.get("type") == "object" and "properties" in schema:
            if inside:
                needed = {key: self._least(key, schema) for key in schema.get("required", ())}
                for field, filled in self._fields(schema, needed, inside - 1):
                    yield f".{field}", filled
        elif schema.get("type") == "object":
            yield ":values", {str(number): 0 for number in range(self._values)}
            yield ":text", {"a": "x" * self._bytes}
        elif schema.get("type") == "array":
            item = self._least(name, {"properties": {name: schema.get("items", {})}})
            yield ":items", self._items(item)
        elif schema.get("type") == "string" and not schema.keys() & _BOUNDED:
            yield ":text", "x" * self._bytes

    def _least(self, name: str, schema: dict[str, Any]) -> Any:
        """A small value of a field."""
        inner = self._named(schema["properties"][name])
        if "anyOf" in inner:
            inner = self._named(inner["anyOf"][0])
        match inner:
            case {"enum": [first, *_]} | {"const": first}:
                return first
            case {"type": "object"}:
                return {key: self._least(key, inner) for key in inner.get("required", ())}
            case {"type": "array", "prefixItems": parts}:
                return [self._least("0", {"properties": {"0": part}}) for part in parts]
            case {"type": "array"}:
                return [self._least("0", {"properties": {"0": inner.get("items", {})}})]
            case {"type": "string"}:
                return self._known.get(name, ["second"])[0]
            case {"type": "integer" | "number"}:
                return inner.get("minimum", 1)
            case _:
                return 0

    def _items(self, item: Any) -> list[Any]:
        """As many items as a body may hold, in values and in bytes."""
        each = max(1, _count(item))
        most = min(self._values // each, self._bytes // (len(_encoded(item)) + 2))
        return [item] * most

    def _named(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            schema = self._document["components"]["schemas"][name]
        return schema


def _page(schema: dict[str, Any]) -> dict[str, Any]:
    """The largest page, where there are pages."""
    limit = schema.get("properties", {}).get("limit", {})
    return {"limit": limit["maximum"]} if "maximum" in limit else {}


def _count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


def _encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
