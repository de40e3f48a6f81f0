"""The smallest spec that still shows a difference: parts are left out while it does."""

from collections.abc import Iterator
from copy import deepcopy

from tests.differential.compare import compare
from tests.differential.pairs import Pair
from tests.differential.rules import Spec

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
    yield from smaller_graphs(spec)


def smaller_graphs(graph: Spec) -> Iterator[Spec]:
    """The graphs with a node, an edge, a branch or a trait of a node less."""
    for name in graph["nodes"]:
        if len(graph["nodes"]) > 1:
            yield without(graph, name)
    for key in ("edges", "branches"):
        for place in range(len(graph[key])):
            yield changed(graph, key, graph[key][:place] + graph[key][place + 1 :])
    for name, node in graph["nodes"].items():
        if "graph" in node:
            for inner in smaller_graphs(node["graph"]):
                yield changed(graph, "nodes", {**graph["nodes"], name: {"graph": inner}})
            continue
        for trait in ("goto", "sends", "asks", "fails", "defer"):
            if trait in node:
                less = {key: value for key, value in node.items() if key != trait}
                yield changed(graph, "nodes", {**graph["nodes"], name: less})
        if node["form"] != "dict":
            yield changed(graph, "nodes", {**graph["nodes"], name: {**node, "form": "dict"}})
        if len(node["writes"]) > 1:
            yield changed(graph, "nodes", {**graph["nodes"], name: {**node, "writes": ["log"]}})


def changed(spec: Spec, key: str, value: object) -> Spec:
    """A copy with one entry replaced."""
    return {**deepcopy(spec), key: deepcopy(value)}


def without(graph: Spec, name: str) -> Spec:
    """A copy without a node and everything that leads to it."""
    less = deepcopy(graph)
    del less["nodes"][name]
    less["edges"] = [e for e in less["edges"] if e[0] != name and e[1] != name]
    less["edges"] = [e for e in less["edges"] if not (isinstance(e[0], list) and name in e[0])]
    less["branches"] = [
        {
            **b,
            "to": [[t for t in to if name not in (t, sent_to(t))] or ["__end__"] for to in b["to"]],
        }
        for b in less["branches"]
        if b["source"] != name
    ]
    for node in less["nodes"].values():
        for key in ("goto", "sends"):
            if key in node:
                node[key] = [t for t in node[key] if name not in (t, t[0])]
    for key in ("before", "after"):
        if key in less:
            less[key] = [n for n in less[key] if n != name]
    if "turns" in less:
        less["turns"] = [t for t in less["turns"] if t != ["update", name]]
    return less


def sent_to(target: object) -> object:
    """The node of a Send."""
    return target["send"][0] if isinstance(target, dict) else None
