"""ResultCache: results of cached nodes, by function and input.

A cache that fails counts as a miss, with a warning; it never fails a run.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from secrets import token_hex
from typing import Any, cast
from weakref import WeakKeyDictionary

from actorgraph.codec import Codec
from actorgraph.codec.encryption import entry_at
from actorgraph.codec.fingerprint import fingerprint
from actorgraph.errors import CacheWarning
from actorgraph.errors.texts import error_repr
from actorgraph.errors.warning_places import warn
from actorgraph.plan.plan import NodePlan
from actorgraph.ports import Cache
from actorgraph.runtime.stepper import here_or_in_portal, steps_here
from actorgraph.runtime.task.cache_reads import ReadingTask, read_values
from actorgraph.values.constants import RETURN
from actorgraph.values.policies import CachePolicy

_NO_MORE: Mapping[str, Any] = {}
MARK = "__actorgraph_writes__"
VARY = "__actorgraph_reads__"
_PERSON = b"with all reads"  # results that were kept with fewer are not found
Key = tuple[tuple[str, ...], str]


def cache_namespace(policy: CachePolicy[Any], owner: str, name: str) -> tuple[str, ...]:
    """The cache namespace of the results of a node, or of a `@task`."""
    return (MARK, "named", policy.name) if policy.name else (MARK, owner, name)


class Identities:
    """Fingerprints of the functions of one graph, each computed once."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()

    def of(self, function: Callable[..., Any], codec: Codec) -> str:
        """A function's fingerprint; if it can't have one, an identity of this function object."""
        try:
            known = self._known.get(function)
            if known is None:
                known = self._known[function] = _identity(function, codec)
        except TypeError:  # an object without a hash, or without weak references
            return _identity(function, codec)
        return known


class ResultCache:
    """A cache as the nodes of one graph see it.

    Args:
        codec: the graph's, which knows its types.
        owner: the graph's id.
        identities: fingerprints of the graph's functions.
    """

    def __init__(self, cache: Cache, codec: Codec, owner: str, identities: Identities) -> None:
        self.cache = cache
        self._codec = codec
        self._owner = owner
        self._identities = identities

    def key_of(self, policy: CachePolicy[Any], node: NodePlan, given: Any) -> Key | None:
        """The key of a node's input; None, with a warning, if it can't be made."""
        called = RETURN in node.writes  # a `@task`, whose input is its arguments
        args, more = given if called else ((given,), _NO_MORE)
        try:
            identity = "" if policy.name else self._identities.of(node.call, self._codec)
            if policy.key_func is not None:
                key = policy.key_func(*args, **more)
            else:
                key = self._codec.encode_plainly([_ordered(arg) for arg in (*args, dict(more))])
            text = key.encode() if isinstance(key, str) else bytes(key)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            _warn(node, "has no key: its input can't be encoded", error)
            return None
        marked = identity.encode()[:64]
        hashed = blake2b(text, digest_size=16, key=marked, person=_PERSON).hexdigest()
        return cache_namespace(policy, "@task" if called else self._owner, node.name), hashed

    def narrowed(self, node: NodePlan, key: Key, read: Sequence[Any]) -> Key | None:
        """The key of an input together with what the node reads besides; None as in `key_of`."""
        try:
            text = self._codec.encode_plainly([key[1], *read])
        except Exception as error:  # noqa: BLE001 - of a type that can't be encoded
            _warn(node, "has no key: what it reads besides its input can't be encoded", error)
            return None
        return key[0], blake2b(text, digest_size=16, person=_PERSON).hexdigest()

    async def find(self, node: NodePlan, key: Key) -> Any:
        """The value under a key; None if absent or unreadable."""
        try:
            # A blocking call uses the blocking methods, which need no event loop.
            get: Any = getattr(self.cache, "get", None) if steps_here() else None
            payloads = (
                await here_or_in_portal(self.cache.aget, [key]) if get is None else get([key])
            )
            payload = payloads.get(key)
            return (
                None if payload is None else self._codec.decode(payload, entry_at("result", *key))
            )
        except Exception as error:  # noqa: BLE001 - a failing cache counts as a miss
            _warn(node, "could not be read", error)
            return None

    async def keep(self, node: NodePlan, key: Key, value: Any, ttl: int | None) -> None:
        """Store a value under a key.

        Args:
            node: whose result it is, for the warning if it fails.
            ttl: time to live in seconds; None for no limit.
        """
        place = entry_at("result", *key)
        try:
            pairs = {key: (self._codec.encode(value, node.name, place), ttl)}
            put: Any = getattr(self.cache, "set", None) if steps_here() else None
            if put is None:
                await here_or_in_portal(self.cache.aset, pairs)
            else:
                put(pairs)
        except Exception as error:  # noqa: BLE001 - a failing cache never fails a run
            _warn(node, "could not be stored", error)


class CachedPlace:
    """The place of one result: under the input's key, or under that and what the node reads.

    Under the input's key are then the names of what it reads, as a `Vary` of HTTP. A result is
    found under the values of all these names, so under those of what its own call has read.

    Attributes:
        names: what the node reads, as far as it is known.
    """

    def __init__(
        self, cache: ResultCache, node: NodePlan, key: Key, scope: ReadingTask, ttl: int | None
    ) -> None:
        self.names: tuple[str, ...] = ()
        self._cache = cache
        self._node = node
        self._key = key
        self._scope = scope
        self._ttl = ttl

    async def find(self) -> Any:
        """The result; None if absent."""
        cached = await self._cache.find(self._node, self._key)
        if not isinstance(cached, dict) or VARY not in cached:
            return cached
        self.names = tuple(cast("list[str]", cached[VARY]))
        key = self._narrowed()
        return None if key is None else await self._cache.find(self._node, key)

    async def keep(self, value: Any, names: Collection[str]) -> None:
        """Store the result of a call.

        Args:
            names: what the call has read.
        """
        if "store" in names:
            _warn_of_store(self._node)
            return
        known, self.names = self.names, tuple(sorted({*self.names, *names}))
        key = self._narrowed() if self.names else self._key
        if key is None:
            return
        if self.names != known:
            await self._cache.keep(self._node, self._key, {VARY: [*self.names]}, self._ttl)
        await self._cache.keep(self._node, key, value, self._ttl)

    def _narrowed(self) -> Key | None:
        values = read_values(self._scope, self.names)
        return self._cache.narrowed(self._node, self._key, values)


def _warn_of_store(node: NodePlan) -> None:
    warn(
        f"the result of node {node.name!r} is not cached: it has read a store, whose contents may "
        "change and are not part of the key\n"
        "  Do this: read the store in another node and pass on what it holds in the state, or give "
        "the CachePolicy a key_func that reads the store itself, by get_store()",
        CacheWarning,
        about=node.call,
    )


def _identity(function: Callable[..., Any], codec: Codec) -> str:
    return fingerprint(function, codec) or f"process:{token_hex(16)}"


def _ordered(value: Any) -> Any:
    """A dict with its keys sorted, so that equal dicts have equal keys in the cache."""
    if type(value) is dict:
        pairs = sorted(value.items(), key=lambda pair: repr(pair[0]))
        return {key: _ordered(inner) for key, inner in pairs}
    return value


def _warn(node: NodePlan, what: str, error: Exception) -> None:
    warn(
        f"the cached result of node {node.name!r} {what}: {error_repr(error)}\n"
        "  Do this: check the cache, or give the node's CachePolicy a key_func; the node was run",
        CacheWarning,
        about=node.call,
    )
