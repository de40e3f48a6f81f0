"""Checkpoints of formats 1 and 2: edges were channels of other names.

`start:x` and `branch:a:condition:x` are the edge to node x, and a channel that has a node's name is
each of its edges. Facts of LangGraph's history, which programs bring along with `aput`.
"""

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


def is_old(record: Record) -> bool:
    """Whether a record's edges may have their old names."""
    return record.v < _EDGES_SINCE or record.shape < _EDGES_SINCE


def renewed(plan: Plan, restored: Restored, placement: Placement) -> Restored:
    """The checkpoint with the edges as channels of today; names of unknown nodes are left."""
    values, versions = dict(restored.values), dict(restored.versions)
    seen = {node: dict(channels) for node, channels in restored.seen.items()}
    for old in restored.versions:
        ends = _ends(plan, old)
        if not ends:
            continue
        version, value = versions.pop(old), values.pop(old, EMPTY)
        placement.forget(old)
        for end in ends:
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
    """The nodes that a channel of an old name leads to."""
    parts = channel.split(":")
    node = parts[-1]
    if parts[0] == "start" or (parts[0] == "branch" and len(parts) == _BRANCH_PARTS):
        return (node,) if node in plan.nodes and len(parts) > 1 else ()
    if channel == START or channel not in plan.nodes or channel in plan.channels:
        return ()
    edges = [name for name, _ in plan.nodes[channel].targets if name.startswith(BRANCH_TO)]
    return [edge.removeprefix(BRANCH_TO) for edge in edges]
