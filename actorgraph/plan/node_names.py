"""The names of nodes in a builder's calls, checked where they are given."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, cast

from actorgraph.errors import GraphBuildError
from actorgraph.errors.excerpts import shown
from actorgraph.errors.texts import NAME_REFUSED, is_storable_name, plain
from actorgraph.plan import callables as calls
from actorgraph.values.constants import END, HANDLER_PREFIX, RESERVED_NODE_NAMES, START


def check_new(name: str, taken: Container[str]) -> None:
    """Refuse a name that a new node can't have.

    Raises:
        GraphBuildError: it is taken, reserved, empty, or has `|` or `:`.
    """
    if name in taken:
        raise GraphBuildError(f"Node `{name}` already present.", do="choose another name")
    if name in RESERVED_NODE_NAMES or name.startswith(HANDLER_PREFIX):
        raise GraphBuildError(f"Node `{name}` is reserved.", do="choose another name")
    if reason := _refusal(name):
        raise GraphBuildError(
            f"{name[:80]!r} can't be a node's name: {reason}", do="use letters, digits, '-' and '_'"
        )


def _refusal(name: str) -> str:
    if not name:
        return "it is empty"
    for mark in "|:":
        if mark in name:
            return f"it has {mark!r}, which separates the names of nested graphs"
    return "" if is_storable_name(name) else NAME_REFUSED


def name_and_action(
    node: str | Callable[..., Any], action: Callable[..., Any] | None
) -> tuple[str, Callable[..., Any]]:
    """Read a node's name and its function from the arguments of `add_node`.

    Raises:
        GraphBuildError: one of them is missing.
    """
    if isinstance(node, str):
        if action is None:
            raise GraphBuildError(
                f"add_node({node!r}) got no function", do="pass it: add_node(name, function)"
            )
        return plain(node), action
    if not callable(node) and (action is not None or not calls.name_of(node)):
        raise GraphBuildError(
            f"a node's name must be a string, got {shown(node)}",
            do="pass the name first: add_node(name, function)",
        )
    name = calls.name_of(node)
    if action is not None or not name or name == "<lambda>":
        raise GraphBuildError(
            "add_node() got no name for the node", do="pass it first: add_node(name, function)"
        )
    return name, node


def starts_of(start: str | Sequence[str], end: str) -> tuple[str, ...]:
    """List the nodes at which an edge begins, without repetitions.

    Args:
        start: one name, or several.
        end: the node to which it leads.
    Raises:
        GraphBuildError: a name is not a string, or START is the end or END a start of the edge.
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
    return tuple(dict.fromkeys(map(plain, starts)))


def check_reference(name: Any, call: str) -> str:
    """Return the name of a node; refuse a value that can't be one.

    Args:
        name: a string, or a member of an enum of strings.
        call: named in the error, such as "add_edge()".
    Raises:
        GraphBuildError: the name is not a string.
    """
    if not isinstance(name, str):
        known = calls.name_of(name) if callable(name) else None
        do = f"pass the name that the node has in the graph, such as {known or 'draft'!r}"
        if isinstance(name, (list, tuple)):
            do = "add one edge for each of these nodes"
        raise GraphBuildError(f"{call} expects the name of a node, got {shown(name)}", do=do)
    return plain(name)


def labelled(given: Any, what: str) -> dict[Any, Any]:
    """Make a dict of names of nodes: a copy of a given one, or each name under itself.

    Args:
        what: the argument's name for errors, such as "path_map".
    Raises:
        GraphBuildError: the argument is one string, or not a collection.
    """
    if isinstance(given, Mapping):
        pairs = cast("Mapping[Any, Any]", given).items()
        return {_plain(key): _plain(name) for key, name in pairs}
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise GraphBuildError(
            f"{what} must be a list of names of nodes or a dict, got {given!r}",
            do=f"pass {what}=[{given!r}]" if isinstance(given, str) else "pass a list of names",
        )
    return {_plain(name): _plain(name) for name in cast("Iterable[Any]", given)}


def _plain(name: Any) -> Any:
    return plain(name) if isinstance(name, str) else name
