"""Whether an answer fits the JSON schema that its question shows.

Checked when an answer is accepted, without the node's own type, which may be in another process:
the node checks and converts it again. So only sure mistakes are found. Keywords that aren't
known here, references elsewhere, and answers that aren't plain JSON pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list, tuple),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_DEPTH_MAX = 100
_PLAIN = (dict, list, tuple, str, int, float, bool, type(None))

Schema = Mapping[str, Any]


def misfit(answer: Any, schema: Any) -> str | None:
    """Say in which way an answer doesn't fit a JSON schema; None if nothing is wrong with it."""
    return next(iter(_misfits(answer, schema, schema, "$", 0)), None)


def _misfits(value: Any, schema: Any, root: Any, path: str, depth: int) -> Iterable[str]:
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX or type(value) not in _PLAIN:
        return
    rule = cast("Schema", schema)
    target = _resolved(rule.get("$ref"), root)
    if target is not None:
        yield from _misfits(value, target, root, path, depth + 1)
    kinds = rule.get("type")
    names = [kinds] if isinstance(kinds, str) else _listed(kinds)
    if names and not any(_is_a(value, name) for name in names):
        yield f"expected {' or '.join(map(str, names))} at {path}, got {type(value).__name__}"
        return
    choices = _listed(rule.get("enum", [rule["const"]] if "const" in rule else None))
    if choices and not any(_same(value, one) for one in choices):
        yield f"expected one of {choices!r} at {path}, got {value!r}"
    yield from _outside(value, rule, path)
    for key in ("anyOf", "oneOf"):
        forms = [list(_misfits(value, o, root, path, depth + 1)) for o in _listed(rule.get(key))]
        if forms and all(forms):
            yield forms[0][0] if len(forms) == 1 else f"no form of {key} fits at {path}"
    for part in _listed(rule.get("allOf")):
        yield from _misfits(value, part, root, path, depth + 1)
    if isinstance(value, dict):
        yield from _in_object(cast("dict[Any, Any]", value), rule, root, path, depth)
    elif isinstance(value, (list, tuple)):
        yield from _in_array(cast("Sequence[Any]", value), rule, root, path, depth)


def _listed(given: Any) -> list[Any]:
    return cast("list[Any]", given) if isinstance(given, list) else []


def _resolved(reference: Any, root: Any) -> Any:
    """The schema that a reference within the document leads to; None for any other."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found = root
    for name in reference.lstrip("#").strip("/").split("/"):
        if name:
            found = cast("Schema", found).get(name) if isinstance(found, Mapping) else None
    return found


def _is_a(value: Any, name: Any) -> bool:
    if name not in _TYPES:
        return True
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, float) and name == "integer":
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _same(value: Any, choice: Any) -> bool:
    """Whether two JSON values are equal; True and 1 are not."""
    return value == choice and isinstance(value, bool) == isinstance(choice, bool)


def _outside(value: Any, rule: Schema, path: str) -> Iterable[str]:
    """The limits of a number or of a length that a value exceeds."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, list, tuple)):
        return
    number = isinstance(value, (int, float))
    size: Any = value if number else len(cast("Sequence[Any]", value))
    kind = "" if number else "Length" if isinstance(value, str) else "Items"
    low, high = ("minimum", "maximum") if number else (f"min{kind}", f"max{kind}")
    what = f"{size!r}" if number else f"length {size}"
    if isinstance(rule.get(low), (int, float)) and size < rule[low]:
        yield f"expected {low} {rule[low]} at {path}, got {what}"
    if isinstance(rule.get(high), (int, float)) and size > rule[high]:
        yield f"expected {high} {rule[high]} at {path}, got {what}"


def _in_object(
    value: dict[Any, Any], rule: Schema, root: Any, path: str, depth: int
) -> Iterable[str]:
    for key in _listed(rule.get("required")):
        if key not in value:
            yield f"{key!r} is missing at {path}"
    known = rule.get("properties")
    known = cast("Schema", known) if isinstance(known, Mapping) else {}
    more = rule.get("additionalProperties", True)
    for key, item in value.items():
        if key in known:
            yield from _misfits(item, known[key], root, f"{path}.{key}", depth + 1)
        elif more is False and "patternProperties" not in rule:
            yield f"{key!r} is unknown at {path}"
        else:
            yield from _misfits(item, more, root, f"{path}.{key}", depth + 1)


def _in_array(
    value: Sequence[Any], rule: Schema, root: Any, path: str, depth: int
) -> Iterable[str]:
    first = _listed(rule.get("prefixItems"))
    for place, item in enumerate(value):
        schema = first[place] if place < len(first) else rule.get("items")
        yield from _misfits(item, schema, root, f"{path}[{place}]", depth + 1)
