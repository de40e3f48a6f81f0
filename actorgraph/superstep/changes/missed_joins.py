"""Joins that a thread can't open any more: they came with the graph, and a start has passed by.

A join that a thread has written to is known from its channel. One that it has never written to may
be new: where a start of it ran before, or would have run beside the nodes that did, only a
migration can say whether that start counts as arrived.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.plan.renames import join_parts
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Send
from actorgraph.values.constants import BRANCH_TO, PULL, PUSH, START, TASKS
from actorgraph.values.run import TaskPath


def missed_starts(plan: Plan, restored: Restored) -> dict[str, frozenset[str]]:
    """Find the starts that will never arrive at joins which the thread has never written to.

    Args:
        restored: a checkpoint by today's names, with its pending writes.
    Returns: channel of a join -> its starts that have passed by; only joins that another start
        has reached or still reaches.
    """
    joins = {c: parts[0] for c in plan.channels if (parts := join_parts(c)) is not None}
    new = {channel: starts for channel, starts in joins.items() if channel not in restored.versions}
    if not new or restored.step < 0:
        return {}
    ended, written = _finished(restored)
    waiting = _waiting(restored) - ended
    coming = waiting | _reached(plan, [*waiting, *_led_to(written)])
    passed = {START, *ended, *(name for name in restored.seen if name in plan.nodes)}
    before = _edges_back(plan)
    by_join: dict[str, frozenset[str]] = {}
    for channel, starts in new.items():
        end = _ends(channel)
        arrived = {value for to, value in written if join_parts(to) and _ends(to) == end}
        missed = frozenset(
            start
            for start in starts - coming - arrived
            if start in passed or not passed.isdisjoint(before.get(start, ()))
        )
        if missed and not (starts - missed).isdisjoint(coming | arrived):
            by_join[channel] = missed
    return by_join


def _finished(restored: Restored) -> tuple[set[str], list[tuple[str, object]]]:
    """Return the nodes that have finished beside the checkpoint, and what they have written."""
    rows = [(row.path, row.writes) for row in restored.ledger if row.index >= 0]
    rows += [(path, writes) for _, path, writes in restored.left]
    ended = [(node, writes) for path, writes in rows if (node := _node(path))]
    return {node for node, _ in ended}, [write for _, writes in ended for write in writes]


def _node(path: TaskPath) -> str:
    """Return the node of a task that an edge made due; "" for any other row."""
    return str(path[1]) if len(path) == 2 and path[0] == PULL else ""


def _waiting(restored: Restored) -> set[str]:
    sends: list[Send] = restored.values.get(TASKS) or []
    over = {row.path[1] for row in restored.ledger if row.index >= 0 and row.path[:1] == (PUSH,)}
    sent = {send.node for place, send in enumerate(sends) if place not in over}
    return {*restored.next, *sent} - ({send.node for send in sends} - sent)


def _led_to(written: Iterable[tuple[str, object]]) -> Iterator[str]:
    for channel, value in written:
        if channel == TASKS:
            for send in value if isinstance(value, list) else [value]:
                if isinstance(send, Send):
                    yield send.node
        else:
            yield from _ends(channel)


def _ends(channel: str) -> tuple[str, ...]:
    """Return the node that a channel makes due; none for a state key."""
    if channel.startswith(BRANCH_TO):
        return (channel.removeprefix(BRANCH_TO),)
    parts = join_parts(channel)
    return () if parts is None else (parts[1],)


def _reached(plan: Plan, first: Iterable[str]) -> set[str]:
    """Return all nodes that edges lead to from some, these included where an edge led to them."""
    reached, left = set[str](), [*first]
    while left:
        name = left.pop()
        if name in reached or name not in plan.nodes:
            continue
        reached.add(name)
        left += _after(plan.nodes[name])
    return reached


def _after(node: NodePlan) -> Iterator[str]:
    for channel, _ in node.targets:
        yield from _ends(channel)
    for branch in node.branches:
        channels = (channel for channel in branch.routes.values() if channel is not None)
        yield from (end for channel in channels for end in _ends(channel))
    yield from node.ends


def _edges_back(plan: Plan) -> Mapping[str, AbstractSet[str]]:
    """Map each node to those from which a plain edge, taken after each run, leads to it."""
    edges: dict[str, set[str]] = {}
    for name, node in plan.nodes.items():
        for channel, _ in node.targets:
            if channel.startswith(BRANCH_TO):
                edges.setdefault(channel.removeprefix(BRANCH_TO), set()).add(name)
    return edges
