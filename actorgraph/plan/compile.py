"""Compilation of a GraphBuilder to a Plan: edges become channels, nodes become table rows.

An edge into a node n is a channel `branch:to:n` that the source writes and that triggers n;
a join of several nodes is a barrier channel. The runtime handles channels only, no edges.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from actorgraph.channels import (
    AnyValue,
    Channel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from actorgraph.errors import SchemaError
from actorgraph.plan import callables as calls
from actorgraph.plan.builder import BranchSpec, GraphBuilder, NodeSpec
from actorgraph.plan.callables import injected, needs_store
from actorgraph.plan.graph_checks import wiring_of
from actorgraph.plan.plan import BranchPlan, NodePlan, Plan, Sources
from actorgraph.plan.schema import Schema, defaults_of, merge_channels, stored_types, view_of
from actorgraph.plan.state_objects import Fields, check_makeable, filled
from actorgraph.values.commands import Send
from actorgraph.values.constants import BRANCH_TO, END, HANDLER_PREFIX, START, TAG_HIDDEN, TASKS


def make_plan(
    builder: GraphBuilder,
    *,
    name: str,
    interrupt_before: Sequence[str] = (),
    interrupt_after: Sequence[str] = (),
    strict: bool = False,
) -> Plan:
    """Make the tables of a graph that has passed `checks.check`.

    Raises:
        SchemaError: a node's input schema has a key that is not a channel.
    """
    parts = _Parts(builder)
    state = parts.state
    _check_views(builder, state)
    channels: dict[str, Channel[Any]] = dict(state)
    channels[START] = EphemeralValue(builder.input.source)
    channels[TASKS] = Topic(Send)
    for node in builder.nodes:
        channels[BRANCH_TO + node] = _edge(builder.nodes[node])
    for join, (starts, end) in parts.wiring.starts.items():
        late = end in builder.nodes and builder.nodes[end].defer
        channels[join] = (NamedBarrierValueAfterFinish if late else NamedBarrierValue)(str, starts)
    nodes = {START: _start(builder, parts)} | {s.name: _node(parts, s) for s in builder.specs()}
    handlers = {s.name: _node(parts, s) for s in builder.handlers()}
    return Plan(
        name=name,
        graph_id=_graph_id(name, builder, channels, [*nodes.values(), *handlers.values()]),
        channels=channels,
        nodes=nodes,
        output_keys=builder.output.keys,
        state_keys=tuple(state),
        interrupt_before=tuple(interrupt_before),
        interrupt_after=tuple(interrupt_after),
        types=stored_types(builder.read_schemas),
        strict=strict,
        managed=builder.managed,
        handlers=handlers,
        defaults={key: parts.defaults[key] for key in parts.defaults if key in parts.folds},
        outside=_outside(builder.input),
        forbids=builder.input.fields is not None and builder.input.fields.forbids,
        make_output=builder.output.make,
        make_state=builder.state.make,
        sources=_sources(builder),
    )


def _sources(builder: GraphBuilder) -> Sources:
    own = builder.state.source, builder.input.source, builder.output.source
    return Sources(*own, builder.context_schema)


class _Parts:
    """The tables that many nodes share, each made once.

    Attributes:
        state: every channel of the builder's schemas.
        writes: their names.
        folds: those whose writes are folded into a value.
        defaults: the declared defaults of those that can be made without an object.
        wiring: the static edges.
    """

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.state = merge_channels(builder.read_schemas)
        self.writes = frozenset(self.state)
        self.folds = frozenset(key for key, channel in self.state.items() if _folds(channel))
        found = defaults_of(builder.read_schemas)
        self.defaults = {key: default for key, default in found.items() if not default.needs}
        self.wiring = wiring_of(builder)
        self._others: dict[int, frozenset[str]] = {}

    @cached_property
    def anywhere(self) -> Mapping[str, str | None]:
        """The routes of a branch without a path map: every node by its name."""
        return _routes({name: name for name in (*self.builder.nodes, END)})

    def coerce_for(self, schema: Schema) -> Callable[..., Any] | None:
        """The function that makes a view by a schema, which has the defaults of the state's.

        Raises:
            SchemaError: objects of the schema can't be made of its keys.
        """
        check_makeable(getattr(schema.source, "__name__", ""), schema.fields)
        own = {} if schema.fields is None else schema.fields.defaults
        more = {
            key: default
            for key, default in self.defaults.items()
            if key in schema.channels
            and key not in own
            and (key not in self.folds or default.is_none)
        }
        return filled(schema.make, more) if more else schema.make

    def others(self, schema: Schema) -> frozenset[str]:
        """The keys of the state that a schema doesn't have."""
        found = self._others.get(id(schema))
        if found is None:
            found = self._others[id(schema)] = self.writes.difference(schema.keys)
        return found


_KEEPING = (LastValue, LastValueAfterFinish, AnyValue, EphemeralValue, UntrackedValue, Topic)
"""Rules whose value is made of the newest writes alone."""


def _folds(channel: Channel[Any]) -> bool:
    """Whether a write is folded into the value that was there, of which readers see the whole."""
    return type(channel) not in _KEEPING and channel.transparent


def _outside(schema: Schema) -> Fields | None:
    fields = schema.fields
    return fields if fields is not None and (fields.aliases or fields.paths) else None


def _edge(node: NodeSpec) -> Channel[Any]:
    """Make the channel that makes a node due."""
    return LastValueAfterFinish(Any) if node.defer else EphemeralValue(Any, guard=False)


def _graph_id(
    name: str,
    builder: GraphBuilder,
    channels: Mapping[str, Channel[Any]],
    nodes: Iterable[NodePlan],
) -> str:
    """Identify the graph by all names that a stored thread may have of it, in no order."""
    parts = [f"{c}={type(rule).__name__}" for c, rule in channels.items()]
    for node in nodes:
        below = getattr(getattr(node.call, "__self__", None), "plan", None)
        parts.append(f"{node.name}:{below.graph_id if isinstance(below, Plan) else ''}")
    parts += map(repr, sorted(builder.edges))
    shape = "\0".join([name, *sorted(parts)])
    digest = hashlib.blake2b(shape.encode("utf-8", "surrogatepass"), digest_size=6)
    return f"{name}:{digest.hexdigest()}"


def _targets(parts: _Parts, node: str) -> tuple[tuple[str, Any], ...]:
    ends = parts.wiring.ends.get(node, ())
    edges = tuple((BRANCH_TO + end, None) for end in ends if end != END)
    return edges + tuple((join, node) for join in parts.wiring.joins.get(node, ()))


def _start(builder: GraphBuilder, parts: _Parts) -> NodePlan:
    return NodePlan(
        name=START,
        call=lambda value: value,
        is_async=False,
        inject=(),
        triggers=(START,),
        reads=(START,),
        coerce=None,
        writes=frozenset(builder.input.keys),
        folds=parts.folds,
        targets=_targets(parts, START),
        branches=_branches(parts, START, builder.state),
        hidden=True,
        needs_store=any(map(needs_store, _paths(builder, START))),
    )


def _node(parts: _Parts, spec: NodeSpec) -> NodePlan:
    builder, schema = parts.builder, spec.schema or parts.builder.state
    return NodePlan(
        name=spec.name,
        call=spec.action,
        is_async=calls.is_async(spec.action),
        inject=injected(spec.action),
        # Sorted, as ids of tasks are made of them: the order of add_edge must not count.
        triggers=(BRANCH_TO + spec.name, *sorted(parts.wiring.waits.get(spec.name, ()))),
        reads=view_of(schema, parts.state),
        coerce=parts.coerce_for(schema),
        writes=parts.writes,
        folds=parts.folds,
        targets=_targets(parts, spec.name),
        branches=_branches(parts, spec.name, schema),
        timeout=spec.timeout,
        max_concurrency=spec.max_concurrency,
        metadata=spec.metadata,
        ends=spec.ends,
        retry=spec.retry,
        cache=spec.cache,
        handler=HANDLER_PREFIX + spec.name if spec.handler is not None else "",
        hidden=TAG_HIDDEN in spec.metadata.get("tags", ()),
        trace=spec.trace,
        own=_keys_of_graph(spec.action).difference(parts.writes),
        whole=_whole_keys(spec.action).intersection(schema.keys, parts.folds),
        needs_store=any(map(needs_store, (spec.action, *_paths(builder, spec.name)))),
    )


def _keys_of_graph(action: Callable[..., Any]) -> frozenset[str]:
    """The keys that a node returns if it is a subgraph; none for other nodes."""
    plan = getattr(getattr(action, "__self__", None), "plan", None)
    return frozenset(plan.output_keys) if isinstance(plan, Plan) else frozenset()


def _whole_keys(action: Callable[..., Any]) -> frozenset[str]:
    """The keys that a subgraph takes from its input and gives back; none for other nodes."""
    plan = getattr(getattr(action, "__self__", None), "plan", None)
    if not isinstance(plan, Plan) or plan.entry is not None:
        return frozenset()
    return plan.start.writes.intersection(plan.output_keys)


def _paths(builder: GraphBuilder, node: str) -> list[Callable[..., Any]]:
    return [branch.path for branch in builder.branches.get(node, {}).values()]


def _branches(parts: _Parts, node: str, schema: Schema) -> tuple[BranchPlan, ...]:
    specs = parts.builder.branches.get(node, {}).values()
    return tuple(_branch(parts, spec, spec.schema or schema) for spec in specs)


def _branch(parts: _Parts, spec: BranchSpec, schema: Schema) -> BranchPlan:
    is_async, inject = calls.is_async(spec.path), injected(spec.path)
    others = frozenset[str]() if spec.schema else parts.others(schema)
    inline, why = _way(spec) if not is_async else (False, "async")
    return BranchPlan(
        name=spec.name,
        path=spec.path,
        is_async=is_async,
        inject=inject,
        inline=inline,
        why=why,
        ends=spec.ends,
        reads=schema.view,
        coerce=schema.make if schema.make is None and others else parts.coerce_for(schema),
        own_keys=others,
        takes_more=spec.schema is None and schema.make is None,
        routes=_routes(spec.ends) if spec.ends else parts.anywhere,
    )


def _way(spec: BranchSpec) -> tuple[bool, str]:
    """Decide whether a plain router is called on the event loop; and why."""
    if spec.inline is not None:
        return spec.inline, f"declared by inline={spec.inline}"
    if calls.only_reads(spec.path):
        return True, "only reads the state"
    return False, "a plain function"


def _routes(ends: Mapping[Any, str]) -> Mapping[str, str | None]:
    named = {a: n for a, n in ends.items() if isinstance(a, str)}
    return {a: None if n == END else BRANCH_TO + n for a, n in named.items()}


def _check_views(builder: GraphBuilder, state: dict[str, Channel[Any]]) -> None:
    for spec in builder.nodes.values():
        if spec.schema is not None:
            try:
                view_of(spec.schema, state)
            except SchemaError as error:
                raise SchemaError(f"node {spec.name!r}: {error.what}", do=error.do) from error
