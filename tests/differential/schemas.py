"""The state of a spec as a class of some kind, and what is given and returned as objects of it."""

import dataclasses
import operator
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, TypedDict

from tests.differential.trace import Spec


def larger(one: int, other: int) -> int:
    """A reducer with a signature, which `max` has not."""
    return max(one, other)


TYPES = {
    "append": Annotated[list, operator.add],
    "sum": Annotated[int, operator.add],
    "max": Annotated[int, larger],
    "last": str,
    "optional": str | None,
}
EMPTY = {"append": [], "sum": 0, "max": 0, "last": "", "optional": None, "messages": []}
"""The default of a key whose class needs one and whose spec names none: what it begins with."""


def schema_of(library: Any, spec: Spec, path: str = "") -> Any:
    """The class: a TypedDict, a dataclass or a pydantic model of the spec's channels.

    Args:
        path: of a nested graph, for the class's name: both libraries store objects by that, and
            LangGraph imports it from here.
    """
    name = "State" + path.replace("/", "_")
    made = _made(library, spec, name)
    made.__module__, globals()[name] = __name__, made
    return made


def _made(library: Any, spec: Spec, name: str) -> Any:
    types = {
        key: Annotated[list, library.add_messages] if kind == "messages" else TYPES[kind]
        for key, kind in spec["channels"].items()
    }
    match spec.get("schema", "typed"):
        case "dataclass":
            fields = [
                (key, type_, dataclasses.field(default_factory=partial(_copy, default)))
                for (key, type_), default in zip(types.items(), defaults_of(spec), strict=True)
            ]
            return dataclasses.make_dataclass(name, fields)
        case "pydantic":
            return _model(spec, name, types)
        case _:
            return TypedDict(name, types, total=False)  # pyright: ignore[reportArgumentType]


def defaults_of(spec: Spec) -> list[Any]:
    """The default of each channel, in their order."""
    declared = spec.get("defaults", {})
    return [declared.get(name, EMPTY[kind]) for name, kind in spec["channels"].items()]


def _copy(default: Any) -> Any:
    return [*default] if isinstance(default, list) else default


def _model(spec: Spec, called: str, types: dict[str, Any]) -> Any:
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for (name, type_), default in zip(types.items(), defaults_of(spec), strict=True):
        options = {"alias": alias_of(name)} if spec.get("aliases") else {}
        made = (
            Field(default_factory=partial(_copy, default), **options)
            if isinstance(default, list)
            else Field(default, **options)
        )
        fields[name] = (type_, made)
    config = ConfigDict(populate_by_name=True)
    return create_model(called, __config__=config, __module__=__name__, **fields)


def alias_of(name: str) -> str:
    """The alias of a key, by which an object of a model with aliases is made."""
    return f"the_{name}"


def made_object(spec: Spec, schema: Any, given: dict[str, Any]) -> Any:
    """An object of the schema, made by aliases where it has some; of a TypedDict, a dict."""
    by_alias = spec.get("aliases") and spec.get("schema") == "pydantic"
    return schema(**{alias_of(k): v for k, v in given.items()} if by_alias else given)


def seen_in(state: Any) -> dict[str, Any]:
    """The view of a node as a dict, whatever its class; the argument of a Send is one already."""
    if isinstance(state, Mapping):
        return dict(state)
    if dataclasses.is_dataclass(state):
        return {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}
    return {name: getattr(state, name) for name in type(state).model_fields}
