"""The topology of a graph as data, and a report of likely mistakes in it, from the plan alone."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actorgraph.channels import NamedBarrierValue
from actorgraph.drawing.shape import DrawnEdge, GraphShape, deferred, pauses_of, shape_of
from actorgraph.plan.plan import BranchPlan, NodePlan, Plan
from actorgraph.values.constants import BRANCH_TO, END, START

FORMAT = 1


@dataclass(frozen=True, slots=True)
class _Join:
    """An edge from several nodes: the target waits for all of them."""

    sources: tuple[str, ...]
    target: str


def topology_of(plan: Plan) -> dict[str, Any]:
    """Make the topology of a plan; equal plans give equal data, in the same order."""
    shape, pauses = shape_of(plan), pauses_of(plan)
    return {
        "format": FORMAT,
        "name": plan.name,
        "graph_id": plan.graph_id,
        "channels": {name: type(plan.channels[name]).__name__ for name in plan.state_keys},
        "nodes": [_row(plan, node, pauses[name]) for name, node in plan.nodes.items()],
        "edges": [_edge(edge) for edge in shape.edges],
        "routers": [
            _router(node, branch) for node in plan.nodes.values() for branch in node.branches
        ],
        "joins": [{"from": [*join.sources], "to": join.target} for join in _joins(plan)],
        "report": [*report(plan, shape)],
    }


def _row(plan: Plan, node: NodePlan, pauses: Sequence[str]) -> dict[str, Any]:
    return {
        "name": node.name,
        "reads": [*node.reads],
        "async": node.is_async,
        "defer": deferred(plan, node),
        "interrupt": [*pauses],
        "destinations": [*node.ends],
    }


def _router(node: NodePlan, branch: BranchPlan) -> dict[str, str]:
    """Make the row of a router: the place of its calls and the reason."""
    on_loop = branch.is_async or branch.inline
    called = "event loop" if on_loop else "worker thread"
    return {"node": node.name, "name": branch.name, "called_on": called, "why": branch.why}


def _edge(edge: DrawnEdge) -> dict[str, Any]:
    row: dict[str, Any] = {"from": edge.source, "to": edge.target, "conditional": edge.conditional}
    return row if edge.data is None else row | {"label": edge.data}


def report(plan: Plan, shape: GraphShape) -> Iterator[dict[str, str]]:
    """Yield likely mistakes as findings: `{"code", "node", "what", "do"}` each."""
    edges, joins = _steps(plan), _joins(plan)
    running = _running(plan, edges, joins)
    for node in plan.nodes.values():
        for branch in node.branches:
            if branch.ends is None:
                yield _finding(
                    "open_route",
                    node.name,
                    f"the router {branch.name!r} doesn't declare where it may lead",
                    "give add_conditional_edges a path_map, or the function -> Literal[...]",
                )
    routers = _routers(shape)
    for join in joins:
        yield from _join_findings(plan, join, running, routers)
    joined = {join.target for join in joins}
    for name in plan.nodes:
        if name not in running and name not in joined:
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
            "every path from here is a cycle, none leads to the end",
            "add an edge or a router's answer that leads to END",
        )


def _finding(code: str, node: str, what: str, do: str) -> dict[str, str]:
    return {"code": code, "node": node, "what": what, "do": do}


def _join_findings(
    plan: Plan, join: _Join, running: Iterable[str], routers: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    dead = [name for name in join.sources if name not in running]
    if dead:
        yield _finding(
            "join_never_completes",
            join.target,
            f"it waits for {', '.join(map(repr, dead))}, which can't have run before it",
            "join only nodes that run before it, or use an edge from each of them instead",
        )
        return
    choices: dict[str, list[str]] = {}
    for source in join.sources:
        if source in routers:
            choices.setdefault(routers[source], []).append(source)
    for name in sorted(choices, key=lambda name: plan.order[name]):
        for branch in plan.nodes[name].branches if len(choices[name]) > 1 else ():
            ends = {*(branch.ends or {}).values()}
            rivals = [source for source in choices[name] if source in ends]
            if len(rivals) > 1:
                yield _finding(
                    "join_of_alternatives",
                    join.target,
                    f"it waits for {', '.join(map(repr, rivals))}, all of which the router "
                    f"{branch.name!r} must choose for it to run",
                    "use an edge from each of them, unless the router returns a list of them all",
                )


def _routers(shape: GraphShape) -> dict[str, str]:
    """Make node to which only the routers of one other node lead -> that other node."""
    found: dict[str, str] = {}
    several: set[str] = set()
    for edge in shape.edges:
        if not edge.conditional or found.setdefault(edge.target, edge.source) != edge.source:
            several.add(edge.target)
    return {target: source for target, source in found.items() if target not in several}


def _steps(plan: Plan) -> dict[str, set[str]]:
    """Make node -> the nodes that may run after it without a join; empty if the run ends there."""
    steps: dict[str, set[str]] = {}
    for node in plan.nodes.values():
        found = {c.removeprefix(BRANCH_TO) for c, _ in node.targets if c.startswith(BRANCH_TO)}
        for branch in node.branches:
            found |= {*plan.nodes, END} if branch.ends is None else set(branch.ends.values())
        steps[node.name] = (found | set(node.ends)) - {START}
    return steps


def _joins(plan: Plan) -> list[_Join]:
    sources: dict[str, list[str]] = {}
    for node in plan.nodes.values():
        for channel in dict.fromkeys(channel for channel, _ in node.targets):
            sources.setdefault(channel, []).append(node.name)
    return [
        _Join(tuple(sources.get(name, ())), to)
        for name, channel in plan.channels.items()
        if isinstance(channel, NamedBarrierValue)
        for to in plan.subscribers.get(name, ())
    ]


def _running(plan: Plan, steps: Mapping[str, set[str]], joins: Sequence[_Join]) -> dict[str, None]:
    """Find the nodes that some run may reach; a join only if all its sources are reached."""
    waits: dict[str, list[int]] = {}
    missing = [len(join.sources) for join in joins]
    for place, join in enumerate(joins):
        for source in join.sources:
            waits.setdefault(source, []).append(place)
    running: dict[str, None] = {}
    new = {START, *(join.target for join in joins if not join.sources)}
    while new:
        running |= dict.fromkeys(sorted(new))
        found = {to for name in new for to in steps.get(name, ())}
        for name in new:
            for place in waits.get(name, ()):
                missing[place] -= 1
                if not missing[place]:
                    found.add(joins[place].target)
        new = {name for name in found if name in plan.nodes and name not in running}
    return running


def _trapped(
    running: Mapping[str, None], steps: Mapping[str, set[str]], joins: Iterable[_Join]
) -> Iterator[str]:
    """Yield the nodes that may run and from which no path leads to the end."""
    ways = {name: set(found) for name, found in steps.items()}
    for join in joins:
        if all(source in running for source in join.sources):
            for source in join.sources:
                ways[source].add(join.target)
    leads: dict[str, list[str]] = {}
    for name, found in ways.items():
        for to in found:
            leads.setdefault(to, []).append(name)
    good = {name for name, found in ways.items() if not found or END in found}
    new = set(good)
    while new:
        new = {name for to in new for name in leads.get(to, ()) if name not in good}
        good |= new
    yield from (name for name in running if name not in good and name != START)
