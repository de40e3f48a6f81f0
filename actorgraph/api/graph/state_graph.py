"""StateGraph: declare nodes and edges over a shared state, then compile them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from actorgraph.api.graph.arguments import check_parts
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.streams.events import TransformerFactory
from actorgraph.errors import NotCompiledError, UnreachableNodeWarning
from actorgraph.errors.overrides import show_methods_of
from actorgraph.errors.texts import plain
from actorgraph.errors.warning_places import warn
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.compatibility import check_migrations
from actorgraph.plan.compile import make_plan
from actorgraph.plan.graph_checks import check
from actorgraph.plan.plan import UNNAMED
from actorgraph.ports import Cache, Checkpointer, Store
from actorgraph.values.checkpoint import Migration
from actorgraph.values.policies import All
from actorgraph.values.schema_types import (
    ContextT,
    InputT,
    OutputT,
    OwnInputT,
    OwnResultT,
    PlainOutputT,
    PlainStateT,
    StateT,
)

Dict = dict[str, Any]
DeclaredT = TypeVar("DeclaredT")


class CompileOptions(TypedDict, total=False):
    """Options of `StateGraph.compile`, besides `checkpointer`; it explains them."""

    cache: Cache | None
    store: Store | None
    stores: Mapping[str, Store] | None
    interrupt_before: All | Sequence[str] | None
    interrupt_after: All | Sequence[str] | None
    debug: bool
    name: str | None
    strict: bool
    transformers: Sequence[TransformerFactory] | None
    migrations: Sequence[Migration]


class StateGraph(GraphBuilder[StateT, ContextT, InputT, OutputT]):
    """A graph whose nodes read and update one shared state.

    Args:
        state_schema: a TypedDict, dataclass, pydantic model, msgspec.Struct or attrs class
            whose annotated keys are the state; `Annotated[T, f]` folds updates with the reducer f.
        context_schema: the type of `context=`.
        input_schema: the keys that a run takes; default the state.
        output_schema: the keys that a run returns; default the state.
    Raises:
        SchemaError: a schema can't be read.
    """

    if TYPE_CHECKING:  # the signatures of GraphBuilder's, which only this class can give

        @overload
        def __init__(
            self: "StateGraph[DeclaredT, None, DeclaredT, DeclaredT]",
            state_schema: type[DeclaredT],
            context_schema: None = None,
            *,
            input_schema: None = None,
            output_schema: None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: "StateGraph[DeclaredT, None, OwnInputT, DeclaredT]",
            state_schema: type[DeclaredT],
            context_schema: None = None,
            *,
            input_schema: type[OwnInputT],
            output_schema: None = None,
        ) -> None: ...
        @overload
        def __init__(
            self: "StateGraph[DeclaredT, None, DeclaredT, OwnResultT]",
            state_schema: type[DeclaredT],
            context_schema: None = None,
            *,
            input_schema: None = None,
            output_schema: type[OwnResultT],
        ) -> None: ...
        @overload
        def __init__(
            self: "StateGraph[DeclaredT, None, OwnInputT, OwnResultT]",
            state_schema: type[DeclaredT],
            context_schema: None = None,
            *,
            input_schema: type[OwnInputT],
            output_schema: type[OwnResultT],
        ) -> None: ...
        @overload
        def __init__(
            self,
            state_schema: type[StateT],
            context_schema: type[ContextT],
            *,
            input_schema: type[InputT] | None = None,
            output_schema: type[OutputT] | None = None,
        ) -> None: ...
        # No type can be inferred of `Annotated[list[str], add]` and its like.
        @overload
        def __init__(
            self: "StateGraph[Any, Any, Any, Any]",
            state_schema: object,
            context_schema: object = None,
            *,
            input_schema: object = None,
            output_schema: object = None,
        ) -> None: ...
        def __init__(
            self,
            state_schema: Any,
            context_schema: Any = None,
            *,
            input_schema: Any = None,
            output_schema: Any = None,
        ) -> None: ...

    # Of a state that is a TypedDict or a bare value a run returns that; of any other class a dict.
    @overload
    def compile(
        self: "StateGraph[PlainStateT, ContextT, InputT, PlainOutputT]",
        checkpointer: Checkpointer = None,
        **options: Unpack[CompileOptions],
    ) -> CompiledStateGraph[PlainStateT, ContextT, InputT, PlainOutputT]: ...
    @overload
    def compile(
        self: "StateGraph[StateT, ContextT, InputT, PlainOutputT]",
        checkpointer: Checkpointer = None,
        **options: Unpack[CompileOptions],
    ) -> CompiledStateGraph[StateT, ContextT, InputT | Dict, PlainOutputT, Dict, PlainOutputT]: ...
    @overload
    def compile(
        self: "StateGraph[PlainStateT, ContextT, InputT, OutputT]",
        checkpointer: Checkpointer = None,
        **options: Unpack[CompileOptions],
    ) -> CompiledStateGraph[PlainStateT, ContextT, InputT, OutputT, PlainStateT, Dict]: ...
    @overload
    def compile(
        self, checkpointer: Checkpointer = None, **options: Unpack[CompileOptions]
    ) -> CompiledStateGraph[StateT, ContextT, InputT | Dict, OutputT, Dict, Dict]: ...
    def compile(
        self,
        checkpointer: Checkpointer = None,
        *,
        cache: Cache | None = None,
        store: Store | None = None,
        stores: Mapping[str, Store] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        debug: bool = False,
        name: str | None = None,
        strict: bool = False,
        transformers: Sequence[TransformerFactory] | None = None,
        migrations: Sequence[Migration] = (),
    ) -> Any:
        """Validate the graph and make it runnable. The builder may be changed and compiled again.

        Args:
            checkpointer: a saver, for threads that can be resumed, read and changed. For a
                subgraph: None (default) uses the parent's saver and starts fresh in each task,
                True uses it and keeps its state between tasks, False stores nothing.
            cache: for the results of nodes with a `cache_policy`; None: the parent's.
            store: for the nodes' `runtime.store`; None: the parent's.
            stores: name -> store, for the nodes' `runtime.stores`; None: the parent's.
            interrupt_before: nodes before which every run pauses, or "*".
            interrupt_after: nodes after which every run pauses, or "*".
            debug: print "updates" and "values" of every run to standard output.
            name: for errors and logs. Default "LangGraph", as in LangGraph.
            strict: make a returned key without a channel an error instead of a warning.
            migrations: convert threads that an older version of this graph stored.
            transformers: of every event stream of the graph, besides the built-in ones.
        Raises:
            GraphBuildError: the graph can't run as declared, or an argument is invalid.
        Warns:
            UnreachableNodeWarning: no path of edges leads from START to a node.
        """
        before, after = _names(interrupt_before), _names(interrupt_after)
        if unreachable := check(self, [*before, *after]):
            warn(_unreachable(unreachable), UnreachableNodeWarning)
        check_parts(name, checkpointer, store, cache)
        pauses: Any = {"interrupt_before": before, "interrupt_after": after}
        plan = make_plan(self, name=name or UNNAMED, strict=strict, **pauses)
        if migrations:
            plan = replace(plan, migrations=tuple(migrations))
            check_migrations(plan)
        supplied: Any = {"store": store, "stores": stores, "cache": cache}
        graph: CompiledStateGraph = CompiledStateGraph(plan, checkpointer, builder=self, **supplied)
        self.compiled = True
        graph.debug, graph.stream_transformers = debug, tuple(transformers or ())
        return graph

    if not TYPE_CHECKING:  # a checker reports names that a builder lacks

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and hasattr(CompiledStateGraph, name):
                raise NotCompiledError(
                    f"a StateGraph has no {name!r}: it only declares a graph",
                    do=f"compile it first: graph = builder.compile(), then graph.{name}",
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


show_methods_of(StateGraph)


def _unreachable(nodes: Sequence[str]) -> str:
    return (
        f"no path of edges leads from START to {', '.join(map(repr, nodes))}: only a Send or a "
        "Command can reach it; declare those with destinations="
    )


def _names(nodes: All | Sequence[str] | None) -> tuple[str, ...]:
    return tuple(map(plain, (nodes,) if isinstance(nodes, str) else nodes or ()))
