"""Values that a graph and its subgraph share, converted by the migrations of one of the two alone.

A subgraph gets the values of the graph above and gives its own back, by the names of the keys.
Where only one of both converts such a key, a subgraph that waits has a value of one form, and the
graph above takes it for one of the other. A subgraph's record notes which conversions of the graph
above its values have had, so that one which began under the new version is known to be whole.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from actorgraph.plan.plan import Plan
from actorgraph.plan.renames import Conversion
from actorgraph.values.checkpoint import Converted, Restored
from actorgraph.values.constants import END, START, TASKS
from actorgraph.values.graph_changes import Finding, FindingKind

_OF_CALLS = frozenset({START, END})
"""The input and the result of an entrypoint: each has its own."""


def shared_keys(above: Plan, below: Plan) -> frozenset[str]:
    """Return the keys that a subgraph gets from the graph above, or gives back to it."""
    given = below.start.writes.union(below.output_keys)
    return given.intersection(above.state_keys).difference(_OF_CALLS)


def shared_conversions(above: Plan, below: Plan) -> list[Conversion]:
    """List the conversions of the graph above whose keys a subgraph shares."""
    if not above.renames.conversions:
        return []
    keys = shared_keys(above, below)
    return [one for one in above.renames.conversions if one.channel in keys]


def half_converted(
    above: Plan,
    below: Plan,
    has: Plan,
    converted: Converted,
    had: Converted,
    *,
    held: AbstractSet[str],
    namespace: str,
) -> Iterator[Finding]:
    """Find shared keys with stored values of a subgraph that only one of two graphs converts.

    Args:
        has: the one of both whose conversions the other may lack.
        converted: the conversions of the other one that its values have had.
        had: those of `has` that the stored values have had. Both by today's names.
        held: the keys that the subgraph has stored values of.
        namespace: of the subgraph.
    """
    if not has.renames.conversions:
        return
    lacks, which = (below, "subgraph") if has is above else (above, "graph above")
    keys = shared_keys(above, below)
    shared = [one for one in has.renames.conversions if one.channel in keys]
    for one in _alone(shared, lacks, converted):
        if one.channel in held and one.name not in had.get(one.channel, {}):
            yield _half(one, has, lacks, which, namespace)


def held_keys(below: Plan, stored: Restored) -> frozenset[str]:
    """Return the keys of which a subgraph has stored values, or may have: in inputs and Sends."""
    written = {channel for row in stored.ledger for channel, _ in row.writes}
    if not written.union(stored.values).isdisjoint((START, TASKS)):
        return frozenset(below.channels)
    return frozenset(written.union(stored.versions, stored.values))


def _alone(ours: list[Conversion], other: Plan, noted: Converted) -> list[Conversion]:
    """Leave out the conversions that another graph has too, or had.

    One under another name counts as the same: a key is converted as often in both.
    """
    names = {(one.channel, one.name) for one in ours}
    more = [o.channel for o in other.renames.conversions if (o.channel, o.name) not in names]
    known = {(o.channel, o.name) for o in other.renames.conversions}
    alone = list[Conversion]()
    for one in ours:
        if (one.channel, one.name) in known or one.name in noted.get(one.channel, {}):
            continue
        if one.channel in more:
            more.remove(one.channel)
        else:
            alone.append(one)
    return alone


def _half(one: Conversion, has: Plan, lacks: Plan, which: str, namespace: str) -> Finding:
    """Make the finding of a conversion that one of two graphs has; `which` is the other one."""
    name = f"name={one.name!r}, " if one.name else ""
    cure = f"Migration({name}values={{{one.channel!r}: ...}})"
    return Finding(
        FindingKind.VALUE,
        one.channel,
        f"has a value of {one.channel!r} from before a migration",
        f"which graph {has.title!r} has, and its {which} {lacks.title!r} with the same key has not",
        cure,
        f"give both the same migration: compile(migrations=[{cure}]) of the {which} too; "
        "with `lambda value: value` where its values are the same in both versions",
        namespace,
    )


def noted_above(
    above: Plan, below: Plan, before: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Make the note of a subgraph's new checkpoint about the conversions of the graph above.

    Args:
        before: the note of the checkpoint that it goes on from.
    """
    made = {channel: dict(had) for channel, had in before.items()}
    for one in shared_conversions(above, below):
        made.setdefault(one.channel, {}).setdefault(one.name, one.digest)
    return made
