"""GraphBuilder: the calls with which a program declares a graph, and their immediate checks.

An error that is visible in one call is raised by that call; the whole graph is checked in
`checks.py` when the plan is made.
"""

from collections.abc import Callable, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self, Unpack, overload

from actorgraph.bridging import BRIDGE
from actorgraph.channels import Channel
from actorgraph.errors import CompiledGraphWarning, GraphBuildError, UnresolvedAnnotationWarning
from actorgraph.errors.excerpts import count_text, names_text, shown
from actorgraph.errors.texts import plain
from actorgraph.errors.warning_places import warn
from actorgraph.plan import callables as calls
from actorgraph.plan import node_names, node_policies
from actorgraph.plan.annotation_forms import Unknown
from actorgraph.plan.node_options import NodeOptions
from actorgraph.plan.old_names import old_names
from actorgraph.plan.schema import (
    Managed,
    Schema,
    add_channels,
    is_schema,
    merge_channels,
    read_schema,
    refuse_managed,
)
from actorgraph.values.constants import END, HANDLER_PREFIX, START
from actorgraph.values.policies import CachePolicy, RetryPolicy, TimeoutPolicy, TracePolicy
from actorgraph.values.schema_types import (
    BuilderTypes,
    ContextT,
    InputT,
    NodeAction,
    OutputT,
    OwnInputT,
    StateFunction,
    StateT,
)


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One `add_node` call.

    Attributes:
        schema: the node's own input schema; None for the state's.
        ends: declared destinations of its Commands -> label in drawings.
        retry: () if the call had none; likewise None for timeout, cache and handler.
    """

    name: str
    action: Callable[..., Any]
    schema: Schema | None
    timeout: TimeoutPolicy | None
    max_concurrency: int | None
    metadata: Mapping[str, Any]
    ends: Mapping[str, str | None]
    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy[Any] | None = None
    handler: Callable[..., Any] | None = None
    defer: bool = False
    trace: TracePolicy | None = None


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """One `add_conditional_edges` call.

    Attributes:
        ends: answer of the router -> node; None if it may go anywhere.
        schema: that of the router's own parameter; None for the node's.
        inline: whether it is called on the event loop; None: in a worker thread.
    """

    name: str
    path: Callable[..., Any]
    ends: Mapping[Any, str] | None
    schema: Schema | None
    inline: bool | None = None


class GraphBuilder(BuilderTypes[StateT, ContextT, InputT, OutputT]):
    """Collects nodes and edges.

    Args:
        state_schema: a TypedDict, dataclass, pydantic model, msgspec.Struct or attrs class
            whose annotated keys are the channels; or a bare type for a graph over one value.
        context_schema: the type of `context=`; kept for inspection.
        input_schema: what a run takes; default `state_schema`.
        output_schema: what a run returns; default `state_schema`.
    Raises:
        SchemaError: a schema can't be read.
    """

    @old_names(config_schema="context_schema", input="input_schema", output="output_schema")
    def __init__(
        self,
        state_schema: Any,
        context_schema: Any = None,
        *,
        input_schema: Any = None,
        output_schema: Any = None,
    ) -> None:
        self.state = read_schema(state_schema)
        self.context_schema = context_schema
        self.input = self.output = self.state
        if input_schema not in (None, state_schema):
            self.input = refuse_managed(read_schema(input_schema), "the input schema")
        if output_schema not in (None, state_schema):
            self.output = refuse_managed(read_schema(output_schema), "the output schema")
        self.read_schemas: list[Schema] = [self.state, self.input, self.output]
        self._keys = merge_channels(self.read_schemas)
        self._read = {id(schema.source): schema for schema in self.read_schemas}
        self.nodes: dict[str, NodeSpec] = {}
        self.defaults = NodeDefaults()
        self.compiled = False
        self._edges: dict[tuple[str, str], None] = {}
        self._joins: dict[tuple[tuple[str, ...], str], None] = {}
        self.branches: dict[str, dict[str, BranchSpec]] = {}

    def __repr__(self) -> str:
        edges = len(self._edges) + len(self._joins) + sum(map(len, self.branches.values()))
        names, source = names_text([*self.nodes]), self.state.source
        schema = getattr(source, "__name__", None) or shown(source, 60)
        nodes = count_text(len(self.nodes), "node")
        return f"<{type(self).__name__} of {schema}: {nodes}{names}, {count_text(edges, 'edge')}>"

    @property
    def state_schema(self) -> Any:
        """The class that the graph was declared with."""
        return self.state.source

    @property
    def input_schema(self) -> Any:
        """The class of what a run takes."""
        return self.input.source

    @property
    def output_schema(self) -> Any:
        """The class of what a run returns."""
        return self.output.source

    @property
    def edges(self) -> KeysView[tuple[str, str]]:
        """The edges between two nodes, as `(start, end)`, in the order of their calls."""
        return self._edges.keys()

    @property
    def waiting_edges(self) -> KeysView[tuple[tuple[str, ...], str]]:
        """The edges that wait for several nodes, as `(starts, end)`."""
        return self._joins.keys()

    @property
    def schemas(self) -> Mapping[Any, Mapping[str, Channel[Any] | type[Managed]]]:
        """Each class that the graph was declared with -> its channels and managed values."""
        return {one.source: {**one.channels, **one.managed} for one in self.read_schemas}

    @property
    def channels(self) -> Mapping[str, Channel[Any]]:
        """The channels of all schemas, by key."""
        return dict(self._keys)

    @property
    def managed(self) -> Mapping[str, type[Managed]]:
        """The managed values of all schemas, by key."""
        return {key: rule for one in self.read_schemas for key, rule in one.managed.items()}

    @overload
    def add_node(
        self,
        node: str,
        action: NodeAction[StateT],
        *,
        input_schema: None = None,
        **options: Unpack[NodeOptions],
    ) -> Self: ...
    @overload
    def add_node(
        self,
        node: NodeAction[StateT],
        *,
        input_schema: None = None,
        **options: Unpack[NodeOptions],
    ) -> Self: ...
    @overload
    def add_node(
        self,
        node: str,
        action: NodeAction[OwnInputT],
        *,
        input_schema: type[OwnInputT],
        **options: Unpack[NodeOptions],
    ) -> Self: ...
    @overload
    def add_node(
        self,
        node: NodeAction[OwnInputT],
        *,
        input_schema: type[OwnInputT],
        **options: Unpack[NodeOptions],
    ) -> Self: ...
    @old_names(retry="retry_policy", input="input_schema")
    def add_node(
        self,
        node: Any,
        action: Any = None,
        *,
        input_schema: Any = None,
        retry_policy: node_policies.Retry = None,
        cache_policy: CachePolicy[Any] | None = None,
        error_handler: Callable[..., Any] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        max_concurrency: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        destinations: Sequence[str] | Mapping[str, str] | None = None,
        defer: bool = False,
        trace_policy: TracePolicy | None = None,
    ) -> Self:
        """Add a node.

        Args:
            node: its name, or the function, whose `__name__` is then the name.
            action: a function of the state, sync (run in a worker thread) or async, or an
                object with `ainvoke` or `invoke`.
            input_schema: the part of the state that it gets; default the annotation of the
                function's first parameter, else the state schema.
            retry_policy: when to call it again after an error, default never; of several, the
                first that matches the error counts.
            cache_policy: reuse an earlier result for the same input, from `compile(cache=)`.
            error_handler: a function like a node's, called with the same input when the node's
                last attempt has failed. Its parameter `error` gets the `NodeError`.
            timeout: seconds, a timedelta or a TimeoutPolicy for one attempt; async nodes only.
            max_concurrency: calls of this node at once, within one run. Default no limit.
            metadata: added to the payloads of the `tasks` stream.
            destinations: nodes to which its Commands may go, for checks; or each with a label.
            defer: run it only when no other node would run next and no Send is pending.
            trace_policy: the values that an exporter of traces records of its calls.
        Raises:
            GraphBuildError: the name is taken, reserved or has `|` or `:`, the action can't
                be called, or a policy is out of range or not allowed for a sync node.
        """
        self._warn_if_compiled("node")
        name, action = node_names.name_and_action(node, action)
        spec = self._spec(name, action, error_handler, input_schema, destinations)
        owner, more = f"node {name!r}", {"defer": defer, "trace": trace_policy}
        more |= {"max_concurrency": node_policies.bound_of(owner, max_concurrency)}
        limit = node_policies.timeout_of(owner, spec.action, timeout)
        retry = node_policies.retries_of(owner, retry_policy)
        cache = node_policies.cache_of(owner, cache_policy)
        more |= {"timeout": limit, "metadata": dict(metadata or {})}
        self.nodes[name] = replace(spec, retry=retry, cache=cache, **more)
        return self

    def _spec(
        self, name: str, action: Any, handler: Any, input_schema: Any, destinations: Any
    ) -> NodeSpec:
        """Make a node without policies; adds the keys of its own schema to the state."""
        node_names.check_new(name, self.nodes)
        function = _function(name, action)
        handler = None if handler is None else _function(name, handler)
        own = self._own_schema(input_schema or self._annotated(f"node {name!r}", function))
        ends = _destinations(destinations or _command_ends(function, handler))
        return NodeSpec(name, function, own, None, None, {}, ends, handler=handler)

    def set_node_defaults(
        self,
        *,
        retry_policy: node_policies.Retry = None,
        cache_policy: CachePolicy[Any] | None = None,
        error_handler: Callable[..., Any] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> Self:
        """Set the policies of all nodes, added before or after, whose `add_node` gives none.

        Error handlers get the retry policy and, if they are async, the timeout too. Subgraphs
        have defaults of their own. Add a node with `retry_policy=RetryPolicy(max_attempts=1)` to
        exempt it from a default retry policy.

        Args:
            retry_policy: as in `add_node`, like the others; one that is left out keeps the default
                set before.
        Raises:
            GraphBuildError: a policy is out of range. `compile` raises it if the timeout would
                apply to a sync node.
        """
        owner = "set_node_defaults()"
        given = NodeDefaults(
            node_policies.retries_of(owner, retry_policy),
            node_policies.cache_of(owner, cache_policy),
            None if error_handler is None else _function("every node", error_handler),
            node_policies.limit_of(owner, timeout),
        )
        self.defaults = given.over(self.defaults)
        return self

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> Self:
        """Run `end_key` after `start_key`; after all of them when it is a list.

        Raises:
            GraphBuildError: START is the end or END the start of the edge, or a name is not a
                string.
        """
        self._warn_if_compiled("edge")
        starts = node_names.starts_of(start_key, end_key)
        end = plain(end_key)
        if isinstance(start_key, str):
            self._edges[(starts[0], end)] = None
        else:
            self._joins[(starts, end)] = None
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: StateFunction[StateT],
        path_map: Mapping[Any, str] | Sequence[str] | None = None,
        *,
        inline: bool | None = None,
    ) -> Self:
        """After `source`, call the router `path` with the state and go to the nodes it returns.

        Args:
            source: a node's name, or START.
            path: a function of the state (the node's own update applied), sync or async. It
                returns a node's name, END, a `Send`, a key of `path_map`, or a list of these.
            path_map: answer of `path` -> node; or a list of names. Default: the function's
                `-> Literal[...]` annotation, else any node.
            inline: where a plain (not async) `path` is called behind an async node. True: on the
                event loop, which waits meanwhile; for functions that only read the state. False
                or None: in a worker thread, together with others that wait for one.
        Raises:
            GraphBuildError: the source has a branch of that name already, or is not a string;
                `path` can't be called; `inline` is something else.
        """
        self._warn_if_compiled("edge")
        source = node_names.check_reference(source, "add_conditional_edges()")
        name = calls.name_of(path) or "condition"
        if name in self.branches.get(source, {}):
            raise GraphBuildError(
                f"Branch with name `{name}` already exists for node `{source}`",
                do="give the second function another name, or merge the two",
            )
        if not callable(path):
            path = _callable(f"the path behind node {source!r}", path)
        if inline not in (True, False, None):
            raise GraphBuildError(
                f"inline of {name!r} behind node {source!r} must be True, False or None, "
                f"got {inline!r}",
                do="leave it out, or give True for a router that only reads the state",
            )
        hint = self._annotated(f"the router {name!r} behind node {source!r}", path)
        schema = self._schema_of(hint) if hint is not None else None
        made = BranchSpec(name, path, _ends(path, path_map), schema, inline)
        self.branches.setdefault(source, {})[name] = made
        return self

    def add_sequence(
        self, nodes: Sequence[NodeAction[StateT] | tuple[str, NodeAction[StateT]]]
    ) -> Self:
        """Add nodes that run one after another.

        Raises:
            GraphBuildError: the list is empty or two nodes have one name.
        """
        if not nodes:
            raise GraphBuildError("Sequence requires at least one node", do="pass some nodes")
        previous: str | None = None
        for node in nodes:
            given: Any = node
            name, action = (
                given if isinstance(node, tuple) else node_names.name_and_action(given, None)
            )
            self.add_node(name, action)
            if previous is not None:
                self.add_edge(previous, name)
            previous = name
        return self

    def set_entry_point(self, key: str) -> Self:
        """Start at this node: `add_edge(START, key)`."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self,
        path: StateFunction[StateT],
        path_map: Mapping[Any, str] | Sequence[str] | None = None,
        *,
        inline: bool | None = None,
    ) -> Self:
        """Start at the nodes that `path` returns; see `add_conditional_edges`."""
        return self.add_conditional_edges(START, path, path_map, inline=inline)

    def set_finish_point(self, key: str) -> Self:
        """End after this node: `add_edge(key, END)`."""
        return self.add_edge(key, END)

    def specs(self) -> list[NodeSpec]:
        """Make the nodes with the default policies filled in.

        Raises:
            GraphBuildError: the default timeout would apply to a sync node.
        """
        return [with_defaults(spec, self.defaults) for spec in self.nodes.values()]

    def handlers(self) -> list[NodeSpec]:
        """Make the error handlers, as nodes that no edge leads to."""
        made = [(node, node.handler) for node in self.specs() if node.handler is not None]
        return [
            handler_with_defaults(
                NodeSpec(HANDLER_PREFIX + node.name, handler, node.schema, None, None, {}, {}),
                self.defaults,
            )
            for node, handler in made
        ]

    def _warn_if_compiled(self, what: str) -> None:
        if self.compiled:
            warn(
                f"Adding {'a node' if what == 'node' else 'an edge'} to a graph that has already "
                "been compiled. This will not be reflected in the compiled graph.\n"
                "  Do this: add everything before compile(), or compile again and use what it "
                "returns",
                CompiledGraphWarning,
            )

    def _annotated(self, owner: str, function: Callable[..., Any]) -> Any:
        """Return the schema that annotates a function's first parameter; None for none.

        A name that exists for type checkers only is that of a schema of this graph, if one has it.
        """
        if (schema := calls.first_schema(function)) is not None:
            return schema
        found = [self._by_name(member) for member in calls.state_members(function)]
        unknown = next(filter(calls.is_unresolved, found), None)
        if unknown is None:
            return found[0] if len(found) == 1 and is_schema(found[0]) else None
        warn(
            f"{owner} takes a state of type {unknown}, which can't be resolved: {unknown.why}. It "
            "gets the state of the graph\n"
            f"  Do this: import {unknown} at run time, not for type checkers only, or name the "
            "class in add_node(input_schema=)",
            UnresolvedAnnotationWarning,
            about=function,
        )
        return None

    def _by_name(self, member: Any) -> Any:
        """Replace a name that can't be resolved by the schema of that name, if one is read."""
        wanted = member.text.rpartition(".")[2] if isinstance(member, Unknown) else None
        sources = (known.source for known in self.read_schemas)
        return next((s for s in sources if getattr(s, "__name__", "") == wanted), member)

    def _own_schema(self, hint: Any) -> Schema | None:
        """Read a node's own schema and add its keys to the state; None for other annotations."""
        return self._schema_of(hint) if hint is not None and is_schema(hint) else None

    def _schema_of(self, source: Any) -> Schema:
        """Read a class, once; adds its keys to the state."""
        known = self._read.get(id(source))
        if known is None:
            known = read_schema(source)
            add_channels(self._keys, known)
            self._read[id(source)] = known
            self.read_schemas.append(known)
        return known


def _function(name: str, action: Any) -> Callable[..., Any]:
    BRIDGE.check_node(name, action)
    function = _callable(f"node {name!r}", action)
    if calls.is_generator(function):
        raise GraphBuildError(
            f"node {name!r} is a generator, and a node returns one update",
            do="return the update; send intermediate values with `get_stream_writer()`",
        )
    return function


def _callable(owner: str, action: Any) -> Callable[..., Any]:
    try:
        return calls.as_callable(action)
    except TypeError as error:
        do = "pass a function, or an object with `ainvoke` or `invoke`"
        if isinstance(action, Mapping):
            do = "pass the function itself, not its result; for LangChain's RunnableParallel, "
            do += "import langchain_core.runnables first"
        raise GraphBuildError(f"{owner}: {error}", do=do) from error


def _command_ends(function: Any, handler: Any) -> tuple[str, ...]:
    """List the destinations of a node's and its error handler's Commands, by annotations."""
    own = calls.command_destinations(function)
    return own if handler is None else (*own, *calls.command_destinations(handler))


def _destinations(given: Sequence[str] | Mapping[str, str]) -> Mapping[str, str | None]:
    """Make destination of a node's Commands -> the label of that edge in drawings."""
    named = node_names.labelled(given, "destinations")
    return named if isinstance(given, Mapping) else dict.fromkeys(named)


def _ends(
    path: Callable[..., Any], path_map: Mapping[Any, str] | Sequence[str] | None
) -> Mapping[Any, str] | None:
    if path_map is None:
        literal = calls.literal_returns(path)
        return node_names.labelled(literal, "the annotation") if literal else None
    return node_names.labelled(path_map, "path_map")


@dataclass(frozen=True, slots=True)
class NodeDefaults:
    """The policies of nodes that have none of their own; () or None for no default."""

    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy[Any] | None = None
    handler: Callable[..., Any] | None = None
    timeout: TimeoutPolicy | None = None

    def over(self, before: "NodeDefaults") -> "NodeDefaults":
        """Fill in the defaults set before where these have none."""
        return NodeDefaults(
            self.retry or before.retry,
            self.cache or before.cache,
            self.handler or before.handler,
            self.timeout or before.timeout,
        )


def with_defaults(spec: "NodeSpec", defaults: NodeDefaults) -> "NodeSpec":
    """Fill in a node's missing policies with the defaults.

    Raises:
        GraphBuildError: the default timeout would apply to a sync function.
    """
    if spec.timeout is None and defaults.timeout is not None:
        node_policies.timeout_of(f"node {spec.name!r}", spec.action, defaults.timeout)
    return replace(
        spec,
        retry=spec.retry or defaults.retry,
        cache=spec.cache or defaults.cache,
        handler=spec.handler or defaults.handler,
        timeout=spec.timeout or defaults.timeout,
    )


def handler_with_defaults(spec: "NodeSpec", defaults: NodeDefaults) -> "NodeSpec":
    """Fill in an error handler's policies: the default retries and, if it is async, the timeout.

    It never gets a cache or a handler of its own.
    """
    limit = defaults.timeout if calls.is_async(spec.action) else None
    return replace(spec, retry=defaults.retry, timeout=limit)
