"""JSON schemas of the user's classes: input, output, state and context of a graph.

A pydantic model makes its own schema. Of every other class each key is described by msgspec, by
pydantic if msgspec can't and the program has imported it, and by `{}` ("anything") if neither can.
"""

import sys
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from actorgraph.plan.annotation_forms import class_of, form_of
from actorgraph.plan.schema import Schema, is_schema, read_schema
from actorgraph.plan.state_objects import Default

_REFS = "#/$defs/{name}"
_PYDANTIC_REFS = "#/$defs/{model}"
_NOTHING = object()


def json_schema(source: Any, *, title: str, by_alias: bool = True) -> dict[str, Any]:
    """Make the JSON schema of a state, input, output or context class.

    Args:
        title: used if the source is not a class with keys, such as `int`.
        by_alias: whether keys have the names under which callers give them; else those of fields,
            under which results have them.
    """
    if hasattr(source, "model_json_schema"):
        return source.model_json_schema(by_alias=by_alias)
    definitions: dict[str, Any] = {}
    if is_schema(source):
        described = _object(source, definitions, by_alias=by_alias)
    else:
        described = {"title": title, **described_type(source, definitions)}
    return {**described, "$defs": definitions} if definitions else described


def channels_schema(types: Mapping[str, Any], *, title: str) -> dict[str, Any]:
    """Make the JSON schema of a dict with optional keys of these types."""
    definitions: dict[str, Any] = {}
    properties = {key: _key(key, typ, definitions) for key, typ in types.items()}
    described: dict[str, Any] = {"title": title, "type": "object", "properties": properties}
    return {**described, "$defs": definitions} if definitions else described


def _object(source: Any, definitions: dict[str, Any], *, by_alias: bool) -> dict[str, Any]:
    schema = read_schema(source)
    required, defaults = _required(schema)
    names: dict[str, str] = {}
    if by_alias and schema.fields is not None:
        names = {key: alias for alias, key in reversed([*schema.fields.aliases.items()])}
    properties: dict[str, Any] = {}
    for key, channel in schema.channels.items():
        described = properties[names.get(key, key)] = _key(key, channel.typ, definitions)
        if key in defaults:
            described["default"] = defaults[key]
    required = [names.get(key, key) for key in required]
    described = {"title": source.__name__, "type": "object", "properties": properties}
    return {**described, "required": required} if required else described


def _required(schema: Schema) -> tuple[list[str], dict[str, Any]]:
    """List the required keys, and the defaults of the others that JSON can express."""
    if schema.fields is None:
        return [key for key in schema.keys if key in class_of(schema.source).__required_keys__], {}
    defaults: dict[str, Any] = {}
    for key, default in schema.fields.defaults.items():
        try:
            defaults[key] = msgspec.to_builtins(_made(default))
        except (TypeError, msgspec.MsgspecError):
            defaults[key] = _NOTHING
    required = [key for key in schema.keys if key not in defaults]
    return required, {k: v for k, v in defaults.items() if v is not _NOTHING}


def _made(default: Default) -> Any:
    """Call a default factory if it is a plain type; a user's factory is not called."""
    plain = default.constant or default.factory in (list, dict, set, tuple, str, int)
    return default.make() if plain else _NOTHING


def described_type(annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Make the JSON schema of one key's type; adds the classes that it names to `definitions`."""
    annotation = form_of(annotation).typ
    try:
        (found,), named = msgspec.json.schema_components([annotation], ref_template=_REFS)
    except Exception:  # noqa: BLE001 - it may be any object at all
        found, named = _by_pydantic(annotation)
    definitions.update(named)
    return found


def _by_pydantic(annotation: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    pydantic: Any = sys.modules.get("pydantic")
    if pydantic is None:
        return {}, {}
    try:
        adapter = pydantic.TypeAdapter(annotation)
        found = cast("dict[str, Any]", adapter.json_schema(ref_template=_PYDANTIC_REFS))
    except Exception:  # noqa: BLE001 - it may be any object at all
        return {}, {}
    return found, found.pop("$defs", {})


def _key(key: str, annotation: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    return {"title": key.replace("_", " ").title(), **described_type(annotation, definitions)}
