"""Values that a graph and its subgraph share, converted by the migrations of one of the two alone.

A subgraph gets the values of the graph above and gives its own back, by the names of the keys.
A subgraph that alone converts such a key can't be a node: the graph above would hand it stored
values of the old form. Where the graph above alone converts it, a subgraph that waits has a value
of the old form. A subgraph's record notes which conversions of the graph above its values have
had, so that one which began under the new version is known to be whole.
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
    keys = below.start.writes.union(below.output_keys)
    return keys.intersection(above.state_keys).difference(_OF_CALLS)


def shared_conversions(above: Plan, below: Plan) -> list[Conversion]:
    """List the conversions of the graph above whose keys a subgraph shares."""
    if not above.renames.conversions:
        return []
    keys = shared_keys(above, below)
    return [one for one in above.renames.conversions if one.channel in keys]


def converted_below(above: Plan, below: Plan) -> Conversion | None:
    """Return the first conversion of a shared key that a subgraph has alone; None without one."""
    if not below.renames.conversions:
        return None
    keys = shared_keys(above, below)
    shared = [one for one in below.renames.conversions if one.channel in keys]
    return next(iter(_alone(shared, above, {})), None)


def half_converted(
    above: Plan,
    below: Plan,
    converted: Converted,
    had: Converted,
    *,
    held: AbstractSet[str],
    namespace: str,
) -> Iterator[Finding]:
    """Find shared keys with stored values of a subgraph that only the graph above converts.

    Args:
        converted: the conversions of the subgraph that its values have had.
        had: those of the graph above that they have had. Both by today's names.
        held: the keys that the subgraph has stored values of.
        namespace: of the subgraph.
    """
    for one in _alone(shared_conversions(above, below), below, converted):
        if one.channel in held and one.name not in had.get(one.channel, {}):
            yield _half(one, above, below, namespace)


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


def cure_of(one: Conversion) -> str:
    """Return the text of the migration that the other graph needs."""
    name = f"name={one.name!r}, " if one.name else ""
    return f"Migration({name}values={{{one.channel!r}: ...}})"


def _half(one: Conversion, above: Plan, below: Plan, namespace: str) -> Finding:
    """Make the finding of a conversion that the graph above has alone."""
    cure = cure_of(one)
    return Finding(
        FindingKind.VALUE,
        one.channel,
        f"has a value of {one.channel!r} from before a migration",
        f"which graph {above.title!r} has, and its subgraph {below.title!r} with the same key has "
        "not",
        cure,
        f"give both the same migration: compile(migrations=[{cure}]) of the subgraph too; "
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
    notes = {channel: dict(had) for channel, had in before.items()}
    for one in shared_conversions(above, below):
        notes.setdefault(one.channel, {}).setdefault(one.name, one.digest)
    return notes
