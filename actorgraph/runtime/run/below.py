"""The subgraphs of waiting tasks, before a run of a changed graph starts.

A subgraph is loaded when its node runs. By then its siblings have run too, so that a subgraph
whose stored state doesn't fit any more is looked for first: of each waiting task whose node is a
compiled graph, and of those below.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec.structs import replace

from actorgraph.codec import Codec
from actorgraph.codec.conversions import Conversions, migrated_command
from actorgraph.codec.records import decode_metadata, decode_record
from actorgraph.codec.restore import restore
from actorgraph.plan.plan import Plan
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.stored_namespaces import stored_namespace
from actorgraph.superstep.changes.change import (
    change_of,
    forgotten,
    handed_to_nothing,
    left_subgraph,
    memory_of,
    mismatch,
    waiting_functions,
    waiting_subgraphs,
)
from actorgraph.superstep.changes.half_converted import (
    half_converted,
    held_keys,
    shared_conversions,
)
from actorgraph.superstep.handover import commands_in
from actorgraph.superstep.nesting import TASK_KEY, stable_namespace
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Command
from actorgraph.values.commits import LoadCheckpoint, Loaded
from actorgraph.values.constants import NAMESPACE_SEPARATOR
from actorgraph.values.graph_changes import Finding, GraphChange, ResumeVerdict

DEPTH_MAX = 100
"""Levels of subgraphs that are looked at."""


async def changes_below(
    host: Host,
    plan: Plan,
    restored: Restored,
    thread_id: str,
    *,
    tasks: AbstractSet[str] | None = None,
    depth: int = 0,
) -> list[GraphChange]:
    """Decide what becomes of the stored subgraphs of a checkpoint's waiting tasks.

    Args:
        plan: of the graph that runs them.
        restored: the checkpoint, by today's names.
        tasks: as in `change_of`.
    Returns: one change for each subgraph that has a checkpoint, with its own subgraphs' behind it.
    Raises: the errors of reading.
    """
    changes = await _left(host, plan, restored, thread_id)
    waiting = waiting_subgraphs(plan, restored)
    changes += await _memories(host, plan, restored, thread_id, {task.name for task in waiting})
    for task in waiting:
        graph = subgraph_of(plan, task.name)
        if depth >= DEPTH_MAX or graph is None:
            continue
        if graph.checkpointer is False or not isinstance(graph.checkpointer, bool | None):
            continue  # it is stored nowhere, or under a saver of its own
        stateful = graph.checkpointer is True
        namespace = task.namespace
        if stateful:
            namespace = await _stateful_namespace(host, plan, restored, thread_id, task.name)
        query = LoadCheckpoint(thread_id, namespace, None, ancestors=True)
        loaded: Loaded = await host.reader.ask(query)
        codec: Codec = graph.codec_for(host.saver)
        stored = restore(codec, graph.plan, loaded)
        if stored is not None:
            below = change_of(graph.plan, stored[0], thread_id, tasks)
            # A stateful one may still hold the Commands of an earlier task, which are taken.
            own = not stateful or stored[0].metadata.get(TASK_KEY) == task.id
            handed = _handed_up(plan, stored[0]) if own else []
            lost = (*handed_to_nothing(plan, handed, stored[0].namespace),)
            lost += (*_half_converted(plan, graph.plan, stored[0]),)
            changes.append(_with_more(below, lost))
            changes += await changes_below(
                host, graph.plan, stored[0], thread_id, tasks=tasks, depth=depth + 1
            )
    return changes


async def _left(host: Host, plan: Plan, restored: Restored, thread_id: str) -> list[GraphChange]:
    """Find the states of subgraphs of waiting tasks whose nodes are plain functions now."""
    findings: list[Finding] = []
    for task in waiting_functions(plan, restored):
        memory = await _stateful_namespace(host, plan, restored, thread_id, task.name)
        for namespace in (task.namespace, memory):
            loaded: Loaded = await host.reader.ask(LoadCheckpoint(thread_id, namespace, None))
            if loaded.checkpoint is None:
                continue
            made_by = decode_metadata(loaded.checkpoint.row.metadata).get(TASK_KEY)
            if namespace == task.namespace or made_by == task.id:  # else of an earlier task
                findings.append(left_subgraph(plan, task, restored.namespace))
                break
    return _refused(plan, restored, thread_id, findings)


def _with_more(change: GraphChange, findings: tuple[Finding, ...]) -> GraphChange:
    if not findings:
        return change
    all_ = (*change.findings, *findings)
    return replace(change, verdict=ResumeVerdict.REFUSED, findings=all_)


def subgraph_of(plan: Plan, node: str) -> Any:
    """Return the compiled graph that a node runs; None for another node."""
    graph = getattr(plan.nodes[node].call, "__self__", None)
    return graph if isinstance(getattr(graph, "plan", None), Plan) else None


def _half_converted(plan: Plan, below: Plan, stored: Restored) -> Iterator[Finding]:
    held, had, noted = held_keys(below, stored), stored.converted, stored.above
    return half_converted(plan, below, had, noted, held=held, namespace=stored.namespace)


async def _memories(
    host: Host, plan: Plan, restored: Restored, thread_id: str, waiting: set[str]
) -> list[GraphChange]:
    """Find values that only this graph converts in stateful subgraphs whose nodes don't wait."""
    findings: list[Finding] = []
    for name in plan.subgraphs.difference(waiting):
        graph = subgraph_of(plan, name)
        if not _is_stateful(plan, name) or not shared_conversions(plan, graph.plan):
            continue
        namespace = await _stateful_namespace(host, plan, restored, thread_id, name)
        loaded: Loaded = await host.reader.ask(LoadCheckpoint(thread_id, namespace, None))
        if loaded.checkpoint is not None:
            record, now = decode_record(loaded.checkpoint.row.record), Conversions(graph.plan).now
            had, above = now(record.converted), now(record.above)
            renames = graph.plan.renames
            held = {renames.channel(c) or c for c in record.channel_versions}
            findings += half_converted(plan, graph.plan, had, above, held=held, namespace=namespace)
    return _refused(plan, restored, thread_id, findings)


def check_shared_values(
    above: Plan | None, below: Plan, stored: Restored | None, thread_id: str
) -> None:
    """Refuse a stored state of a subgraph with values that only the graph above converts.

    Raises:
        SchemaMismatchError: the first such value.
    """
    if above is None or stored is None or not stored.values:  # emptied, in time travel
        return
    for finding in _half_converted(above, below, stored):
        raise mismatch(finding, thread_id, stored.graph)


async def _stateful_namespace(
    host: Host, plan: Plan, restored: Restored, thread_id: str, node: str
) -> str:
    """Return the namespace of a node's stateful subgraph: of an old name of it, if that has it."""
    names = [_namespace_below(restored, name) for name in plan.renames.names(node)]
    if len(names) == 1:
        return names[0]
    return await stored_namespace(host, thread_id, names) or names[0]


def _namespace_below(restored: Restored, node: str) -> str:
    above = stable_namespace(restored.namespace)
    return f"{above}{NAMESPACE_SEPARATOR}{node}" if above else node


def _refused(
    plan: Plan, restored: Restored, thread_id: str, findings: list[Finding]
) -> list[GraphChange]:
    if not findings:
        return []
    change = change_of(plan, restored, thread_id)
    return [replace(change, verdict=ResumeVerdict.REFUSED, findings=tuple(findings))]


def _handed_up(plan: Plan, below: Restored) -> list[Command[Any]]:
    """The Commands that a subgraph's finished tasks have for the graph above, by today's names."""
    return [
        migrated_command(plan, command, target)
        for row in below.ledger
        if row.index >= 0
        for command, target in commands_in(row.writes)
    ]


async def lost_memories(
    host: Host, plan: Plan, restored: Restored, thread_id: str
) -> list[GraphChange]:
    """Find the states of stateful subgraphs whose nodes are gone.

    They are looked for where the graph has a stateful subgraph that has never run in the thread:
    that is likely the same one under another name, and would begin without what it remembered.
    """
    new = [n for n in plan.subgraphs if n not in restored.seen and _is_stateful(plan, n)]
    names = forgotten(plan, restored) if new else []
    findings: list[Finding] = []
    for name in names:
        namespace = _namespace_below(restored, name)
        loaded: Loaded = await host.reader.ask(LoadCheckpoint(thread_id, namespace, None))
        if loaded.checkpoint is not None:
            findings.append(memory_of(plan, name, restored.namespace))
    return _refused(plan, restored, thread_id, findings)


def _is_stateful(plan: Plan, node: str) -> bool:
    return getattr(subgraph_of(plan, node), "checkpointer", None) is True


async def at_stored_namespace(launch: Launch) -> Launch:
    """Return the launch of a stateful subgraph, at the namespace that has its state.

    Under a renamed node the state of earlier tasks is in the namespace of the old name, as long as
    the new one has none.
    """
    host, place, address = launch.host, launch.place, launch.address
    if host is None or place is None:
        return launch
    names = (place.namespace, *place.earlier)
    namespace = await stored_namespace(host, address.thread_id, names)
    if namespace in (None, place.namespace):
        return launch
    return replace(
        launch,
        address=replace(address, namespace=namespace),
        place=replace(place, namespace=namespace, earlier=()),
    )


async def check_below(host: Host, plan: Plan, restored: Restored, thread_id: str) -> None:
    """Refuse a checkpoint below whose waiting tasks a subgraph's state doesn't fit.

    Raises:
        SchemaMismatchError: the first finding of `changes_below`, or of `lost_memories`.
    """
    changes = await changes_below(host, plan, restored, thread_id)
    for change in [*changes, *await lost_memories(host, plan, restored, thread_id)]:
        for finding in change.findings:
            raise mismatch(finding, thread_id, change.stored_graph)
