"""How a graph that is run in a node finds its place: its thread, saver, namespace and answers."""

from collections.abc import Mapping, Sequence
from typing import Any, Never

import msgspec

from actorgraph.errors import GraphDrained, GraphInterrupt
from actorgraph.plan.graph import Plan
from actorgraph.ports import Saver
from actorgraph.runtime.context import TaskScope
from actorgraph.runtime.hosting import Host, host_of
from actorgraph.superstep.nesting import Nested, nested_namespace
from actorgraph.values.commands import Interrupt
from actorgraph.values.configs import nested_config

Config = Mapping[str, Any]
_PLACE = ("checkpoint_ns", "checkpoint_id", "checkpoint_map", "langgraph_task_id")
"""What a config says of the place of a run; a nested run's follows from its task instead."""


class NestedPlace(msgspec.Struct, frozen=True):
    """Where a nested run stands.

    Attributes:
        scope: the task that it runs in.
        host: None when nothing of it is stored.
        namespace: in the parent's thread.
        fresh: whether its namespace can't hold anything yet, so that it need not be read.
    """

    scope: TaskScope
    host: Host | None
    namespace: str
    nested: Nested
    fresh: bool


def belongs(scope: TaskScope | None, config: Config | None) -> bool:
    """Whether a call belongs to the run of the node that makes it.

    A config with another thread's id starts a run that has nothing to do with this one.
    """
    if scope is None:
        return False
    thread_id = ((config or {}).get("configurable") or {}).get("thread_id")
    return thread_id is None or str(thread_id) == scope.lineage.thread_id


def place_of(scope: TaskScope, saver: Saver | bool | None) -> NestedPlace:
    """The place of the next graph that a task runs.

    Args:
        saver: the graph's: None inherits the run's, True too and keeps state from task to
            task, False stores nothing, another one stores it there.
    """
    lineage = scope.lineage
    host = lineage.host
    claims = False
    if saver is False:
        host = None
    elif saver is not None and saver is not True and not (host and host.saver is saver):
        host, claims = host_of(saver), True
    stateful = saver is True
    namespace = nested_namespace(scope.task.namespace, scope.next_graph(), stateful=stateful)
    nested = Nested(lineage.parents(), scope.routed, stateful, claims, scope.task.id)
    fresh = _is_first(scope) and lineage.base() != lineage.loaded
    return NestedPlace(scope, host, namespace, nested, fresh and not (stateful or claims))


def _is_first(scope: TaskScope) -> bool:
    """Whether a task, and whoever has called it, is tried for the first time by this run."""
    return scope.attempt == 1 and (scope.caller is None or _is_first(scope.caller))


def never_stored(plan: Plan, place: NestedPlace | None) -> frozenset[str]:
    """What is not stored of a run: its own channels', and keys of the state of the graph above.

    That state is the input of a nested run, which has another channel of such a name or none.
    """
    above = place.scope.lineage.untracked if place is not None else frozenset[str]()
    return plan.untracked.union(above.difference(plan.channels))


def raise_above(place: NestedPlace, interrupts: Sequence[Interrupt]) -> Never:
    """Pause the task that ran a graph which paused: the graph's questions are the task's too.

    Raises:
        GraphInterrupt: always.
    """
    place.scope.raised.extend(interrupts)
    raise GraphInterrupt(interrupts)


def note_end(place: NestedPlace | None, error: BaseException) -> None:
    """Tell the task that ran a graph if that has stopped because the whole run is to."""
    if place is not None and isinstance(error, GraphDrained):
        place.scope.drained = error


def inherited(scope: TaskScope, config: Config | None) -> dict[str, Any]:
    """The config of a nested run: its parent's, and what the call adds."""
    merged = nested_config(scope.base_config, config)
    place = dict(merged.get("configurable") or {})
    for key in _PLACE:
        place.pop(key, None)
    return {**merged, "configurable": place}


def beside(scope: TaskScope, config: Config | None) -> dict[str, Any]:
    """The config of a run that a node starts on another thread.

    It has the callbacks, tags, metadata and limits of the run above, and nothing of its
    `configurable`: that says where the other run stands.
    """
    return nested_config(
        {k: v for k, v in scope.base_config.items() if k != "configurable"}, config
    )
