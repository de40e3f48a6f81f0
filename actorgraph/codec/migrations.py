"""Bring stored checkpoints up to date: old formats, then the graph's own migrations.

Stored rows are never rewritten. A value changed here is stored whole with the run's next
checkpoint: see `Placement.moved`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.codec.records import Placement
from actorgraph.errors import SchemaMismatchError
from actorgraph.plan.compatibility import renamed_channels
from actorgraph.plan.plan import Plan
from actorgraph.values.checkpoint import Migration, Restored
from actorgraph.values.commands import Send
from actorgraph.values.constants import BRANCH_TO, INTERRUPT, START, TASKS


def apply_migrations(plan: Plan, restored: Restored, placement: Placement) -> Restored:
    """Apply the graph's migrations to a checkpoint: rename, drop and convert.

    Args:
        placement: updated with what must be stored again.
    Raises:
        SchemaMismatchError: a DeltaChannel is renamed, or a node some of whose tasks are stored.
    """
    for migration in plan.migrations:
        restored = _renamed(plan, migration, restored, placement)
        if migration.nodes:
            restored = _with_nodes(plan, migration.nodes, restored, placement)
        for channel, convert in migration.values.items():
            value = restored.values.get(channel, EMPTY)
            made = value if value is EMPTY else convert(value)
            if made is not value:  # a migration returns what needs no conversion as it is
                _store_anew(plan, placement, restored.values, channel, made)
    return restored


def _renamed(
    plan: Plan, migration: Migration, restored: Restored, placement: Placement
) -> Restored:
    values, versions = dict(restored.values), dict(restored.versions)
    seen = {node: dict(channels) for node, channels in restored.seen.items()}
    deltas, names = dict(restored.deltas), renamed_channels(migration)
    for old, new in names.items():
        if old not in versions or new in versions:
            continue
        if new is not None and old in deltas:
            raise SchemaMismatchError(
                f"a migration renames the delta channel {old!r}, but a checkpoint holds only its "
                "writes, not its value",
                do="with the old graph, store the value: aprune(..., materialize=graph)",
            )
        deltas.pop(old, None)
        version, value = versions.pop(old), values.pop(old, EMPTY)
        placement.forget(old)
        for channels in seen.values():
            known = channels.pop(old, None)
            if known is not None and new is not None:
                channels[new] = known
        if new is not None:
            versions[new] = version
            if value is not EMPTY:
                _store_anew(plan, placement, values, new, plan.channels[new].load(value))
    updated = restored.updated and tuple(names.get(c) or c for c in restored.updated)
    return msgspec.structs.replace(
        restored, values=values, versions=versions, seen=seen, deltas=deltas, updated=updated
    )


def _with_nodes(
    plan: Plan, names: Mapping[str, str | None], restored: Restored, placement: Placement
) -> Restored:
    for row in restored.ledger:
        for name, new in names.items():
            if new is not None and name in row.path:
                raise SchemaMismatchError(
                    f"a migration renames node {name!r}, but a checkpoint has pending writes, "
                    "errors or interrupts of its tasks",
                    do="let these threads finish their superstep with the old graph first",
                )
    seen = {names.get(node) or node: known for node, known in restored.seen.items()}
    following = tuple(new for name in restored.next if (new := names.get(name, name)))
    sends: list[Send] = restored.values.get(TASKS) or []
    if any(send.node in names for send in sends):
        made = [
            Send(new, send.arg, timeout=send.timeout)
            for send in sends
            if (new := names.get(send.node, send.node))
        ]
        _store_anew(plan, placement, restored.values, TASKS, made)
    return msgspec.structs.replace(restored, seen=seen, next=following)


def _store_anew(
    plan: Plan, placement: Placement, values: dict[str, Any], channel: str, value: Any
) -> None:
    values[channel] = value
    placement.forget(channel)
    placement.growths.pop(channel, None)
    placement.moved[channel] = plan.channels[channel].dump(value)


_BRANCH_PARTS = 4


def rename_old_edges(plan: Plan, restored: Restored, placement: Placement) -> Restored:
    """Rename the edge channels of formats 1 and 2 to today's names.

    `start:x` and `branch:a:condition:x` are the edge to node x, and a channel that has a node's
    name is each of its edges. These are LangGraph's old formats: programs bring such checkpoints
    with `aput`. Channels of unknown nodes are left as they are.
    """
    values, versions = dict(restored.values), dict(restored.versions)
    seen = {node: dict(channels) for node, channels in restored.seen.items()}
    for old in restored.versions:
        ends = _ends(plan, old)
        if not ends:
            continue
        version, value = versions.pop(old), values.pop(old, EMPTY)
        placement.forget(old)
        for end in ends:
            # Several old channels can lead to one node: the newest of them is the edge.
            new = BRANCH_TO + end
            versions[new] = max(version, versions.get(new, version))
            for node in (end, INTERRUPT):
                known = seen.get(node, {})
                if old in known:
                    known[new] = max(known[old], known.get(new, known[old]))
            if value is not EMPTY and new not in values:
                values[new] = placement.moved[new] = value
        for known in seen.values():
            known.pop(old, None)
    return msgspec.structs.replace(restored, values=values, versions=versions, seen=seen)


def _ends(plan: Plan, channel: str) -> Iterable[str]:
    """Return the nodes that an old channel leads to; empty if it is not an edge."""
    parts = channel.split(":")
    node = parts[-1]
    if parts[0] == "start" or (parts[0] == "branch" and len(parts) == _BRANCH_PARTS):
        return (node,) if node in plan.nodes and len(parts) > 1 else ()
    if channel == START or channel not in plan.nodes or channel in plan.channels:
        return ()
    edges = [name for name, _ in plan.nodes[channel].targets if name.startswith(BRANCH_TO)]
    return [edge.removeprefix(BRANCH_TO) for edge in edges]
