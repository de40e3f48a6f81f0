"""The OpenAPI document, built from the same table of endpoints that is served."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from actorgraph.web.endpoints.endpoint import Endpoint
from actorgraph.web.http import response_types

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)}")
_PROBLEMS = {
    "400": "The client disconnected before the request was complete",
    "401": "Authentication required",
    "403": "Permission denied",
    "404": "Not found, or not visible to the caller",
    "409": "Conflict with the current state of the resource",
    "408": "The request body took too long to arrive",
    "413": "The request body is too large",
    "415": "The request body is compressed or not JSON",
    "422": "The request is invalid",
    "429": "Rate limit exceeded, or no capacity for another run or stream",
    "500": "Internal server error",
    "501": "An optional package is not installed on the server",
    "503": "The server is draining, or its storage is unavailable",
    "507": "The storage is full",
}


def document(endpoints: Sequence[Endpoint], *, version: str) -> dict[str, Any]:
    """Build the document, OpenAPI 3.1."""
    types = _types(endpoints)
    made, found = msgspec.json.schema_components(types, ref_template=_REF)
    schemas, components = plain(made), plain(found)
    named = {_key(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    asked = [named[_key(one.body)] for one in endpoints if one.body is not None]
    answered = [named[_key(one.answer)] for one in endpoints if one.answer is not None]
    for name in components_of(asked, components) - components_of(answered, components):
        components[name] = without_defaults(components[name])
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, named)
    return {
        "openapi": "3.1.0",
        "info": {"title": "actorgraph", "version": version},
        "paths": paths,
        "components": {"schemas": components},
    }


_NAMED = {"properties", "additionalProperties"}


def plain(schema: Any) -> Any:
    """Return a schema in the form that generators of clients read. It allows the same values.

    A tuple has no `items: false`, which its `maxItems` says too; an array or an object of anything
    says so; a value that must be a certain boolean is a constant.
    """
    if isinstance(schema, dict):
        fields = dict(cast("dict[str, Any]", schema))
        if "prefixItems" in fields and fields.get("items") is False and "maxItems" in fields:
            del fields["items"]
        elif fields.get("type") == "array" and not fields.keys() & {"items", "prefixItems"}:
            fields["items"] = {}
        elif fields.get("type") == "object" and not fields.keys() & _NAMED:
            fields["additionalProperties"] = {}
        elif fields.get("enum") in ([True], [False]):
            fields["const"] = fields.pop("enum")[0]
        return {name: plain(one) for name, one in fields.items()}
    if isinstance(schema, list | tuple):
        return [plain(one) for one in cast("list[Any]", schema)]
    return schema


def components_of(schemas: Any, components: dict[str, Any]) -> set[str]:
    """Return the names of all components that schemas refer to, directly or by others."""
    found: set[str] = set()
    waiting: list[Any] = [schemas]
    while waiting:
        match waiting.pop():
            case {"$ref": str(place)}:
                name = place.rpartition("/")[2]
                if name not in found:
                    found.add(name)
                    waiting.append(components[name])
            case dict() as fields:
                waiting.extend(cast("dict[str, Any]", fields).values())
            case list() as items:
                waiting.extend(cast("list[Any]", items))
            case _:
                pass
    return found


def without_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body with its fields' defaults in their descriptions.

    A field with `default` is a required one for openapi-typescript, in bodies to send too.
    """
    fields: dict[str, Any] = {}
    for name, field in schema.get("properties", {}).items():
        others = {key: value for key, value in field.items() if key != "default"}
        if field.get("default") is not None:
            others["description"] = f"Default: {msgspec.json.encode(field['default']).decode()}"
        fields[name] = others
    return {**schema, "properties": fields} if fields else schema


def _types(endpoints: Iterable[Endpoint]) -> list[Any]:
    found: dict[str, Any] = {_key(response_types.Problem): response_types.Problem}
    for endpoint in endpoints:
        for kind in (endpoint.body, endpoint.query, endpoint.answer):
            if kind is not None:
                found[_key(kind)] = kind
    return list(found.values())


def _key(kind: Any) -> str:
    return repr(kind)


def _operation(endpoint: Endpoint, named: dict[str, Any]) -> dict[str, Any]:
    words = re.sub(r"\W+", "_", endpoint.path).strip("_")
    made: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}_{words}",
        "parameters": [*_of_path(endpoint), *_of_query(endpoint)],
        "responses": _responses(endpoint, named),
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": named[_key(endpoint.body)]}}
        made["requestBody"] = {"required": True, "content": content}
    return made


def _of_path(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(endpoint.path)
    ]


def _of_query(endpoint: Endpoint) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    (_,), components = msgspec.json.schema_components([endpoint.query], ref_template=_REF)
    whole = components[endpoint.query.__name__]
    needed = whole.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": schema}
        for name, schema in whole["properties"].items()
    ]


def _responses(endpoint: Endpoint, named: dict[str, Any]) -> dict[str, Any]:
    problem = {"application/json": {"schema": named[_key(response_types.Problem)]}}
    made = {code: {"description": text, "content": problem} for code, text in _PROBLEMS.items()}
    if endpoint.streams:
        made["200"] = {"description": "Server-sent events", "content": {"text/event-stream": {}}}
    elif endpoint.answer is None:
        made["204"] = {"description": "Success, without a body"}
    else:
        content = {endpoint.media: {"schema": named[_key(endpoint.answer)]}}
        made["200"] = {"description": "Success", "content": content}
    return made
