"""Short texts of values, for errors and reprs: bounded in length and in time, and never raising.

A value of any size costs as much as its shown part: a long text is cut before `repr` sees it, a
long list is not walked. A value whose own `repr` raises is shown by the name of its class.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, cast

from actorgraph.errors.texts import error_text

TEXT_MAX = 120
"""Characters of a value in the text of an error."""
DEPTH_MAX = 4
_PLAIN = (type(None), bool, float, complex, type(Ellipsis), type(NotImplemented))
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)
_BRACKETS = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}


def shown(value: object, most: int = TEXT_MAX) -> str:
    """Return the `repr` of a value, cut to `most` characters; never raises.

    Objects without a `repr` of their own are shown as `<Name object>`, without their address;
    functions and classes by their names; fields with `repr=False` are left out.
    """
    return cut_text(_show(value, most, 0), most)


def cut_text(text: str, most: int) -> str:
    """Cut a text to `most` characters, with "..." at its end, and put it on one line."""
    line = " ".join(text[: most + 1].split()) if "\n" in text[: most + 1] else text
    return line if len(line) <= most and len(text) <= most else f"{line[: most - 3]}..."


def size_text(value: object) -> str:
    """Describe a value by its type and size, such as `str[12]`; a number or None by itself."""
    try:
        if isinstance(value, (bool, float, type(None))) or (
            isinstance(value, int) and abs(value) < 10**12
        ):
            return repr(value)
        name = type(value).__name__
        sized = isinstance(value, (str, bytes, bytearray, list, tuple, set, frozenset, dict))
        return f"{name}[{len(cast('Any', value))}]" if sized else name
    except Exception:  # noqa: BLE001 - a class of the program
        return type(value).__name__


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun: "1 node", "2 nodes"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def names_text(names: Sequence[str]) -> str:
    """Return names in parentheses, at most eight: ` (a, b, ... 3 more)`; "" for none."""
    more = f", ... {len(names) - 8} more" if len(names) > 8 else ""
    listed = ", ".join(cut_text(str(name), 40) for name in names[:8])
    return f" ({listed}{more})" if names else ""


def fields_text(value: Any) -> str:
    """Return the `repr` of a dataclass: fields that differ from their defaults, each cut."""
    parts = [
        f"{each.name}={shown(held, FIELD_MAX)}"
        for each in dataclasses.fields(value)
        if (held := getattr(value, each.name, None)) is not each.default
    ]
    return f"{type(value).__name__}({', '.join(parts)})"


def address_text(address: str) -> str:
    """Return a database's address without passwords and options; "postgresql" if in doubt."""
    parts = _URL.fullmatch(address)
    if parts is not None:
        user = f"{parts['user']}@" if parts["user"] else ""
        return f"{parts['scheme']}://{user}{parts['host']}{parts['name'] or ''}"
    if "'" not in address and "\\" not in address and "://" not in address:
        kept = [part for part in address.split() if part.partition("=")[0] in _NAMES]
        return " ".join(kept) or "postgresql"
    return "postgresql"


FIELD_MAX = 200
"""Characters of a field in the repr of a Command, a Send or an Interrupt."""
_HOST = r"(?:[\w.-]*|\[[0-9a-fA-F:]*\])(?::\d+)?"
_URL = re.compile(
    r"(?P<scheme>postgres(?:ql)?)://(?:(?P<user>[\w.%+-]+)(?::[^@/?#]*)?@)?"
    rf"(?P<host>{_HOST}(?:,{_HOST})*)(?P<name>/[\w.%-]*)?(?:\?[^@]*)?"
)
_NAMES = ("host", "hostaddr", "port", "dbname", "user")


def reason_text(error: BaseException) -> str:
    """Return the text of an error; of pydantic's, one clause per refused field, at most three."""
    try:
        found: Any = cast("Any", error).errors()
        parts = [
            f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}, got {shown(each['input'])}"
            for each in found[:3]
        ]
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        return "; ".join(parts) + more
    except Exception:  # noqa: BLE001 - not pydantic's, or a text that can't be made
        return error_text(error)


def _show(value: object, room: int, depth: int) -> str:
    try:
        return _shown(value, room, depth)
    except Exception:  # noqa: BLE001 - a repr of the program, which may do anything
        return f"<{type(value).__name__} object>"


def _shown(value: Any, room: int, depth: int) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is int:
        bits = value.bit_length()
        return f"<int of {bits} bits>" if bits > 4 * max(room, 64) else repr(value)
    if kind in (str, bytes, bytearray):
        return repr(value) if len(value) <= room else f"{value[: max(room - 5, 1)]!r}..."
    if isinstance(value, type):
        return f"<class {value.__name__!r}>"
    if isinstance(value, _FUNCTIONS):
        return f"<function {getattr(value, '__qualname__', 'function').rpartition('.')[2]}>"
    if depth >= DEPTH_MAX:
        return "..."
    if kind in _BRACKETS:
        return _collection(value, kind, room, depth)
    if kind is dict:
        pairs = cast("dict[Any, Any]", value).items()
        shown_pairs = (
            f"{_show(k, room, depth + 1)}: {_show(v, room, depth + 1)}" for k, v in pairs
        )
        return "{" + _joined(shown_pairs, room, len(value)) + "}"
    fields = _fields(value)
    if fields is not None:
        parts = (f"{k}={_show(v, room, depth + 1)}" for k, v in fields)
        return f"{kind.__qualname__.rpartition('.')[2]}({_joined(parts, room, len(fields))})"
    if kind.__repr__ is object.__repr__:
        return f"<{kind.__name__} object>"
    return repr(value)


def _collection(value: Any, kind: type, room: int, depth: int) -> str:
    if not value:
        return repr(value)
    opened, closed = _BRACKETS[kind]
    text = _joined((_show(item, room, depth + 1) for item in value), room, len(value))
    text = opened + text + ("," if kind is tuple and len(value) == 1 else "") + closed
    return f"frozenset({text})" if kind is frozenset else text


def _joined(parts: Iterable[str], room: int, count: int) -> str:
    """Join parts with commas until the room is used up."""
    taken: list[str] = []
    used = 0
    for part in islice(parts, max(room, 1)):
        taken.append(part)
        used += len(part) + 2
        if used > room:
            break
    left = count - len(taken)
    return ", ".join(taken) + (f", ... {left} more" if left > 0 else "")


def _fields(value: Any) -> list[tuple[str, Any]] | None:
    """List the shown fields of a dataclass or a pydantic model with the usual repr."""
    kind = type(value)
    if dataclasses.is_dataclass(value) and "__repr__" in vars(kind):
        named = [f.name for f in dataclasses.fields(value) if f.repr]
        return [(name, getattr(value, name)) for name in named if hasattr(value, name)]
    models = getattr(kind, "model_fields", None)
    if isinstance(models, Mapping) and isinstance(getattr(value, "__dict__", None), dict):
        declared = cast("Mapping[str, Any]", models)
        # Messages of LangChain leave fields out that were not given, by a method of their own.
        shows: Any = getattr(kind, "__repr_args__", None)
        by_pydantic = getattr(shows, "__module__", "").startswith("pydantic.")
        set_fields: Any = declared if by_pydantic else getattr(value, "model_fields_set", ())
        return [
            (name, held)
            for name, held in vars(value).items()
            if name in declared and name in set_fields and getattr(declared[name], "repr", True)
        ]
    return None
