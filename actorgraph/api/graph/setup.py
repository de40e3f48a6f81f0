"""The base of a compiled graph: construction, how a run is set up, what a config addresses."""

import copy
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from operator import is_
from typing import Any, Self, TypeVar, cast, get_args

import msgspec

from actorgraph.api import config as configs
from actorgraph.api.blocking import block_on as run_blocking
from actorgraph.api.config import seconds
from actorgraph.api.graph.addressed import AddressedGraph, addressed_below
from actorgraph.api.graph.arguments import check_name, check_profile, resources_of, stores_of
from actorgraph.api.graph.captured_types import captured_types
from actorgraph.api.graph.subgraphs import check_conversions, subgraphs_of, types_below
from actorgraph.api.options import CallOptions
from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.bridging import BRIDGE
from actorgraph.codec import Codec
from actorgraph.codec.known_types import declare
from actorgraph.errors import InvalidConfigError, SaverRequiredError
from actorgraph.plan.forms import blocking_plan
from actorgraph.plan.plan import UNNAMED, Plan
from actorgraph.plan.schema import types_in
from actorgraph.ports import Cache, Checkpointer, Saver, Store
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
from actorgraph.runtime.task.result_cache import Identities, ResultCache
from actorgraph.runtime.task.runtime import RunResources, Stopping
from actorgraph.runtime.task.scope import CURRENT
from actorgraph.values.configs import Config, merge_configs
from actorgraph.values.policies import Durability, DurabilityMode, RunPolicy, StreamMode
from actorgraph.values.schema_types import (
    ContextT,
    GraphTypes,
    InputT,
    OutputT,
    ResultT,
    StateT,
    ValuesT,
)
from actorgraph.values.stream_items import namespace_of

T = TypeVar("T")
_MADE = ("_template", "_blocking")
"""Attributes that are made of the others."""
_MODES: tuple[DurabilityMode | None, ...] = (None, *get_args(DurabilityMode))


def _nested_broadcast(
    place: NestedPlace, own: Broadcast | None
) -> tuple[Broadcast | None, tuple[str, ...]]:
    """Return the buffer that a nested run writes its chunks to, and the modes to emit.

    Its own reader's, if it has one, which passes on to the reader of the run above; else that.
    """
    above, namespace = place.scope.lineage.broadcast, namespace_of(place.namespace)
    reads = above.modes_at(namespace) if above is not None else frozenset[str]()
    if own is None:
        return (above, tuple(reads)) if reads else (None, ())
    own.root = namespace
    own.above = above if reads else None
    return own, tuple(own.modes_at(namespace))


def _root_config(config: Config | None) -> Config | None:
    """Return the config of a top-level run: the call's, with what it inherits."""
    scope = CURRENT.get(None)
    if scope is not None:  # tags, limits ..., no address
        return other_thread_config(scope, configs.checked(config))
    if BRIDGE.calls_module in sys.modules:
        return BRIDGE.below_call(configs.checked(config), None)
    return config


def stopping_for(place: NestedPlace | None, options: CallOptions) -> Stopping:
    """Return the control and the deadline of a run that begins now."""
    control, deadline_s = options.get("control"), options.get("deadline_s")
    if deadline_s is not None:
        deadline_s = seconds("deadline_s", deadline_s)
    if place is None:
        return Stopping.of(control, deadline_s)
    return place.scope.lineage.stopping.below(control, deadline_s)


def renamed(plan: Plan, name: str | None) -> Plan:
    """Return a copy of a plan with another name. The graph's id, which is stored, stays.

    Args:
        name: None for the default name.
    Raises:
        GraphBuildError: the name is not a string, or some store can't keep it.
    """
    check_name(name)
    return replace(plan, name=name or UNNAMED)


class CompiledBase(GraphTypes[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
    """Holds a compiled graph's plan, saver and stores, and sets up runs. Immutable but its name.

    Base of `CompiledStateGraph`.
    """

    stream_mode: StreamMode | Sequence[StreamMode] = "updates"
    debug: bool = False
    _template: tuple[tuple[object, ...], RunTemplate | None] = ((), None)
    _blocking: "tuple[Plan | None, tuple[object, ...], CompiledBase | None]" = (None, (), None)

    def __init__(
        self,
        plan: Plan,
        checkpointer: Checkpointer,
        durability: Durability | None = None,
        *,
        store: Store | None = None,
        cache: Cache | None = None,
        builder: Any = None,
        stores: Mapping[str, Store] | None = None,
    ) -> None:
        self.subgraphs = subgraphs_of(plan)
        check_conversions(plan, self.subgraphs)
        # The plan lists the nodes whose subgraphs may store checkpoints.
        stored = frozenset(n for n, g in self.subgraphs.items() if g.checkpointer is not False)
        self.plan = replace(plan, subgraphs=stored) if stored else plan
        self.checkpointer = adapt_checkpointer(checkpointer)
        check_profile(self.checkpointer)
        self.store = store
        self.stores = stores_of(stores)
        self.cache = cache
        self.identities = Identities()
        self.builder = builder
        self.config: Config | None = None
        self.step_timeout: float | timedelta | None = None
        self._durability = durability
        held = captured_types(node.call for node in plan.nodes.values())
        context = types_in((plan.sources.context,))
        self.stored_types = (*plan.types, *context, *held, *types_below(self.subgraphs))
        declare(self.stored_types)  # for savers that are read without the graph
        self.codec = self.codec_for(self.checkpointer)

    def blocking_form(self) -> Self:
        """Return the graph whose nodes of two forms are called in their blocking one.

        The graph itself if it has none. For the package's own use.
        """
        plan, made_of, twin = self._blocking
        if plan is self.plan and twin is None:
            return self
        # A program may assign e.g. `checkpointer` between two calls.
        now = tuple(value for name, value in vars(self).items() if name not in _MADE)
        if plan is not self.plan or len(made_of) != len(now) or not all(map(is_, made_of, now)):
            plan = blocking_plan(self.plan)
            twin = None if plan is self.plan else self._changed(plan=plan)
            self._blocking = self.plan, now, twin
        return self if twin is None else cast("Self", twin)

    def block_on(self, name: str, function: Callable[[], Awaitable[T]], *, alone: bool = True) -> T:
        """Run an async method of this graph and return its result; see `block_on`.

        Args:
            alone: whether it makes no more than one run: functions of concurrent ones would wait
                for each other in one thread.
        """
        return run_blocking(f"graph.{name}", function, plain=alone and self.plan.plain)

    def codec_for(self, saver: object) -> Codec:
        """Return the codec of the graph's values in a saver; for the package's own use."""
        own, learn = getattr(saver, "codec", None), getattr(saver, "learn", None)
        if learn is not None:
            learn(self.stored_types)
        codec = cast("Codec", own) if own is not None else Codec().for_this_process()
        for migration in self.plan.migrations:
            codec = codec.with_upgrades(migration.types)
        return codec.with_types(self.stored_types)

    @property
    def durability(self) -> Durability:
        """The durability of a run whose call has none; a nested run may inherit another."""
        return self._durability or Durability.SYNC

    @property
    def name(self) -> str:
        """The graph's name. Runs that begin after an assignment have the new one."""
        return self.plan.name

    @name.setter
    def name(self, name: str) -> None:
        # A new plan, which no run has: those that are active keep the name that they began with.
        self.plan = renamed(self.plan, name)

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """Return the graph's name, or another one, with a suffix: `get_name("Input")`."""
        own = name or self.name
        if not suffix:
            return own
        return own + suffix.title() if own[0].isupper() else f"{own}_{suffix.lower()}"

    @property
    def graph_id(self) -> str:
        """Identifies the graph in stored records."""
        return self.plan.graph_id

    def _place(self, config: Config | None) -> NestedPlace | None:
        """Return where in a node's run a call is made; None for a top-level run."""
        scope = CURRENT.get(None)
        if scope is None or not belongs(scope, config):
            return None
        return nested_place(scope, self.checkpointer)

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

        `place` is the node that makes the call, None for a top-level run; `default_keys` are the
        keys of the output if `options` name none. For the package's own use.
        """
        template = self._run_template()
        if place is None:
            host = self._own_host() if template.saver is None else host_of(template.saver)
            config = _root_config(config)
            address, run = configs.address_of(config, needs_thread=host is not None), IDS.run()
            address = configs.root_of(config, address, host) if address.namespace else address
        else:
            host, (broadcast, modes) = place.host, _nested_broadcast(place, broadcast)
            config, address, run, template = self._nested_start(place, config, template)
        config = {} if config is None else dict(config)
        policy, resources, stopping, recorded = None, template.resources, Stopping(), False
        # Most calls set nothing but the durability: what they need is in the template.
        if place is None and not modes and configs.sets_nothing(config, options):
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
        inherited = Durability.SYNC if place is None else place.scope.lineage.policy.durability
        return configs.policy_of(
            *(self.plan, config, options, self._durability or inherited, default_keys, modes),
            step_timeout=self.step_timeout,
        )

    def _resources(self, place: NestedPlace | None, options: CallOptions) -> RunResources:
        """Return the context and the stores of a run; see `resources_of`."""
        above = None if place is None else place.scope.lineage.resources
        return resources_of(self.plan, above, options, self.store, self.stores)

    def _run_template(self) -> RunTemplate:
        """Return what the runs of this graph have in common.

        Raises:
            InvalidConfigError: the step timeout, or a limit in the environment, is invalid.
        """
        made_of, template = self._template
        # A program may assign e.g. `step_timeout` between two runs, in another thread too.
        now = (
            *(self.plan, self.codec, self.checkpointer, self.cache, self.store, self.stores),
            *(self.step_timeout, self._durability),
        )
        if template is None or not all(map(is_, made_of, now)):
            template = self._make_template()
            self._template = now, template
        return template

    def _make_template(self) -> RunTemplate:
        keys, lacks_store = self.plan.output_keys, self.plan.needs_store and self.store is None
        return RunTemplate(
            plan=self.plan,
            codec=self.codec,
            saver=None if isinstance(self.checkpointer, bool) else self.checkpointer,
            cache=self._result_cache(None, self.codec),
            resources=None if lacks_store else self._resources(None, {}),
            policies={mode: self._policy(None, {}, {"durability": mode}, keys) for mode in _MODES},
        )

    def _result_cache(self, above: ResultCache | None, codec: Codec) -> ResultCache | None:
        """Return the cache of the graph's nodes: its own, or that of the graph above."""
        cache = self.cache or (above.cache if above is not None else None)
        if cache is None:
            return None
        return ResultCache(cache, codec.at_rest, self.graph_id, self.identities)

    def _changed(self, **attributes: Any) -> Self:
        """Return a copy of the graph with other attributes."""
        twin = copy.copy(self)
        for name in _MADE:
            vars(twin).pop(name, None)
        vars(twin).update(attributes)
        return twin

    def hosted_by(self, saver: Saver, store: Store | None, name: str) -> Self:
        """Return a copy that runs over an ActorSystem's saver and store; for the package's own use.

        Args:
            name: the system's for the graph; it is the copy's, unless the graph has a name itself.
            saver: replaces the graph's, unless the graph was compiled with `checkpointer=False`.
            store: replaces the graph's, unless it is None.
        """
        changes: dict[str, Any] = {} if store is None else {"store": store}
        if self.name == UNNAMED:
            changes["plan"] = renamed(self.plan, name)
        if self.checkpointer is not False:
            changes |= {"checkpointer": saver, "codec": self.codec_for(saver)}
        return self._changed(**changes)

    def _bound(self, config: Config | None) -> Config | None:
        """Merge a call's config over the one that `with_config` bound."""
        if config is not None and not (type(config) is dict and config.keys() <= configs.KEYS):
            config = configs.gathered(config)
        return (
            config if self.config is None else merge_configs(self.config, configs.checked(config))
        )

    def _nested_start(
        self, place: NestedPlace, config: Config | None, template: RunTemplate
    ) -> tuple[Config, Address, bytes, RunTemplate]:
        """Return the config, address, run id and template of a run in a node of another run."""
        if BRIDGE.calls_module in sys.modules:
            config = BRIDGE.below_call(config, place.scope)
        config = inherited_config(place.scope, config)
        above, host = place.scope.lineage, place.host
        thread_id, run, codec = above.thread_id, above.run, self.codec
        # A graph with a saver of its own claims a thread there, as a top-level run does. Any
        # other stores in the thread of the run above, encoded for that run's saver.
        if place.nested.claims:
            thread_id, run = configs.address_of(config, needs_thread=True).thread_id, IDS.run()
        elif host is not None:
            codec = self.codec_for(host.saver)
        cache = self._result_cache(above.cache, codec)
        template = msgspec.structs.replace(template, codec=codec, cache=cache)
        return config, Address(thread_id, place.namespace), run, template

    def _own_host(self) -> Host | None:
        """Return the host of the graph's own saver; None without one.

        Raises:
            InvalidConfigError: the graph has `checkpointer=True`, which only a subgraph may have.
        """
        if self.checkpointer is True:
            raise InvalidConfigError(
                f"checkpointer=True cannot be used for root graphs; {self.name!r} was called "
                "outside a node",
                do="pass a saver to compile(), or run this graph in a node of one that has a saver",
            )
        # No isinstance(saver, Saver): a runtime protocol looks for each method, at every run.
        saver = self.checkpointer
        return None if saver is None or isinstance(saver, bool) else host_of(saver)

    def _saver_host(self, method: str) -> Host:
        host = self._own_host()
        if host is None:
            raise SaverRequiredError(
                f"No checkpointer set: {method} reads checkpoints, and graph {self.name!r} was "
                "compiled without a checkpointer",
                do="pass checkpointer= to compile(), e.g. SqliteSaver('runs.db')",
            )
        return host

    def locate(self, method: str, config: Config) -> AddressedGraph:
        """Return the thread, checkpoint and graph that a config addresses from outside a run.

        For the package's own use.

        Args:
            method: the caller's name, for the error.
            config: merged over the bound one.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
        """
        host = self._saver_host(method)
        address = configs.address_of(self._bound(config), needs_thread=True)
        if not address.namespace:
            return AddressedGraph(host, self.codec, self.plan, address, declared=True)
        return addressed_below(self, host, address)
