"""The place of a subgraph that is run in a node: its thread, saver, namespace and answers."""

from collections.abc import Mapping, Sequence
from typing import Any, Never

import msgspec

from actorgraph.errors import GraphDrained, GraphInterrupt
from actorgraph.plan.plan import Plan
from actorgraph.ports import Saver
from actorgraph.runtime.saver.hosting import Host, host_of
from actorgraph.runtime.task.scope import TaskScope
from actorgraph.runtime.task.task_places import run_metadata
from actorgraph.superstep.limits import check_depth
from actorgraph.superstep.nesting import Nested, names_of_namespace, nested_namespace
from actorgraph.values.commands import Interrupt
from actorgraph.values.configs import nested_config
from actorgraph.values.constants import LANGGRAPH_KEYS

Config = Mapping[str, Any]
_PLACE = (
    *("checkpoint_ns", "checkpoint_id", "checkpoint_map", "langgraph_task_id"),
    *LANGGRAPH_KEYS,
)
"""Keys of a config that address a run or a task; a nested run's follow from its task instead."""


class NestedPlace(msgspec.Struct, frozen=True):
    """The place of a nested run.

    Attributes:
        scope: the task that it runs in.
        host: of its saver; None if it is not stored.
        namespace: in the parent's thread.
        nested: what the core needs to know of the parent.
        earlier: the namespaces that a stateful one may have had, under old names of its nodes.
        fresh: whether its namespace can't hold a checkpoint yet, so that it need not be read.
    """

    scope: TaskScope
    host: Host | None
    namespace: str
    nested: Nested
    fresh: bool
    earlier: tuple[str, ...] = ()


def belongs(scope: TaskScope | None, config: Config | None) -> bool:
    """Whether a call made in a task runs as a subgraph of it.

    A config with another thread's id starts an independent run instead.

    Args:
        scope: the running task; None outside of a node.
    """
    if scope is None:
        return False
    thread_id = ((config or {}).get("configurable") or {}).get("thread_id")
    return thread_id is None or str(thread_id) == scope.run_context.thread_id


def nested_place(scope: TaskScope, saver: Saver | bool | None) -> NestedPlace:
    """The place of the next subgraph that a task runs.

    Args:
        saver: the subgraph's. None inherits the run's; True does too, and keeps state from task
            to task; False stores nothing; another saver stores it there.
    """
    run_context = scope.run_context
    host = run_context.host
    claims = False
    if saver is False:
        host = None
    elif saver is not None and saver is not True and not (host and host.saver is saver):
        host, claims = host_of(saver), True
    stateful = saver is True
    count = scope.next_graph()
    namespace = nested_namespace(scope.task.namespace, count, stateful=stateful)
    earlier = _earlier(scope, namespace) if stateful else ()
    nested = Nested(
        run_context.parents(),
        scope.routed,
        stateful,
        claims,
        scope.task.id,
        run_context.state.answering,
    )
    # The namespace contains the task's id, which depends on the checkpoint that the task builds
    # on. If this run has made that one itself, only an earlier attempt can have stored anything.
    fresh = _is_first(scope) and run_context.base() != run_context.loaded
    return NestedPlace(scope, host, namespace, nested, fresh and not (stateful or claims), earlier)


def _earlier(scope: TaskScope, namespace: str) -> tuple[str, ...]:
    """The namespaces of a stateful subgraph under other names of the nodes on the way to it."""
    names: list[tuple[str, ...]] = []
    on_the_way: TaskScope | None = scope
    while on_the_way is not None:
        renames, name = on_the_way.run_context.state.plan.renames, on_the_way.task.name
        called = on_the_way.caller is not None
        names.append(renames.task_names(name) if called else renames.names(name))
        on_the_way = on_the_way.caller or on_the_way.run_context.above
    if all(len(known) == 1 for known in names):
        return ()
    return names_of_namespace(namespace, names[::-1])[1:]


def _is_first(scope: TaskScope) -> bool:
    """Whether this run makes its first attempt of a task, and of the tasks that called it."""
    return scope.attempt == 1 and (scope.caller is None or _is_first(scope.caller))


def never_stored(plan: Plan, place: NestedPlace | None) -> frozenset[str]:
    """Keys that are not stored of a run: its untracked channels, and those of its parents.

    A parent's state is the input of a subgraph. A channel of the subgraph with the same name is
    another channel, which is stored.
    """
    above = place.scope.run_context.untracked if place is not None else frozenset[str]()
    return plan.untracked.union(above.difference(plan.channels))


def raise_above(place: NestedPlace, interrupts: Sequence[Interrupt]) -> Never:
    """Pause the task whose subgraph has paused: the questions become the task's.

    Raises:
        GraphInterrupt: always.
    """
    place.scope.raised.extend(interrupts)
    raise GraphInterrupt(interrupts)


def note_end(place: NestedPlace, error: BaseException) -> None:
    """Note in the task whose subgraph has ended if it was drained, as the task is then too."""
    if isinstance(error, GraphDrained):
        place.scope.drained = error


def inherited_config(scope: TaskScope, config: Config | None) -> dict[str, Any]:
    """The config of a nested run: its parent's, updated with the call's."""
    merged = _without_place(scope, nested_config(scope.base_config, config))
    place = dict(merged.get("configurable") or {})
    for key in _PLACE:
        place.pop(key, None)
    return {**merged, "configurable": place}


def _without_place(scope: TaskScope, config: dict[str, Any]) -> dict[str, Any]:
    """Drop metadata about the place of a task from a config: a run makes its own.

    They are not for its checkpoints.
    """
    metadata = config.get("metadata")
    if not metadata:
        return config
    placed = run_metadata(scope)
    own = {k: v for k, v in metadata.items() if k not in placed or placed[k] != v}
    return {**config, "metadata": own}


def other_thread_config(scope: TaskScope, config: Config | None) -> dict[str, Any]:
    """The config of an independent run that a node starts on another thread.

    It inherits callbacks, tags, metadata and limits, but not `configurable`, which addresses the
    run of the node.
    """
    own = {k: v for k, v in scope.base_config.items() if k != "configurable"}
    return _without_place(scope, nested_config(own, config))


def depth_of(place: NestedPlace, name: str, limit: int) -> int:
    """The number of runs above a nested run.

    Raises:
        GraphRecursionError: it is above the limit.
    """
    depth = place.scope.run_context.depth + 1
    check_depth(name, depth, limit)
    return depth
