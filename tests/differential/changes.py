"""Changes of a graph under its thread: `changed(spec)` is what the thread goes on with.

A change is a list: `["node", name, source]` adds a node behind another one, `["edge", a, b]` an
edge, `["key", name]` a key; `["rename", a]` and `["remove", a]` do so with a node; `["order"]`
defines nodes and edges the other way round, `["starts"]` names the starts of joins so.
"""

import random
import re
from copy import deepcopy
from typing import Any

from tests.differential.trace import Spec


def changes_of(dice: random.Random, order: list[str]) -> list[list[Any]]:
    """One or two changes of a graph over these nodes."""
    made: list[list[Any]] = []
    for _ in range(dice.choice([1, 1, 2])):
        one = dice.choice(order)
        made.append(
            dice.choice(
                [
                    ["node", "q", one],
                    ["edge", *sorted([one, dice.choice(order)])],
                    ["key", "extra"],
                    ["rename", one],
                    ["remove", one],
                    ["order"],
                    ["starts"],
                ]
            )
        )
    return made


def changed(spec: Spec) -> Spec:
    """The spec after its changes; what names an absent node changes nothing."""
    made = deepcopy(spec)
    for kind, *names in spec.get("changes", ()):
        if kind in ("order", "starts", "key") or all(
            n in made["nodes"] for n in names[kind == "node" :]
        ):
            CHANGES[kind](made, *names)
    return made


def renames(spec: Spec) -> dict[str, str]:
    """Old name -> new name of each node that the changes rename."""
    known = [name for kind, name, *_ in spec.get("changes", ()) if kind == "rename"]
    return {name: new_name(name) for name in known if name in spec["nodes"]}


def named_back(trace: Any) -> Any:
    """A trace with the old names of renamed nodes; no other text of a trace looks like those."""
    if isinstance(trace, dict):
        return {named_back(key): named_back(value) for key, value in trace.items()}
    if isinstance(trace, list):
        return [named_back(inner) for inner in trace]
    return re.sub(r"\b([a-g])2\b", r"\1", trace) if isinstance(trace, str) else trace


def new_name(name: str) -> str:
    """The new name of a renamed node."""
    return f"{name}2"


def _add_node(spec: Spec, name: str, source: str) -> None:
    spec["nodes"][name] = {"writes": ["log"], "cap": 9, "form": "dict"}
    spec["edges"].append([source, name])


def _add_edge(spec: Spec, one: str, other: str) -> None:
    if one != other and [one, other] not in spec["edges"]:
        spec["edges"].append([one, other])


def _add_key(spec: Spec, name: str) -> None:
    spec["channels"] = {**spec["channels"], name: "append"}


def _rename(spec: Spec, name: str) -> None:
    fresh = new_name(name)

    def renamed(part: Any) -> Any:
        if isinstance(part, list):
            return [renamed(inner) for inner in part]
        if isinstance(part, dict):
            return {key: renamed(inner) for key, inner in part.items()}
        return fresh if part == name else part

    nodes = {
        fresh if known == name else known: {
            key: renamed(value) if key in ("goto", "sends") else value
            for key, value in node.items()
        }
        for known, node in spec["nodes"].items()
    }
    for node in nodes.values():
        rename_inside(node, renamed)
    for key in ("edges", "branches", "before", "after"):
        spec[key] = renamed(spec[key])
    spec["nodes"] = nodes


def rename_inside(node: dict[str, Any], renamed: Any) -> None:
    """Let nested nodes lead to the new name in the graph above."""
    for inner in node.get("graph", {"nodes": {}})["nodes"].values():
        if inner.get("form") == "parent":
            inner["goto"] = renamed(inner["goto"])


def _remove(spec: Spec, name: str) -> None:
    if len(spec["nodes"]) > 1:
        spec.update(without(spec, name))


def _reorder(spec: Spec) -> None:
    spec["nodes"] = dict(reversed(spec["nodes"].items()))
    spec["edges"].reverse()


def _starts(spec: Spec) -> None:
    for source, _ in spec["edges"]:
        if isinstance(source, list):
            source.reverse()


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


CHANGES: dict[str, Any] = {
    "node": _add_node,
    "edge": _add_edge,
    "key": _add_key,
    "rename": _rename,
    "remove": _remove,
    "order": _reorder,
    "starts": _starts,
}
