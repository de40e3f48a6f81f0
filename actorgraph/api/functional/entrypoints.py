"""@entrypoint: make a function a durable program, with the methods of a compiled graph."""

import hashlib
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    TypeVar,
    get_args,
    get_origin,
    overload,
)

from actorgraph.api.graph.arguments import check_cache, check_saver, check_store, stores_of
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.channels import EphemeralValue, LastValue
from actorgraph.errors import GraphBuildError
from actorgraph.plan import callables as calls
from actorgraph.plan import node_policies
from actorgraph.plan.annotation_forms import Unknown, form_of
from actorgraph.plan.annotations import function_annotations
from actorgraph.plan.callables import injected, needs_store, parameters_of
from actorgraph.plan.compatibility import check_migrations
from actorgraph.plan.old_names import old_names
from actorgraph.plan.plan import NodePlan, Plan, Sources
from actorgraph.plan.schema import types_in
from actorgraph.ports import Cache, Checkpointer, Store
from actorgraph.values.checkpoint import Migration
from actorgraph.values.constants import END, PREVIOUS, START
from actorgraph.values.policies import CachePolicy, RetryPolicy, TimeoutPolicy
from actorgraph.values.schema_types import ContextT, OwnInputT

R = TypeVar("R")
S = TypeVar("S")


@dataclass(frozen=True)  # no slots: Final[R, S](...) sets an attribute
class Final(Generic[R, S]):
    """An entrypoint's result that separates the caller's value from the saved one.

    Attributes:
        value: returned to the caller.
        save: passed to the next run as `previous`.
    """

    value: R
    save: S


class entrypoint(Generic[ContextT]):  # noqa: N801 - a decorator
    """Decorator that makes a function a graph of one node: `@entrypoint(checkpointer=saver)`.

    The function takes the input as its first parameter, and, if it declares them, `previous`
    (what the thread's last run returned, or saved with `entrypoint.final`), `config`, `writer`,
    `runtime` and `store`. It calls `@task` functions as steps. When it runs again, after an
    interrupt, a failure or a crash, finished steps return their stored results.

    Args:
        checkpointer: as in `StateGraph.compile`.
        store: as in `StateGraph.compile`.
        stores: as in `StateGraph.compile`.
        cache: as in `StateGraph.compile`.
        context_schema: the type of `context=`.
        cache_policy: as in `StateGraph.add_node`.
        retry_policy: as in `StateGraph.add_node`.
        timeout: as in `StateGraph.add_node`.
        migrations: as in `StateGraph.compile`.
    Raises:
        GraphBuildError: the function takes no input, or is a generator; or an argument is
            invalid.
    """

    if TYPE_CHECKING:  # a generic class can't have a generic alias as its attribute

        class final(Final[R, S]):  # noqa: N801, D106 - the name of LangGraph's
            pass

    else:
        final = Final

    @old_names(config_schema="context_schema", retry="retry_policy")
    def __init__(  # noqa: PLR0917 - as in LangGraph
        self,
        checkpointer: Checkpointer = None,
        store: Store | None = None,
        cache: Cache | None = None,
        context_schema: type[ContextT] | None = None,
        cache_policy: CachePolicy[Any] | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        *,
        stores: Mapping[str, Store] | None = None,
        migrations: Sequence[Migration] = (),
    ) -> None:
        if inspect.isroutine(checkpointer):
            raise GraphBuildError(
                f"@entrypoint has no parentheses at {calls.name_of(checkpointer)!r}",
                do="write @entrypoint(), or @entrypoint(checkpointer=saver)",
            )
        check_saver(checkpointer)
        check_store(store)
        check_cache(cache)
        self._checkpointer = checkpointer
        self._store = store
        self._stores = stores_of(stores)
        self._cache = cache
        self._context_schema = context_schema
        self._migrations = tuple(migrations)
        self._policies: dict[str, Any] = {
            "cache": cache_policy,
            "retry": retry_policy,
            "timeout": timeout,
        }

    @overload
    def __call__(
        self, function: Callable[Concatenate[OwnInputT, ...], Coroutine[Any, Any, Final[R, S]]]
    ) -> CompiledStateGraph[R, ContextT, OwnInputT, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[OwnInputT, ...], Coroutine[Any, Any, R]]
    ) -> CompiledStateGraph[R, ContextT, OwnInputT, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[OwnInputT, ...], Final[R, S]]
    ) -> CompiledStateGraph[R, ContextT, OwnInputT, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[OwnInputT, ...], R]
    ) -> CompiledStateGraph[R, ContextT, OwnInputT, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        """Return a graph whose one node is the function."""
        name = calls.name_of(function) or "entrypoint"
        _check(name, function)
        node = self._node(name, function)
        plan = _plan(name, function, node, self._context_schema)
        if self._migrations:
            plan = replace(plan, migrations=self._migrations)
            check_migrations(plan)
        supplied: Any = {"store": self._store, "stores": self._stores, "cache": self._cache}
        graph: CompiledStateGraph = CompiledStateGraph(plan, self._checkpointer, **supplied)
        return graph

    def _node(self, name: str, function: Callable[..., Any]) -> NodePlan:
        owner = f"entrypoint {name!r}"
        return NodePlan(
            name=name,
            call=function,
            is_async=calls.is_async(function),
            inject=injected(function),
            triggers=(START,),
            reads=(START,),
            coerce=None,
            writes=frozenset({END, PREVIOUS}),
            targets=(),
            branches=(),
            timeout=node_policies.timeout_of(owner, function, self._policies["timeout"]),
            retry=node_policies.retries_of(owner, self._policies["retry"]),
            cache=node_policies.cache_of(owner, self._policies["cache"]),
            needs_store=needs_store(function),
            shape=_returned,
            literal=True,
        )


def _returned(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Final):
        return [(END, value.value), (PREVIOUS, value.save)]
    return [(END, value), (PREVIOUS, value)]


_ENTRY = NodePlan(
    name=START,
    call=lambda value: value,
    is_async=False,
    inject=(),
    triggers=(),
    reads=(START,),
    coerce=None,
    writes=frozenset({START}),
    targets=(),
    branches=(),
    shape=lambda given: [(START, given)],
)
"""Passes the input to the node unchanged."""


def _check(name: str, function: Callable[..., Any]) -> None:
    if not callable(function) or calls.is_generator(function):
        raise GraphBuildError(
            f"entrypoint {name!r} must be a function that returns its result. Generators are not "
            "supported in the functional API",
            do="return the result; use `get_stream_writer()` for intermediate output",
        )
    if not parameters_of(function):
        raise GraphBuildError(
            f"Entrypoint function must have at least one parameter; {name!r} has none",
            do="declare a first parameter for the input",
        )


def _plan(name: str, function: Callable[..., Any], node: NodePlan, context: Any) -> Plan:
    given, saved, returned = _hints(function)
    digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
    return Plan(
        name=name,
        graph_id=f"{name}:{digest}",
        channels={
            START: EphemeralValue(given),
            END: LastValue(returned),
            PREVIOUS: LastValue(saved),
        },
        nodes={name: node},
        output_keys=(END,),
        state_keys=(END,),
        types=types_in((given, returned, saved)),
        entry=_ENTRY,
        bare_output=True,
        bare_state=True,
        sources=Sources(state=returned, input=given, output=returned, context=context),
    )


def _hints(function: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """Return the types of the input, the saved value and the returned value."""
    hints = function_annotations(function)
    first = parameters_of(function)[0].name
    returned = form_of(hints.get("return", Any)).typ
    saved = returned
    if get_origin(returned) is Final:
        returned, saved = get_args(returned)
    return tuple(_known(hint) for hint in (hints.get(first, Any), saved, returned))


def _known(annotation: Any) -> Any:
    """Return the type without its wrapping; Any for one that can't be resolved."""
    typ = form_of(annotation).typ
    return Any if isinstance(typ, Unknown) else typ
