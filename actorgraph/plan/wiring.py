"""Checks of a whole graph, and the index of its static edges.

Each error names the node or edge and what to do. The edges are indexed by their ends once, so
that a graph of n nodes takes O(n) to compile.
"""

from dataclasses import dataclass, field

from actorgraph.plan.builder import GraphBuilder


@dataclass(frozen=True, slots=True)
class Wiring:
    """The static edges of a builder.

    Attributes:
        ends: node -> the ends of its edges, in the order in which they were added.
        joins: node -> the channels of the joins that begin at it.
        waits: node -> the channels of the joins that lead to it.
        joined: node -> the ends of the joins that begin at it.
        starts: channel of a join -> (its starts, its end).
    """

    ends: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    joins: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    waits: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    joined: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    starts: dict[str, tuple[tuple[str, ...], str]] = field(
        default_factory=dict[str, tuple[tuple[str, ...], str]]
    )


def wiring_of(builder: GraphBuilder) -> Wiring:
    """Index the edges of a builder by their ends."""
    made = Wiring()
    for start, end in builder.edges:
        made.ends.setdefault(start, []).append(end)
    for starts, end in builder.joins:
        join = _join_name(starts, end)
        made.starts[join] = (starts, end)
        made.waits.setdefault(end, []).append(join)
        for start in starts:
            made.joins.setdefault(start, []).append(join)
            made.joined.setdefault(start, []).append(end)
    return made


def _join_name(starts: tuple[str, ...], end: str) -> str:
    return f"join:{'|'.join(starts)}:{end}"  # no node's name has a '|'
