"""JSON schemas of the user's classes: input, output, state and context of a graph.

A pydantic model makes its own schema. Of every other class each key is described by msgspec, by
pydantic if msgspec can't and the program has imported it, and by `{}` ("anything") if neither can.
"""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from actorgraph.plan.annotation_forms import class_of, form_of, is_typed_dict
from actorgraph.plan.schema import is_schema, read_schema

_REFS = "#/$defs/{name}"
_PYDANTIC_REFS = "#/$defs/{model}"
_NOTHING = object()


def json_schema(source: Any, *, title: str) -> dict[str, Any]:
    """Make the JSON schema of a state, input, output or context class.

    Args:
        title: used if the source is not a class with keys, such as `int`.
    """
    if hasattr(source, "model_json_schema"):
        return source.model_json_schema()
    definitions: dict[str, Any] = {}
    if is_schema(source):
        described = _object(source, definitions)
    else:
        described = {"title": title, **described_type(source, definitions)}
    return {**described, "$defs": definitions} if definitions else described


def channels_schema(types: Mapping[str, Any], *, title: str) -> dict[str, Any]:
    """Make the JSON schema of a dict with optional keys of these types."""
    definitions: dict[str, Any] = {}
    properties = {key: _key(key, typ, definitions) for key, typ in types.items()}
    described: dict[str, Any] = {"title": title, "type": "object", "properties": properties}
    return {**described, "$defs": definitions} if definitions else described


def _object(source: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = read_schema(source)
    required, defaults = _required(class_of(source), schema.keys)
    properties: dict[str, Any] = {}
    for key, channel in schema.channels.items():
        properties[key] = _key(key, channel.typ, definitions)
        if key in defaults:
            properties[key]["default"] = defaults[key]
    described = {"title": source.__name__, "type": "object", "properties": properties}
    return {**described, "required": required} if required else described


def _required(source: Any, keys: tuple[str, ...]) -> tuple[list[str], dict[str, Any]]:
    """List the required keys, and the defaults of the others that JSON can express."""
    if is_typed_dict(source):
        return [key for key in keys if key in source.__required_keys__], {}
    defaults: dict[str, Any] = {}
    for key, default in _defaults(source).items():
        try:
            defaults[key] = msgspec.to_builtins(default)
        except (TypeError, msgspec.MsgspecError):
            defaults[key] = _NOTHING
    required = [key for key in keys if key not in defaults]
    return required, {k: v for k, v in defaults.items() if v is not _NOTHING}


def _defaults(source: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(source):
        return {
            field.name: field.default
            if field.default_factory is dataclasses.MISSING
            else _made(field.default_factory)
            for field in dataclasses.fields(source)
            if field.default is not dataclasses.MISSING
            or field.default_factory is not dataclasses.MISSING
        }
    return {
        field.name: field.default
        if field.default_factory is msgspec.NODEFAULT
        else _made(field.default_factory)
        for field in msgspec.structs.fields(source)
        if not field.required
    }


def _made(factory: Any) -> Any:
    """Call a default factory if it is a plain type; a user's factory is not called."""
    return factory() if factory in (list, dict, set, tuple, str, int) else _NOTHING


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
