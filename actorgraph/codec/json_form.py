"""The JSON form of encoded values: text with exactly the content of the msgpack form.

Values are encoded as msgpack, then converted to JSON, and back when they are read, so that both
forms accept and refuse the same. A value that JSON lacks is an object with one key that begins
with "$": `{"$tuple": [1, 2]}`, `{"$bytes": "aGk="}`, `{"$float": "nan"}`. A dict that has such a
key itself is escaped: `{"$dict": [[key, value], ...]}`.

The first byte of a payload identifies its form. JSON's is below 0x80, where msgpack has only the
integers 0 to 127, which are one byte long. So JSON of one byte gets a space in front.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec
import ormsgpack

from actorgraph.codec.bounds import CopyBudget
from actorgraph.codec.stored_types import (
    ARRAY,
    BUILTIN,
    NAMED,
    PAIRS,
    SCALAR,
    Packed,
)
from actorgraph.errors import InvalidConfigError, SerializationError

_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder().decode
_NAMES = {
    **{extension.code: f"${kind.__name__}" for kind, extension in BUILTIN.items()},
    **{extension.code: f"${name}" for name, extension in NAMED.items()},
    PAIRS: "$pairs",
    ARRAY.code: "$array",
    SCALAR.code: "$scalar",
}
_CODES = {name: code for code, name in _NAMES.items()}
_BYTES, _FLOAT, _DICT = "$bytes", "$float", "$dict"


Form = Literal["msgpack", "json"]
"""Format of encoded values. A codec reads both, and writes its own."""


def writes_json(form: Form) -> bool:
    """Whether a form is "json".

    Raises:
        InvalidConfigError: the form is unknown.
    """
    if form not in ("msgpack", "json"):
        raise InvalidConfigError(
            f"form must be 'msgpack' or 'json', got {form!r}", do='use "msgpack" or "json"'
        )
    return form == "json"


class _Marked(dict[str, Any]):
    """A "$" object of this format; any other dict with a "$" key must be escaped."""


def is_json(payload: bytes) -> bool:
    """Whether a payload is JSON."""
    return len(payload) > 1 and payload[0] < 0x80


def as_payload(text: bytes) -> bytes:
    """Make a payload of JSON text."""
    return text if len(text) > 1 else b" " + text


def to_json(payload: bytes) -> bytes:
    """Convert msgpack to JSON.

    Raises:
        SerializationError: it is nested too deeply.
    """
    try:
        return as_payload(_ENCODE(_plain(payload)))
    except RecursionError as error:
        raise SerializationError(
            "a value is nested too deeply to be stored as JSON",
            do="store plain, shallow data in the state",
        ) from error


def to_msgpack(payload: bytes, pack: Callable[[Any], bytes]) -> bytes:
    """Convert JSON to msgpack.

    Args:
        pack: encodes plain data and `Packed` as msgpack.
    Raises:
        SerializationError: the text is damaged.
    """
    copies = CopyBudget(len(payload))

    def packed(plain: Any) -> bytes:
        made = pack(plain)
        copies.spend(len(made))
        return made

    try:
        value = _DECODE(payload)
        return pack(_unmarked(value, packed) if b'"$' in payload else value)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, UnicodeError) as error:
        raise SerializationError(
            f"a stored value is not valid JSON of this library: {error}",
            do="check the database's integrity, or restore it from a backup",
        ) from error


_PLAIN = frozenset({int, str, bool, type(None)})
_NUMBERS = frozenset({int, float})
_HOLDERS = frozenset({list, dict})


def _is_flat(items: list[Any]) -> bool:
    """Whether all items of a list are JSON as they are: found out without a call for each."""
    kinds = set(map(type, items))
    return kinds <= _PLAIN or (kinds <= _NUMBERS and all(map(math.isfinite, items)))


def _plain(payload: bytes) -> Any:
    """Decode msgpack to what JSON has, with `_Marked` for the rest."""
    return _marked(ormsgpack.unpackb(payload, ext_hook=_extension))


def _extension(code: int, payload: bytes) -> _Marked:
    return _Marked({_NAMES.get(code, f"${code}"): _plain(payload)})


def _marked(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return value if _is_flat(value) else [_marked(item) for item in value]
    if kind is dict:
        plain = {k: _marked(v) for k, v in cast("dict[str, Any]", value).items()}
        if any(key[:1] == "$" for key in plain):
            return _Marked({_DICT: [[k, v] for k, v in plain.items()]})
        return plain
    if kind is bytes:
        return _Marked({_BYTES: msgspec.to_builtins(value)})
    if kind is float and not math.isfinite(value):
        sign = "-" if math.copysign(1, value) < 0 else ""
        return _Marked({_FLOAT: sign + str(abs(value))})
    return value


def _unmarked(value: Any, pack: Callable[[Any], bytes]) -> Any:
    kind = type(value)
    if kind is list:
        flat = _HOLDERS.isdisjoint(map(type, value))
        return value if flat else [_unmarked(item, pack) for item in value]
    if kind is not dict:
        return value
    if len(value) == 1:
        ((key, inner),) = cast("dict[str, Any]", value).items()
        if key[:1] == "$":
            return _from_marker(key, inner, pack)
    return {k: _unmarked(v, pack) for k, v in cast("dict[str, Any]", value).items()}


def _from_marker(key: str, inner: Any, pack: Callable[[Any], bytes]) -> Any:
    if key == _BYTES:
        return msgspec.convert(inner, bytes)  # three times as fast as `base64`, and as strict
    if key == _FLOAT:
        return float(inner)
    if key == _DICT:
        return {k: _unmarked(v, pack) for k, v in inner}
    code = _CODES.get(key)
    return Packed(int(key[1:]) if code is None else code, pack(_unmarked(inner, pack)))
