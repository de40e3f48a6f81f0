"""LangGraph's deprecated arguments and attributes, which are not supported here.

The codemod moves imports only. A call with such an argument would fail with a TypeError, so it is
reported with its replacement.
"""

import ast
from collections.abc import Iterator

_SCHEMAS = {"config_schema": "context_schema", "input": "input_schema", "output": "output_schema"}
_RETRY = {"retry": "retry_policy"}
_RUN = {"checkpoint_during": 'durability="async", or "exit" for False'}
_INTERRUPT: dict[str, str] = dict.fromkeys(("ns", "when", "resumable"), "id=, or leave it out")

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
"""Function or method -> its old argument -> the replacement."""

ATTRIBUTES = {"interrupt_id": "id"}


def outdated(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Iterate over the uses of such names in a program: expression and remark."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name_of(node.func)
            known = ARGUMENTS.get(name, {})
            for keyword in node.keywords:
                if keyword.arg in known:
                    new = known[keyword.arg]
                    yield node, f"{name}({keyword.arg}=) is not supported here: write {new}"
        elif isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield node, f".{node.attr} is .{ATTRIBUTES[node.attr]} here"


def _name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
