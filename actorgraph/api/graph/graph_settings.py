"""The settings of a compiled graph: what it was compiled of, and copies of it with others.

The base of `CompiledStateGraph` and of its methods, which pass it to the parts that do their work.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from operator import is_
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Self, cast, get_args

from actorgraph.api import config as configs
from actorgraph.api.graph.arguments import check_name, check_profile, resources_of, stores_of
from actorgraph.api.graph.captured_types import captured_types
from actorgraph.api.graph.subgraphs import check_conversions, subgraphs_of, types_below
from actorgraph.api.options import CallOptions
from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.api.streams.events import TransformerFactory
from actorgraph.codec import Codec
from actorgraph.codec.known_types import declare
from actorgraph.plan.forms import blocking_plan
from actorgraph.plan.plan import UNNAMED, Plan
from actorgraph.plan.schema import types_in
from actorgraph.ports import Cache, Checkpointer, Saver, Store
from actorgraph.runtime.run.launch import RunTemplate
from actorgraph.runtime.task.result_cache import Identities, ResultCache
from actorgraph.values.configs import Config
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

_MADE = ("_template", "_blocking")
"""Attributes that are made of the others."""
_MODES: tuple[DurabilityMode | None, ...] = (None, *get_args(DurabilityMode))


def renamed(plan: Plan, name: str | None) -> Plan:
    """Return a copy of a plan with another name. The graph's id, which is stored, stays.

    Args:
        name: None for the default name.
    Raises:
        GraphBuildError: the name is not a string, or some store can't keep it.
    """
    check_name(name)
    return replace(plan, name=name or UNNAMED)


class GraphSettings(GraphTypes[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
    """Holds a compiled graph's plan, saver, stores and defaults. Immutable but its name."""

    if not TYPE_CHECKING:  # type checkers have the parameters from `GraphTypes`
        __class_getitem__ = classmethod(GenericAlias)

    stream_mode: StreamMode | Sequence[StreamMode] = "updates"
    debug: bool = False
    stream_transformers: tuple[TransformerFactory, ...] = ()
    _template: tuple[tuple[object, ...], RunTemplate | None] = ((), None)
    _blocking: "tuple[Plan | None, tuple[object, ...], GraphSettings | None]" = (None, (), None)

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
    def own_durability(self) -> Durability | None:
        """The durability that the graph was given; None without one. For the package's own use."""
        return self._durability

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

    def run_template(self) -> RunTemplate:
        """Return what the runs of this graph have in common; for the package's own use.

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
        lacks_store = self.plan.needs_store and self.store is None
        supplies = (
            None if lacks_store else resources_of(self.plan, None, {}, self.store, self.stores)
        )
        return RunTemplate(
            plan=self.plan,
            codec=self.codec,
            saver=None if isinstance(self.checkpointer, bool) else self.checkpointer,
            cache=self.result_cache(None, self.codec),
            resources=supplies,
            policies={mode: self._policy_of(mode) for mode in _MODES},
        )

    def _policy_of(self, mode: DurabilityMode | None) -> RunPolicy:
        """Return the settings of a run whose call sets no more than the durability."""
        options: CallOptions[Any] = {"durability": mode}
        own = self._durability or Durability.SYNC
        return configs.policy_of(
            *(self.plan, {}, options, own, self.plan.output_keys, ()),
            step_timeout=self.step_timeout,
        )

    def result_cache(self, above: ResultCache | None, codec: Codec) -> ResultCache | None:
        """Return the cache of the graph's nodes: its own, or that of the graph above.

        For the package's own use.
        """
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
