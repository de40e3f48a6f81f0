"""Traits of a spec beyond a plain graph: a class as its state, hand-overs, tools, a change.

A spec gets them by dice of its own, so that the graph of a seed stays what it is without them.
"""

import random
from typing import Any

from tests.differential.behaviour import TOOLS_NODE
from tests.differential.changes import changes_of
from tests.differential.tools import TOOLS
from tests.differential.trace import Spec

DEFAULTS = {"n": 2, "log": ["d"], "best": 1, "last": "d", "maybe": "d"}


def add_extras(spec: Spec, seed: int) -> None:
    """Give a spec some of them."""
    dice = random.Random(f"{seed}, more")
    add_hand_overs(dice, spec)
    if dice.random() < 0.25:
        add_tools(dice, spec)
        if spec["durability"] == "exit" and any("fails" in n for n in spec["nodes"].values()):
            # In a blocking run only tasks that are stored as they end go on beside plain ones.
            spec["durability"] = "sync"
    if dice.random() < 0.35:
        add_schema(dice, spec)
    if dice.random() < 0.25:
        names = [name for name in spec["nodes"] if name != TOOLS_NODE]
        spec["changes"] = changes_of(dice, names)
        if dice.random() < 0.25:
            spec["migrates"] = True
            spec["changes"] = [["rename", dice.choice(names)]]
        spec["turns"].insert(dice.choice([1, 1, 1, 2]), ["change"])
        if spec["durability"] == "exit":
            spec["durability"] = "sync"  # "exit" leaves no history, by which rules could tell
        # It matters most where something waits.
        for name in names:
            node = spec["nodes"][name]
            if "form" in node and dice.random() < 0.3:
                node["asks"] = 1


def add_schema(dice: random.Random, spec: Spec) -> None:
    """A class as the state, of the nested graphs too; nodes and inputs may give objects of it."""
    kind = dice.choice(["typed", "dataclass", "pydantic"])
    aliases = kind == "pydantic" and dice.random() < 0.4
    optional = dice.random() < 0.5
    keys = ("last", "maybe") if dice.random() < 0.7 else tuple(DEFAULTS)
    declared = {key: DEFAULTS[key] for key in keys if dice.random() < 0.4}
    for graph in graphs_of(spec):
        graph["schema"] = kind
        if optional:
            graph["channels"] = {**graph["channels"], "maybe": "optional"}
        if kind != "typed":
            graph["defaults"] = {k: v for k, v in declared.items() if k in graph["channels"]}
        if aliases:
            graph["aliases"] = True
        for node in graph["nodes"].values():
            if node.get("form") == "dict" and dice.random() < 0.25:
                node["form"] = "object"
            if optional and "writes" in node and dice.random() < 0.2:
                node["writes"] = [*node["writes"], "maybe"]
    for turn in spec["turns"]:
        if turn[0] == "input" and dice.random() < 0.4:
            turn[0] = "object"


def graphs_of(spec: Spec) -> list[Spec]:
    """The graph and all that are nested in it."""
    nested = [node["graph"] for node in spec["nodes"].values() if "graph" in node]
    return [spec, *(graph for inner in nested for graph in graphs_of(inner))]


def add_hand_overs(dice: random.Random, spec: Spec) -> None:
    """Nodes of nested graphs that command the graph above; a few of them two levels down."""
    for node in spec["nodes"].values():
        if "graph" not in node or dice.random() < 0.3:
            continue
        inner = node["graph"]
        if dice.random() < 0.25:
            add_tools(dice, inner, inside=True)
            continue
        if dice.random() < 0.3:
            deepest = {name: handing(dice, inner) for name in "uvw"[: dice.choice([1, 1, 2])]}
            edges = [["__start__", "u"], *([["u", "v"]] if "v" in deepest else [])]
            channels = inner["channels"]
            below = {"channels": channels, "nodes": deepest, "edges": edges, "branches": []}
            inner["nodes"][dice.choice([*inner["nodes"]])] = {"graph": below}
        for name, one in inner["nodes"].items():
            if "graph" not in one and dice.random() < 0.5:
                inner["nodes"][name] = {**one, **handing(dice, spec)}


def handing(dice: random.Random, above: Spec) -> dict[str, Any]:
    """A node that leads to one of the graph above, or only writes there."""
    goto = [dice.choice([*above["nodes"]])] if dice.random() < 0.7 else []
    node: dict[str, Any] = {"writes": ["log"], "cap": dice.randint(4, 9), "form": "parent"}
    asks = {"asks": 1} if dice.random() < 0.2 else {}
    return {**node, "goto": goto, "sends": [], **asks}


def add_tools(dice: random.Random, spec: Spec, *, inside: bool = False) -> None:
    """A ToolNode, and nodes that call its tools: in a message, or by a Send for each call.

    Args:
        inside: the graph is nested, so that a tool may command the graph above. It does so alone:
            a trace doesn't show whose calls are beside it.
    """
    plain = [n for n, node in spec["nodes"].items() if node.get("form", "none") != "none"]
    if not plain:
        return
    names = dice.sample(TOOLS, dice.randint(2, 4))
    leaves = inside and dice.random() < 0.5
    for name in dice.sample(plain, min(len(plain), dice.choice([1, 1, 2]))):
        node = spec["nodes"][name]
        node["calls"] = [dice.choice(names) for _ in range(dice.choice([1, 2, 3]))]
        node["by"] = dice.choice(["send", "message", "context"])
        if leaves:
            node["calls"] = ["leave"]
        if node["by"] == "message":  # two questions of one task have the order of two threads
            asked = [i for i, tool in enumerate(node["calls"]) if tool == "ask"]
            node["calls"] = [t for i, t in enumerate(node["calls"]) if i not in asked[1:]]
    back = dice.choice([*spec["nodes"]])
    spec["channels"] = {**spec["channels"], "messages": "messages"}
    spec["nodes"][TOOLS_NODE] = {"tools": [*names, *(["leave"] if leaves else [])]}
    if dice.random() < 0.6:
        spec["edges"].append([TOOLS_NODE, back])
