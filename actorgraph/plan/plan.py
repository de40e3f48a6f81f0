"""Plan: the compiled graph as data, read by the pure core and the actors during a run.

A `Plan` is immutable and shared by every run of the graph. Everything that can be computed
once is computed here, because the supervisor reads it at every superstep. Only the `CallDuration`
of a node or router changes: runs learn it from each other, and no decision of a run depends on it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actorgraph.channels import EMPTY, Channel
from actorgraph.plan.late_tasks import LateTasks, late_tasks, tasks_in
from actorgraph.plan.renames import NO_RENAMES, Renames, renames_of
from actorgraph.plan.schema import Managed
from actorgraph.plan.state_objects import Default, Fields
from actorgraph.values.checkpoint import Migration
from actorgraph.values.constants import PULL, ROOT, START
from actorgraph.values.policies import CachePolicy, RetryPolicy, TimeoutPolicy, TracePolicy


class CallDuration:
    """Duration of the calls of a plain function.

    Attributes:
        seconds: duration of its last call in a worker thread; infinite before the first.
        slow_calls: of a router, how many of its last calls were slow, in a row.
    """

    __slots__ = ("seconds", "slow_calls")

    def __init__(self) -> None:
        self.seconds = math.inf
        self.slow_calls = 0


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """A conditional edge: a router, user code that reads the state and names the next nodes.

    Attributes:
        path: the user's function.
        inject: the parameters that the runtime fills in.
        ends: answer of `path` -> node; None if it returns names of nodes.
        reads: the channels that `path` gets.
        coerce: makes them into its schema; None leaves a dict.
        inline: whether `path` is called on the event loop, without a worker thread.
        why: the reason for that, for reports.
    """

    name: str
    path: Callable[..., Any]
    is_async: bool
    inject: tuple[str, ...]
    ends: Mapping[Any, str] | None
    reads: tuple[str, ...]
    coerce: Callable[..., Any] | None
    routes: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Answer that names a node -> the channel that makes it due; of END, None."""
    own_keys: frozenset[str] = frozenset()
    """State keys outside of `reads` that `path` gets if its node has just returned them."""
    takes_more: bool = False
    """Whether `path` gets keys without a channel, if its node has just returned them."""
    inline: bool = False
    why: str = ""
    duration: CallDuration = field(
        init=False, default_factory=CallDuration, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node.

    Attributes:
        inject: the parameters that the runtime fills in.
        triggers: the channels whose change makes the node run.
        reads: the channels that its input is made of; `("__root__",)` passes the bare value.
        coerce: makes the input into the node's schema; None leaves a dict.
        writes: the keys that it may return.
        targets: `(channel, value)` written after each run: its static edges.
        ends: declared destinations of its Commands -> label in drawings.
        hidden: whether streams and "*" breakpoints leave it out.
        needs_store: whether it, or a router of it, can't be called without a store.
        timeout: of each attempt, in seconds; None for no limit.
        retry: the policies for another attempt, the first that matches an error counts.
        cache: the policy for reusing results; None for no cache.
        handler: the name of the task that handles its failures; "" for none.
        trace: the values that an exporter of traces records.
        own: keys that a subgraph has and this graph hasn't; dropped from its result silently.
        whole: keys that a subgraph gets, and gives back with what it had been given.
        shape: makes writes of its return value; None if it returns updates of the state.
        literal: whether `shape` gets Commands and Sends too.
        folds: the keys whose writes are folded into a value.
    """

    name: str
    call: Callable[..., Any]
    is_async: bool
    inject: tuple[str, ...]
    triggers: tuple[str, ...]
    reads: tuple[str, ...]
    coerce: Callable[..., Any] | None
    writes: frozenset[str]
    targets: tuple[tuple[str, Any], ...]
    branches: tuple[BranchPlan, ...]
    timeout: TimeoutPolicy | None = None
    max_concurrency: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ends: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    hidden: bool = False
    needs_store: bool = False
    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy[Any] | None = None
    handler: str = ""
    shape: Callable[[Any], Sequence[tuple[str, Any]]] | None = None
    literal: bool = False
    trace: TracePolicy | None = None
    own: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    folds: frozenset[str] = frozenset()
    path: tuple[str, str] = field(init=False)
    """The path of its tasks, except those made by Sends."""
    bare: bool = field(init=False)
    """Whether it returns a value instead of a dict: a graph over one value, or with a `shape`."""
    one_hop: bool = field(init=False)
    """Whether one worker thread can call it and its routers: none of them is async."""
    duration: CallDuration = field(
        init=False, default_factory=CallDuration, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        """Compute the derived fields."""
        object.__setattr__(self, "path", (PULL, self.name))
        object.__setattr__(self, "bare", self.writes == {ROOT} or self.shape is not None)
        some_async = self.is_async or any(branch.is_async for branch in self.branches)
        object.__setattr__(self, "one_hop", not some_async)

    @property
    def bound(self) -> Any:
        """The object with `invoke` that the node was made of (a subgraph ...), or its function."""
        owner = getattr(self.call, "__self__", None)
        return self.call if getattr(owner, "invoke", None) is None else owner


@dataclass(frozen=True, slots=True)
class Sources:
    """The user's classes: state, input, output, and context (None without one)."""

    state: Any = Any
    input: Any = Any
    output: Any = Any
    context: Any = None


UNNAMED = "LangGraph"
"""Name of a graph that was compiled without one, as in LangGraph."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole graph. `nodes` is in definition order and includes START.

    Attributes:
        name: the graph's name, for errors and logs.
        graph_id: identifies the graph in stored records.
        channels: the rule of every cell, including edges.
        output_keys: the keys that `invoke` returns.
        state_keys: the keys that a snapshot shows.
        types: user types that the codec may store and load.
        strict: whether an unknown update key is an error.
        make_output: makes keyword arguments into the output schema; None leaves a dict.
        make_state: the same for the state schema.
        managed: keys that the runtime computes for readers.
        subgraphs: the nodes that run another graph which stores its state.
        sources: the classes that the graph was declared with.
        handlers: the error handlers of nodes, by the name of their tasks.
        callable: nodes and error handlers, by the name of their tasks.
        entry: makes the writes of an input in a graph without a node START; else None.
        bare_output: whether the one output key is shown without its name.
        bare_state: whether the one state key is shown without its name.
        migrations: how older checkpoints are read.
        subscribers: channel -> the nodes that it triggers, by name.
        clearing: channel with a rule for idle supersteps -> its place in the order.
        finishing: the channels with a rule for the run's end.
        opaque: the channels whose cells differ from the values that readers see.
        consumable: the channels that change when a node they trigger has run.
        deltas: the DeltaChannels.
        untracked: the channels whose values are never stored.
        stamps: channel -> the function that completes its writes before they are stored.
        keeping: the channels that keep writes of finished tasks when a new input drops the others.
        order: node -> its place in definition order.
        firsts: the channels that may have a value before their first write.
        defaults: key -> the declared default with which its cell begins; of channels that fold.
        whole_keys: node -> the keys with a declared default that its subgraph gives back.
        forbids: whether the input's class refuses keys that it doesn't have.
        outside: the fields of the input's class, whose aliases callers may use; None without any.
    """

    name: str
    graph_id: str
    channels: Mapping[str, Channel[Any]]
    nodes: Mapping[str, NodePlan]
    output_keys: tuple[str, ...]
    state_keys: tuple[str, ...]
    interrupt_before: tuple[str, ...] = ()
    interrupt_after: tuple[str, ...] = ()
    types: tuple[type, ...] = ()
    strict: bool = False
    make_output: Callable[..., Any] | None = None
    make_state: Callable[..., Any] | None = None
    managed: Mapping[str, type[Managed]] = field(default_factory=dict[str, type[Managed]])
    subgraphs: frozenset[str] = frozenset()
    sources: Sources = field(default_factory=Sources)
    handlers: Mapping[str, NodePlan] = field(default_factory=dict[str, NodePlan])
    callable: Mapping[str, NodePlan] = field(init=False)
    entry: NodePlan | None = None
    bare_output: bool = False
    bare_state: bool = False
    migrations: tuple[Migration, ...] = ()
    defaults: Mapping[str, Default] = field(default_factory=dict[str, Default])
    outside: Fields | None = None
    forbids: bool = False
    subscribers: Mapping[str, tuple[str, ...]] = field(init=False)
    clearing: Mapping[str, int] = field(init=False)
    finishing: tuple[str, ...] = field(init=False)
    opaque: frozenset[str] = field(init=False)
    consumable: frozenset[str] = field(init=False)
    deltas: frozenset[str] = field(init=False)
    untracked: frozenset[str] = field(init=False)
    stamps: Mapping[str, Callable[[Any, str], Any]] = field(init=False)
    keeping: frozenset[str] = field(init=False)
    order: Mapping[str, int] = field(init=False)
    firsts: Mapping[str, Channel[Any]] = field(init=False)
    whole_keys: Mapping[str, frozenset[str]] = field(init=False)
    dumping: frozenset[str] = field(init=False)
    """The channels whose stored value is not the cell's own."""
    loading: frozenset[str] = field(init=False)
    """The channels that make a cell's value from the stored one."""
    renames: Renames = field(init=False)
    """The migrations, composed."""
    start: NodePlan = field(init=False)
    """The hidden node that moves a run's input into the state; without one, `entry`."""
    needs_store: str = field(init=False)
    """The first node that can't be called without a store; "" for none."""
    plain: bool = field(init=False)
    """Whether no function of it, or of its subgraphs, is async."""
    _late: list[LateTasks] = field(init=False, repr=False, compare=False)
    """The answer of `late_tasks`, once it was asked for."""

    def __post_init__(self) -> None:
        """Compute the tables."""
        everyone = {**self.nodes, **self.handlers}
        subscribers: dict[str, list[str]] = {}
        for node in self.nodes.values():
            for channel in node.triggers:
                subscribers.setdefault(channel, []).append(node.name)
        tables: dict[str, Any] = {
            "callable": everyone,
            "subscribers": {c: tuple(sorted(n)) for c, n in subscribers.items()},
            "clearing": {n: i for i, (n, c) in enumerate(self.channels.items()) if c.clears},
            "finishing": tuple(n for n, c in self.channels.items() if c.finishes),
            "opaque": frozenset(n for n, c in self.channels.items() if not c.transparent),
            "stamps": {n: c.stamp for n, c in self.channels.items() if c.stamp is not None},
            "deltas": frozenset(n for n, c in self.channels.items() if c.delta),
            "keeping": frozenset(n for n, c in self.channels.items() if c.keeps_finished),
            "untracked": _untracked(self.channels, self.outside),
            "consumable": frozenset(n for n, c in self.channels.items() if c.consumable),
            "firsts": {
                n: c for n, c in self.channels.items() if n in self.defaults or _may_have_a_first(c)
            },
            "whole_keys": {
                name: keys
                for name, node in everyone.items()
                if (keys := node.whole.intersection(self.defaults))
            },
            "dumping": frozenset(
                n for n, c in self.channels.items() if type(c).dump is not Channel.dump
            ),
            "loading": frozenset(
                n for n, c in self.channels.items() if type(c).load is not Channel.load
            ),
            "renames": renames_of(self.migrations) if self.migrations else NO_RENAMES,
            "start": self.entry or self.nodes.get(START),
            "needs_store": next(
                (n.name for n in (*self.nodes.values(), *self.handlers.values()) if n.needs_store),
                "",
            ),
            "bare_state": self.bare_state or self.state_keys == (ROOT,),
            "order": {name: place for place, name in enumerate(self.nodes)},
            "_late": [],
            "plain": all(map(_is_plain, everyone.values())),
        }
        for name, table in tables.items():
            object.__setattr__(self, name, table)

    @property
    def title(self) -> str:
        """The graph's id for texts: under the name that it has now, as in a system."""
        return f"{self.name}:{self.graph_id.rpartition(':')[2]}"

    @property
    def late_tasks(self) -> LateTasks:
        """The names of `@task`s that its functions may define while they run; see `late_tasks`."""
        if not self._late:
            self._late.append(late_tasks(self._functions()))
        return self._late[0]

    @property
    def mentioned_tasks(self) -> frozenset[str]:
        """The names of the `@task`s that its functions mention today."""
        return tasks_in(self._functions())

    def _functions(self) -> list[Any]:
        """The functions of its nodes, handlers and routers."""
        functions: list[Any] = [node.call for node in self.callable.values()]
        return functions + [b.path for node in self.callable.values() for b in node.branches]

    def initial_values(self) -> dict[str, Any]:
        """Make the cells of a thread that has never run: declared defaults, reducers' values."""
        made = ((name, self._first(name, channel)) for name, channel in self.firsts.items())
        return {name: value for name, value in made if value is not EMPTY}

    def _first(self, name: str, channel: Channel[Any]) -> Any:
        default = self.defaults.get(name)
        if default is None or default.is_none:
            return channel.initial()
        value = default.make()
        if channel.stamp is None:
            return value
        # Messages: the reducer makes them what it would make of a write.
        return channel.fold(name, channel.initial(), [channel.stamp(value, f"default:{name}")])


def _is_plain(node: NodePlan) -> bool:
    if any(branch.is_async for branch in node.branches):
        return False
    below = getattr(getattr(node.call, "__self__", None), "plan", None)
    return below.plain if isinstance(below, Plan) else not node.is_async


def _untracked(channels: Mapping[str, Channel[Any]], outside: Fields | None) -> frozenset[str]:
    """The channels that aren't stored, also under the names that an input may use."""
    found = {name for name, channel in channels.items() if not channel.stored}
    if found and outside is not None:
        found |= {alias for alias, key in outside.aliases.items() if key in found} - set(channels)
        found |= {path[0] for key, path in outside.paths.items() if key in found} - set(channels)
    return frozenset(found)


def _may_have_a_first(channel: Channel[Any]) -> bool:
    return type(channel).initial is not Channel.initial
