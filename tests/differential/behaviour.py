"""Behaviour of the nodes and conditional edges of a spec, as functions that know no library.

`act` gets what a node sees and the answers to its questions, and says what it returns; `decide`
is a conditional edge. Both results are plain data that builder.py makes into Commands and Sends.
"""

from dataclasses import dataclass, field
from typing import Any

END = "__end__"
TOOLS_NODE = "tools"


class NodeError(Exception):
    """The error of a failing node."""


class BranchError(Exception):
    """The error of a failing conditional edge."""


@dataclass
class Returned:
    """An update, and where to go beside the static edges: nodes, and Sends as (node, arg).

    Calls of tools that go as a Send each are `calls`; with the state `context`, if it is given.
    """

    update: dict[str, Any]
    goto: list[str] = field(default_factory=list)
    sends: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    calls: list[list[str]] = field(default_factory=list)
    context: dict[str, Any] | None = None


def act(name: str, node: dict[str, Any], seen: dict[str, Any], answers: list[Any]) -> Returned:
    """The result of a node. Every value names its sources, so that a wrong view shows."""
    count = seen.get("n", 0)
    if node["form"] == "none":
        return Returned({})
    made: dict[str, Any] = {"n": 1}
    text = f"{name}.{count}.{len(seen.get('log', ()))}.{seen.get('last', '')}{maybe(seen)}"
    if "log" in node["writes"]:
        made["log"] = [":".join([text, *map(str, answers)])]
    if "best" in node["writes"]:
        made["best"] = (count * 7 + 1) % 11
    if "last" in node["writes"]:
        made["last"] = name
    if "maybe" in node["writes"]:
        made["maybe"] = name if count % 2 else None
    if count >= node["cap"]:
        return Returned(made)
    sends = [(target, sent(count, index, name)) for target, index in node.get("sends", ())]
    goto = list(node.get("goto", ()))
    calls = [[tool, f"{text}.{index}"] for index, tool in enumerate(node.get("calls", ()))]
    if calls:
        made["messages"] = [{"ai": text, "calls": calls}]
        if node["by"] == "message":
            return Returned(made, [*goto, TOOLS_NODE], sends)
    context = {"n": count, "messages": []} if node.get("by") == "context" else None
    return Returned(made, goto, sends, calls, context)


def maybe(seen: dict[str, Any]) -> str:
    """The part of a text about the optional key."""
    return f".{seen['maybe']}" if "maybe" in seen else ""


def decide(branch: dict[str, Any], seen: dict[str, Any]) -> list[Any]:
    """The targets of a conditional edge: names, and Sends as (node, arg)."""
    if branch.get("raises"):
        raise BranchError(branch["source"])
    value = seen.get("n", 0) if branch["on"] == "n" else len(seen.get("log", ()))
    if value >= branch["cap"]:
        return [END]
    chosen = branch["to"][value % len(branch["to"])]
    sends = [t["send"] for t in chosen if isinstance(t, dict)]
    names = [t for t in chosen if not isinstance(t, dict)]
    return [*names, *((node, sent(value, index, "?")) for node, index in sends)]


def sent(count: int, index: int, name: str) -> dict[str, Any]:
    """The argument of a Send. Its count rises, so that what it starts ends."""
    return {"n": count + index + 3, "log": [name]}
