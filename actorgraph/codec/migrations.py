"""Bring stored checkpoints up to date: old formats, then the graph's own migrations.

Stored rows are never rewritten. A value changed here is stored whole with the run's next
checkpoint: see `Placement.moved`. Waiting tasks keep their ids
(`superstep.changes.stored_tasks`).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.codec.conversions import Conversions
from actorgraph.codec.migrated_writes import CurrentNames, migrated_rows, node_of
from actorgraph.codec.records import Placement
from actorgraph.plan.joins import join_now
from actorgraph.plan.plan import Plan
from actorgraph.plan.renames import join_parts
from actorgraph.superstep.changes.missed_joins import missed_starts
from actorgraph.superstep.changes.stored_tasks import StoredNames, places_of
from actorgraph.values.checkpoint import Converted, Restored, StoredWrite
from actorgraph.values.commands import Send
from actorgraph.values.constants import BRANCH_TO, INTERRUPT, NULL_TASK, PULL, PUSH, START, TASKS


def apply_migrations(plan: Plan, restored: Restored, placement: Placement) -> Restored:
    """Bring a checkpoint that another graph may have stored up to date: rename, drop, convert.

    Args:
        placement: updated with what must be stored again.
    Raises:
        SchemaMismatchError: a function of a migration fails, or is another one than it was.
    """
    conversions = Conversions(plan)
    names = CurrentNames(plan, conversions)
    converted = conversions.had(restored.converted, restored.above)
    raw_sends: list[Send] = restored.values.get(TASKS) or []
    sent_nodes = [send.node for send in raw_sends]
    ended = _ended(plan, restored.ledger, sent_nodes)
    made = _renamed(plan, names, restored, placement)
    _lead_on(names, restored, made, placement, ended)
    _convert(plan, names, made, placement, converted)
    if raw_sends:
        over = [i for i in range(len(raw_sends)) if (PUSH, i) in ended]
        sends = names.sent(raw_sends, converted, ended=over)
        if sends != raw_sends:
            _store_anew(plan, placement, made.values, TASKS, sends)
    if START in made.values:
        given = conversions.fields(made.values[START], converted)
        if given is not made.values[START]:
            _store_anew(plan, placement, made.values, START, given)
    ledger, left = migrated_rows(names, restored.ledger, converted, sent_nodes)
    if plan.renames.joins:
        _arrive(plan, names, msgspec.structs.replace(made, ledger=ledger, left=left), placement)
    made = msgspec.structs.replace(
        made,
        next=_next(plan, restored, ended),
        ledger=ledger,
        left=left,
        converted=converted,
        above=conversions.now(restored.above),
        whole=frozenset(names.whole.union(placement.moved).intersection(plan.deltas)),
    )
    stored = StoredNames(
        {now: old for old in restored.versions if (now := names.channel(old)) and now != old},
        _nodes_before(plan, restored),
        names.sends,
    )
    paths = [(row.task, row.path) for row in restored.ledger if row.task != NULL_TASK]
    places = places_of(plan, made, stored, paths)
    return msgspec.structs.replace(made, places=places, migrated=tuple(names.changed))


def _ended(
    plan: Plan, ledger: Iterable[StoredWrite], sent_nodes: list[str]
) -> set[tuple[Any, ...]]:
    """The first two parts of the paths of the tasks that have finished, under each of their names.

    One may have finished under a later name than the checkpoint has.
    """
    found = {r.path[:2] for r in ledger if r.index >= 0 and node_of(r.path, sent_nodes)}
    nodes = [str(place) for kind, place in found if kind == PULL]
    return found.union((PULL, old) for n in nodes for old in plan.renames.before.get(n, ()))


def _nodes_before(plan: Plan, restored: Restored) -> dict[str, tuple[str, ...]]:
    """Today's name of each renamed node -> the names that the store has of it, likeliest first.

    Several versions may have gone on with one superstep: the checkpoint has the name of the first,
    and rows beside it have later ones.
    """
    within = {*restored.next, *restored.seen}
    within.update(c.removeprefix(BRANCH_TO) for c in restored.versions)
    beside = {str(row.path[1]) for row in restored.ledger if len(row.path) > 1}
    commands = (row.writes for row in restored.ledger if row.task == NULL_TASK)
    beside.update(c.removeprefix(BRANCH_TO) for writes in commands for c, _ in writes)
    found: dict[str, tuple[str, ...]] = {}
    for new, olds in plan.renames.before.items():
        names = [old for old in olds if old in within]
        names += [old for old in olds if old in beside and old not in within]
        if names:
            found[new] = tuple(names)
    return found


def _next(plan: Plan, restored: Restored, ended: set[tuple[Any, ...]]) -> tuple[str, ...]:
    renames, made = plan.renames, dict[str, None]()
    for name in restored.next:
        new = renames.node(name)
        if new is not None:
            made[new] = None
        elif (PULL, name) not in ended:
            made.update(dict.fromkeys(renames.goto.get(name, ())))
    return tuple(made)


def _renamed(plan: Plan, names: CurrentNames, restored: Restored, placement: Placement) -> Restored:
    values, versions = dict(restored.values), dict(restored.versions)
    seen = {plan.renames.node(n) or n: dict(known) for n, known in restored.seen.items()}
    deltas = dict(restored.deltas)
    updated = restored.updated and tuple(names.channel(c) or c for c in restored.updated)
    for old in restored.versions:
        new = names.channel(old)
        if new == old or new in versions:
            continue
        names.note_renamed(old, new)
        deltas.pop(old, None)  # its value is whole here, and stored so
        version, value = versions.pop(old), values.pop(old, EMPTY)
        placement.forget(old)
        for channels in seen.values():
            known = channels.pop(old, None)
            if known is not None and new is not None:
                channels[new] = known
        if new is not None:
            versions[new] = version
            if value is not EMPTY:
                loaded = plan.channels[new].load(value) if new in plan.channels else value
                _store_anew(plan, placement, values, new, _arrived(plan, old, loaded))
    return msgspec.structs.replace(
        restored, values=values, versions=versions, seen=seen, deltas=deltas, updated=updated
    )


def _arrived(plan: Plan, old: str, value: Any) -> Any:
    """The cell of a join by today's names of its starts; that of another channel as it is."""
    join = join_now(plan, old)
    if join is None:
        return value
    if isinstance(value, tuple):  # of a deferred node
        names, is_open = value
        return frozenset(join.arrived(names)), is_open
    return frozenset(join.arrived(value))


def _lead_on(
    names: CurrentNames,
    restored: Restored,
    made: Restored,
    placement: Placement,
    ended: set[tuple[Any, ...]],
) -> None:
    """Make the nodes due that run in place of a removed one which has not finished."""
    plan = names.plan
    for old, ends in plan.renames.goto.items():
        edge = BRANCH_TO + old
        if edge not in restored.values or (PULL, old) in ended:
            continue
        names.note(f"{', '.join(map(repr, ends))} run in place of {old!r}")
        for end in ends:
            channel = BRANCH_TO + end
            made.versions[channel] = restored.versions[edge]
            made.seen.get(end, {}).pop(channel, None)
            value = plan.channels[channel].load(restored.values[edge])
            _store_anew(plan, placement, made.values, channel, value)


def _arrive(plan: Plan, names: CurrentNames, made: Restored, placement: Placement) -> None:
    """Let the starts arrive that a thread has passed before it came to their join."""
    for channel, missed in missed_starts(plan, made).items():
        _, end = join_parts(channel) or (frozenset[str](), "")
        arrived = missed.intersection(plan.renames.joins.get(end) or ())
        if arrived:
            names.note(f"{', '.join(map(repr, sorted(arrived)))} count as arrived at {end!r}")
            made.versions[channel] = max([made.version_floor, *made.versions.values()])
            cell = plan.channels[channel].load(arrived)
            _store_anew(plan, placement, made.values, channel, cell)


def _convert(
    plan: Plan, names: CurrentNames, made: Restored, placement: Placement, converted: Converted
) -> None:
    for channel in dict.fromkeys(one.channel for one in plan.renames.conversions):
        if channel not in made.values:
            continue
        value = made.values[channel]
        new = names.conversions.value(channel, value, converted)
        if new is not value:
            names.note(f"the value of {channel!r} is converted")
            _store_anew(plan, placement, made.values, channel, new)


def _store_anew(
    plan: Plan, placement: Placement, values: dict[str, Any], channel: str, value: Any
) -> None:
    values[channel] = value
    placement.forget(channel)
    placement.growths.pop(channel, None)
    rule = plan.channels.get(channel)
    if rule is not None:
        placement.moved[channel] = rule.dump(value)


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
