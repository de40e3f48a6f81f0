"""Compilation of a graph declared by its channels: `Pregel` and `NodeBuilder`.

Nodes subscribe to channels and write to channels. `StateGraph` makes such a plan from edges; here
the program declares it. It has no START node: an input is written to the input channels at once.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from actorgraph.channels import Channel, EphemeralValue, Topic
from actorgraph.errors import GraphBuildError, did_you_mean
from actorgraph.plan import callables as calls
from actorgraph.plan.callables import injected, needs_store
from actorgraph.plan.plan import NodePlan, Plan, Sources
from actorgraph.plan.schema import Schema, check_channel_name, stored_types
from actorgraph.values.commands import Send
from actorgraph.values.constants import BRANCH_TO, RESERVED_CHANNELS, ROOT, START, TAG_HIDDEN, TASKS
from actorgraph.values.policies import CachePolicy, RetryPolicy, TimeoutPolicy
from actorgraph.values.run import Write

PASSTHROUGH: Final = object()
"""The value of a `ChannelWriteEntry` that writes the node's return value."""


@dataclass(frozen=True, slots=True)
class ChannelWriteEntry:
    """One write of a node that is declared by its channels.

    Attributes:
        channel: the channel to write.
        value: the value to write; default the node's return value.
        skip_none: write nothing if the value is None.
        mapper: a function of the value; its result is written instead.
    """

    channel: str
    value: Any = PASSTHROUGH
    skip_none: bool = False
    mapper: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class ChannelWrites:
    """Makes the writes of a node's return value: one for each entry, in their order."""

    entries: tuple[ChannelWriteEntry, ...]

    def __call__(self, returned: Any) -> list[Write]:
        """Make the writes of one return value."""
        made: list[Write] = []
        for entry in self.entries:
            value = returned if entry.value is PASSTHROUGH else entry.value
            if entry.mapper is not None:
                value = entry.mapper(value)
            if value is not None or not entry.skip_none:
                made.append((entry.channel, value))
        return made


@dataclass(frozen=True, slots=True)
class _BareInput:
    """Makes the input of a node that subscribes to one channel: the value without the name."""

    channel: str

    def __call__(self, **seen: Any) -> Any:
        return seen.get(self.channel)


@dataclass(frozen=True, slots=True)
class ChannelNode:
    """A node as `NodeBuilder` declares it.

    Attributes:
        triggers: the channels whose change makes it run.
        reads: the channels whose values it gets.
        only: whether it gets the value of its one channel, without the name.
    """

    triggers: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    only: bool = False
    call: Callable[..., Any] = lambda value: value
    entries: tuple[ChannelWriteEntry, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy[Any] | None = None
    timeout: TimeoutPolicy | None = None


Keys = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class ChannelGraph:
    """The arguments of `Pregel`. One name instead of a sequence means that channel's bare value.

    Attributes:
        shown: the channels that snapshots and streams show; None for all.
    """

    nodes: Mapping[str, ChannelNode]
    channels: Mapping[str, Channel[Any]]
    inputs: Keys
    outputs: Keys
    shown: Keys | None
    name: str
    context: Any = None
    interrupt_before: tuple[str, ...] = ()
    interrupt_after: tuple[str, ...] = ()


def make_channel_plan(graph: ChannelGraph) -> Plan:
    """Make the tables of a graph declared by its channels.

    Raises:
        GraphBuildError: a channel or an interrupt node is unknown, a node subscribes to no
            channel, or no node subscribes to an input channel.
    """
    _check(graph)
    edges = {BRANCH_TO + name: EphemeralValue(Any, guard=False) for name in graph.nodes}
    shown = tuple(graph.channels) if graph.shown is None else _names(graph.shown)
    return Plan(
        name=graph.name,
        graph_id=_graph_id(graph),
        channels={**graph.channels, TASKS: Topic(Send), **edges},
        nodes={name: _node(name, node) for name, node in graph.nodes.items()},
        output_keys=_names(graph.outputs),
        state_keys=shown,
        interrupt_before=graph.interrupt_before,
        interrupt_after=graph.interrupt_after,
        types=stored_types([Schema(Any, dict(graph.channels), None)]),
        sources=Sources(context=graph.context),
        entry=_entry(graph.inputs),
        bare_output=isinstance(graph.outputs, str),
        bare_state=isinstance(graph.shown, str),
    )


def _graph_id(graph: ChannelGraph) -> str:
    shape = "\0".join([graph.name, *graph.nodes])
    return f"{graph.name}:{hashlib.blake2b(shape.encode(), digest_size=6).hexdigest()}"


def _entry(inputs: Keys) -> NodePlan:
    """Make the node that turns an input into writes of the input channels."""
    bare = isinstance(inputs, str)
    node = NodePlan(
        name=START,
        call=lambda value: value,
        is_async=False,
        inject=(),
        triggers=(),
        reads=(),
        coerce=None,
        writes=frozenset(_names(inputs)),
        targets=(),
        branches=(),
        hidden=True,
    )
    return replace(node, shape=ChannelWrites((ChannelWriteEntry(inputs),))) if bare else node


def _node(name: str, node: ChannelNode) -> NodePlan:
    metadata = {**node.metadata, **({"tags": list(node.tags)} if node.tags else {})}
    return NodePlan(
        name=name,
        call=node.call,
        is_async=calls.is_async(node.call),
        inject=injected(node.call),
        triggers=(*node.triggers, BRANCH_TO + name),
        reads=node.reads,
        coerce=_BareInput(node.reads[0]) if node.only else None,
        writes=frozenset(entry.channel for entry in node.entries),
        targets=(),
        branches=(),
        timeout=node.timeout,
        metadata=metadata,
        hidden=TAG_HIDDEN in node.tags,
        needs_store=needs_store(node.call),
        retry=node.retry,
        cache=node.cache,
        shape=ChannelWrites(node.entries),
    )


def _names(keys: Keys) -> tuple[str, ...]:
    return (keys,) if isinstance(keys, str) else tuple(keys)


def _check(graph: ChannelGraph) -> None:
    for name in graph.channels:
        if name in RESERVED_CHANNELS or name == ROOT or name.startswith(BRANCH_TO):
            raise GraphBuildError(f"channel {name!r} is reserved", do="choose another name")
        check_channel_name(name)
    for name, node in graph.nodes.items():
        if not node.triggers:
            raise GraphBuildError(
                f"Node {name} subscribes to no channel and would never run",
                do="call subscribe_only() or subscribe_to() on its NodeBuilder",
            )
        _known(graph, f"Node {name} reads channel", (*node.triggers, *node.reads))
        _known(graph, f"Node {name} writes channel", [e.channel for e in node.entries])
    _known(graph, "Input channel", _names(graph.inputs))
    _known(graph, "Output channel", _names(graph.outputs))
    _known(graph, "Stream channel", _names(graph.shown or ()))
    subscribed = {channel for node in graph.nodes.values() for channel in node.triggers}
    if subscribed.isdisjoint(_names(graph.inputs)):
        raise GraphBuildError(
            f"Input channel {graph.inputs} is not subscribed to by any node",
            do="let a node subscribe to it, or name another input channel",
        )
    for name in (*graph.interrupt_before, *graph.interrupt_after):
        if name != "*" and name not in graph.nodes:
            raise GraphBuildError(
                f"Interrupt node `{name}` not found", do=did_you_mean(name, list(graph.nodes))
            )


def _known(graph: ChannelGraph, what: str, names: Sequence[str]) -> None:
    for name in names:
        if name not in graph.channels:
            raise GraphBuildError(
                f"{what} {name!r} not in known channels: {sorted(graph.channels)}",
                do=did_you_mean(name, list(graph.channels)),
            )
