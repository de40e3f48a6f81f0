"""What every method of a compiled graph stands on: its plan, its saver, and how a run is set up."""

import functools
import inspect
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from typing import Any, cast

import msgspec

from actorgraph.api import config as configs
from actorgraph.codec import Codec
from actorgraph.errors import InvalidConfigError, SaverRequiredError
from actorgraph.plan.graph import Plan
from actorgraph.ports import Saver
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.clock import IDS
from actorgraph.runtime.context import CURRENT
from actorgraph.runtime.hosting import Host, host_of
from actorgraph.runtime.nested import NestedPlace, belongs, inherited, place_of
from actorgraph.runtime.runs import Address, Launch
from actorgraph.values.policies import All, Durability, DurabilityMode
from actorgraph.values.streams import namespace_of

Config = Mapping[str, Any]
NodeNames = All | Sequence[str] | None


class _Seat(msgspec.Struct, frozen=True):
    """Where one run takes place: its thread, its saver, and what it inherits."""

    config: Config | None
    host: Host | None
    address: Address
    codec: Codec
    durability: Durability
    run: bytes


def _read_from_above(place: NestedPlace) -> tuple[Broadcast | None, tuple[str, ...]]:
    """The reader of the run above, and what it reads of this one."""
    broadcast = place.scope.lineage.broadcast
    if broadcast is None:
        return None, ()
    modes = tuple(broadcast.modes_at(namespace_of(place.namespace)))
    return (broadcast, modes) if modes else (None, ())


class CompiledBase:
    """The plan and the saver of a compiled graph. Immutable; `CompiledStateGraph` is the whole."""

    def __init__(
        self,
        plan: Plan,
        checkpointer: Saver | bool | None,
        durability: Durability | None = None,
    ) -> None:
        self.plan = plan
        self.checkpointer = checkpointer
        self._durability = durability
        self.stored_types = (*plan.types, *types_below(plan))
        self._codec = self._codec_for(checkpointer)

    def _codec_for(self, saver: object) -> Codec:
        own = getattr(saver, "codec", None)
        codec = cast("Codec", own) if own is not None else Codec()
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
        durability: DurabilityMode | None,
        before: NodeNames,
        after: NodeNames,
        output_keys: tuple[str, ...],
        modes: Sequence[str] = (),
        broadcast: Broadcast | None = None,
    ) -> Launch:
        seat = self._seat(config) if place is None else self._seat_below(place, config)
        if place is not None and broadcast is None:
            broadcast, modes = _read_from_above(place)
        policy = configs.policy_of(
            self.plan,
            seat.config,
            durability=configs.durability_of(durability, seat.durability),
            modes=modes,
            output_keys=output_keys,
            interrupt_before=before,
            interrupt_after=after,
        )
        return Launch(
            plan=self.plan,
            policy=policy,
            address=seat.address,
            given=given,
            config=dict(seat.config or {}),
            host=seat.host,
            codec=seat.codec,
            context=copy_context(),
            run=seat.run,
            broadcast=broadcast,
            place=place,
        )

    def _seat(self, config: Config | None) -> _Seat:
        """Where a run of its own takes place."""
        host = self._own_host()
        address = configs.address_of(config, needs_thread=host is not None)
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
        return host_of(self.checkpointer) if isinstance(self.checkpointer, Saver) else None

    def _saver_host(self, what: str) -> Host:
        host = self._own_host()
        if host is None:
            raise SaverRequiredError(
                f"No checkpointer set: {what} reads checkpoints, and graph {self.name!r} was "
                "compiled without a checkpointer",
                do="pass checkpointer= to compile(), e.g. SqliteSaver('runs.db')",
            )
        return host


def types_below(plan: Plan) -> tuple[type, ...]:
    """The user types of the graphs that a plan's nodes run: their questions are stored here too."""
    found: dict[type, None] = {}
    for graph in subgraphs_of(plan).values():
        found.update(dict.fromkeys(graph.stored_types))
    return tuple(found)


def subgraphs_of(plan: Plan) -> dict[str, CompiledBase]:
    """The graphs that nodes run, by node: added as a node, or named in the node's function."""
    found: dict[str, CompiledBase] = {}
    for node in plan.nodes.values():
        graph = _graph_in(node.call)
        if graph is not None:
            found[node.name] = graph
    return found


def _graph_in(call: Any) -> CompiledBase | None:
    while isinstance(call, functools.partial):
        call = call.func
    owner = getattr(call, "__self__", None)
    if isinstance(owner, CompiledBase):
        return owner
    function = inspect.unwrap(getattr(call, "__func__", call))
    if not inspect.isfunction(function):
        return None
    cells = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    graphs = (value for value in (*cells, *named) if isinstance(value, CompiledBase))
    return next(graphs, None)


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading is the test
    except ValueError:
        return False
    return True
