"""Random graphs and what is done with them, as plain JSON.

A spec is a dict:

    channels    name -> "last" | "append" | "sum" | "max" | "optional" | "messages"
    schema, defaults, aliases
                class of the state: "typed", "dataclass" or "pydantic"; key -> declared default;
                whether its keys have aliases
    nodes       name -> node, in definition order
    edges       [[source, target]]; a list of sources is a join
    branches    {source, on, cap, to}: the nodes `to[value of on, modulo its length]`; END once the
                value reaches `cap`. A target {"send": [node, n]} is a Send.
    changes     what a turn ["change"] makes of the graph; see changes.py
    migrates    whether renames are declared by a Migration, so that nothing is lost
    turns       what is done with the thread, one after the other; see driver.py
    before, after, limit, durability, via
                breakpoints, recursion limit, durability of all runs, "invoke" or "stream"

A node: `writes` the channels that it writes beside "n"; `form` of its return, `goto` and `sends`
while "n" is below `cap`; `asks` so many questions; `fails` at its first so many calls; `defer`;
`calls` of tools, `by` one "message" or a "send" each. The form "parent" is a Command for the graph
above, "object" an object of the state's class. Instead of all that, `graph` is a nested spec, or
`tools` the names of a ToolNode's tools.
"""

import random
from typing import Any

from tests.differential.extras import add_extras
from tests.differential.trace import Spec

CHANNELS = {"log": "append", "n": "sum", "last": "last", "best": "max"}
START, END = "__start__", "__end__"


def generate(seed: int) -> Spec:
    """The spec of a seed, always the same."""
    dice = random.Random(seed)
    spec = graph_of(dice, "abcdefg"[: dice.randint(2, 7)], nested=dice.random() < 0.25)
    names = [*spec["nodes"]]
    spec["seed"] = seed
    spec["before"] = [dice.choice(names)] if dice.random() < 0.1 else []
    spec["after"] = [dice.choice(names)] if dice.random() < 0.1 else []
    spec["limit"] = dice.choice([5, 12, 12, 12])
    modes = ["sync", "async", "exit"]
    if any(node.get("defer") for node in spec["nodes"].values()):
        modes.remove("exit")  # it leaves no history, by which the rule for L110 could tell
    spec["durability"] = dice.choice(modes)
    spec["via"] = dice.choice(["invoke", "stream"])
    spec["turns"] = turns(dice, names)
    add_extras(spec, seed)
    return spec


def graph_of(
    dice: random.Random, names: str, *, nested: bool = False, inside: bool = False
) -> Spec:
    """A graph over these names: forward edges, some joins, guarded ways back.

    Args:
        nested: whether one node is a graph.
        inside: the graph is such a node. It defers nothing, because a trace does not show a
            nested graph's tasks, which the rule for L110 would need.
    """
    order = list(names)
    dice.shuffle(order)
    cap = dice.randint(4, 9)
    deferring = not inside and dice.random() < 0.2
    defined = dice.sample(order, len(order))
    nodes = {name: node_of(dice, name, order, cap, deferring=deferring) for name in defined}
    failing = [name for name, node in nodes.items() if "fails" in node]
    # Of two failures at once, which one counts is no library's promise; a nested question that was
    # answered before its graph failed is shown as waiting by LangGraph, and here as answered.
    asking = inside and any("asks" in node for node in nodes.values())
    for name in failing[0 if asking else 1 :]:
        del nodes[name]["fails"]
    if nested:
        inner = graph_of(dice, "xyz"[: dice.randint(1, 3)], inside=True)
        nodes[dice.choice(order)] = {"graph": inner}
    spec: Spec = {"channels": CHANNELS, "nodes": nodes, "edges": [], "branches": []}
    starts = order[: dice.choice([1, 1, 2, 3])]
    spec["edges"] += [[START, name] for name in starts]
    for place, name in enumerate(order):
        later = order[place + 1 :]
        if not later:
            continue
        for target in dice.sample(later, min(len(later), dice.choice([0, 1, 1, 1, 2, 3]))):
            spec["edges"].append([name, target])
    if len(order) > 3 and dice.random() < 0.35:
        cut = dice.randint(2, len(order) - 1)
        sources = dice.sample(order[:cut], min(cut, dice.choice([2, 2, 3])))
        spec["edges"].append([sources, dice.choice(order[cut:])])
    for source in dice.sample([START, *order], dice.choice([0, 0, 1, 1, 2])):
        spec["branches"].append(branch_of(dice, source, order, cap))
    return spec


def node_of(
    dice: random.Random, name: str, order: list[str], cap: int, *, deferring: bool
) -> dict[str, Any]:
    """One node. Only a few have something out of the ordinary."""
    node: dict[str, Any] = {"writes": ["log"], "cap": cap}
    if dice.random() < 0.5:
        node["writes"].append("best")
    if dice.random() < 0.15:
        node["writes"].append("last")
    node["form"] = dice.choice(["dict", "dict", "dict", "command", "list", "none"])
    if node["form"] == "command":
        later = order[order.index(name) + 1 :]
        node["goto"] = dice.sample(order if dice.random() < 0.2 else later or order, 1)
    if dice.random() < 0.15:
        target = dice.choice(order)
        node["sends"] = [[target, i] for i in range(dice.randint(1, 3))]
    if dice.random() < 0.15:
        node["asks"] = dice.choice([1, 1, 2])
    if dice.random() < 0.06:
        node["fails"] = 1
    if deferring and dice.random() < 0.5:
        node["defer"] = True
    if node["form"] == "command" and dice.random() < 0.02:
        node["goto"] = ["nowhere"]
    return node


def branch_of(dice: random.Random, source: str, order: list[str], cap: int) -> dict[str, Any]:
    """A conditional edge; from time to time a way back, two targets, a Send, or an error."""
    later = order[order.index(source) + 1 :] if source in order else order
    pool = order if dice.random() < 0.4 else later or [END]
    targets = [dice.sample(pool, min(len(pool), dice.choice([1, 1, 2]))) for _ in range(3)]
    if dice.random() < 0.3:
        targets[0] = [{"send": [dice.choice(order), i]} for i in range(dice.randint(1, 3))]
    if dice.random() < 0.3:
        targets[1] = [END]
    branch = {"source": source, "on": dice.choice(["n", "log"]), "cap": cap, "to": targets}
    if source != START and dice.random() < 0.04:
        branch["raises"] = True
    return branch


def turns(dice: random.Random, names: list[str]) -> list[list[Any]]:
    """An input, then enough turns to see most threads to their end."""
    done: list[list[Any]] = [["input", dice.randint(0, 3)]]
    for _ in range(dice.randint(2, 7)):
        kind = dice.random()
        if kind < 0.72:
            done.append(["next", dice.choice(["all", "first", "last"])])
        elif kind < 0.8:
            done.append(["input", dice.randint(0, 3)])
        elif kind < 0.86:
            done.append(["update", dice.choice([*names, None])])
        elif kind < 0.92:
            done.append(["replay", dice.randint(0, 5)])
        else:
            done.append(["go"])
    return done
