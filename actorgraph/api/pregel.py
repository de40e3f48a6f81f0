"""Pregel: a graph declared by its channels."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actorgraph.api.checks import check_saver, check_store
from actorgraph.api.graph import CompiledStateGraph
from actorgraph.api.node_builder import NodeBuilder
from actorgraph.channels import BaseChannel, Channel
from actorgraph.channels.stateful import as_rule
from actorgraph.errors import GraphBuildError
from actorgraph.plan import policies
from actorgraph.plan.raw import ChannelGraph, ChannelNode, make_channel_plan
from actorgraph.ports import Checkpointer, Store
from actorgraph.values.configs import Config
from actorgraph.values.node_policies import CachePolicy, RetryPolicy
from actorgraph.values.policies import All, StreamMode


class Pregel(CompiledStateGraph):
    """Nodes that subscribe to channels and write to channels; it runs like a compiled graph.

    An input is written to the input channels and triggers their subscribers. What nodes write in
    a superstep triggers subscribers in the next one; the run ends when no node is triggered.

    Args:
        nodes: name -> `NodeBuilder`, or the result of its `build()`.
        channels: name -> channel.
        input_channels: where an input is written: one name for a bare value, a list for a dict.
        output_channels: what `ainvoke` returns: one name for a bare value, a list for a dict.
        stream_channels: the channels of snapshots and "values" chunks; default all channels.
        stream_mode: the default of `astream`.
        debug: print "updates" and "values" of every run.
        checkpointer: as in `StateGraph.compile`.
        store: as in `StateGraph.compile`.
        stores: as in `StateGraph.compile`.
        interrupt_before_nodes: nodes before which every run pauses, or "*".
        interrupt_after_nodes: nodes after which every run pauses, or "*".
        context_schema: the type of `context=`.
        retry_policy: of nodes without their own.
        cache_policy: of nodes without their own.
        config: the default config of every call; see `with_config`.
        name: for errors and logs.
    Raises:
        GraphBuildError: a channel is unknown or invalid, or no node reads any input.
    """

    def __init__(
        self,
        *,
        nodes: Mapping[str, NodeBuilder | ChannelNode],
        channels: Mapping[str, Channel[Any] | BaseChannel[Any, Any, Any]],
        input_channels: str | Sequence[str],
        output_channels: str | Sequence[str],
        stream_channels: str | Sequence[str] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        debug: bool = False,
        checkpointer: Checkpointer = None,
        store: Store | None = None,
        stores: Mapping[str, Store] | None = None,
        interrupt_before_nodes: All | Sequence[str] = (),
        interrupt_after_nodes: All | Sequence[str] = (),
        context_schema: Any = None,
        retry_policy: policies.Retry = None,
        cache_policy: CachePolicy[Any] | None = None,
        config: Config | None = None,
        name: str = "LangGraph",
    ) -> None:
        check_saver(checkpointer)
        check_store(store)
        retry = policies.retries_of("the graph", retry_policy)
        graph = ChannelGraph(
            nodes={n: _with_defaults(_built(n, b), retry, cache_policy) for n, b in nodes.items()},
            channels={n: _rule(n, channel) for n, channel in channels.items()},
            inputs=input_channels,
            outputs=output_channels,
            shown=stream_channels,
            name=name,
            context=context_schema,
            interrupt_before=_names(interrupt_before_nodes),
            interrupt_after=_names(interrupt_after_nodes),
        )
        super().__init__(make_channel_plan(graph), checkpointer, store=store, stores=stores)
        self.config = config
        self.stream_mode = stream_mode
        self.debug = debug


def _rule(name: str, channel: Channel[Any] | BaseChannel[Any, Any, Any]) -> Channel[Any]:
    rule = as_rule(channel, key=name)
    if rule is None:
        raise GraphBuildError(
            f"channel {name!r} must be a channel object, got {channel!r}",
            do="pass a channel, e.g. LastValue(str)",
        )
    return rule


def _built(name: str, node: NodeBuilder | ChannelNode) -> ChannelNode:
    if isinstance(node, ChannelNode):
        return node
    if not isinstance(node, NodeBuilder):
        raise GraphBuildError(
            f"node {name!r} must be a NodeBuilder, got {node!r}", do="pass a NodeBuilder"
        )
    return node.build(name)


def _with_defaults(
    node: ChannelNode, retry: tuple[RetryPolicy, ...], cache: CachePolicy[Any] | None
) -> ChannelNode:
    return replace(node, retry=node.retry or retry, cache=node.cache or cache)


def _names(nodes: All | Sequence[str]) -> tuple[str, ...]:
    return (nodes,) if isinstance(nodes, str) else tuple(nodes)
