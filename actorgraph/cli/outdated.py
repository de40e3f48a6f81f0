"""Arguments and attributes of LangGraph's that it has deprecated and that are not taken here.

The codemod moves imports; a call with such an argument would fail with a TypeError, so it is
shown, with what to write instead.
"""

import ast
from collections.abc import Iterator

_SCHEMAS = {"config_schema": "context_schema", "input": "input_schema", "output": "output_schema"}
_RETRY = {"retry": "retry_policy"}
_RUN = {"checkpoint_during": 'durability="async", or "exit" for False'}
_INTERRUPT: dict[str, str] = dict.fromkeys(("ns", "when", "resumable"), "id=, or nothing")

ARGUMENTS: dict[str, dict[str, str]] = {
    "StateGraph": _SCHEMAS,
    "add_node": {**_RETRY, "input": "input_schema"},
    "task": _RETRY,
    "entrypoint": {**_RETRY, "config_schema": "context_schema"},
    "create_react_agent": {
        "config_schema": "context_schema",
        "state_modifier": "prompt",
        "messages_modifier": "prompt",
    },
    "add_conditional_edges": {"then": "an edge from each of the targets"},
    "Interrupt": _INTERRUPT,
    **dict.fromkeys(("invoke", "ainvoke", "stream", "astream"), _RUN),
}
"""Function or method -> its old argument -> what to write."""

ATTRIBUTES = {"interrupt_id": "id"}


def outdated(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Each place of a program that uses such a name, and a sentence about it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name_of(node.func)
            known = ARGUMENTS.get(name, {})
            for keyword in node.keywords:
                if keyword.arg in known:
                    new = known[keyword.arg]
                    yield node, f"{name}({keyword.arg}=) is not taken here: write {new}"
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield node, f".{node.attr} is .{ATTRIBUTES[node.attr]} here"


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
