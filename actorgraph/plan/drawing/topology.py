"""A graph's wiring as data, and what is odd about it. Found before a run, from the plan alone."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from actorgraph.channels import NamedBarrierValue
from actorgraph.plan.drawing.shape import DrawnEdge, deferred, shape_of
from actorgraph.plan.graph import NodePlan, Plan
from actorgraph.values.constants import BRANCH_TO, END, START

FORMAT = 1


@dataclass(frozen=True, slots=True)
class _Join:
    """Several nodes for all of which another one waits."""

    sources: tuple[str, ...]
    target: str


def topology_of(plan: Plan) -> dict[str, Any]:
    """The wiring of a plan; equal plans give equal data, in the same order."""
    shape = shape_of(plan)
    return {
        "format": FORMAT,
        "name": plan.name,
        "graph_id": plan.graph_id,
        "channels": {name: type(plan.channels[name]).__name__ for name in plan.state_keys},
        "nodes": [_row(plan, node) for node in plan.nodes.values()],
        "edges": [_edge(edge) for edge in shape.edges],
        "joins": [{"from": [*join.sources], "to": join.target} for join in _joins(plan)],
        "report": [*report(plan)],
    }


def _row(plan: Plan, node: NodePlan) -> dict[str, Any]:
    return {
        "name": node.name,
        "reads": [*node.reads],
        "async": node.is_async,
        "defer": deferred(plan, node),
        "interrupt": [
            when
            for when, names in (("before", plan.interrupt_before), ("after", plan.interrupt_after))
            if node.name in names or ("*" in names and not node.hidden)
        ],
        "destinations": [*node.ends],
    }


def _edge(edge: DrawnEdge) -> dict[str, Any]:
    row: dict[str, Any] = {"from": edge.source, "to": edge.target, "conditional": edge.conditional}
    return row if edge.data is None else row | {"label": edge.data}


def report(plan: Plan) -> Iterator[dict[str, str]]:
    """What is odd: each finding names a node, says what is so and what to do."""
    edges, joins = _steps(plan), _joins(plan)
    running = _running(plan, edges, joins)
    for node in plan.nodes.values():
        for branch in node.branches:
            if branch.ends is None:
                yield _finding(
                    "open_route",
                    node.name,
                    f"the router {branch.name!r} doesn't say where it may lead",
                    "give add_conditional_edges a path_map, or the function -> Literal[...]",
                )
    for join in joins:
        yield from _join_findings(plan, join, running)
    for name in plan.nodes:
        if name not in running and not any(join.target == name for join in joins):
            yield _finding(
                "unreachable",
                name,
                "no edge, router or declared destination leads here from the start",
                "add an edge to it, or name it in destinations= of the node that goes there",
            )
    for name in _trapped(running, edges, joins):
        yield _finding(
            "no_way_to_end",
            name,
            "every way from here leads round in a circle, and none to the end",
            "add an edge or a router's answer that leads to END",
        )


def _finding(code: str, node: str, what: str, do: str) -> dict[str, str]:
    return {"code": code, "node": node, "what": what, "do": do}


def _join_findings(plan: Plan, join: _Join, running: Iterable[str]) -> Iterator[dict[str, str]]:
    dead = [name for name in join.sources if name not in running]
    if dead:
        yield _finding(
            "join_never_completes",
            join.target,
            f"it waits for {', '.join(map(repr, dead))}, which can't have run before it",
            "join only nodes that run before it, or use an edge from each of them instead",
        )
        return
    for node in plan.nodes.values():
        for branch in node.branches:
            ends = set((branch.ends or {}).values())
            rivals = [s for s in join.sources if s in ends and _only_from(plan, s, node.name)]
            if len(rivals) > 1:
                yield _finding(
                    "join_of_alternatives",
                    join.target,
                    f"it waits for {', '.join(map(repr, rivals))}, all of which the router "
                    f"{branch.name!r} must choose for it to run",
                    "use an edge from each of them, unless the router returns a list of them all",
                )


def _only_from(plan: Plan, name: str, source: str) -> bool:
    """Whether nothing but this node's routers leads to a node."""
    return all(
        edge.source == source and edge.conditional
        for edge in shape_of(plan).edges
        if edge.target == name
    )


def _steps(plan: Plan) -> dict[str, set[str]]:
    """Where one step without a join may lead, by node; nothing for a node that only ends."""
    steps: dict[str, set[str]] = {}
    for node in plan.nodes.values():
        found = {c.removeprefix(BRANCH_TO) for c, _ in node.targets if c.startswith(BRANCH_TO)}
        for branch in node.branches:
            found |= {*plan.nodes, END} if branch.ends is None else set(branch.ends.values())
        steps[node.name] = (found | set(node.ends)) - {START}
    return steps


def _joins(plan: Plan) -> list[_Join]:
    found: list[_Join] = []
    for name, channel in plan.channels.items():
        if isinstance(channel, NamedBarrierValue):
            sources = [n.name for n in plan.nodes.values() if any(c == name for c, _ in n.targets)]
            found += [_Join(tuple(sources), to) for to in plan.subscribers.get(name, ())]
    return found


def _running(plan: Plan, steps: Mapping[str, set[str]], joins: Iterable[_Join]) -> dict[str, None]:
    """The nodes that some run may reach, a join only once all that it waits for is reached."""
    running = {START: None}
    while True:
        new = {to for name in running for to in steps[name]}
        new |= {join.target for join in joins if set(join.sources) <= running.keys()}
        new = (new & plan.nodes.keys()) - running.keys()
        if not new:
            return running
        running |= dict.fromkeys(sorted(new))


def _trapped(
    running: Mapping[str, None], steps: Mapping[str, set[str]], joins: Iterable[_Join]
) -> Iterator[str]:
    """The nodes that may run and from which no way leads to an end."""
    ways = {name: set(found) for name, found in steps.items()}
    for join in joins:
        if running.keys() >= {*join.sources}:
            for source in join.sources:
                ways[source].add(join.target)
    good = {name for name, found in ways.items() if not found or END in found}
    while new := {name for name, found in ways.items() if found & good} - good:
        good |= new
    yield from (name for name in running if name not in good and name != START)
