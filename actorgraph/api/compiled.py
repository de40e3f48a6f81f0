"""What every method of a compiled graph stands on: its plan, its saver, and how a run is set up."""

import copy
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self, cast

import msgspec

from actorgraph.api import config as configs
from actorgraph.api.adopting import adopted
from actorgraph.api.limits import seconds
from actorgraph.api.options import CallOptions
from actorgraph.api.profile import check_profile
from actorgraph.api.registry import stores_of, together
from actorgraph.api.subgraphs import graph_at, subgraphs_of, types_below
from actorgraph.api.supplies import supplies_of
from actorgraph.codec import Codec
from actorgraph.errors import InvalidConfigError, SaverRequiredError
from actorgraph.plan.graph import Plan
from actorgraph.ports import Cache, Checkpointer, Saver, Store
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.caching import Identities, ResultCache
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.context import CURRENT
from actorgraph.runtime.hosting import Host, host_of
from actorgraph.runtime.nested import NestedPlace, belongs, beside, inherited, place_of
from actorgraph.runtime.runs import Address, Launch
from actorgraph.runtime.stopping import Stopping, stopping_of
from actorgraph.superstep.nesting import nodes_of, stable_namespace
from actorgraph.values.configs import merge_configs
from actorgraph.values.interop import from_langgraph
from actorgraph.values.policies import Durability, StreamMode
from actorgraph.values.streams import namespace_of

Config = Mapping[str, Any]


class _Seat(msgspec.Struct, frozen=True):
    """Where one run takes place: its thread, its saver, and what it inherits."""

    config: Config | None
    host: Host | None
    address: Address
    codec: Codec
    durability: Durability
    run: bytes


class Target(msgspec.Struct, frozen=True):
    """What a config addresses, to be read or changed.

    Attributes:
        declared: whether the plan is that of the namespace; an unknown namespace is read with
            the root graph's.
    """

    host: Host
    codec: Codec
    plan: Plan
    address: Address
    declared: bool


def _readers(place: NestedPlace, own: Broadcast | None) -> tuple[Broadcast | None, tuple[str, ...]]:
    """Who reads a run inside of another one, and what: its own reader, if any, and that above."""
    above, namespace = place.scope.lineage.broadcast, namespace_of(place.namespace)
    reads = above.modes_at(namespace) if above is not None else frozenset[str]()
    if own is None:
        return (above, tuple(reads)) if reads else (None, ())
    own.root = namespace
    own.above = above if reads else None
    return own, tuple(own.modes_at(namespace))


def stopped_by(place: NestedPlace | None, options: CallOptions) -> Stopping:
    """What stops a run that begins now."""
    deadline_s = seconds("deadline_s", options.get("deadline_s"))
    return stopping_of(place, options.get("control"), deadline_s)


class CompiledBase:
    """The plan and the saver of a compiled graph. Immutable; `CompiledStateGraph` is the whole."""

    stream_mode: StreamMode | Sequence[StreamMode] = "updates"
    debug: bool = False

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
        stored = frozenset(n for n, g in self.subgraphs.items() if g.checkpointer is not False)
        self.plan = replace(plan, subgraphs=stored) if stored else plan
        self.checkpointer = adopted(checkpointer)
        check_profile(self.checkpointer)
        self.store = store
        self.stores = stores_of(stores)
        self.cache = cache
        self.identities = Identities()
        self.builder = builder
        self.config: Config | None = None
        self.step_timeout: float | timedelta | None = None
        self._durability = durability
        self.stored_types = (*plan.types, *types_below(self.subgraphs))
        self._codec = self._codec_for(self.checkpointer)

    def _codec_for(self, saver: object) -> Codec:
        own, learn = getattr(saver, "codec", None), getattr(saver, "learn", None)
        if learn is not None:
            learn(self.stored_types)
        codec = cast("Codec", own) if own is not None else Codec()
        for migration in self.plan.migrations:
            codec = codec.with_upgrades(migration.types)
        return codec.with_types(self.stored_types)

    @property
    def durability(self) -> Durability:
        """The mode of a run that names none; inside of another run that one's may hold."""
        return self._durability or Durability.SYNC

    @property
    def name(self) -> str:
        """The graph's name."""
        return self.plan.name

    @property
    def graph_id(self) -> str:
        """Tells this graph's stored checkpoints from another's."""
        return self.plan.graph_id

    def _place(self, config: Config | None) -> NestedPlace | None:
        """Where a call stands that a node makes; None for a run of its own."""
        scope = CURRENT.get(None)
        if scope is None or not belongs(scope, config):
            return None
        return place_of(scope, self.checkpointer)

    def _launch(
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
        seat = self._seat(config) if place is None else self._seat_below(place, config)
        if place is not None:
            broadcast, modes = _readers(place, broadcast)
        policy = configs.policy_of(
            self.plan,
            seat.config,
            durability=configs.durability_of(options.get("durability"), seat.durability),
            modes=modes,
            output_keys=configs.keys_of(self.plan, options.get("output_keys")) or default_keys,
            interrupt_before=options.get("interrupt_before"),
            interrupt_after=options.get("interrupt_after"),
            strict_resume=bool(options.get("strict_resume")),
            step_timeout_s=seconds("step_timeout", self.step_timeout),
        )
        return Launch(
            plan=self.plan,
            policy=policy,
            address=seat.address,
            given=from_langgraph(given),
            config=dict(seat.config or {}),
            host=seat.host,
            codec=seat.codec,
            context=copy_context(),
            run=seat.run,
            recorded=configs.is_recorded(options.get("replay"), given, seat.host is not None),
            broadcast=broadcast,
            place=place,
            cache=self._results(place, seat.codec),
            stopping=stopped_by(place, options),
            supplies=supplies_of(
                self.plan,
                place.scope.lineage.supplies if place else None,
                context=options.get("context"),
                store=self.store,
                stores=together(self.stores, options.get("stores")),
            ),
        )

    def _results(self, place: NestedPlace | None, codec: Codec) -> ResultCache | None:
        """The cache of the graph's own nodes: its own, or that of the graph above."""
        above = place.scope.lineage.cache if place is not None else None
        cache = self.cache or (above.cache if above is not None else None)
        if cache is None:
            return None
        return ResultCache(cache, codec.at_rest, self.graph_id, self.identities)

    def _changed(self, **attributes: Any) -> Self:
        """The same graph with other attributes; this one stays as it is."""
        twin = copy.copy(self)
        vars(twin).update(attributes)
        return twin

    def _bound(self, config: Config | None) -> Config | None:
        """A call's config on top of the one that `with_config` has bound."""
        return (
            config if self.config is None else merge_configs(self.config, configs.checked(config))
        )

    def _seat(self, config: Config | None) -> _Seat:
        """Where a run of its own takes place."""
        scope, host = CURRENT.get(None), self._own_host()
        if scope is not None:
            config = beside(scope, configs.checked(config))
        address = configs.start_of(config, needs_thread=host is not None)
        return _Seat(config, host, address, self._codec, self.durability, IDS.run())

    def _seat_below(self, place: NestedPlace, config: Config | None) -> _Seat:
        """Where a run in a node of another run takes place."""
        above, host = place.scope.lineage, place.host
        config = inherited(place.scope, config)
        thread_id, run, codec = above.thread_id, above.run, self._codec
        if place.nested.claims:
            thread_id, run = configs.address_of(config, needs_thread=True).thread_id, IDS.run()
        elif host is not None:
            codec = self._codec_for(host.saver)
        durability = self._durability or above.policy.durability
        return _Seat(config, host, Address(thread_id, place.namespace), codec, durability, run)

    def _own_host(self) -> Host | None:
        """The host of the graph's own saver; None without one.

        Raises:
            InvalidConfigError: the graph is made to run inside of another one.
        """
        if self.checkpointer is True:
            raise InvalidConfigError(
                f"checkpointer=True cannot be used for root graphs; {self.name!r} was called "
                "outside of a node",
                do="pass a saver to compile(), or run this graph in a node of one that has a saver",
            )
        # Not asked whether it is a Saver: that looks for each method, at every run.
        saver = self.checkpointer
        return None if saver is None or isinstance(saver, bool) else host_of(saver)

    def _saver_host(self, what: str) -> Host:
        host = self._own_host()
        if host is None:
            raise SaverRequiredError(
                f"No checkpointer set: {what} reads checkpoints, and graph {self.name!r} was "
                "compiled without a checkpointer",
                do="pass checkpointer= to compile(), e.g. SqliteSaver('runs.db')",
            )
        return host

    def _target(self, what: str, config: Config) -> Target:
        """The thread, and the graph of it, that a config addresses from outside a run.

        Raises:
            SaverRequiredError: the graph has no checkpointer.
        """
        host = self._saver_host(what)
        address = configs.address_of(self._bound(config), needs_thread=True)
        found = graph_at(self, nodes_of(address.namespace))
        if found is self or found is None:
            return Target(host, self._codec, self.plan, address, found is not None)
        if isinstance(found.checkpointer, Saver):
            host = host_of(found.checkpointer)
        if found.checkpointer is True:
            address = msgspec.structs.replace(
                address, namespace=stable_namespace(address.namespace)
            )
        codec = cast("CompiledBase", found)._codec_for(host.saver)  # noqa: SLF001 - a peer
        return Target(host, codec, found.plan, address, declared=True)
