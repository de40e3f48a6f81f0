"""The smallest spec that still shows a difference: parts are left out while it does."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from tests.differential.changes import without
from tests.differential.compare import compare
from tests.differential.pairs import Pair
from tests.differential.trace import Spec

TRIES_MAX = 400
PLAIN = {"limit": 12, "durability": "sync", "via": "invoke", "before": [], "after": []}


def smallest(pair: Pair, spec: Spec) -> Spec:
    """Take the first simpler spec that differs, again and again."""
    tries = TRIES_MAX
    while True:
        for simpler in simpler_ones(spec):
            tries -= 1
            if tries < 0:
                return spec
            if compare(simpler, *pair.traces(simpler)).difference is not None:
                spec = simpler
                break
        else:
            return spec


def simpler_ones(spec: Spec) -> Iterator[Spec]:
    """The specs that have one thing less."""
    for place in reversed(range(1, len(spec["turns"]))):
        yield changed(spec, "turns", spec["turns"][:place] + spec["turns"][place + 1 :])
    for key, plain in PLAIN.items():
        if spec[key] != plain:
            yield changed(spec, key, plain)
    for place in range(len(spec.get("changes", ()))):
        yield changed(spec, "changes", spec["changes"][:place] + spec["changes"][place + 1 :])
    for place, turn in enumerate(spec["turns"]):
        if turn[0] == "object":
            plainer = [*spec["turns"][:place], ["input", turn[1]], *spec["turns"][place + 1 :]]
            yield changed(spec, "turns", plainer)
    yield from smaller_graphs(spec)


def smaller_graphs(graph: Spec) -> Iterator[Spec]:
    """The graphs with a node, an edge, a branch or a trait of a node less."""
    for name in graph["nodes"]:
        if len(graph["nodes"]) > 1:
            yield without(graph, name)
    for key in ("edges", "branches"):
        for place in range(len(graph[key])):
            yield changed(graph, key, graph[key][:place] + graph[key][place + 1 :])
    for key in ("schema", "defaults", "aliases"):
        if graph.get(key):
            yield {k: v for k, v in deepcopy(graph).items() if k != key}
    for name in graph["nodes"]:
        for simpler in simpler_nodes(graph["nodes"][name]):
            yield changed(graph, "nodes", {**graph["nodes"], name: simpler})


def simpler_nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes that have one thing less."""
    if "graph" in node:
        yield from ({"graph": inner} for inner in smaller_graphs(node["graph"]))
    if "form" not in node:
        return
    for trait in ("goto", "sends", "asks", "fails", "defer", "calls"):
        if trait in node:
            yield {key: value for key, value in node.items() if key != trait}
    if len(node.get("calls", ())) > 1:
        yield {**node, "calls": node["calls"][1:]}
        yield {**node, "calls": node["calls"][:-1]}
    if node["form"] != "dict":
        yield {**node, "form": "dict"}
    if len(node["writes"]) > 1:
        yield {**node, "writes": ["log"]}


def changed(spec: Spec, key: str, value: object) -> Spec:
    """A copy with one entry replaced."""
    return {**deepcopy(spec), key: deepcopy(value)}
