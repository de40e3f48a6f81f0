"""Checks of a whole graph, and the index of its static edges.

Each error names the node or edge and what to do. The edges are indexed by their ends once, so
that a graph of n nodes takes O(n) to compile.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from actorgraph.errors import GraphBuildError, did_you_mean
from actorgraph.plan.builder import GraphBuilder
from actorgraph.plan.renames import join_name
from actorgraph.values.constants import END, START


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
    for starts, end in builder.waiting_edges:
        join = join_name(starts, end)
        made.starts[join] = (starts, end)
        made.waits.setdefault(end, []).append(join)
        for start in starts:
            made.joins.setdefault(start, []).append(join)
            made.joined.setdefault(start, []).append(end)
    return made


def check(builder: GraphBuilder, interrupts: Sequence[str]) -> list[str]:
    """Refuse a graph that can't run.

    Args:
        builder: the declared graph.
        interrupts: the nodes named in `interrupt_before` and `interrupt_after`.
    Returns: the nodes that no edge reaches, for a warning.
    Raises:
        GraphBuildError: an edge begins or ends at an unknown node, nothing leads from START
            into the graph, or an interrupt names an unknown node.
    """
    names = list(builder.nodes)
    for source, what in _sources(builder):
        if source not in builder.nodes and source != START:
            raise GraphBuildError(
                f"Found {what} starting at unknown node '{source}'",
                do=f"add the node; {did_you_mean(source, names)}",
            )
    for target, what in _targets(builder):
        if target not in builder.nodes and target != END:
            raise GraphBuildError(
                f"Found {what} ending at unknown node `{target}`",
                do=f"add the node; {did_you_mean(target, names)}",
            )
    if not any(source == START for source, _ in _sources(builder)):
        raise GraphBuildError(
            "Graph must have an entrypoint: add at least one edge from START to another node",
            do="add_edge(START, name)",
        )
    for name in interrupts:
        if name not in builder.nodes and name != "*":
            raise GraphBuildError(
                f"Interrupt node `{name}` not found", do=did_you_mean(name, names)
            )
    return _unreachable(builder)


def _sources(builder: GraphBuilder) -> Iterator[tuple[str, str]]:
    for start, _ in builder.edges:
        yield start, "edge"
    for starts, _ in builder.waiting_edges:
        for start in starts:
            yield start, "edge"
    for source in builder.branches:
        yield source, "conditional edge"


def _targets(builder: GraphBuilder) -> Iterator[tuple[str, str]]:
    for _, end in builder.edges:
        yield end, "edge"
    for _, end in builder.waiting_edges:
        yield end, "edge"
    for source, branches in builder.branches.items():
        for branch in branches.values():
            for end in (branch.ends or {}).values():
                yield end, f"conditional edge of '{source}'"
    for node in builder.nodes.values():
        for end in node.ends:
            yield end, f"destination of '{node.name}'"


def _unreachable(builder: GraphBuilder) -> list[str]:
    """List the nodes that no static edge, branch or declared destination leads to.

    Empty if a branch may go anywhere. A Command or Send without a declared destination may still
    reach them; therefore the caller only warns.
    """
    if any(b.ends is None for branches in builder.branches.values() for b in branches.values()):
        return []
    wiring = wiring_of(builder)
    reached: set[str] = set()
    waiting = [START]
    while waiting:
        for name in _successors(builder, wiring, waiting.pop()):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return [name for name in builder.nodes if name not in reached]


def _successors(builder: GraphBuilder, wiring: Wiring, node: str) -> Iterable[str]:
    yield from wiring.ends.get(node, ())
    yield from wiring.joined.get(node, ())
    for branch in builder.branches.get(node, {}).values():
        yield from (branch.ends or {}).values()
    if node in builder.nodes:
        yield from builder.nodes[node].ends
