"""Checkpoints of formats 1 and 2: edges were channels of other names."""

from collections.abc import Iterable

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.codec.placement import Placement
from actorgraph.codec.records import Record
from actorgraph.plan.graph import Plan
from actorgraph.values.constants import BRANCH_TO, INTERRUPT, START
from actorgraph.values.records import Restored

_EDGES_SINCE = 3
_BRANCH_PARTS = 4


def has_old_edges(record: Record) -> bool:
    """Whether a record may have edge channels under their old names."""
    return record.v < _EDGES_SINCE or record.shape < _EDGES_SINCE


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
    """Return the nodes that an old channel leads to; empty if it is no edge."""
    parts = channel.split(":")
    node = parts[-1]
    if parts[0] == "start" or (parts[0] == "branch" and len(parts) == _BRANCH_PARTS):
        return (node,) if node in plan.nodes and len(parts) > 1 else ()
    if channel == START or channel not in plan.nodes or channel in plan.channels:
        return ()
    edges = [name for name, _ in plan.nodes[channel].targets if name.startswith(BRANCH_TO)]
    return [edge.removeprefix(BRANCH_TO) for edge in edges]
