"""How much one payload may cost to decode, in memory and in time, whatever bytes it is made of.

Copies    A type that isn't plain data is an extension, and its content is copied to be decoded:
          extensions inside one another hold a copy each. All that are above `LARGE` count, and
          together have `copies_max` bytes at most. `Codec.encode` refuses what has more, so that
          nothing is stored that can't be read. Smaller ones are bounded by the depth of the stack.
Crowding  Keys can be chosen so that each meets all others in a hash table, by equal hashes or by
          slots alone. A set or dict that is slow to build is looked at: equal hashes are counted,
          and its time is compared with that of other keys of the same number, which finds the
          slots. Storing refuses a third of what reading takes: times differ, and what is stored
          must be read.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from threading import local
from time import thread_time
from typing import Any

import ormsgpack

from actorgraph.errors import SerializationError

LARGE = 32_768
"""Bytes of an extension up to which nothing is counted: a thousand nested ones are 32 MB."""

_COPIED_MAX = 32_000_000
_COPIES_MAX = 8

_FREE = 256
"""Keys that are not timed: all of them colliding take less than a millisecond."""
_SLICE = 1024
_FLOOR_S = 0.001
_KEY_S = 2e-6
_RATIO = 20
_MARGIN = 3

_EQUAL = 256
"""Equal hashes per key, on average, that are refused even if the times hide them."""
_SPARE = 4
"""How many times longer the table is filled than it took to look at it, until the next look."""


def copies_max(size: int) -> int:
    """Bytes that the nested extensions of a payload have at most, counted once per level."""
    return _COPIED_MAX + _COPIES_MAX * size


class Copies:
    """What the extensions of one payload may still copy.

    Attributes:
        hook: what `ormsgpack.unpackb` is to call; whoever makes this sets it.
        refused: the error, once it was too much; ormsgpack forgets what its hook raises.
    """

    __slots__ = ("_left", "hook", "refused")

    def __init__(self, size: int) -> None:
        self._left = copies_max(size)
        self.hook: Callable[[int, bytes], Any] | None = None
        self.refused: SerializationError | None = None

    def spend(self, size: int) -> Callable[[int, bytes], Any] | None:
        """Count an extension of `size` bytes.

        Returns: `hook`, for what is in it.
        Raises: SerializationError: they are too many.
        """
        if size > LARGE:
            self._left -= size
        if self._left < 0:
            self.refused = SerializationError(
                "a value has too many levels of types around too many bytes: decoding it would "
                f"copy more than {_COPIED_MAX:,} bytes and {_COPIES_MAX} times its size",
                do="store large data in fewer tuples, dataclasses or models around one another",
            )
            raise self.refused
        return self.hook


def counting(extension: Callable[..., Any], size: int) -> Callable[[int, bytes], Any]:
    """The hook for a payload of `size` bytes: `extension`, with the `copies` of the payload."""
    copies = Copies(size)
    copies.hook = partial(extension, copies=copies)
    return copies.hook


class _Encoded(local):
    """Bytes of large extensions that this thread has packed since it last looked."""

    size = 0


_ENCODED = _Encoded()


def ext(code: int, payload: bytes) -> ormsgpack.Ext:
    """An extension to pack; a large one is counted."""
    if len(payload) > LARGE:
        _ENCODED.size += len(payload)
    return ormsgpack.Ext(code, payload)


def check_packed(payload: bytes, stored: int, path: str) -> None:
    """Refuse an encoded value above `LARGE` that decoding would refuse.

    Args:
        stored: how many bytes it has in the form that is stored.
        path: what the value is, for the error's text.
    Raises: SerializationError.
    """
    packed, _ENCODED.size = _ENCODED.size, 0
    size = min(stored, len(payload))
    if packed <= copies_max(size):
        return
    # What an earlier value left when it failed was counted too: count this one alone.
    copies = Copies(size)

    def hook(_: int, inner: bytes) -> None:
        copies.spend(len(inner))
        if len(inner) > LARGE:
            ormsgpack.unpackb(inner, ext_hook=hook)

    try:
        ormsgpack.unpackb(payload, ext_hook=hook)
    except ValueError:
        refused = copies.refused
        if refused is None:
            raise
        raise SerializationError(f"{path} can't be stored: {refused.what}", do=refused.do) from None


def distinct(items: Sequence[Any], *, storing: bool = False) -> set[Any]:
    """The set of some items.

    Args:
        storing: whether they are to be stored, and not read.
    Raises: ValueError: they were chosen to collide.
    """
    if len(items) <= _FREE:
        return set(items)
    made: set[Any] = set()
    _fill(made.update, items, lambda pairs: pairs, _MARGIN if storing else 1)
    return made


def mapping(pairs: Sequence[Sequence[Any]], *, storing: bool = False) -> dict[Any, Any]:
    """The dict of some pairs.

    Args:
        storing: as for `distinct`.
    Raises: ValueError: their keys were chosen to collide.
    """
    if len(pairs) <= _FREE:
        return {key: value for key, value in pairs}  # noqa: C416 - dict() takes other things too
    made: dict[Any, Any] = {}
    margin = _MARGIN if storing else 1
    _fill(made.update, pairs, lambda some: [key for key, _ in some], margin)
    return made


def _fill(
    update: Callable[[Any], Any],
    items: Sequence[Any],
    keys_of: Callable[[Sequence[Any]], Sequence[Any]],
    margin: int,
) -> None:
    """Put items into a table slice by slice, with a look at the time after each."""
    began, looked_s, until = thread_time(), 0.0, 0.0
    for first in range(0, len(items), _SLICE):
        end = first + _SLICE
        update(items[first:end])
        now = thread_time()
        took = now - began - looked_s
        if now < until or took <= (_FLOOR_S + end * _KEY_S) / margin:
            continue
        if _are_crowded(keys_of(items[:end]), margin):
            msg = f"of {len(items):,} keys of a set or dict too many collide"
            raise ValueError(msg)
        after = thread_time()
        looked_s += after - now
        until = after + _SPARE * (after - now)


def _are_crowded(keys: Sequence[Any], margin: int) -> bool:
    """Whether a table of these keys takes far longer than hashing them and a table of others.

    The least of two times: garbage may have been collected during one.
    """
    alike = Counter(map(hash, keys)).values()
    if sum(count * count for count in alike) > _EQUAL * len(keys) / margin:
        return True
    chance = Random(0)  # noqa: S311 - it is for any other keys, not for secrets
    others = [chance.random() for _ in keys]
    took = min(_timed(dict.fromkeys, keys) for _ in range(2))
    fair = min(_timed(_hashed, keys) + _timed(dict.fromkeys, others) for _ in range(2))
    return took > (_FLOOR_S + _RATIO * fair) / margin


def _hashed(keys: Sequence[Any]) -> None:
    deque(map(hash, keys), maxlen=0)


def _timed(act: Callable[[Sequence[Any]], object], keys: Sequence[Any]) -> float:
    began = thread_time()
    act(keys)
    return thread_time() - began
