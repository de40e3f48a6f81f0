"""Cached nodes: what a node did for an input is taken for its result when that comes again.

Kept is what the node itself wrote: where its edges lead is found out anew, by the graph and the
state of the run that takes it. A cache that fails is a cache that doesn't have it, with a
warning; it never fails a run.
"""

import warnings
from collections.abc import Callable, Mapping
from hashlib import blake2b
from secrets import token_hex
from typing import Any
from weakref import WeakKeyDictionary

from actorgraph.codec import Codec
from actorgraph.codec.fingerprint import fingerprint
from actorgraph.codec.places import entry_at
from actorgraph.errors import CacheWarning
from actorgraph.errors.telling import error_repr
from actorgraph.plan.graph import NodePlan, Plan
from actorgraph.ports import Cache
from actorgraph.runtime.calls import Made, branch_writes, call_node
from actorgraph.runtime.context import TaskScope
from actorgraph.superstep.stamps import stamped
from actorgraph.superstep.untracked import is_storable
from actorgraph.values.constants import RETURN
from actorgraph.values.node_policies import CachePolicy
from actorgraph.values.run import Write

_NO_MORE: Mapping[str, Any] = {}
MARK = "__actorgraph_writes__"
Key = tuple[tuple[str, ...], str]


def namespace_of(policy: CachePolicy[Any], owner: str, name: str) -> tuple[str, ...]:
    """Where the results of a node, or of a `@task`, stand."""
    return (MARK, "named", policy.name) if policy.name else (MARK, owner, name)


class Identities:
    """What tells the functions of one graph from all others; each is found out once."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Callable[..., Any], str] = WeakKeyDictionary()

    def of(self, function: Callable[..., Any], codec: Codec) -> str:
        """A function's fingerprint; where there is none, one that no other function object has."""
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
    """

    def __init__(self, cache: Cache, codec: Codec, owner: str, identities: Identities) -> None:
        self.cache = cache
        self._codec = codec
        self._owner = owner
        self._identities = identities

    def key_of(self, policy: CachePolicy[Any], node: NodePlan, given: Any) -> Key | None:
        """The key of an input; None where it has none, with a warning."""
        called = RETURN in node.writes  # a `@task`: what it gets is its arguments
        args, more = given if called else ((given,), _NO_MORE)
        try:
            identity = "" if policy.name else self._identities.of(node.call, self._codec)
            if policy.key_func is not None:
                key = policy.key_func(*args, **more)
            else:
                key = self._codec.encode_plainly([_ordered(arg) for arg in (*args, dict(more))])
            text = key.encode() if isinstance(key, str) else bytes(key)
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            _warn(node.name, "has no key for its input", error)
            return None
        hashed = blake2b(text, digest_size=16, key=identity.encode()[:64]).hexdigest()
        return namespace_of(policy, "@task" if called else self._owner, node.name), hashed

    async def find(self, name: str, key: Key) -> Any:
        """What is kept under a key; None for nothing."""
        try:
            payload = (await self.cache.aget([key])).get(key)
            return (
                None if payload is None else self._codec.decode(payload, entry_at("result", *key))
            )
        except Exception as error:  # noqa: BLE001 - nothing depends on a cache
            _warn(name, "could not be read", error)
            return None

    async def keep(self, name: str, key: Key, value: Any, ttl: int | None) -> None:
        """Keep a value."""
        place = entry_at("result", *key)
        try:
            await self.cache.aset({key: (self._codec.encode(value, name, place), ttl)})
        except Exception as error:  # noqa: BLE001 - nothing depends on a cache
            _warn(name, "could not be kept", error)


async def call_cached(
    plan: Plan, node: NodePlan, values: dict[str, Any], given: Any, scope: TaskScope
) -> Made:
    """`call_node`, unless the node's own writes for this input are known."""
    cache, policy = scope.lineage.cache, node.cache
    assert cache is not None
    assert policy is not None
    key = cache.key_of(policy, node, given)
    if key is None:
        return await call_node(plan, node, values, given, scope)
    kept = _usable(plan, node, await cache.find(node.name, key))
    if kept is not None:
        return await _taken(plan, node, values, kept, scope)
    made = await call_node(plan, node, values, given, scope)
    # What a person answered is no function of the input, and a question is no result.
    if not (scope.answers or scope.took_bare or scope.raised or scope.drained or scope.routed):
        own = _own(node, scope)
        # A result without its untracked values would be another one: it isn't kept at all.
        if not plan.untracked or is_storable(plan.untracked, own):
            await cache.keep(node.name, key, [list(write) for write in own], policy.ttl)
    return made


async def _taken(
    plan: Plan, node: NodePlan, values: dict[str, Any], kept: list[Write], scope: TaskScope
) -> Made:
    scope.cached = True
    writes = [*kept, *node.targets]
    if plan.stamps:
        writes = stamped(plan, writes, scope.task.id)
    if node.branches:
        writes.extend(await branch_writes(plan, node, values, writes, scope))
    return writes, []


def _own(node: NodePlan, scope: TaskScope) -> list[Write]:
    """What the node itself wrote: without the static edges, which stand before what it pushed."""
    made, pushed = scope.made, len(scope.pushed)
    end = len(made) - pushed
    return [*made[: end - len(node.targets)], *made[end:]]


def _usable(plan: Plan, node: NodePlan, kept: Any) -> list[Write] | None:
    """What was kept, if this graph still has all that it writes to."""
    if not isinstance(kept, list):
        return None
    writes: list[Write] = [(channel, value) for channel, value in kept]
    known = all(channel in node.writes or channel in plan.channels for channel, _ in writes)
    return writes if known else None


def _identity(function: Callable[..., Any], codec: Codec) -> str:
    return fingerprint(function, codec) or f"process:{token_hex(16)}"


def _ordered(value: Any) -> Any:
    """A dict with its keys in order, so that the order of making doesn't matter."""
    if type(value) is dict:
        pairs = sorted(value.items(), key=lambda pair: repr(pair[0]))
        return {key: _ordered(inner) for key, inner in pairs}
    return value


def _warn(name: str, what: str, error: Exception) -> None:
    warnings.warn(
        f"the cached result of node {name!r} {what}: {error_repr(error)}\n"
        "  Do this: look after the cache, or give the node's CachePolicy a key_func; the node was "
        "called",
        CacheWarning,
        stacklevel=3,
    )
