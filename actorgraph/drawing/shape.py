"""GraphShape: the nodes and edges of a drawing, read from a `Plan` alone."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from actorgraph.plan.plan import BranchPlan, NodePlan, Plan
from actorgraph.values.constants import BRANCH_TO, END, START


class DrawnNode(NamedTuple):
    """One node of a drawing.

    Attributes:
        id: unique in the drawing; a subgraph's nodes have its name and ":" before their own.
        name: its label.
        data: the function that it runs; None for the end.
        metadata: that of `add_node`, with `defer`, `__interrupt` and `__tools` where they
            apply; None if empty.
    """

    id: str
    name: str
    data: Any = None
    metadata: dict[str, Any] | None = None

    def copy(self, *, id: str | None = None, name: str | None = None) -> "DrawnNode":
        """Copy it with another id or name, as LangChain's drawings do with nodes."""
        return self._replace(
            id=self.id if id is None else id, name=self.name if name is None else name
        )


class DrawnEdge(NamedTuple):
    """One edge of a drawing.

    Attributes:
        source: id of a node.
        target: id of a node.
        data: its label: the answer of the router that takes it, unless that is the target.
        conditional: whether a router or a Command decides about it.
    """

    source: str
    target: str
    data: str | None = None
    conditional: bool = False

    def copy(self, *, source: str | None = None, target: str | None = None) -> "DrawnEdge":
        """Copy it between other nodes, as LangChain's drawings do with edges."""
        return self._replace(
            source=self.source if source is None else source,
            target=self.target if target is None else target,
        )


@dataclass(frozen=True)
class GraphShape:
    """Nodes by id, and edges, in the order in which a drawing lists them."""

    nodes: dict[str, DrawnNode] = field(default_factory=dict[str, DrawnNode])
    edges: list[DrawnEdge] = field(default_factory=list[DrawnEdge])

    def first_node(self) -> DrawnNode | None:
        """Find the only node to which no edge leads; None unless exactly one exists."""
        return self._only_outside({e.target for e in self.edges})

    def last_node(self) -> DrawnNode | None:
        """Find the only node from which no edge leads; None unless exactly one exists."""
        return self._only_outside({e.source for e in self.edges})

    def _only_outside(self, joined: Collection[str]) -> DrawnNode | None:
        found = [node for node in self.nodes.values() if node.id not in joined]
        return found[0] if len(found) == 1 else None

    def to_json(self, *, with_schemas: bool = False) -> dict[str, list[dict[str, Any]]]:
        """Convert to data for JSON: `{"nodes": [...], "edges": [...]}`.

        Args:
            with_schemas: ignored; LangGraph's parameter. Nodes here are functions, not schemas.
        """
        return {
            "nodes": [_node_json(node) for node in self.nodes.values()],
            "edges": [_edge_json(edge) for edge in self.edges],
        }

    def without(self, name: str) -> "GraphShape":
        """Copy the drawing without one node and its edges."""
        nodes = {key: node for key, node in self.nodes.items() if key != name}
        return GraphShape(nodes, [e for e in self.edges if name not in (e.source, e.target)])


def _node_json(node: DrawnNode) -> dict[str, Any]:
    row: dict[str, Any] = {"id": node.id}
    if node.data is not None:
        row |= {"type": "runnable", "data": {"id": ["actorgraph", "node"], "name": node.name}}
    if node.metadata is not None:
        row["metadata"] = node.metadata
    return row


def _edge_json(edge: DrawnEdge) -> dict[str, Any]:
    row: dict[str, Any] = {"source": edge.source, "target": edge.target}
    if edge.data is not None:
        row["data"] = edge.data
    if edge.conditional:
        row["conditional"] = True
    return row


def shape_of(plan: Plan) -> GraphShape:
    """Read the drawing of a plan.

    A router without `path_map` and without a `Literal` annotation gets an edge to every other
    node and to the end, because it may go anywhere. A node without any edge leads to the end.
    """
    edges = sorted(_edges(plan), key=lambda e: (*e[:2], e.data or ""))
    unique: dict[tuple[str, str], DrawnEdge] = {}
    for edge in edges:
        kept = unique.setdefault((edge.source, edge.target), edge)
        if edge.conditional and not kept.conditional:
            unique[edge.source, edge.target] = edge
    sources = {edge.source for edge in edges}
    targets = {edge.target for edge in edges}
    ending = [name for name in sorted(plan.nodes) if name not in sources and name in targets]
    drawn = [_without_echo(edge) for edge in unique.values()]
    drawn += [DrawnEdge(name, END) for name in ending]
    nodes = {START: DrawnNode(START, START)} if plan.entry is not None else {}
    pauses = pauses_of(plan)
    nodes |= {name: _node(plan, node, pauses[name]) for name, node in plan.nodes.items()}
    if any(edge.target == END for edge in drawn):
        nodes[END] = DrawnNode(END, END)
    return GraphShape(nodes, drawn)


def _without_echo(edge: DrawnEdge) -> DrawnEdge:
    """Drop a label that only repeats the name of the target."""
    return edge._replace(data=None) if edge.data == edge.target else edge


def _edges(plan: Plan) -> Iterator[DrawnEdge]:
    for node in plan.nodes.values():
        for channel, _ in node.targets:
            for target in plan.subscribers.get(channel, ()):
                yield DrawnEdge(node.name, target)
        for branch in node.branches:
            yield from _branch_edges(plan, node.name, branch)
        for target, label in node.ends.items():
            yield DrawnEdge(node.name, target, label, conditional=True)
        if node.shape is not None:
            yield from _channel_edges(plan, node)
    if plan.entry is not None:
        yield from _channel_edges(plan, plan.entry)


def _channel_edges(plan: Plan, node: NodePlan) -> Iterator[DrawnEdge]:
    """Yield the edges of a node declared by channels: to the subscribers of its writes."""
    for channel in sorted(node.writes):
        for target in plan.subscribers.get(channel, ()):
            yield DrawnEdge(node.name, target)
        if channel in plan.output_keys and node.name != START:
            yield DrawnEdge(node.name, END)


def _branch_edges(plan: Plan, source: str, branch: BranchPlan) -> Iterator[DrawnEdge]:
    if branch.ends is None:
        for target in [*plan.nodes, END]:
            if target not in (source, START):
                yield DrawnEdge(source, target, None, conditional=True)
    else:
        for answer, target in branch.ends.items():
            yield DrawnEdge(source, target, str(answer), conditional=True)


def pauses_of(plan: Plan) -> dict[str, list[str]]:
    """Make node -> its breakpoints: "before", "after"."""
    named = {"before": {*plan.interrupt_before}, "after": {*plan.interrupt_after}}
    return {
        name: [
            when
            for when, names in named.items()
            if name in names or ("*" in names and not node.hidden)
        ]
        for name, node in plan.nodes.items()
    }


def _node(plan: Plan, node: NodePlan, pauses: Sequence[str]) -> DrawnNode:
    metadata = dict(node.metadata)
    if deferred(plan, node):
        metadata["defer"] = True
    if pauses:
        metadata["__interrupt"] = ",".join(pauses)
    tools = getattr(getattr(node.call, "__self__", node.call), "tools_by_name", None)
    if isinstance(tools, Mapping) and tools:
        metadata["__tools"] = list(tools)
    return DrawnNode(node.name, node.name, node.call, metadata or None)


def deferred(plan: Plan, node: NodePlan) -> bool:
    """Whether a node was added with `defer=True`: its edge opens when no other node would run."""
    channel = plan.channels.get(BRANCH_TO + node.name)
    return channel is not None and channel.finishes


def with_inside(shape: GraphShape, insides: Mapping[str, GraphShape]) -> GraphShape:
    """Replace nodes that run subgraphs by the subgraphs' drawings.

    A subgraph's start and end are left out if one other node takes the place of each. Where several
    nodes are the first or the last, its start or end stays. A drawing that has neither stays a
    single node.
    """
    named = {name: _opened(inside) for name, inside in insides.items() if name in shape.nodes}
    opened = {name: found for name, found in named.items() if found is not None}
    nodes = {key: node for key, node in shape.nodes.items() if key not in opened}
    into = {name: f"{name}:{found.first}" for name, found in opened.items()}
    out_of = {name: f"{name}:{found.last}" for name, found in opened.items()}
    edges = [
        edge._replace(
            source=out_of.get(edge.source, edge.source),
            target=into.get(edge.target, edge.target),
        )
        for edge in shape.edges
    ]
    for name, found in opened.items():
        prefix = f"{name}:"
        for node in found.shape.nodes.values():
            nodes[prefix + node.id] = node._replace(id=prefix + node.id)
        edges += [
            edge._replace(source=prefix + edge.source, target=prefix + edge.target)
            for edge in found.shape.edges
        ]
    return replace(shape, nodes=nodes, edges=edges)


class _Opened(NamedTuple):
    """A drawing that replaces a node, and the ids of its first and last nodes."""

    shape: GraphShape
    first: str
    last: str


def _opened(inside: GraphShape) -> _Opened | None:
    """Prepare a drawing that replaces a node; None without a node to enter it or to leave it by."""
    if len(inside.nodes) < 2:
        return None
    for ends in (False, True):
        known = inside.last_node() if ends else inside.first_node()
        if known is not None:
            inside = trimmed(inside, known.id, ends=ends)
    first = inside.first_node() or inside.nodes.get(START)
    last = inside.last_node() or inside.nodes.get(END)
    return None if first is None or last is None else _Opened(inside, first.id, last.id)


def trimmed(shape: GraphShape, name: str, *, ends: bool) -> GraphShape:
    """Leave out the first or last node if one edge joins it and one other takes its place."""
    joined = [e for e in shape.edges if (e.target if ends else e.source) == name]
    smaller = shape.without(name)
    heir = smaller.last_node() if ends else smaller.first_node()
    return smaller if len(joined) == 1 and heir is not None else shape
