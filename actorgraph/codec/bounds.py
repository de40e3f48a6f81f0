"""Bounds on the memory and time that decoding one payload may cost.

Copies      A type that isn't plain data is an extension, and its content is copied to be decoded:
            nested extensions hold one copy each. Those above `LARGE` are counted, and may have
            `copies_max` bytes together. `Codec.encode` refuses more, so that nothing is stored
            that can't be read. Smaller ones are bounded by the depth of the stack.
Collisions  Keys can be chosen so that each collides with all others in a hash table, by equal
            hashes or by equal slots alone. A set or dict that is slow to build is examined:
            equal hashes are counted, and its time is compared with that of as many random keys,
            which finds equal slots. Encoding refuses at a third of the cost at which decoding
            does: times vary, and stored values must be readable.
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
"""Bytes of an extension up to which it isn't counted: a thousand nested ones are 32 MB."""

_COPIED_MAX = 32_000_000
_COPIES_MAX = 8

_UNTIMED_KEYS = 256
"""Keys of a table that isn't timed: even if all collide, it takes less than a millisecond."""
_SLICE = 1024
_FLOOR_S = 0.001
_KEY_S = 2e-6
_RATIO = 20
_MARGIN = 3
_COMPARISONS = 3

_EQUAL_HASHES_MAX = 256
"""Equal hashes per key, on average, above which keys are refused regardless of the times."""
_TIME_BETWEEN_CHECKS = 4
"""Time of filling between two examinations, as a multiple of what the last one took."""


def copies_max(size: int) -> int:
    """Return the most bytes that a payload's nested extensions may have, counted once per level."""
    return _COPIED_MAX + _COPIES_MAX * size


class CopyBudget:
    """The bytes that the extensions of one payload may still copy.

    Attributes:
        hook: the `ext_hook` for `ormsgpack.unpackb`; set by the creator of this object.
        refused: the error, once the budget was exceeded. Kept because ormsgpack drops what its
            hook raises.
    """

    __slots__ = ("_left", "hook", "refused")

    def __init__(self, size: int) -> None:
        self._left = copies_max(size)
        self.hook: Callable[[int, bytes], Any] | None = None
        self.refused: SerializationError | None = None

    def spend(self, size: int) -> Callable[[int, bytes], Any] | None:
        """Count an extension of `size` bytes.

        Returns: `hook`, to decode its content with.
        Raises: SerializationError: the budget is exceeded.
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


def counting_hook(extension: Callable[..., Any], size: int) -> Callable[[int, bytes], Any]:
    """Return the hook for a payload of `size` bytes: `extension` with a budget as `copies`."""
    copies = CopyBudget(size)
    copies.hook = partial(extension, copies=copies)
    return copies.hook


class _Encoded(local):
    """Bytes of large extensions that this thread has packed since its last `check_copies`."""

    size = 0


_ENCODED = _Encoded()


def ext(code: int, payload: bytes) -> ormsgpack.Ext:
    """Make an extension to pack, and count it if it is large."""
    if len(payload) > LARGE:
        _ENCODED.size += len(payload)
    return ormsgpack.Ext(code, payload)


def check_copies(payload: bytes, stored: int, path: str) -> None:
    """Refuse an encoded value above `LARGE` that decoding would refuse.

    Args:
        stored: its bytes in the form that is stored.
        path: what the value is, for the error's text.
    Raises: SerializationError.
    """
    packed, _ENCODED.size = _ENCODED.size, 0
    size = min(stored, len(payload))
    if packed <= copies_max(size):
        return
    # The count may include a value that failed before this one: count this one alone.
    copies = CopyBudget(size)

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


def build_set(items: Sequence[Any], *, storing: bool = False) -> set[Any]:
    """Build a set.

    Args:
        storing: True while encoding, which refuses earlier than decoding.
    Raises: ValueError: too many of the items collide.
    """
    if len(items) <= _UNTIMED_KEYS:
        return set(items)
    made: set[Any] = set()
    _fill(made.update, items, lambda pairs: pairs, _MARGIN if storing else 1)
    return made


def build_dict(pairs: Sequence[Sequence[Any]], *, storing: bool = False) -> dict[Any, Any]:
    """Build a dict of pairs.

    Args:
        storing: as for `build_set`.
    Raises: ValueError: too many of the keys collide.
    """
    if len(pairs) <= _UNTIMED_KEYS:
        return {key: value for key, value in pairs}  # noqa: C416 - dict() takes more than pairs
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
    """Put items into a table slice by slice, checking the time after each.

    By slices, so that a table is refused long before all of its keys have collided.
    """
    began, looked_s, until = thread_time(), 0.0, 0.0
    for first in range(0, len(items), _SLICE):
        end = first + _SLICE
        update(items[first:end])
        now = thread_time()
        took = now - began - looked_s
        # A table that is to be stored is checked whole, or reading could refuse its last keys.
        is_due = now >= until or (margin > 1 and end >= len(items))
        if not is_due or took <= (_FLOOR_S + end * _KEY_S) / margin:
            continue
        if _do_collide(keys_of(items[:end]), margin):
            msg = f"too many keys of a set or dict of {len(items):,} collide"
            raise ValueError(msg)
        after = thread_time()
        looked_s += after - now
        until = after + _TIME_BETWEEN_CHECKS * (after - now)


def _do_collide(keys: Sequence[Any], margin: int) -> bool:
    """Whether a table of these keys takes far longer than hashing them plus a table of others.

    A busy machine can stretch any one time. A value that was stored must be read, so one
    comparison is enough to refuse storing it, and all have to agree to refuse reading it.
    """
    alike = Counter(map(hash, keys)).values()
    if sum(count * count for count in alike) > _EQUAL_HASHES_MAX * len(keys) / margin:
        return True
    chance = Random(0)  # noqa: S311 - arbitrary other keys, no secrets
    others = [chance.random() for _ in keys]
    verdicts = (_is_slow(keys, others, margin) for _ in range(_COMPARISONS))
    return all(verdicts) if margin == 1 else any(verdicts)


def _is_slow(keys: Sequence[Any], others: Sequence[Any], margin: int) -> bool:
    """Compare the two tables once; the shorter of two times counts, because the garbage
    collector may run during one.
    """
    took = min(_timed(dict.fromkeys, keys) for _ in range(2))
    fair = min(_timed(_hashed, keys) + _timed(dict.fromkeys, others) for _ in range(2))
    return took > (_FLOOR_S + _RATIO * fair) / margin


def _hashed(keys: Sequence[Any]) -> None:
    deque(map(hash, keys), maxlen=0)


def _timed(act: Callable[[Sequence[Any]], object], keys: Sequence[Any]) -> float:
    began = thread_time()
    act(keys)
    return thread_time() - began
