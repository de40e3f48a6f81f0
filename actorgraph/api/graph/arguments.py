"""Validate what `compile`, `Pregel`, `@entrypoint` and a call are given besides the graph.

Savers, stores, caches, names and the context. Also the production profile:
`ACTORGRAPH_PROFILE=production` refuses savers that keep checkpoints in memory only.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, is_typeddict

from actorgraph.api.options import CallOptions
from actorgraph.api.savers.adapt import is_foreign
from actorgraph.api.savers.host_access import innermost
from actorgraph.errors import (
    GraphBuildError,
    InvalidConfigError,
    InvalidContextError,
    StoreRequiredError,
    did_you_mean,
)
from actorgraph.errors.excerpts import shown
from actorgraph.plan.plan import Plan
from actorgraph.plan.schema import check_graph_name
from actorgraph.plan.state_objects import fields_in, object_of
from actorgraph.ports import Cache, Saver, Store
from actorgraph.runtime.task.runtime import NO_RESOURCES, NO_STORES, RunResources

VARIABLE = "ACTORGRAPH_PROFILE"
PROFILES = ("development", "production")


def check_profile(saver: object) -> None:
    """Refuse a saver that doesn't outlive the process if the environment sets "production".

    Raises:
        InvalidConfigError: the saver is not durable, or the profile is unknown.
    """
    profile = os.environ.get(VARIABLE, "")
    if profile in {"", "development"} or not isinstance(saver, Saver):
        return
    if profile not in PROFILES:
        raise InvalidConfigError(
            f"unknown {VARIABLE}={profile!r}; expected one of {', '.join(PROFILES)}",
            do=did_you_mean(profile, PROFILES),
        )
    if not saver.durable:
        name = type(innermost(saver)).__name__
        raise InvalidConfigError(
            f"{name} keeps checkpoints in this process only, and {VARIABLE} is 'production'",
            do="pass a durable checkpointer=, e.g. SqliteSaver('runs.db') or PostgresSaver(...)",
        )


def stores_of(stores: Mapping[str, Store] | None) -> Mapping[str, Store]:
    """Check and copy a mapping of named stores.

    Raises:
        GraphBuildError: it is not a mapping of names to stores.
    """
    if not stores:
        return NO_STORES
    if not isinstance(stores, Mapping):
        raise GraphBuildError(
            f"stores must be a dict, got {stores!r}",
            do='pass {"name": store}; one store is `store=`',
        )
    for name, store in stores.items():
        if not isinstance(name, str) or isinstance(store, type) or not isinstance(store, Store):
            raise GraphBuildError(
                f"stores[{name!r}] must be an object with `batch` and `abatch`, got {store!r}",
                do='pass {"name": store} with store objects, such as InMemoryStore()',
            )
    return MappingProxyType(dict(stores))


def resources_of(
    plan: Plan,
    above: RunResources | None,
    options: CallOptions,
    store: Store | None,
    stores: Mapping[str, Store] = NO_STORES,
) -> RunResources:
    """Validate and combine the context and the stores of a run.

    Args:
        above: those of the run in whose node this one runs.
        options: of the call; its named stores take precedence over the graph's.
        store: of the graph.
        stores: of the graph, by name.
    Raises:
        InvalidContextError: the context doesn't fit the graph's `context_schema`.
        StoreRequiredError: a node has a parameter `store`, and the graph has none.
    """
    resources, context, own = above or NO_RESOURCES, options.get("context"), options.get("stores")
    if context is not None:
        context = context_in(plan, context)
    if own:
        stores = {**stores, **stores_of(own)}
    if context is not None or store is not None or stores:
        resources = resources.below(context, store, stores)
    if plan.needs_store and resources.store is None:
        raise StoreRequiredError(
            f"node {plan.needs_store!r} of graph {plan.name!r} has a parameter `store`, but the "
            "graph was compiled without a store",
            do="pass store= to compile(), or annotate the parameter `store: BaseStore | None`",
        )
    return resources


def context_in(plan: Plan, context: Any) -> Any:
    """Convert a context to the graph's schema: a dict becomes its dataclass, model or Struct.

    Raises:
        InvalidContextError: the context doesn't fit.
    """
    schema = plan.sources.context
    if context is None or not isinstance(schema, type) or _fits(schema, context):
        return context
    name = schema.__name__
    if not isinstance(context, Mapping):
        raise InvalidContextError(
            f"context must be a {name}, as graph {plan.name!r} declares, "
            f"got {type(context).__name__}",
            do=f"pass a {name}, or a dict of its fields",
        )
    if fields_in(schema) is None:
        return context
    try:
        return object_of(schema, context)
    except Exception as error:
        raise InvalidContextError(
            f"context with {sorted(map(str, context))} can't be converted to {name}: {error}",
            do="pass every field without a default, and values of the declared types",
        ) from error


def _fits(schema: type, context: Any) -> bool:
    """Whether a context has the schema's type already; any dict has that of a TypedDict."""
    if is_typeddict(schema) or getattr(schema, "__total__", None) is not None:
        return isinstance(context, Mapping)
    return isinstance(context, schema)


def check_parts(name: object, saver: object, store: object, cache: object) -> None:
    """Check a graph's name, saver, store and cache.

    Raises:
        GraphBuildError: one of them can't be used.
    """
    check_name(name)
    check_saver(saver)
    check_store(store)
    check_cache(cache)


def check_name(name: object) -> None:
    """Check that a graph's name is text that every saver can store.

    Raises:
        GraphBuildError: it is not.
    """
    if not isinstance(name, (str, type(None))):
        raise GraphBuildError(
            f"name must be a string, got {name!r}", do="pass name='...', or leave it out"
        )
    check_graph_name(name or "")


def check_saver(saver: object) -> None:
    """Check a checkpointer: a saver, a bool or None.

    Raises:
        GraphBuildError: it is something else.
    """
    is_class = isinstance(saver, type)
    if is_class or not isinstance(saver, (Saver, bool, type(None))):
        if not is_class and is_foreign(saver):
            return
        given = f"the class {saver.__name__}" if isinstance(saver, type) else shown(saver)
        raise GraphBuildError(
            f"Invalid checkpointer provided: expected a saver, got {given}",
            do="pass a saver object, such as SqliteSaver('runs.db'), not its class or context",
        )


def check_cache(cache: object) -> None:
    """Check a cache.

    Raises:
        GraphBuildError: it lacks methods of the port, or is a class.
    """
    if isinstance(cache, type) or not isinstance(cache, (Cache, type(None))):
        raise GraphBuildError(
            f"Invalid cache provided: {shown(cache)} must be an object with `aget`, `aset`, "
            "`aclear`",
            do="pass a cache object, such as InMemoryCache(), not its class",
        )


def check_store(store: object) -> None:
    """Check a store.

    Raises:
        GraphBuildError: it lacks methods of the port, or is a class.
    """
    if isinstance(store, type) or not isinstance(store, (Store, type(None))):
        raise GraphBuildError(
            f"Invalid store provided: {shown(store)} must be an object with `batch` and `abatch`",
            do="pass a store object, such as InMemoryStore(), not its class or context",
        )
