"""The second form of encoded values: JSON text that says exactly what the msgpack says.

It is made of the msgpack, and read by making the msgpack again, so that both forms take the same
types and refuse the same. What JSON has no form for is an object with one key that begins
with "$": `{"$tuple": [1, 2]}`, `{"$bytes": "aGk="}`, `{"$float": "nan"}`; a dict with such a key is
`{"$dict": [[key, value], ...]}`.

A payload tells its form by its first byte: all of JSON's are below 0x80, where msgpack has the
integers 0 to 127, which are one byte long. So JSON of one byte gets a space in front.
"""

import math
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec
import ormsgpack

from actorgraph.codec.bounds import Copies
from actorgraph.codec.types import (
    ARRAY,
    BUILTIN,
    DATACLASS,
    ENUM,
    MODEL,
    NAMED_TUPLE,
    PAIRS,
    SCALAR,
    STRUCT,
    Packed,
)
from actorgraph.errors import InvalidConfigError, SerializationError

_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder().decode
_NAMES = {
    **{extension.code: f"${kind.__name__}" for kind, extension in BUILTIN.items()},
    DATACLASS.code: "$dataclass",
    STRUCT.code: "$struct",
    MODEL.code: "$model",
    ENUM.code: "$enum",
    NAMED_TUPLE.code: "$namedtuple",
    PAIRS: "$pairs",
    ARRAY.code: "$array",
    SCALAR.code: "$scalar",
}
_CODES = {name: code for code, name in _NAMES.items()}
_BYTES, _FLOAT, _DICT = "$bytes", "$float", "$dict"


Form = Literal["msgpack", "json"]
"""How values are encoded; each is read whatever the codec's own form is."""


def writes_json(form: Form) -> bool:
    """Whether a form is this one.

    Raises:
        InvalidConfigError: there is no such form.
    """
    if form not in ("msgpack", "json"):
        raise InvalidConfigError(f"form={form!r} is none", do='use "msgpack" or "json"')
    return form == "json"


class _Marked(dict[str, Any]):
    """An object that stands for something else, so that its key is not escaped."""


def is_json(payload: bytes) -> bool:
    """Whether a payload is of this form."""
    return len(payload) > 1 and payload[0] < 0x80


def as_payload(text: bytes) -> bytes:
    """The payload of JSON text."""
    return text if len(text) > 1 else b" " + text


def to_json(payload: bytes) -> bytes:
    """The JSON form of msgpack.

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
    """The msgpack of a payload of this form.

    Args:
        pack: makes msgpack of plain data and `Packed`.
    Raises:
        SerializationError: the text is damaged.
    """
    copies = Copies(len(payload))

    def packed(plain: Any) -> bytes:
        made = pack(plain)
        copies.spend(len(made))
        return made

    try:
        value = _DECODE(payload)
        return pack(_unmarked(value, packed) if b'"$' in payload else value)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, UnicodeError) as error:
        raise SerializationError(
            f"a stored value is no JSON of this library: {error}",
            do="check the database's integrity, or restore it from a backup",
        ) from error


def _plain(payload: bytes) -> Any:
    """What JSON can say, with `_Marked` where it can't say it plainly."""
    return _marked(ormsgpack.unpackb(payload, ext_hook=_extension))


def _extension(code: int, payload: bytes) -> _Marked:
    return _Marked({_NAMES.get(code, f"${code}"): _plain(payload)})


def _marked(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_marked(item) for item in cast("list[Any]", value)]
    if kind is dict:
        plain = {k: _marked(v) for k, v in cast("dict[str, Any]", value).items()}
        if any(key[:1] == "$" for key in plain):
            return _Marked({_DICT: [[k, v] for k, v in plain.items()]})
        return plain
    if kind is bytes:
        return _Marked({_BYTES: b64encode(value).decode()})
    if kind is float and not math.isfinite(value):
        sign = "-" if math.copysign(1, value) < 0 else ""
        return _Marked({_FLOAT: sign + str(abs(value))})
    return value


def _unmarked(value: Any, pack: Callable[[Any], bytes]) -> Any:
    kind = type(value)
    if kind is list:
        return [_unmarked(item, pack) for item in cast("list[Any]", value)]
    if kind is not dict:
        return value
    if len(value) == 1:
        ((key, inner),) = cast("dict[str, Any]", value).items()
        if key[:1] == "$":
            return _meant(key, inner, pack)
    return {k: _unmarked(v, pack) for k, v in cast("dict[str, Any]", value).items()}


def _meant(key: str, inner: Any, pack: Callable[[Any], bytes]) -> Any:
    if key == _BYTES:
        return b64decode(inner, validate=True)
    if key == _FLOAT:
        return float(inner)
    if key == _DICT:
        return {k: _unmarked(v, pack) for k, v in inner}
    code = _CODES.get(key)
    return Packed(int(key[1:]) if code is None else code, pack(_unmarked(inner, pack)))
