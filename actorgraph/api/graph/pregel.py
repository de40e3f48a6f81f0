"""Graphs declared by channels: `Pregel`, and `NodeBuilder` for its nodes.

For graphs that the edges of a `StateGraph` can't express.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self

from actorgraph.api.graph.arguments import check_saver, check_store
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.bridging import BRIDGE
from actorgraph.channels import BaseChannel, Channel
from actorgraph.channels.stateful import as_rule
from actorgraph.errors import GraphBuildError
from actorgraph.plan import callables as calls
from actorgraph.plan import node_policies
from actorgraph.plan.callables import injected
from actorgraph.plan.channel_graph import (
    ChannelGraph,
    ChannelNode,
    ChannelWriteEntry,
    make_channel_plan,
)
from actorgraph.plan.old_names import old_names
from actorgraph.plan.plan import UNNAMED
from actorgraph.ports import Checkpointer, Store
from actorgraph.runtime.task.calling import call_function
from actorgraph.values.configs import Config
from actorgraph.values.policies import All, CachePolicy, RetryPolicy, StreamMode, TimeoutPolicy


class NodeBuilder:
    """Declares a node by channels; each method returns the builder.

    `NodeBuilder().subscribe_only("a").do(function).write_to("b")` runs `function` with the value
    of `a` whenever that changes, and writes what it returns to `b`.
    """

    def __init__(self) -> None:
        self._node = ChannelNode()
        self._steps: list[Callable[..., Any]] = []
        self._timeout: float | timedelta | TimeoutPolicy | None = None

    def subscribe_only(self, channel: str) -> Self:
        """Run when this channel changes, with its bare value.

        Raises:
            GraphBuildError: the node is subscribed to channels already.
        """
        if self._node.reads or self._node.triggers:
            raise GraphBuildError(
                "Cannot subscribe to single channels when other channels are already subscribed to",
                do="use subscribe_to() for all of them; the function then gets a dict",
            )
        self._node = replace(self._node, triggers=(channel,), reads=(channel,), only=True)
        return self

    def subscribe_to(self, *channels: str, read: bool = True) -> Self:
        """Run when one of these channels changes, with a dict of those that have a value.

        Args:
            read: whether the function gets their values; default True.
        Raises:
            GraphBuildError: the node gets one channel's bare value.
        """
        self._refuse_only("Cannot subscribe to channels when subscribed to a single channel")
        triggers = tuple(dict.fromkeys((*self._node.triggers, *channels)))
        self._node = replace(self._node, triggers=triggers)
        return self.read_from(*channels) if read else self

    def read_from(self, *channels: str) -> Self:
        """Give the function these channels too, without running it when they change.

        Raises:
            GraphBuildError: the node gets one channel's bare value.
        """
        self._refuse_only("Cannot read additional channels when subscribed to single channels")
        reads = tuple(dict.fromkeys((*self._node.reads, *channels)))
        self._node = replace(self._node, reads=reads)
        return self

    def do(self, node: Callable[..., Any]) -> Self:
        """Call this function; each further one is called with the previous one's result.

        Raises:
            GraphBuildError: it is not callable.
        """
        try:
            self._steps.append(calls.as_callable(node))
        except TypeError as error:
            raise GraphBuildError(f"do(): {error}", do="pass a function") from error
        return self

    def write_to(self, *channels: str | ChannelWriteEntry, **values: Any) -> Self:
        """Write what the node returns to these channels.

        Args:
            channels: names, or `ChannelWriteEntry` objects.
            values: channel -> a function of what the node returned, or a constant to write.
        """
        plain = [c if isinstance(c, ChannelWriteEntry) else ChannelWriteEntry(c) for c in channels]
        named = [
            ChannelWriteEntry(name, mapper=value)
            if callable(value)
            else ChannelWriteEntry(name, value)
            for name, value in values.items()
        ]
        self._node = replace(self._node, entries=(*self._node.entries, *plain, *named))
        return self

    def meta(self, *tags: str, **metadata: Any) -> Self:
        """Add tags and metadata, which the `tasks` stream shows."""
        shown = {**self._node.metadata, **metadata}
        self._node = replace(self._node, tags=(*self._node.tags, *tags), metadata=shown)
        return self

    def add_retry_policies(self, *policies: RetryPolicy) -> Self:
        """Add retry policies; the first one that matches an error applies."""
        self._node = replace(self._node, retry=(*self._node.retry, *policies))
        return self

    def add_cache_policy(self, policy: CachePolicy[Any]) -> Self:
        """Cache results by this policy."""
        self._node = replace(self._node, cache=policy)
        return self

    def set_timeout(self, timeout: float | timedelta | TimeoutPolicy | None) -> Self:
        """Limit one attempt: seconds, a timedelta or a policy; async functions only."""
        self._timeout = timeout
        return self

    def build(self, name: str = "node") -> ChannelNode:
        """Return the node as data.

        Args:
            name: the node's, for errors.
        Raises:
            GraphBuildError: a policy is out of range, or a sync function has a timeout.
        """
        owner = f"node {name!r}"
        node = self._node
        if self._steps:
            steps = tuple(self._steps)
            node = replace(node, call=steps[0] if len(steps) == 1 else _Chain(steps))
        return replace(
            node,
            retry=node_policies.retries_of(owner, node.retry),
            cache=node_policies.cache_of(owner, node.cache),
            timeout=node_policies.timeout_of(owner, node.call, self._timeout),
        )

    def _refuse_only(self, what: str) -> None:
        if self._node.only:
            raise GraphBuildError(
                what, do="use subscribe_to() instead of subscribe_only(); it gives a dict"
            )


class _Chain:
    """Chains functions: each is called with the previous one's result."""

    def __init__(self, steps: tuple[Callable[..., Any], ...]) -> None:
        self._steps = [(step, calls.is_async(step), injected(step)) for step in steps]
        names = dict.fromkeys(name for _, _, inject in self._steps for name in inject)
        kind = inspect.Parameter
        self.__signature__ = inspect.Signature(
            [
                kind("value", kind.POSITIONAL_OR_KEYWORD),
                *(kind(name, kind.KEYWORD_ONLY, default=None) for name in names),
            ]
        )

    async def __call__(self, value: Any, **extra: Any) -> Any:
        for step, is_async, inject in self._steps:
            own: Mapping[str, Any] = {name: extra[name] for name in inject}
            value = await call_function(step, is_async, value, dict(own))
        return value


class EveryGraph(type):
    """Makes every compiled graph an instance of `Pregel`, which in LangGraph is their base."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is Pregel:
            return isinstance(instance, CompiledStateGraph)
        return super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        if cls is Pregel:
            return issubclass(subclass, CompiledStateGraph)
        return super().__subclasscheck__(subclass)


class Pregel(CompiledStateGraph[Any], metaclass=EveryGraph):
    """Nodes that subscribe to channels and write to channels; it runs like a compiled graph.

    An input is written to the input channels and triggers their subscribers. The writes of
    a superstep trigger subscribers in the next one; the run ends when no node is triggered.

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

    @old_names(config_type="context_schema")
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
        interrupt_before_nodes: All | Sequence[str] | None = None,
        interrupt_after_nodes: All | Sequence[str] | None = None,
        context_schema: Any = None,
        retry_policy: node_policies.Retry = None,
        cache_policy: CachePolicy[Any] | None = None,
        config: Config | None = None,
        name: str = UNNAMED,
    ) -> None:
        check_saver(checkpointer)
        check_store(store)
        retry = node_policies.retries_of("the graph", retry_policy)
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
    rule = as_rule(channel, key=name) or BRIDGE.adapt_channel(channel, key=name)
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


def _names(nodes: All | Sequence[str] | None) -> tuple[str, ...]:
    return (nodes,) if isinstance(nodes, str) else tuple(nodes or ())
