"""The names by which a graph's calls speak of nodes: checked where they are given."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, cast

from actorgraph.errors import GraphBuildError
from actorgraph.errors.texts import NAME_REFUSED, is_storable_name
from actorgraph.plan import calls
from actorgraph.values.constants import END, HANDLER_PREFIX, RESERVED_NODE_NAMES, START


def check_new(name: str, taken: Container[str]) -> None:
    """Refuse a name that a node can't have.

    Raises:
        GraphBuildError: it is taken, reserved, empty, or has `|` or `:`.
    """
    if name in taken:
        raise GraphBuildError(f"Node `{name}` already present.", do="choose another name")
    if name in RESERVED_NODE_NAMES or name.startswith(HANDLER_PREFIX):
        raise GraphBuildError(f"Node `{name}` is reserved.", do="choose another name")
    if not name or any(mark in name for mark in "|:") or not is_storable_name(name):
        raise GraphBuildError(
            f"{name[:80]!r} can't be a node's name: it is empty or has '|' or ':', which separate "
            f"checkpoint namespaces, or {NAME_REFUSED}",
            do="use letters, digits, '-' and '_'",
        )


def name_and_action(
    node: str | Callable[..., Any], action: Callable[..., Any] | None
) -> tuple[str, Callable[..., Any]]:
    """A node's name and its function, as `add_node` takes them.

    Raises:
        GraphBuildError: one of them is missing.
    """
    if isinstance(node, str):
        if action is None:
            raise GraphBuildError(
                f"add_node({node!r}) got no function", do="pass it: add_node(name, function)"
            )
        return node, action
    name = calls.name_of(node)
    if action is not None or not name or name == "<lambda>":
        raise GraphBuildError(
            "add_node() can't tell the node's name", do="pass it first: add_node(name, function)"
        )
    return name, node


def starts_of(start: str | Sequence[str], end: str) -> tuple[str, ...]:
    """The nodes at which an edge begins, without repetitions.

    Args:
        end: the node to which it leads.
    Raises:
        GraphBuildError: one end is no name, or START is the end, or END is the start of the edge.
    """
    one: Any = start  # programs are often not type-checked
    starts = tuple(one) if isinstance(one, Iterable) and not isinstance(one, str) else (one,)
    if not starts:
        raise GraphBuildError(
            "add_edge() got an empty list of starts", do="name the nodes to wait for"
        )
    for name in (*starts, end):
        check_reference(name, "add_edge()")
    if END in starts:
        raise GraphBuildError("END cannot be a start node", do="end the edge at END instead")
    if end == START:
        raise GraphBuildError("START cannot be an end node", do="name the node to go back to")
    return tuple(dict.fromkeys(starts))


def check_reference(name: Any, call: str) -> None:
    """Refuse what can't be the name of any node.

    Args:
        call: what to name in the error, such as "add_edge()".
    Raises:
        GraphBuildError: it is no string.
    """
    if not isinstance(name, str):
        known = calls.name_of(name) if callable(name) else None
        raise GraphBuildError(
            f"{call} got {name!r}, which is no node's name",
            do=f"pass the name that the node has in the graph, such as {known or 'draft'!r}",
        )


def labelled(given: Any, what: str) -> dict[Any, Any]:
    """Names of nodes as a dict: as they are given in one, or each under itself.

    Args:
        what: what to name in an error, such as "path_map".
    Raises:
        GraphBuildError: they are one text, whose letters nobody means, or no collection.
    """
    if isinstance(given, Mapping):
        return dict(cast("Mapping[Any, Any]", given))
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise GraphBuildError(
            f"{what} is {given!r}, neither a list of nodes' names nor a dict",
            do=f"pass {what}=[{given!r}]" if isinstance(given, str) else "pass a list of names",
        )
    return {name: name for name in cast("Iterable[Any]", given)}
