"""Approximate sizes of values in memory, for bounds of buffers. Nothing is encoded or copied."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

MB: Final = 1024 * 1024
SAMPLE: Final = 32
"""Parts of a list or dict that are looked at, evenly spread; the others count as their average."""
LOOKS_MAX: Final = 40
"""Parts with parts of their own that are looked at, the outer ones first; others count as small."""
SMALL: Final = 32
"""Bytes of an object whose size isn't known, such as a number."""

_LEAVES: Final = frozenset({int, float, bool, type(None)})
_TEXTS: Final = frozenset({str, bytes, bytearray})
_CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset})


def approximate_bytes(value: Any) -> int:
    """Estimate the bytes of a value in memory.

    Text and bytes count by their length, arrays by `nbytes`, lists and dicts by a sample of their
    parts, other objects by their attributes. A part that occurs twice counts twice.
    """
    kind = type(value)
    if kind in _LEAVES:
        return SMALL
    if kind in _TEXTS:
        return SMALL + len(value)
    size = 0.0
    # One loop, not a function that calls itself: it sees each chunk of a stream. The list grows
    # while it goes on.
    waiting: list[tuple[Any, float]] = [(value, 1.0)]
    for part, times in waiting:
        size += SMALL * times
        kind = type(part)
        parts: Any
        if kind is dict:
            parts = list(part.values())
        elif kind is list or kind is tuple:
            parts = part
        else:
            parts = _parts_of(part, kind)
            if type(parts) is int:
                size += parts * times
                continue
        count = len(parts)
        each = times
        if count > SAMPLE:
            parts = parts[:: -(-count // SAMPLE)]
            each = times * count / len(parts)
        for one in parts:
            of = type(one)
            if of in _TEXTS:
                size += (SMALL + len(one)) * each
            elif of in _LEAVES or (of in _CONTAINERS and not one) or len(waiting) >= LOOKS_MAX:
                size += SMALL * each
            else:
                waiting.append((one, each))
    return int(size)


def _parts_of(part: Any, kind: type) -> Any:
    """The parts of an object as a list or tuple; or, as an int, the bytes of one without parts."""
    try:
        return _looks_into(kind)(part)
    except Exception:  # noqa: BLE001 - attributes of a program's object may raise anything
        return 0


@lru_cache(maxsize=256)
def _looks_into(kind: type) -> Callable[[Any], Any]:
    """Choose the function that finds the parts of a class's objects.

    The class is asked, and once: an object of pydantic's takes microseconds to say that it has no
    `nbytes`, and each chunk of a model's answer is one.
    """
    if any("nbytes" in vars(base) for base in kind.__mro__):  # arrays, memoryviews
        return _bytes_of_array
    if issubclass(kind, str | bytes | bytearray):
        return len
    if issubclass(kind, list | tuple | set | frozenset):
        return list
    return _values if issubclass(kind, Mapping) else _attributes


def _bytes_of_array(part: Any) -> Any:
    held = part.nbytes
    return held if type(held) is int else _attributes(part)


def _values(part: Mapping[Any, Any]) -> list[Any]:
    return list(part.values())


def _attributes(part: Any) -> list[Any]:
    own = getattr(part, "__dict__", None)
    if own:
        return list(own.values())
    kind = type(part)
    names = getattr(kind, "__struct_fields__", None) or getattr(kind, "__slots__", ())
    names = (names,) if isinstance(names, str) else names
    return [getattr(part, name, None) for name in names]


class Held:
    """Approximate bytes of what a buffer holds. A part that several items share counts once.

    The values of a dict are its parts; those of a run's unchanged channels are shared by its
    chunks. Its owner has a lock, and keeps what `add` returns until it calls `remove`.

    Attributes:
        bytes: the sum.
    """

    __slots__ = ("_parts", "bytes")

    def __init__(self) -> None:
        self.bytes = 0
        self._parts: dict[int, tuple[int, int]] = {}

    def add(self, parts: tuple[tuple[int, int], ...]) -> None:
        """Count the parts of an item; see `parts_of`."""
        for name, size in parts:
            times, before = self._parts.get(name, (0, size))
            self._parts[name] = (times + 1, before)
            if not times:
                self.bytes += size

    def remove(self, parts: tuple[tuple[int, int], ...]) -> None:
        """Count the parts of an item no more."""
        for name, _ in parts:
            times, size = self._parts.pop(name)
            if times > 1:
                self._parts[name] = (times - 1, size)
            else:
                self.bytes -= size


def parts_of(value: Any, light: int) -> tuple[tuple[int, int], ...]:
    """The parts of a value for `Held`: identity and bytes of each; () below `light` bytes in all.

    Args:
        light: size in bytes from which a value is worth counting.
    """
    if type(value) is not dict:
        size = approximate_bytes(value)
        return () if size < light else ((id(value), size),)
    total = approximate_bytes(value)
    if total < light:
        return ()
    sizes = [(id(part), approximate_bytes(part)) for part in value.values()]
    return tuple((name, size) for name, size in sizes if size >= SMALL * 2)


FRAMES_MAX: Final = 100
"""Frames of an error and its causes whose variables are looked at."""


def held_by_error(error: BaseException) -> list[Any]:
    """The values that an error keeps alive: its own, and the variables of its traceback's frames.

    Those of its causes too; at most `FRAMES_MAX` frames in all.
    """
    held: list[Any] = []
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    frames = 0
    for one in waiting:  # the list grows while it goes on
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        held += [one.args, *vars(one).values()]
        waiting += [one.__cause__, one.__context__]
        trace = one.__traceback__
        while trace is not None and frames < FRAMES_MAX:
            held += trace.tb_frame.f_locals.values()
            trace, frames = trace.tb_next, frames + 1
    return held
