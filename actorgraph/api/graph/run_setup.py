"""Set up one run of a compiled graph: a call is checked, and becomes a `Launch`.

The functions below the class answer what a call means for a graph: its config, the place in a
node's run where it is made, the saver that it needs.
"""

import sys
from collections.abc import Sequence
from contextvars import copy_context
from typing import Any

import msgspec

from actorgraph.api import config as configs
from actorgraph.api.config import seconds
from actorgraph.api.graph.addressed import AddressedGraph, addressed_below
from actorgraph.api.graph.arguments import resources_of
from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.api.options import CallOptions
from actorgraph.bridging import BRIDGE
from actorgraph.errors import InvalidConfigError, SaverRequiredError
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.run.launch import Address, Launch, RunTemplate
from actorgraph.runtime.saver.hosting import Host, host_of
from actorgraph.runtime.task.nested import (
    NestedPlace,
    belongs,
    inherited_config,
    nested_place,
    other_thread_config,
)
from actorgraph.runtime.task.runtime import RunResources, Stopping
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.values.configs import Config, merge_configs
from actorgraph.values.policies import Durability, RunPolicy
from actorgraph.values.stream_items import namespace_of


class RunSetup(msgspec.Struct, frozen=True):
    """Sets up the runs of a graph.

    Attributes:
        graph: the compiled graph.
    """

    graph: GraphSettings

    def make_launch(
        self,
        given: Any,
        config: Config | None,
        *,
        place: NestedPlace | None,
        options: CallOptions,
        default_keys: tuple[str, ...],
        modes: Sequence[str] = (),
        broadcast: Broadcast | None = None,
    ) -> Launch:
        """Validate a call and return all that its run needs, or raise as `ainvoke`.

        Args:
            place: the node that makes the call; None for a top-level run.
            default_keys: the keys of the output if `options` name none.
        """
        template = self.graph.run_template()
        if place is None:
            host, config, address, run = self._root_start(config, template)
        else:
            host, (broadcast, modes) = place.host, _nested_broadcast(place, broadcast)
            config, address, run, template = self._nested_start(place, config, template)
        config = {} if config is None else dict(config)
        policy, resources, stopping, recorded = None, template.resources, Stopping(), False
        # Most calls set nothing but the durability: what they need is in the template.
        sets_nothing = not (config or options) or configs.sets_nothing(config, options)
        if place is None and not modes and sets_nothing:
            policy = template.policies.get(options.get("durability"))
        if policy is None or resources is None:
            policy = self._policy(place, config, options, default_keys, modes)
            stopping, resources = stopping_for(place, options), self._resources(place, options)
            recorded = configs.is_recorded_replay(options.get("replay"), given, host is not None)
        return Launch(
            template=template,
            policy=policy,
            address=address,
            given=BRIDGE.adapt_input(given) if BRIDGE.types_module in sys.modules else given,
            config=config,
            host=host,
            context=copy_context(),
            run=run,
            recorded=recorded,
            broadcast=broadcast,
            place=place,
            stopping=stopping,
            resources=resources,
        )

    def _policy(
        self,
        place: NestedPlace | None,
        config: Config,
        options: CallOptions,
        default_keys: tuple[str, ...],
        modes: Sequence[str] = (),
    ) -> RunPolicy:
        """Return the settings of a run: the call's, else the graph's or those of the run above."""
        inherited = Durability.SYNC if place is None else place.scope.run_context.policy.durability
        own = self.graph.own_durability or inherited
        return configs.policy_of(
            *(self.graph.plan, config, options, own, default_keys, modes),
            step_timeout=self.graph.step_timeout,
        )

    def _resources(self, place: NestedPlace | None, options: CallOptions) -> RunResources:
        """Return the context and the stores of a run; see `resources_of`."""
        above, graph = None if place is None else place.scope.run_context.resources, self.graph
        return resources_of(graph.plan, above, options, graph.store, graph.stores)

    def _root_start(
        self, config: Config | None, template: RunTemplate
    ) -> tuple[Host | None, Config | None, Address, bytes]:
        """Return the host, the config with what it inherits, address and run id of a call."""
        host, scope = None, CURRENT.get(None)
        if template.saver is not None:
            host = host_of(template.saver)
        elif self.graph.checkpointer is not None:
            host = own_host(self.graph)
        if scope is not None:  # tags, limits ..., no address
            config = other_thread_config(scope, configs.checked(config))
        elif BRIDGE.calls_module in sys.modules:
            config = BRIDGE.below_call(configs.checked(config), None)
        if config is None and host is None:  # most calls without a saver
            return None, None, Address(), IDS.run()
        address = configs.address_of(config, needs_thread=host is not None)
        if address.namespace:
            address = configs.root_of(config, address, host)
        return host, config, address, IDS.run()

    def _nested_start(
        self, place: NestedPlace, config: Config | None, template: RunTemplate
    ) -> tuple[Config, Address, bytes, RunTemplate]:
        """Return the config, address, run id and template of a run in a node of another run."""
        if BRIDGE.calls_module in sys.modules:
            config = BRIDGE.below_call(config, place.scope)
        config = inherited_config(place.scope, config)
        above, host = place.scope.run_context, place.host
        thread_id, run, codec = above.thread_id, above.run, self.graph.codec
        # A graph with a saver of its own claims a thread there, as a top-level run does. Any
        # other stores in the thread of the run above, encoded for that run's saver.
        if place.nested.claims:
            thread_id, run = configs.address_of(config, needs_thread=True).thread_id, IDS.run()
        elif host is not None:
            codec = self.graph.codec_for(host.saver)
        cache = self.graph.result_cache(above.cache, codec)
        template = msgspec.structs.replace(template, codec=codec, cache=cache)
        return config, Address(thread_id, place.namespace), run, template


def bound_config(graph: GraphSettings, config: Config | None) -> Config | None:
    """Merge a call's config over the one that `with_config` bound."""
    if config is not None and not (type(config) is dict and config.keys() <= configs.KEYS):
        config = configs.gathered(config)
    if graph.config is None:
        return config
    return merge_configs(graph.config, configs.checked(config))


def place_of(graph: GraphSettings, config: Config | None) -> NestedPlace | None:
    """Return where in a node's run a call is made; None for a top-level run."""
    scope = CURRENT.get(None)
    if scope is None or not belongs(scope, config):
        return None
    return nested_place(scope, graph.checkpointer)


def own_host(graph: GraphSettings) -> Host | None:
    """Return the host of a graph's own saver; None without one.

    Raises:
        InvalidConfigError: the graph has `checkpointer=True`, which only a subgraph may have.
    """
    saver = graph.checkpointer
    if saver is True:
        raise InvalidConfigError(
            f"checkpointer=True cannot be used for root graphs; {graph.name!r} was called "
            "outside a node",
            do="pass a saver to compile(), or run this graph in a node of one that has a saver",
        )
    # No isinstance(saver, Saver): a runtime protocol looks for each method, at every run.
    return None if saver is None or isinstance(saver, bool) else host_of(saver)


def saver_host(graph: GraphSettings, method: str) -> Host:
    """Return the host of a graph's own saver.

    Args:
        method: the caller's name, for the error.
    Raises:
        SaverRequiredError: the graph has no checkpointer.
    """
    host = own_host(graph)
    if host is None:
        raise SaverRequiredError(
            f"No checkpointer set: {method} reads checkpoints, and graph {graph.name!r} was "
            "compiled without a checkpointer",
            do="pass checkpointer= to compile(), e.g. SqliteSaver('runs.db')",
        )
    return host


def locate(graph: GraphSettings, method: str, config: Config) -> AddressedGraph:
    """Return the thread, checkpoint and graph that a config addresses from outside a run.

    Args:
        method: the caller's name, for the error.
        config: merged over the bound one.
    Raises:
        SaverRequiredError: the graph has no checkpointer.
    """
    host = saver_host(graph, method)
    address = configs.address_of(bound_config(graph, config), needs_thread=True)
    if not address.namespace:
        return AddressedGraph(host, graph.codec, graph.plan, address, declared=True)
    return addressed_below(graph, host, address)


def stopping_for(place: NestedPlace | None, options: CallOptions) -> Stopping:
    """Return the control and the deadline of a run that begins now."""
    control, deadline_s = options.get("control"), options.get("deadline_s")
    if deadline_s is not None:
        deadline_s = seconds("deadline_s", deadline_s)
    if place is None:
        return Stopping.of(control, deadline_s)
    return place.scope.run_context.stopping.below(control, deadline_s)


def _nested_broadcast(
    place: NestedPlace, own: Broadcast | None
) -> tuple[Broadcast | None, tuple[str, ...]]:
    """Return the buffer that a nested run writes its chunks to, and the modes to emit.

    Its own reader's, if it has one, which passes on to the reader of the run above; else that.
    """
    above, namespace = place.scope.run_context.broadcast, namespace_of(place.namespace)
    reads = above.modes_at(namespace) if above is not None else frozenset[str]()
    if own is None:
        return (above, tuple(reads)) if reads else (None, ())
    own.root = namespace
    own.above = above if reads else None
    return own, tuple(own.modes_at(namespace))
