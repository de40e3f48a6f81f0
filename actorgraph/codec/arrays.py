"""numpy's arrays and scalars: their dtype, their shape, their bytes.

They are always allowed once the program has imported numpy. Nothing is imported here, so a stored
array is an error in a program that hasn't. A dtype is stored as numpy's own short text, or field by
field. Arrays of objects are refused, and so is a dtype that would not decode to an equal one.
"""

import re
import sys
from math import prod
from typing import Any

_NAME = re.compile(r"[<>|][A-Za-z?]\d{0,9}(\[\d{0,9}[A-Za-z]{1,2}\])?")
_KINDS = frozenset("biufcmMSUV")
_SIZE = 2**63


_FLAGS = 0xFF
"""The bits of a dtype's flags that say how its items are read."""


def is_array(kind: type) -> bool:
    """Whether a type is numpy's array; subclasses of it are not stored."""
    numpy = sys.modules.get("numpy") if kind.__module__ == "numpy" else None
    return numpy is not None and kind is numpy.ndarray


def is_scalar(kind: type) -> bool:
    """Whether a type is one of numpy's scalars."""
    numpy = sys.modules.get("numpy") if kind.__module__ == "numpy" else None
    return numpy is not None and issubclass(kind, numpy.generic)


def pack_array(value: Any) -> list[Any]:
    """Return dtype, shape, order and bytes.

    Raises:
        TypeError: its dtype can't be stored.
    """
    described = _described(value.dtype)
    flags = value.flags
    order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    if value.dtype.names is not None:
        value = _without_gaps(value, order)
    return [described, list(value.shape), order, value.tobytes(order)]


def build_array(_: Any, data: list[Any]) -> Any:
    """Build the array: writable, with memory of its own.

    Raises:
        ValueError: the bytes don't fit the shape and dtype.
        TypeError: the dtype is not one that can be stored.
    """
    described, shape, order, payload = data
    dtype = _dtype(described)
    if order not in ("C", "F") or not all(type(n) is int and 0 <= n < _SIZE for n in shape):
        msg = f"invalid array shape {shape!r} or order {order!r}"
        raise ValueError(msg)
    if len(shape) > 64 or prod(shape) * dtype.itemsize != len(payload):
        msg = f"an array of shape {shape!r} and dtype {dtype} can't have {len(payload):,} bytes"
        raise ValueError(msg)
    return _numpy().ndarray(shape, dtype, bytes(payload), order=order).copy(order)


def pack_scalar(value: Any) -> list[Any]:
    """Return dtype and bytes. Text and bytes are stored as such, because numpy pads them.

    Raises:
        TypeError: its dtype can't be stored.
    """
    numpy, kind = _numpy(), type(value)
    if kind is numpy.str_:
        return ["U", str.__getitem__(value, slice(None))]  # str() drops NULs at the end
    if kind is numpy.bytes_:
        return ["S", bytes(value)]
    if kind is not value.dtype.type:
        msg = f"a {kind.__name__} would come back as a {value.dtype.type.__name__}"
        raise TypeError(msg)
    return [_described(value.dtype), pack_array(numpy.asarray(value))[-1]]


def build_scalar(_: Any, data: list[Any]) -> Any:
    """Build the scalar.

    Raises: as `build_array`.
    """
    described, payload = data
    numpy = _numpy()
    if described == "U" and type(payload) is str:
        return numpy.str_(payload)
    if described == "S" and type(payload) is bytes:
        return numpy.bytes_(payload)
    return build_array(None, [described, [], "C", payload])[()]


def _without_gaps(value: Any, order: str) -> Any:
    """Copy an array of records with zeros between its fields: gaps hold arbitrary bytes."""
    # Not zeros_like, which sets the fields alone: the memory between them stays as it was.
    made = _numpy().zeros(value.shape, value.dtype, order)
    for name in value.dtype.names:
        made[name] = value[name]
    return made


def _numpy() -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        msg = "it is a numpy array, and this program hasn't imported numpy: import it first"
        raise ValueError(msg)
    return numpy


def _described(dtype: Any) -> Any:
    """Describe a dtype so that `_dtype` builds an equal one.

    Raises:
        TypeError: the description is unknown.
    """
    described = _description(dtype)
    made = _dtype(described)
    # Higher bits are numpy's notes about how a dtype was made; numpy 2.5 has the first of them.
    same_flags = not (made.flags ^ dtype.flags) & _FLAGS
    same = made == dtype and made.type is dtype.type and same_flags
    if not same or made.isalignedstruct != dtype.isalignedstruct or dtype.metadata:
        msg = f"dtype {dtype!r} would come back as {made!r}"
        raise TypeError(msg)
    return described


def _description(dtype: Any) -> Any:
    if dtype.hasobject or dtype.kind not in _KINDS:
        msg = f"dtype {dtype!r} holds Python objects, not data"
        raise TypeError(msg)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [_description(base), list(shape)]
    if dtype.names is None:
        text = dtype.str
        numpy = _numpy()
        # Two C types of the same size have the same text; their letters differ.
        return text if numpy.dtype(text).type is dtype.type else text[0] + dtype.char
    fields = [dtype.fields[name] for name in dtype.names]
    if any(len(field) > 2 for field in fields):
        msg = f"dtype {dtype!r} has titles"
        raise TypeError(msg)
    return {
        "names": list(dtype.names),
        "formats": [_description(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "size": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def _dtype(described: Any) -> Any:
    numpy = _numpy()
    if isinstance(described, dict):
        names, offsets = described["names"], described["offsets"]
        given = {
            "names": names,
            "formats": [_dtype(one) for one in described["formats"]],
            "offsets": offsets,
            "itemsize": described["size"],
        }
        made = numpy.dtype(given, align=bool(described["aligned"]))
    elif isinstance(described, list):
        base, shape = described
        made = numpy.dtype((_dtype(base), tuple(shape)))
    else:
        if not _NAME.fullmatch(str(described)):  # numpy evaluates longer texts
            msg = f"unknown dtype {described!r}"
            raise TypeError(msg)
        made = numpy.dtype(described)
    if made.hasobject or made.kind not in _KINDS or not made.itemsize:
        msg = f"dtype {made!r} holds no data"
        raise TypeError(msg)
    return made
