"""A hash of a function's code: the same in every process that has the same code.

Two functions have the same fingerprint only if their code and everything that they hold (defaults,
closures, bound objects) are equal. Globals that they read are not included.
"""

import functools
import types
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, cast

from actorgraph.codec.codec import Codec
from actorgraph.errors import SerializationError


def fingerprint(function: Callable[..., Any], codec: Codec) -> str | None:
    """Return 32 hex digits; None for a function that holds an object which can't be encoded."""
    made = blake2b(digest_size=16)
    try:
        for part in _parts(function, codec, set()):
            made.update(len(part).to_bytes(8, "big") + part)
    except (SerializationError, _Unknown):
        return None
    return made.hexdigest()


class _Unknown(Exception):
    """An object that can't be part of a fingerprint."""


def _parts(value: Any, codec: Codec, seen: set[int]) -> Iterator[bytes]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, functools.partial):
        partial = cast("functools.partial[Any]", value)
        for inner in (partial.func, partial.args, partial.keywords):
            yield from _parts(inner, codec, seen)
    elif isinstance(value, types.MethodType):
        yield from _parts(value.__func__, codec, seen)
        yield from _parts(value.__self__, codec, seen)
    elif isinstance(value, types.FunctionType):
        yield from _function(value, codec, seen)
    elif isinstance(value, type | types.BuiltinFunctionType | types.ModuleType):
        yield f"{getattr(value, '__module__', '')}:{value.__name__}".encode()
    else:
        yield codec.encode_plainly(value)


def _function(function: types.FunctionType, codec: Codec, seen: set[int]) -> Iterator[bytes]:
    yield f"{function.__module__}:{function.__qualname__}".encode()
    yield from _code(function.__code__)
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()):
        yield from _parts(default, codec, seen)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:
            raise _Unknown from None
        yield from _parts(held, codec, seen)


def _code(code: types.CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield " ".join((*code.co_names, *code.co_varnames, *code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, cast("frozenset[Any]", constant)))).encode()
        else:
            yield repr(constant).encode()
