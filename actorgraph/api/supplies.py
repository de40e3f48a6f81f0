"""What a call gives its nodes besides the state: context and stores."""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast, is_typeddict

from actorgraph.errors import InvalidContextError, StoreRequiredError
from actorgraph.plan.graph import Plan
from actorgraph.ports import Store
from actorgraph.runtime.handle import NO_RESOURCES, NO_STORES, RunResources


def supplies_of(
    plan: Plan,
    above: RunResources | None,
    *,
    context: Any,
    store: Store | None,
    stores: Mapping[str, Store] = NO_STORES,
) -> RunResources:
    """Validate and combine the context and the stores of a run.

    Args:
        above: those of the run in whose node this one runs.
        context: as the caller gave it.
        stores: by name; the graph's and the call's.
    Raises:
        InvalidContextError: the context doesn't fit the graph's `context_schema`.
        StoreRequiredError: a node has a parameter `store` and there is no store.
    """
    supplies = (above or NO_RESOURCES).below(context_in(plan, context), store, stores)
    if plan.needs_store and supplies.store is None:
        raise StoreRequiredError(
            f"node {plan.needs_store!r} of graph {plan.name!r} has a parameter `store`, but the "
            "graph was compiled without a store",
            do="pass store= to compile(), or annotate the parameter `store: BaseStore | None`",
        )
    return supplies


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
    if not (dataclasses.is_dataclass(schema) or hasattr(schema, "model_fields")) and not hasattr(
        schema, "__struct_fields__"
    ):
        return context
    try:
        return cast("Any", schema)(**context)
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
